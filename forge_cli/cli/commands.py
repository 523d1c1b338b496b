"""The table of commands: names and one-line helps are here, the modules load when they are called."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from forge_cli import cli
from forge_cli.core.errors import ExitCode, Terminated, UsageError

if TYPE_CHECKING:
    from forge_cli.cli.report import ResultReport


@dataclass(frozen=True)
class CommandEntry:
    """Where a command lives and what the help of ``forge`` says about it."""

    module: str
    help: str

    def load(self, name: str) -> Any:
        """The command itself; a module may have several of one group."""
        found = get_command(import_module(self.module).app)
        return found.commands[name.split()[-1]] if isinstance(found, TyperGroup) else found


COMMANDS = {
    "run": CommandEntry("forge_cli.cli.run", "Run a worker on one task."),
    "chat": CommandEntry("forge_cli.cli.chat", "Talk with a worker."),
    "web": CommandEntry("forge_cli.cli.web.command", "Talk with workers in a browser, and watch them there."),
    "batch": CommandEntry("forge_cli.cli.batch.run", "Run a worker on many inputs; the same command again resumes it."),
    "batch status": CommandEntry("forge_cli.cli.batch.status", "Say how a batch stands."),
    "tools list": CommandEntry("forge_cli.cli.tools.list", "List every tool, and what is broken."),
    "tools show": CommandEntry("forge_cli.cli.tools.show", "Show one tool, or a toolset with its settings."),
    "tools call": CommandEntry(
        "forge_cli.cli.tools.call", "Call one tool by hand, through the same gate as the model's calls."
    ),
    "tools new": CommandEntry("forge_cli.cli.tools.own", "Make a new tool in ~/.forge/tools."),
    "tools build": CommandEntry("forge_cli.cli.tools.own", "Compile a tool, or read its script for errors."),
    "tools test": CommandEntry("forge_cli.cli.tools.test", "Check tools, and run the examples of a tool.yaml."),
    "tools diff": CommandEntry("forge_cli.cli.tools.own", "Show what changed since a tool was last approved."),
    "tools remove": CommandEntry("forge_cli.cli.tools.own", "Delete a tool, without asking."),
    "tools suggest": CommandEntry("forge_cli.cli.tools.suggest", "Name shell commands that recur in your sessions."),
    "plugins list": CommandEntry("forge_cli.cli.plugins.list", "List every package with plugins, and what it offers."),
    "plugins new": CommandEntry("forge_cli.cli.plugins.new", "Make a package with a plugin, in a new folder."),
    "plugins check": CommandEntry(
        "forge_cli.cli.plugins.check", "Load a plugin in a process of its own, and say what is wrong with it."
    ),
    "plugins install": CommandEntry(
        "forge_cli.cli.plugins.install", "Install a package with plugins, or bring it up to date."
    ),
    "plugins uninstall": CommandEntry(
        "forge_cli.cli.plugins.install", "Remove a package with plugins, without asking."
    ),
    "worker new": CommandEntry("forge_cli.cli.worker.new", "Make a worker file, by four questions or by flags."),
    "worker list": CommandEntry("forge_cli.cli.worker.list", "List the workers that can be named, and where they are."),
    "worker check": CommandEntry("forge_cli.cli.worker.check", "Say whether a worker file is sound."),
    "worker show": CommandEntry("forge_cli.cli.worker.show", "Show what a worker is, may do and is told."),
    "worker schema": CommandEntry("forge_cli.cli.worker.schema", "Print the JSON Schema of worker files, for editors."),
    "mcp list": CommandEntry("forge_cli.cli.mcp.list", "List MCP servers, without starting any."),
    "mcp test": CommandEntry("forge_cli.cli.mcp.test", "Connect to MCP servers, and list what they offer."),
    "mcp login": CommandEntry("forge_cli.cli.mcp.login", "Log in to an MCP server, in a browser."),
    "mcp logout": CommandEntry("forge_cli.cli.mcp.logout", "Forget the login to an MCP server, without asking."),
    "mcp add": CommandEntry("forge_cli.cli.mcp.add", "Define an MCP server in your own config.yaml."),
    "mcp remove": CommandEntry(
        "forge_cli.cli.mcp.remove", "Delete an MCP server from your own config.yaml, without asking."
    ),
    "serve mcp": CommandEntry(
        "forge_cli.cli.serve.mcp", "Offer a worker's tools, and the worker itself, to MCP clients."
    ),
    "models list": CommandEntry(
        "forge_cli.cli.models.list", "List the models that -m takes, with their prices and windows."
    ),
    "keys set": CommandEntry("forge_cli.cli.keys", "Store the key of a provider."),
    "keys list": CommandEntry("forge_cli.cli.keys", "List keys, and where each comes from."),
    "keys remove": CommandEntry("forge_cli.cli.keys", "Forget a stored key, without asking."),
    "config show": CommandEntry("forge_cli.cli.config", "Show every setting that holds here, and where it comes from."),
    "trust": CommandEntry("forge_cli.cli.trust", "Trust the workers, settings, skills and more of a folder."),
    "doctor": CommandEntry("forge_cli.cli.doctor", "Check that everything is there that forge needs."),
    "sessions list": CommandEntry(
        "forge_cli.cli.sessions.list", "List sessions, the one that was worked on last first."
    ),
    "sessions show": CommandEntry("forge_cli.cli.sessions.show", "Show what was said and done in a session."),
    "sessions search": CommandEntry(
        "forge_cli.cli.sessions.search", "Look for TEXT in what was said, in calls and in their results."
    ),
    "sessions export": CommandEntry(
        "forge_cli.cli.sessions.show",
        "Write a session as Markdown, or as a page that loads nothing and runs nothing.",
    ),
    "sessions verify": CommandEntry(
        "forge_cli.cli.sessions.verify", "Check that no line of a log was changed, dropped or moved."
    ),
    "sessions rm": CommandEntry(
        "forge_cli.cli.sessions.rm", "Delete sessions, without asking; one that is in use stays."
    ),
    "approvals list": CommandEntry(
        "forge_cli.cli.approvals.list",
        "List the requests that wait for an answer, of parked sessions and of those at work.",
    ),
    "approvals answer": CommandEntry(
        "forge_cli.cli.approvals.answer", "Answer a request of a parked session, or of one at work."
    ),
    "approvals review": CommandEntry(
        "forge_cli.cli.approvals.review", "Answer what waits, one request after the other, as at a prompt."
    ),
    "approvals audit": CommandEntry(
        "forge_cli.cli.approvals.audit", "List rules that no call of your past sessions has met."
    ),
    "approvals suggest": CommandEntry(
        "forge_cli.cli.approvals.suggest", "Suggest rules that would have answered past questions with yes."
    ),
    "replay": CommandEntry("forge_cli.cli.replay", "Do a session again without a model, and say where it differs."),
    "undo": CommandEntry("forge_cli.cli.undo", "Restore the files that a session changed."),
    "test": CommandEntry("forge_cli.cli.test", "Replay the recorded tests of workers."),
    "approve": CommandEntry("forge_cli.cli.approve", "Say what the policy would decide, without a model."),
    "docs": CommandEntry("forge_cli.cli.docs", "Read the documentation, which comes with forge."),
    "help": CommandEntry("forge_cli.cli.help", "Show the help of a command, or of forge."),
}

GROUPS = {
    "tools": "List, show, call, make and test tools.",
    "plugins": "List, make, check, install and remove packages with plugins.",
    "worker": "Make, list, check and show workers.",
    "models": "List models.",
    "keys": "Store, list and remove the keys of providers.",
    "config": "Show settings.",
    "mcp": "List, test, add and remove MCP servers, and log in to them.",
    "serve": "Offer workers to other programs.",
    "sessions": "List, show, search, export, verify and delete sessions.",
    "approvals": "Answer what waits, and find rules that save questions.",
}
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class WithExamples:
    """A command or a group whose help ends with examples, before what it says itself."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if examples := cli.examples.examples_of(ctx.command_path.split()[1:]):
            with formatter.section("Examples"):
                for example in examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        super().format_epilog(ctx, formatter)  # type: ignore[misc]


