"""Input from an editor: prompts with files, and MCP servers."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import schema

from forge_cli.cli.notices import warn
from forge_cli.core.errors import UsageError
from forge_cli.core.messages import Attachment
from forge_cli.core.phrases import EDITED_IN_EDITOR
from forge_cli.core.text import counted, visible
from forge_cli.core.wire import JsonObject
from forge_cli.files.attachment import LARGEST, media_type
from forge_cli.files.regular import read_regular
from forge_cli.files.worker import Worker
from forge_cli.schema.config import parse_config
from forge_cli.toolsets.mcp.toolset import McpConfig, McpToolset

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


def read_prompt(blocks: Sequence[Block], workspace: Path) -> tuple[str, tuple[Attachment, ...]]:
    """Return the user's text and the attached files."""
    said = list[str]()
    notes = list[str]()
    attached: list[Attachment] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock(text=text):
                said.append(text)
            case schema.ResourceContentBlock(uri=uri):
                named = f"@{_named(uri, workspace)}"
                # the fragment of a file is a range of lines
                lines = urlsplit(uri).fragment if _path(uri) else ""
                if lines:
                    named += f" ({visible(lines)})"
                said.append(named)
            case schema.ImageContentBlock(data=data, uri=uri):
                attached.append(_attachment(_file_name(uri or "image"), _decoded(data)))
            case schema.EmbeddedResourceContentBlock(
                resource=schema.BlobResourceContents(blob=data, uri=uri)
            ):
                attached.append(_attachment(_named(uri, workspace), _decoded(data)))
            case schema.EmbeddedResourceContentBlock(
                resource=schema.TextResourceContents(text=text, uri=uri)
            ):
                name = _named(uri, workspace)
                attached.append(
                    Attachment(name, "text/plain", _bounded(text.encode("utf-8", "replace")))
                )
                if _differs(uri, text):
                    notes.append(EDITED_IN_EDITOR.format(name=name))
            case _:
                raise UsageError("audio is not supported: a prompt has text, images and files")
    return "\n\n".join(filter(None, [_joined(said), *notes])), tuple(attached)


def _joined(pieces: Sequence[str]) -> str:
    """Join the pieces of a prompt, with spaces around names of files."""
    joined = ""
    for piece in pieces:
        apart = joined and not joined[-1:].isspace() and not piece[:1].isspace()
        joined += f" {piece}" if apart else piece
    return joined


def _path(uri: str) -> Path | None:
    """Return the local file that a URI names, or None."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None


def _named(uri: str, workspace: Path) -> str:
    """Return a file relative to the working directory if it is inside, else the URI."""
    path = _path(uri)
    if path is None:
        return visible(uri)
    if path.is_relative_to(workspace):
        path = path.relative_to(workspace)
    return visible(str(path))


def _file_name(uri: str) -> str:
    return visible(os.path.basename(urlsplit(uri).path) or uri)


def _differs(uri: str, text: str) -> bool:
    """Return True if the editor's text differs from the file, or the file is not readable."""
    path = _path(uri)
    if path is None or urlsplit(uri).fragment:  # a part of a file, which the editor has cut out
        return False
    edited = text.encode("utf-8", "replace")
    try:
        # one byte more than expected is enough to notice a longer file
        return read_regular(path, len(edited) + 1) != edited
    except OSError:
        return True


def _decoded(data: str) -> bytes:
    try:
        return _bounded(base64.b64decode(data, validate=True))
    except binascii.Error:
        raise UsageError("an image or a file in a prompt is not base64") from None


def _bounded(data: bytes) -> bytes:
    if len(data) > LARGEST:
        raise UsageError(f"a file in a prompt has {len(data)} bytes; the maximum is {LARGEST}")
    return data


def _attachment(name: str, data: bytes) -> Attachment:
    return Attachment(name, media_type(data), data)


Servers = Sequence[
    schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
]
NAME_MAX = 32


def takes_servers(worker: Worker) -> bool:
    """Return True if the worker accepts the editor's servers."""
    section = worker.config.toolsets.get(McpToolset.name)
    return isinstance(section, dict) and parse_config(McpConfig, section).from_client


def with_servers(worker: Worker, given: Servers) -> Worker:
    """Return the worker with these servers added; its own keep their names.

    The worker's approval settings apply to all of them.
    """
    if not given:
        return worker
    section = worker.config.toolsets.get(McpToolset.name)
    if not isinstance(section, dict) or not takes_servers(worker):
        warn(
            f"{counted(len(given), 'MCP server')} of the editor not used: "
            "the worker does not set mcp: {from_client: true}"
        )
        return worker
    own = parse_config(McpConfig, section)
    found: dict[str, JsonObject] = {}
    for server in given:
        name = re.sub(r"[^a-zA-Z0-9_-]+", "-", server.name).strip("-_")[:NAME_MAX]
        definition = _definition(server)
        if not name or definition is None or name in own.servers or name in found:
            warn(
                f"the MCP server '{server.name}' of the editor is not used: "
                f"{_problem(name, definition)}"
            )
        else:
            found[name] = definition
    config = {
        "servers": found,
        "approval": {"default": own.approval.default},
        "elicitation": own.elicitation,
        "sampling": own.sampling,
    }
    return replace(worker, toolsets=(*worker.toolsets, McpToolset(config)))


def _problem(name: str, definition: JsonObject | None) -> str:
    if definition is None:
        return "unsupported transport"
    return "duplicate name" if name else "its name contains no letters"


def _definition(
    server: schema.HttpMcpServer
    | schema.SseMcpServer
    | schema.AcpMcpServer
    | schema.McpServerStdio,
) -> JsonObject | None:
    match server:
        case schema.McpServerStdio():
            env = {each.name: each.value for each in server.env}
            return {"command": server.command, "args": server.args, "env": env}
        case schema.HttpMcpServer():
            return {
                "url": server.url,
                "headers": {each.name: each.value for each in server.headers},
            }
        case _:
            return None
