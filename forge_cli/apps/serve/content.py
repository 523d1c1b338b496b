"""Conversion of forge's results to content of the protocol."""

from __future__ import annotations

import re
from base64 import b64encode
from urllib.parse import quote

import mcp_types

from forge_cli.core.media import Blob, Image, decoded_text
from forge_cli.sandbox.secrets import Redactor

_URI = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)


def file_block(file: Image | Blob, call: str, redactor: Redactor) -> mcp_types.ContentBlock | None:
    """Return a file of a result as a content block, or None if the text includes it.

    Text with a URI becomes a resource, which the client may keep; other text is part of the result.
    """
    data = b64encode(file.data).decode()
    if isinstance(file, Image):
        return mcp_types.ImageContent(data=data, mime_type=file.media_type)
    if file.media_type.startswith("audio/"):
        return mcp_types.AudioContent(data=data, mime_type=file.media_type)
    own = bool(_URI.fullmatch(file.name))
    if decoded_text(file) is not None and not own:
        return None
    # the protocol requires a URI, also for a file that has none
    uri = file.name if own else f"forge:///{quote(file.name or call)}"
    return mcp_types.EmbeddedResource(resource=resource_contents(uri, file, redactor))


def resource_contents(
    uri: str, file: Image | Blob, redactor: Redactor
) -> mcp_types.TextResourceContents | mcp_types.BlobResourceContents:
    """Return a file as the contents of a resource."""
    text = decoded_text(file)
    if text is not None:
        shown = redactor.redact_text(text)
        return mcp_types.TextResourceContents(uri=uri, mime_type=file.media_type, text=shown)
    data = b64encode(file.data).decode()
    return mcp_types.BlobResourceContents(uri=uri, mime_type=file.media_type, blob=data)
