"""Commands that packages bring: third-party code, loaded when it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from forge_cli.cli.options import new_app
from forge_cli.core.bounds import fault_text
from forge_cli.core.errors import ForgeError
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import Plugin, kind_and_name


def load_foreign(path: str, plugins: Sequence[Plugin]) -> Any:
    """The command of that name, which only one package may offer."""
    if len(plugins) > 1:
        both = " and ".join(map(str, plugins))
        hint = "uninstall one of them, or set FORGE_LOAD_PLUGINS to the distributions you want"
        raise ForgeError(f"the command '{path}' is offered by {both}", hint=hint)
    name, plugin = path.split()[-1], plugins[0]
    loaded: Any = PluginHost().command_of(plugin)
    if not isinstance(loaded, typer.Typer):
        function, loaded = loaded, new_app()
        loaded.command(name)(function)
    command = get_command(loaded)
    if isinstance(command, TyperGroup) and " " in path:
        command = command.commands.get(name, command)
    command.name = name
    command.invoke = _blaming(plugin, command.invoke)  # type: ignore[method-assign, assignment]
    return command


def _blaming(plugin: Plugin, invoke: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Turn what the command raises into a sentence with its name."""

    def call(context: Any) -> Any:
        try:
            return invoke(context)
        except (ForgeError, typer.Exit, typer.Abort, typer.TyperException, OSError):
            raise
        except Exception as error:
            kind, name = kind_and_name(plugin.name)
            told = " ".join(fault_text(error).split())
            raise ForgeError(f"the {kind} '{name}' of {plugin} failed: {told}") from error

    return call
