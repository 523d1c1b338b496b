"""The error for a command line that cannot be parsed."""

from __future__ import annotations

from typing import Any

import typer

from forge_cli.core.errors import ExitCode, UsageError


class CommandLineError(UsageError):
    """A parser error; ``shown`` also has the usage of the intended command."""

    def __init__(self, error: typer.TyperException) -> None:
        # the prefix is pydantic's
        super().__init__(error.format_message().replace("Value error, ", ""))
        self.exit_code = ExitCode(error.exit_code)
        self.kind = type(error).__name__  # typer does not export these classes
        self.shown = self._shown(getattr(error, "ctx", None))

    def _shown(self, context: Any) -> str:
        if context is None:
            return f"forge: {self.message}"
        if self.kind == "NoArgsIsHelpError":  # its message is the help
            return self.message
        usage = " ".join(context.get_usage().split())
        hint = ""
        if context.parent is None and self.kind == "NoSuchOption":
            hint = "\n  options come after a command, for example: forge chat -c"
        return (
            f"{usage}\nTry '{context.command_path} --help' for help.\nforge: {self.message}{hint}"
        )