class CommandGroup(WithExamples, TyperGroup):
    """A group of commands whose help ends with examples."""


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
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version and leave.")] = False,
    install_completion: Annotated[
        bool,
        typer.Option("--install-completion", help="Let your shell complete what you type: bash, zsh or fish."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; on any command.")] = False,
) -> None:
    """Run workers against a language model, with tools behind an approval policy that explains itself."""
    # The options stand here for the help only: the console script takes them before typer is loaded.


class LazyCommand(TyperCommand):
    """A name and a help text that become the real command when there are arguments to parse."""

    def __init__(self, name: str, entry: CommandEntry) -> None:
        super().__init__(name, short_help=entry.help, rich_markup_mode=None)
        self.entry = entry
        self.inner: dict[str, LazyCommand] = {}
        """Commands that are named by its first argument, as in ``batch status``."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if args and (inner := self.inner.get(args[0])):
            return inner.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        real = self.entry.load(self.name or "")
        end_on_signals()
        return real.make_context(info_name, args, parent, **extra)


def command_tree() -> TyperGroup:
    """The whole command line, of which nothing but this table is loaded."""
    tree = get_group(app)
    tree.commands = {}
    for path, entry in COMMANDS.items():
        group, name = path.split() if " " in path else ("", path)
        if not group:
            tree.commands[name] = LazyCommand(name, entry)
            continue
        if group not in tree.commands:
            tree.commands[group] = CommandGroup(
                name=group, help=GROUPS[group], no_args_is_help=True, context_settings=HELP, rich_markup_mode=None
            )
        outer = tree.commands[group]
        inner = outer.inner if isinstance(outer, LazyCommand) else outer.commands  # type: ignore[attr-defined]
        inner[name] = LazyCommand(name, entry)
    return tree


def end_on_signals() -> None:
    """From now on there may be something to clean up: until a command stops its work itself, signals are raised."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminate)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _terminate(number: int, frame: object) -> None:
    raise Terminated(128 + number)


class CommandLineError(UsageError):
    """What the parser says of a command line; ``shown`` has the usage of the command that was meant, too."""

    def __init__(self, error: typer.TyperException) -> None:
        super().__init__(error.format_message().replace("Value error, ", ""))
        self.exit_code = ExitCode(error.exit_code)
        self.shown = self._shown(getattr(error, "ctx", None))

    def _shown(self, context: Any) -> str:
        if context is None:
            return f"forge: {self.message}"
        usage = context.get_usage()
        if self.message.startswith(usage):
            return self.message
        return f"{' '.join(usage.split())}\nTry '{context.command_path} --help' for help.\nforge: {self.message}"


def dispatch(args: list[str], report: ResultReport | None = None) -> int:
    """Invoke the command that the arguments name; commands end early with ``typer.Exit(code)``."""
    group = command_tree()
    try:
        with group.make_context("forge", args, obj=report) as context:
            group.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        raise CommandLineError(error) from None
    return 0
