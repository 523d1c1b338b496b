"""Settings and argument conversion for all commands and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class PlainParser:
    """Mixin for commands: converts given values only, and prints examples in the help."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            # typer calls this several times, but a parameter must be wrapped only once
            if "process_value" not in vars(parameter):
                parameter.process_value = _converting_given(parameter)
        return parameters

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from forge_cli.cli.overview import examples_of

        if examples := examples_of(ctx.command_path.split()[1:]):
            with formatter.section("Examples"):
                for example in examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        super().format_epilog(ctx, formatter)  # type: ignore[misc]


def _converting_given(parameter: Any) -> Callable[[Any, Any], Any]:
    """Return a ``process_value`` that refuses empty values and skips options that are not given.

    Typer makes a pydantic validator for every option, given or not. With this, ``forge sessions
    list`` takes 2.0 times as long as ``import typer``, without it 2.9 times, and ``forge approve``
    4.5 instead of 5.3 times: the limits of benchmarks/startup.py are 2.5 and 4.5.
    """
    convert = parameter.process_value

    def process(ctx: Any, value: Any) -> Any:
        if parameter.multiple and value:
            given = value
        else:
            given = [value]
        # an empty task is refused later, together with the other ways to give no task
        if "" in given and parameter.name != "task":
            raise typer.BadParameter("it is empty", ctx=ctx, param=parameter)
        if not parameter.required and value is None:
            if parameter.multiple or parameter.nargs == -1:
                return ()
            return None
        try:
            return convert(ctx, value)
        except typer.BadParameter:
            expected = _expected_number(parameter)
            if expected is None:
                raise
            # pydantic's own message names types of Python: "unable to parse string as an integer"
            problem = f"must be {expected}, not {value!r}"
            raise typer.BadParameter(problem, ctx=ctx, param=parameter) from None

    return process


def _expected_number(parameter: Any) -> str | None:
    """Describe the numbers that an option accepts; return None for an option of another type."""
    kind = parameter.type_descriptor.annotation
    if kind is float:  # an amount of money or time: see ``require_positive``
        return "a number greater than 0"
    if kind is not int:
        return None
    if parameter.min is None:
        return "a whole number"
    return f"a whole number of at least {parameter.min}"
