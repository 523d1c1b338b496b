"""The settings and the parser that commands and groups of commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class PlainParser:
    """A command or a group that converts what it was given; its help ends with examples, before what it says itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
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
    """Return a ``process_value`` that refuses empty values, and leaves alone options that are not given.

    Typer makes a pydantic validator for every option, given or not. With this, ``forge sessions list`` takes 2.0 times
    as long as ``import typer``, without it 2.9 times, and ``forge approve`` 4.5 instead of 5.3 times: the limits of
    benchmarks/startup.py are 2.5 and 4.5.
    """
    convert = parameter.process_value

    def process(ctx: Any, value: Any) -> Any:
        given = value if parameter.multiple and value else [value]
        if (
            "" in given and parameter.name != "task"
        ):  # a task is read, and refused, with what else stands for one
            raise typer.BadParameter("it is empty", ctx=ctx, param=parameter)
        if parameter.required or value is not None:
            return convert(ctx, value)
        return () if parameter.multiple or parameter.nargs == -1 else None

    return process
