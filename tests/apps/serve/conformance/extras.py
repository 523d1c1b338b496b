"""The prompts and resources that the conformance suite asks for."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from forge_cli import Image, Tool, Toolset, hookimpl
from forge_cli.hooks import PromptArgument, PromptSpec, ResourceSpec
from forge_cli.results import Blob

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)


class Extras(Toolset):
    """The prompts and resources of the suite."""

    name = "extras"

    async def tools(self) -> Sequence[Tool]:
        return ()

    async def prompts(self) -> Sequence[PromptSpec]:
        two = (
            PromptArgument("arg1", "the first", True),
            PromptArgument("arg2", "the second", True),
        )
        uri = (PromptArgument("resourceUri", "what to embed", True),)
        return [
            PromptSpec("test_simple_prompt", "Say one thing."),
            PromptSpec("test_prompt_with_arguments", "Say two things.", two),
            PromptSpec("test_prompt_with_embedded_resource", "Show a resource.", uri),
            PromptSpec("test_prompt_with_image", "Show an image."),
        ]

    async def get_prompt(self, name: str, args: Mapping[str, str]) -> Any:
        match name:
            case "test_prompt_with_arguments":
                return f"Prompt with arguments: arg1='{args['arg1']}', arg2='{args['arg2']}'"
            case "test_prompt_with_embedded_resource":
                return [
                    "Look at this.",
                    Blob(b"Embedded resource content.", "text/plain", args["resourceUri"]),
                ]
            case "test_prompt_with_image":
                return [Image(PNG, "image/png"), "Look at it."]
        return "This is a simple prompt for testing."

    async def complete_prompt(self, name: str, argument: str, text: str) -> Sequence[str]:
        return [word for word in ("testing", "trying") if word.startswith(text)]

    async def resources(self) -> Sequence[ResourceSpec]:
        return [
            ResourceSpec("test://static-text", "text", "A text.", "text/plain"),
            ResourceSpec("test://static-binary", "image", "An image."),
            ResourceSpec(
                "test://template/{id}/data", "data", "Data by its id.", "application/json"
            ),
        ]

    async def read_resource(self, uri: str, args: Mapping[str, str]) -> Any:
        match uri:
            case "test://static-text":
                return "This is the content of the static text resource."
            case "test://static-binary":
                return Image(PNG, "image/png")
        return {"id": args["id"], "templateTest": True, "data": f"Data for ID: {args['id']}"}


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [Extras]
