"""Requirements on every tool, as a table of tools that violate them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from forge_cli.core.wire import JsonObject
from forge_cli.inspection.conformance import examine
from forge_cli.schema.json.input_schema import InputSchema
from forge_cli.schema.tool import Tool

SOUND: JsonObject = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What to say"},
        "times": {"type": "integer", "description": "How often"},
        "any": {"description": "Whatever it is"},
        "either": {"anyOf": [{"type": "string"}, {"type": "array"}], "description": "One or more"},
    },
    "required": ["text"],
}


async def nothing(args: Any, context: Any) -> str:
    return ""


def make(
    schema: JsonObject = SOUND, description: str = "Says it.", cls: type[Tool] = Tool, **more: Any
) -> Tool:
    return cls(name="say", description=description, input_schema=schema, execute=nothing, **more)


def failed(tool: Tool) -> dict[str, str]:
    checks = examine(tool)
    assert [check.check for check in checks] == [
        "schema",
        "description",
        "parameters",
        "timeout",
        "input",
    ]
    assert {check.tool for check in checks} == {"say"}
    return {check.check: check.detail for check in checks if not check.ok}


def test_valid_tool_passes() -> None:
    assert failed(make()) == {}
    assert failed(make({"type": "object"}, timeout=3600)) == {}


def test_description_may_be_beside_a_reference() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"type": "object", "description": "An A"}},
    }
    assert failed(make(schema)) == {}


class Credulous(InputSchema):
    def validate(self, args: Any) -> JsonObject:
        return dict(args)


@dataclass(kw_only=True)
class Taker(Tool):
    """A tool that accepts any input."""

    @cached_property
    def schema(self) -> InputSchema:
        return Credulous(InputSchema.of(self.input_schema).json_schema)


def test_conformance_requires_undeclared_fields_to_be_refused() -> None:
    assert failed(make(cls=Taker))["input"].split("; ") == [
        "an undeclared field is accepted",
        "'text' is required, but a call without it is accepted",
        "'text' takes an object, but is declared as a string",
        "'times' takes an object, but is declared as an integer",
        "'either' takes an object, but is declared as a string or a list",
    ]


def test_tool_may_declare_that_it_accepts_any_field() -> None:
    assert failed(make({"type": "object", "additionalProperties": True})) == {}


@pytest.mark.long
def test_many_required_fields_are_all_checked() -> None:
    fields = {
        f"field_{index}": {"type": "integer", "description": "A number"} for index in range(40)
    }
    assert failed(make({"type": "object", "properties": fields, "required": list(fields)})) == {}
