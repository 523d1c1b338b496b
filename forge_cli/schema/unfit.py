"""Reasons why Python code cannot be a tool, in words for its author."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from forge_cli.core.wire import own_text
from forge_cli.schema.signature import Describing, SignatureModel, first_line


def undescribable(model: type[BaseModel], error: Exception) -> str:
    """The first field of a model that has no JSON Schema, and the remedy."""
    names = model.parameter_names if issubclass(model, SignatureModel) else {}
    for field, info in model.model_fields.items():
        try:
            TypeAdapter[Any](info.rebuild_annotation()).json_schema(schema_generator=Describing)
        except (PydanticUserError, PydanticUndefinedAnnotation) as problem:
            place = f"{model.__name__}: '{names.get(field, field)}' ({own_text(info.annotation)})"
            if problem.code == "typed-dict-version":
                return f"{place} has a TypedDict of typing; before Python 3.12, import it from typing_extensions"
            remedy = "use a type that JSON can carry" + (f", or define {model.__name__}_schema" if names else "")
            return f"{place} has no JSON Schema; {remedy}"
    return f"{model.__name__}: {first_line(error)}"
