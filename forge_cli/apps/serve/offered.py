"""The prompts and resources of a served worker's toolsets, for MCP clients."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import mcp_types
from mcp import MCPError
from mcp.server import ServerRequestContext

from forge_cli.apps.serve.content import file_block, resource_contents
from forge_cli.apps.serve.served import ServedWorker
from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.media import Blob, Image
from forge_cli.core.requests import ResourceSpec
from forge_cli.core.results import Json, ResultValue, Text, as_result, shown_files
from forge_cli.core.text import visible
from forge_cli.core.tool import LONGEST
from forge_cli.engine.gate.toolbox import OpenToolset
from forge_cli.engine.runtime.prompts import Prompts

Context = ServerRequestContext[Any, Any]
Page = mcp_types.PaginatedRequestParams | None
NOT_FOUND = -32002
"""The protocol's error code for a resource that does not exist."""
MAX_COMPLETIONS = 100
"""Completions in one answer, as limited by the protocol."""


class OfferedExtras:
    """The handler of requests for prompts and resources."""

    def __init__(self, served: ServedWorker) -> None:
        self._served = served
        self._prompts = Prompts(served.toolbox)

    async def list_prompts(self, context: Context, params: Page) -> mcp_types.ListPromptsResult:
        listed = [
            mcp_types.Prompt(
                name=name,
                description=spec.description or None,
                arguments=[
                    mcp_types.PromptArgument(
                        name=each.name, description=each.description or None, required=each.required
                    )
                    for each in spec.arguments
                ],
            )
            for name, spec in (await self._prompts.specs()).items()
        ]
        return mcp_types.ListPromptsResult(prompts=listed)

    async def get_prompt(
        self, context: Context, params: mcp_types.GetPromptRequestParams
    ) -> mcp_types.GetPromptResult:
        given = [f"{key}={value}" for key, value in (params.arguments or {}).items()]
        try:
            value = await self._prompts.value(params.name, given)
        except (ForgeError, ToolError) as error:
            raise self._refused(mcp_types.INVALID_PARAMS, error) from None
        if value is None:
            raise MCPError(mcp_types.INVALID_PARAMS, f"there is no prompt '{visible(params.name)}'")
        messages = [
            mcp_types.PromptMessage(role="user", content=block) for block in self._blocks(value)
        ]
        return mcp_types.GetPromptResult(messages=messages)

    def _blocks(self, value: ResultValue) -> list[mcp_types.ContentBlock]:
        files = [file_block(file, "prompt", self._served.redactor) for file in shown_files(value)]
        found = [block for block in files if block is not None]
        # the text of a single file would only describe it
        if isinstance(value, Image | Blob) and found:
            return found
        text = mcp_types.TextContent(text=self._served.redactor.redact_text(value.text()))
        return [text, *found]

    async def complete(
        self, context: Context, params: mcp_types.CompleteRequestParams
    ) -> mcp_types.CompleteResult:
        """Return the values that a toolset suggests for an argument of a prompt."""
        found: list[str] = []
        if isinstance(params.ref, mcp_types.PromptReference):
            with suppress(ForgeError, ToolError):
                found = await self._prompts.complete(
                    params.ref.name, params.argument.name, params.argument.value
                )
        shown = [self._served.redactor.redact_text(value) for value in found[:MAX_COMPLETIONS]]
        more = len(found) > MAX_COMPLETIONS
        return mcp_types.CompleteResult(
            completion=mcp_types.Completion(values=shown, total=len(found), has_more=more)
        )

    async def list_resources(self, context: Context, params: Page) -> mcp_types.ListResourcesResult:
        listed = [
            mcp_types.Resource(
                uri=spec.uri,
                name=spec.name,
                description=spec.description or None,
                mime_type=spec.media_type,
            )
            for _, spec in await self._specs()
            if not spec.is_template
        ]
        return mcp_types.ListResourcesResult(resources=listed)

    async def list_templates(
        self, context: Context, params: Page
    ) -> mcp_types.ListResourceTemplatesResult:
        listed = [
            mcp_types.ResourceTemplate(
                uri_template=spec.uri,
                name=spec.name,
                description=spec.description or None,
                mime_type=spec.media_type,
            )
            for _, spec in await self._specs()
            if spec.is_template
        ]
        return mcp_types.ListResourceTemplatesResult(resource_templates=listed)

    async def read_resource(
        self, context: Context, params: mcp_types.ReadResourceRequestParams
    ) -> mcp_types.ReadResourceResult:
        uri = str(params.uri)
        for opened, spec in await self._specs():
            args = spec.match(uri)
            if args is None:
                continue
            self._served.tell(f"a client reads the resource {visible(uri)}")
            try:
                value = await self._read(opened, uri, args)
            except (ForgeError, ToolError) as error:
                raise self._refused(mcp_types.INTERNAL_ERROR, error) from None
            return mcp_types.ReadResourceResult(contents=[self._contents(uri, spec, value)])
        raise MCPError(NOT_FOUND, f"there is no resource '{visible(uri)}'")

    async def _read(self, opened: OpenToolset, uri: str, args: Mapping[str, str]) -> ResultValue:
        what = f"the resource '{visible(uri)}' cannot be read"
        read = opened.toolset.read_resource
        return as_result(
            await opened.ask(what, "read_resource()", read, uri, args, seconds=LONGEST)
        )

    def _contents(
        self, uri: str, spec: ResourceSpec, value: ResultValue
    ) -> mcp_types.TextResourceContents | mcp_types.BlobResourceContents:
        if isinstance(value, Image | Blob):
            return resource_contents(uri, value, self._served.redactor)
        own = "application/json" if isinstance(value, Json) else "text/plain"
        text = value.content if isinstance(value, Text) else value.text()
        shown = self._served.redactor.redact_text(text)
        return mcp_types.TextResourceContents(uri=uri, mime_type=spec.media_type or own, text=shown)

    async def _specs(self) -> list[tuple[OpenToolset, ResourceSpec]]:
        """Return the resources of every toolset; a toolset that fails to list them has none."""
        found: list[tuple[OpenToolset, ResourceSpec]] = []
        for opened in self._served.toolbox.toolsets:
            with suppress(ForgeError, ToolError):
                listed = await opened.ask(
                    "cannot list its resources", "resources()", opened.toolset.resources
                )
                found += [(opened, spec) for spec in listed]
        return found

    def _refused(self, code: int, error: Exception) -> MCPError:
        return MCPError(code, self._served.redactor.redact_text(visible(str(error))))
