"""The tools that the conformance suite calls, under the names that it gives them."""

import base64
from typing import Any

import anyio

from forge_cli import Image, ToolContext, ToolError
from forge_cli.results import Blob

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")
PERSON = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}
TITLED = [
    {"const": "value1", "title": "First Option"},
    {"const": "value2", "title": "Second Option"},
    {"const": "value3", "title": "Third Option"},
]
OPTIONS = ["option1", "option2", "option3"]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}


def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


def test_image_content() -> Image:
    """Return an image."""
    return Image(PNG, "image/png")


def test_audio_content() -> Blob:
    """Return a sound."""
    return Blob(WAV, "audio/wav")


def test_embedded_resource() -> Blob:
    """Return a text that has an address."""
    return Blob(b"This is an embedded resource content.", "text/plain", "test://embedded-resource")


def test_multiple_content_types() -> list[Any]:
    """Return a text, an image and a resource."""
    data = Blob(b'{"test":"data","value":123}', "application/json", "test://mixed-content-resource")
    return ["Multiple content types test:", Image(PNG, "image/png"), data]


async def test_tool_with_logging(context: ToolContext) -> str:
    """Log the progress."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        context.progress(message)
        await anyio.sleep(0.05)
    return "done"


def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


async def test_tool_with_progress(context: ToolContext) -> str:
    """Report how far it is."""
    for percent in (0, 50, 100):
        context.progress(f"{percent} of 100", percent / 100)
        await anyio.sleep(0.05)
    return "done"


async def test_elicitation(message: str, context: ToolContext) -> str:
    """Ask who the person is."""
    return f"User response: {await context.ask(message, PERSON)}"


async def test_elicitation_sep1034_defaults(context: ToolContext) -> str:
    """Ask with defaults."""
    return f"Elicitation completed: {await context.ask('Check these.', DEFAULTS)}"


async def test_elicitation_sep1330_enums(context: ToolContext) -> str:
    """Ask with choices of every form."""
    return f"Elicitation completed: {await context.ask('Choose.', ENUMS)}"
