"""The one base of everything read from a file: both spellings parse, unknown keys are errors, marks are kept."""

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
    """A part of a file that people write.

    ``needsApproval`` and ``needs_approval`` are the same key (both at once is an error), a key that no field reads is
    an error with a suggestion, and ``where`` says where in the file a value stands. A number or a boolean is written
    as one: ``no`` and ``"5"`` are text.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=True, arbitrary_types_allowed=True
    )

    _source: Any = PrivateAttr(default=None)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
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
        config = handler(cls._canonical(data) if isinstance(data, dict) else data)
        if isinstance(data, dict):
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
                problem = f"'{name}' is given twice, as snake_case and as camelCase; keep one"
                raise PydanticCustomError(
                    "unknown_key", "{problem}", {"key": key, "problem": problem}
                )
            found[name] = value
        return found

    @classmethod
    def _inner(cls) -> dict[str, str]:
        """By the keys of its sections, the first section that has each."""
        found: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            section = field.annotation
            if isinstance(section, type) and issubclass(section, Config):
                for key in section.model_fields:
                    found.setdefault(key, field.alias or name)
        return found

    @classmethod
    def empty(cls) -> Self:
        """The section of a file that says nothing: defaults, which need no validation, so that none has to be built."""
        return cls.model_construct()

    def section(self, *loc: str) -> Any:
        """A raw part of what was read, with its marks, for the room that understands it."""
        data: Any = self._source
        for step in loc:
            data = data.get(step) if isinstance(data, dict) else None
        return data

    def where(self, *loc: str | int) -> Mark | None:
        """The place of the value at ``loc`` in its file; None for what was not read from a file."""
        return where_in(self._source, loc)


ConfigT = TypeVar("ConfigT", bound=Config)


def parse_config(
    cls: type[ConfigT], data: Any, *, at: Loc = (), file: str | Mark | None = None
) -> ConfigT:
    """Read ``data``, which stands at ``at`` in ``file``; what is wrong with it becomes one sentence with a mark."""
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        from forge_cli.schema.config_problems import sentence

        raise sentence(error.errors(include_url=False)[0], data, at, file) from None
