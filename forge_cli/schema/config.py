"""The base of everything read from files: both spellings, strict keys, and marks."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic.types import Strict
from pydantic_core import PydanticCustomError

from forge_cli.schema.marks import Loc, snake_twin, where_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forge_cli.core.errors import Mark


class Config(BaseModel):
    """A section of a file that people write.

    ``needsApproval`` and ``needs_approval`` are the same key, but not both at once. An unknown key
    is an error with a suggestion. ``where`` returns the place of a value in the file. Numbers and
    booleans must be written as such: ``no`` and ``"5"`` are text.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=True, arbitrary_types_allowed=True
    )

    _source: Any = PrivateAttr(default=None)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        # pydantic would otherwise read "5" as a number; annotated types keep their own rules.
        for field in cls.model_fields.values():
            hint = field.annotation
            kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            if {getattr(kind, "__origin__", kind) for kind in kinds} <= {
                bool,
                int,
                float,
                NoneType,
            }:
                field.metadata.append(Strict())

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, dict):
            return handler(data)
        config = handler(cls._canonical(data))
        config._source = data
        return config

    @classmethod
    def _unknown_key(cls, key: str, names: Iterable[str]) -> PydanticCustomError:
        from forge_cli.schema.config_problems import unknown

        return PydanticCustomError("unknown_key", "{problem}", unknown(key, names, cls._inner()))

    @classmethod
    def _canonical(cls, data: dict[Any, Any]) -> dict[str, Any]:
        names = {field.alias or name: name for name, field in cls.model_fields.items()}
        found: dict[str, Any] = {}
        for key, value in data.items():
            name = key if key in names else snake_twin(str(key))
            if name not in names:
                raise cls._unknown_key(str(key), names)
            if name in found:
                problem = f"'{name}' is given in snake_case and camelCase; keep one"
                raise PydanticCustomError(
                    "unknown_key", "{problem}", {"key": key, "problem": problem}
                )
            found[name] = value
        return found

    @classmethod
    def _inner(cls) -> dict[str, str]:
        """Return the section that has each key, for the suggestion of an unknown key."""
        found: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            section = field.annotation
            if isinstance(section, type) and issubclass(section, Config):
                for key in section.model_fields:
                    found.setdefault(key, field.alias or name)
        return found

    @classmethod
    def empty(cls) -> Self:
        """Return a section with defaults only; no validator has to be built for it."""
        return cls.model_construct()

    def section(self, *loc: str) -> Any:
        """Return a raw part of the input with its marks, for the code that parses it."""
        data: Any = self._source
        for step in loc:
            if not isinstance(data, dict):
                return None
            data = data.get(step)
        return data

    def where(self, *loc: str | int) -> Mark | None:
        """Return the place of the value at ``loc``; None if it does not come from a file."""
        return where_in(self._source, loc)


ConfigT = TypeVar("ConfigT", bound=Config)


def parse_config(
    cls: type[ConfigT], data: Any, *, at: Loc = (), file: str | Mark | None = None
) -> ConfigT:
    """Parse ``data`` at ``at`` in ``file``; a problem becomes one sentence with a mark."""
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        from forge_cli.schema.config_problems import sentence

        raise sentence(error.errors(include_url=False)[0], data, at, file) from None
