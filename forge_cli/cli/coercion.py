"""Values of a command line without pydantic: typer would load it for every parameter, given or not."""

from __future__ import annotations

from typing import Any


class LateCoercion:
    """Leaves texts, and what is not given, as they are; a validator of typer is built where one is needed."""

    def __init__(self, parameter: Any) -> None:
        self._of_typer = parameter.get_runtime_param
        said = parameter.type_descriptor
        plain = said.parameter_info.parser is None and not said.is_path
        self._is_text, self._is_texts = plain and said.annotation is str, plain and said.annotation == list[str]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._is_text and isinstance(value, str):
            return value
        if self._is_texts and isinstance(value, tuple | list) and all(isinstance(item, str) for item in value):
            return list(value)
        return self._of_typer().coerce(value, param=param, ctx=ctx)


class CoercesLate:
    """A command or group, mixed in before typer's own class."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            if hasattr(parameter, "get_runtime_param") and hasattr(parameter, "type_descriptor"):  # this typer's own
                coercion = LateCoercion(parameter)
                parameter.get_runtime_param = lambda coercion=coercion: coercion
        rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return rest
