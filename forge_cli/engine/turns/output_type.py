"""A Python type that the final answer has to fit, and the value of that type that an answer becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from forge_cli.core.errors import PROBLEMS, UsageError, WorkerError
from forge_cli.engine.turns.output import Misfit, OutputSchema


class OutputType(OutputSchema, frozen=True, eq=False):
    """The schema of a type: a pydantic model, a dataclass, a TypedDict, or anything else that pydantic can check."""

    adapter: TypeAdapter[Any]

    @classmethod
    def of(cls, output_type: Any) -> OutputType:
        """Return the schema of a type; raise UsageError for a type that no JSON can fit."""
        name = getattr(output_type, "__name__", None) or repr(output_type)
        hint = "give a pydantic model, a dataclass, a TypedDict, or another type that pydantic can check"
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
        """Return the JSON value of an answer; Misfit also for what only the type can check, such as its validators."""
        value = super().read(answer)
        try:
            self.convert(value)
        except ValidationError as error:
            problems = [
                _sentence(problem) for problem in error.errors(include_url=False)[:PROBLEMS]
            ]
            raise Misfit("; ".join(problems)) from error
        return value

    def convert(self, value: Any) -> Any:
        """Return the value of the type that a JSON value stands for."""
        # As JSON and not as Python data: a strict type takes a list for a tuple, or a text for a date, only from JSON.
        return self.adapter.validate_json(json.dumps(value))


def _sentence(problem: Any) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    return f"${place}: {problem['msg']}"
