"""Commands of plugins: third-party code, loaded when it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import typer

from forge_cli.cli.options import new_app
from forge_cli.core.bounds import fault_text
from forge_cli.core.errors import ForgeError
from forge_cli.engine.plugins.foreign import as_command
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import Plugin, kind_and_name
from forge_cli.process.signals import in_loop


def load_foreign(path: str, plugins: Sequence[Plugin]) -> Any:
    """Return a plugin's command; raise a UsageError if several packages offer it."""
    if len(plugins) > 1:
        both = " and ".join(map(str, plugins))
        hint = "uninstall one of them, or set FORGE_LOAD_PLUGINS to the distributions you want"
        raise ForgeError(f"the command '{path}' is offered by {both}", hint=hint)
    plugin = plugins[0]
    command = as_command(PluginHost().command_of(plugin), path, new_app())
    command.name = path.split()[-1]
    command.invoke = _blaming(plugin, command.invoke)
    return command


def _blaming(plugin: Plugin, invoke: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a command so that its exceptions become an error with the plugin's name."""

    def call(context: Any) -> Any:
        try:
            result = invoke(context)
            if inspect.isawaitable(result):
                return in_loop(lambda: result)
            return result
        except (ForgeError, typer.Exit, typer.Abort, typer.TyperException, OSError):
            raise  # these have an exit code and a message of their own
        except SystemExit as end:
            if isinstance(end.code, int | None):
                raise
            # sys.exit("text") would print the text without forge's prefix and result object
            raise ForgeError(str(end.code)) from end
        except Exception as error:
            kind, name = kind_and_name(plugin.name)
            told = " ".join(fault_text(error).split())
            raise ForgeError(f"the {kind} '{name}' of {plugin} failed: {told}") from error

    return call
