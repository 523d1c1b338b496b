"""A Python type for the final answer, and the conversion of an answer to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from forge_cli.core.errors import PROBLEMS, UsageError, WorkerError
from forge_cli.engine.turns.output import Misfit, OutputSchema


class OutputType(OutputSchema, frozen=True, eq=False):
    """The schema of a type that pydantic can check, such as a model, dataclass or TypedDict."""

    adapter: TypeAdapter[Any]

    @classmethod
    def of(cls, output_type: Any) -> OutputType:
        """Return the schema of a type; raise UsageError for a type without one."""
        name = getattr(output_type, "__name__", None) or repr(output_type)
        kinds = "a pydantic model, a dataclass, a TypedDict"
        hint = f"give {kinds}, or another type that pydantic can check"
        try:
            adapter = TypeAdapter(output_type)
            schema = OutputSchema.load(adapter.json_schema(), where=None, folder=Path())
        except WorkerError as error:
            raise UsageError(f"output_type {name}: {error.message}", hint=hint) from error
        except (
            PydanticUserError,
            PydanticSchemaGenerationError,
            PydanticInvalidForJsonSchema,
        ) as error:
            sentence = str(error).splitlines()[0]
            raise UsageError(
                f"output_type {name} has no JSON Schema: {sentence}", hint=hint
            ) from error
        return cls(schema.json_schema, adapter)

    def read(self, answer: str) -> Any:
        """Return the JSON value of an answer; raise Misfit also for what only the type checks."""
        value = super().read(answer)
        try:
            self.convert(value)
        except ValidationError as error:
            found = error.errors(include_url=False)[:PROBLEMS]
            problems = [_sentence(problem) for problem in found]
            raise Misfit("; ".join(problems)) from error
        return value

    def convert(self, value: Any) -> Any:
        """Return the value of the type for a JSON value."""
        # As JSON, not as Python data: only from JSON, a strict type reads a list as a tuple, or a
        # text as a date.
        return self.adapter.validate_json(json.dumps(value))


def _sentence(problem: Any) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    return f"${place}: {problem['msg']}"
