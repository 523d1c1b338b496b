"""The commands, found by entry points and loaded when they are called; the help loads none."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from forge_cli.cli.parsing import HELP, PlainParser
from forge_cli.core.source import OWN
from forge_cli.engine.plugins.scan import (
    COMMAND,
    Plugin,
    allowed,
    installed,
    kind_and_name,
    takes_name,
)
from forge_cli.files.home import forge_home
from forge_cli.process.launch import Launch


class CommandGroup(PlainParser, TyperGroup):
    """A group of commands whose help ends with examples."""

    def get_short_help_str(self, limit: int = 45) -> str:
        from forge_cli.cli.overview import TABLE

        return TABLE.get(self.name or "", ["Commands of a package."])[0]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        self.help = self.help or self.get_short_help_str()
        super().format_help_text(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        from forge_cli.cli.overview import write_overview

        write_overview(self.commands, formatter, by_sections=ctx.parent is None)


app = typer.Typer(
    cls=CommandGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings=HELP,
)


@app.callback()
def forge(
    *,
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version and exit.")
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion", help="Install completion for your shell: bash, zsh or fish."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; on any command.")
    ] = False,
) -> None:
    """Run workers with a language model, and tools behind an approval policy."""
    # only for the help: the console script handles these options before typer is loaded


class LazyCommand(TyperCommand):
    """A command that is loaded when its arguments are parsed."""

    def __init__(self, path: str, plugins: list[Plugin]) -> None:
        """Create the command; if several ``plugins`` offer it, calling it is an error."""
        super().__init__(path.split()[-1], rich_markup_mode=None)
        self.path = path
        self.plugins = plugins
        self.inner: dict[str, LazyCommand] = {}
        """Subcommands by the first argument, as in ``batch status``."""

    def get_short_help_str(self, limit: int = 45) -> str:
        from forge_cli.cli.overview import COMMANDS

        if self.plugins[0].distribution == OWN:
            return COMMANDS[self.path]
        return self.plugins[0].summary

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        if args and (inner := self.inner.get(args[0])):
            return inner.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        launch: Launch = parent.obj
        if self.plugins[0].distribution != OWN:
            # third-party code may block while it loads, and one signal has to end it
            launch.release_signals()
        real = self.load()
        launch.end_on_signals()
        context = real.make_context(info_name, args, parent, **extra)
        launch.release_signals()
        return context

    def load(self) -> Any:
        """Return the real command; one app may hold all commands of a group."""
        name = self.name or ""
        plugin = self.plugins[0]
        if plugin.distribution != OWN:
            from forge_cli.cli.foreign import load_foreign

            return load_foreign(self.path, self.plugins)
        found = get_command(plugin.load())
        return found.commands[name] if isinstance(found, TyperGroup) else found


def lazy_commands() -> dict[str, LazyCommand]:
    """Return every command by its path; a plugin cannot replace a command of forge."""
    found = [
        each for each in allowed(installed(forge_home() / "cache")) if each.name.startswith(COMMAND)
    ]
    own = [plugin for plugin in found if plugin.distribution == OWN]
    offered: dict[str, list[Plugin]] = {}
    for plugin in found:
        # a plugin must not replace a command that people trust
        if plugin.distribution == OWN or not any(takes_name(plugin, each) for each in own):
            offered.setdefault(kind_and_name(plugin.name)[1], []).append(plugin)
    return {path: LazyCommand(path, plugins) for path, plugins in offered.items()}


def app_module(command: str) -> Any:
    """Return the module of one of forge's own commands, found by its entry point."""
    return import_module(lazy_commands()[command].plugins[0].value.partition(":")[0])


def command_tree() -> TyperGroup:
    """Return all commands and groups, without loading any command."""
    tree = get_group(app)
    tree.commands = {}
    for path, command in lazy_commands().items():
        *groups, name = path.split()
        _inside(tree, groups)[name] = command
    return tree


def _inside(tree: TyperGroup, groups: list[str]) -> MutableMapping[str, Any]:
    """Return the commands of a group; create missing groups."""
    commands: MutableMapping[str, Any] = tree.commands
    for group in groups:
        if group not in commands:
            commands[group] = CommandGroup(
                name=group, no_args_is_help=True, context_settings=HELP, rich_markup_mode=None
            )
        outer = commands[group]
        if isinstance(outer, LazyCommand):
            commands = outer.inner
        else:
            commands = outer.commands
    return commands


def dispatch(args: list[str], launch: Launch) -> int:
    """Run the command that the arguments name and return its exit code."""
    group = command_tree()
    try:
        with group.make_context("forge", args, obj=launch) as context:
            group.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        from forge_cli.cli.usage import CommandLineError

        raise CommandLineError(error) from None
    return 0
