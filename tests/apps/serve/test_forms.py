"""Questions of tools to the user of an MCP client, and the kinds of content that a client is given.

Covers forge_cli.apps.serve.forms, forge_cli.apps.serve.flat and forge_cli.apps.serve.content.
"""

import base64
from typing import Any

import mcp_types
import pytest
from mcp import Client

from forge_cli.apps.serve.flat import flat_schema
from forge_cli.core.errors import ToolError
from forge_cli.testing import Project

from .test_protocol import both, call_one, with_client

TOOLS = '''
"""Tools that ask, and that return files."""

from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel

from forge_cli import Image, ToolContext
from forge_cli.results import Blob


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Order(BaseModel):
    """An order."""

    size: Size
    colours: list[Literal["red", "blue"]]
    name: str | None = None
    count: int = 2


class Nested(BaseModel):
    """An order in an order."""

    order: Order


async def order(context: ToolContext) -> str:
    """Take an order."""
    given = await context.ask("What shall it be?", Order)
    return "nothing" if given is None else given.model_dump_json()


async def nested(context: ToolContext) -> str:
    """Take an order inside an order."""
    return str(await context.ask("What?", Nested))


def sound() -> Blob:
    """Make a sound."""
    return Blob(b"RIFFxxxx", "audio/wav", "a.wav")


def note() -> list[Any]:
    """Return a text with an address, one without, and data without a name."""
    kept, said = Blob(b"kept", "text/plain", "notes://1"), Blob(b"said", "text/plain", "a.txt")
    return ["here:", kept, said, Blob(b"\\xff\\x00")]
'''
WORKER = """
name: asker
toolsets:
  custom:
    module: ./tools.py
    tools: [order, nested, sound, note]
    approval: {default: preApproved}
"""


@pytest.fixture
def asker(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    return project


def answering(project: Project, mode: str, tool: str, **answer: Any) -> tuple[str, list[Any]]:
    """The result of the tool after this answer of the user, and the forms that were sent."""
    forms = list[Any]()

    async def put(context: Any, params: Any) -> mcp_types.ElicitResult:
        forms.append(params)
        return mcp_types.ElicitResult(**answer)

    result = call_one(project, mode, tool, elicitation_callback=put)
    return result.content[0].text, forms


@both
def test_tool_asks_the_user_of_the_client(asker: Project, mode: str) -> None:
    given = {"size": "large", "colours": ["red"]}
    text, (form,) = answering(asker, mode, "order", action="accept", content=given)
    assert text == '{"size":"large","colours":["red"],"name":null,"count":2}'
    assert form.message == "the tool order asks: What shall it be?"
    fields = form.requested_schema["properties"]
    assert {name: field["type"] for name, field in fields.items()} == {
        "size": "string",
        "colours": "array",
        "name": "string",
        "count": "integer",
    }
    assert fields["size"]["enum"] == ["small", "large"]
    assert form.requested_schema["required"] == ["size", "colours"]


@both
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_unanswered_form_has_no_values(asker: Project, mode: str, action: str) -> None:
    assert answering(asker, mode, "order", action=action)[0] == "nothing"


@both
def test_invalid_answer_is_an_error(asker: Project, mode: str) -> None:
    text, _ = answering(
        asker, mode, "order", action="accept", content={"size": "huge", "colours": []}
    )
    assert text.startswith("the answer to 'What shall it be?' does not fit: ")
    assert "size" in text


@both
def test_nested_fields_cannot_be_asked_in_forms(asker: Project, mode: str) -> None:
    text, forms = answering(asker, mode, "nested", action="accept", content={})
    assert text.startswith("the field 'order' cannot be asked of the user of an MCP client")
    assert forms == []


def test_titled_choices_are_unchanged() -> None:
    titled = [{"const": "a", "title": "The first"}]
    fields: dict[str, Any] = {
        "one": {"type": "string", "oneOf": titled},
        "old": {"type": "string", "enum": ["a"], "enumNames": ["The first"]},
        "many": {"type": "array", "items": {"anyOf": titled}},
    }
    assert flat_schema({"type": "object", "properties": fields}) == {
        "type": "object",
        "properties": fields,
    }


@pytest.mark.parametrize(
    "field", [{"type": "array", "items": {"type": "string"}}, {"type": "object"}, {}, True]
)
def test_unsupported_fields_are_refused(field: Any) -> None:
    with pytest.raises(ToolError, match="the field 'it' cannot be asked"):
        flat_schema({"type": "object", "properties": {"it": field}})


@both
def test_sound_is_audio_and_text_with_an_address_is_a_resource(asker: Project, mode: str) -> None:
    async def use(client: Client) -> Any:
        return [await client.call_tool(name, {}) for name in ("sound", "note")]

    sound, note = with_client(asker, mode, use)
    assert [block.type for block in sound.content] == ["text", "audio"]
    assert base64.b64decode(sound.content[1].data) == b"RIFFxxxx"
    text, kept, data = note.content
    assert "said" in text.text
    assert (kept.resource.uri, kept.resource.text) == ("notes://1", "kept")
    assert data.resource.uri.startswith("forge:///")
