"""Reading a patch: which of the two grammars it is written in."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Zone
from forge_cli.sandbox.patches import envelope, unified
from forge_cli.sandbox.patches.lines import Lines
from forge_cli.sandbox.patches.model import Patch

_REMEDY = "start with '*** Begin Patch' (then '*** Add File: PATH', '*** Update File: PATH' or '*** Delete File: PATH')"


def parse_patch(text: str, zones: Sequence[Zone] = ()) -> Patch:
    """The changes of a patch; ``zones`` tell what ``a/ZONE/file`` in a diff means where no path is relative."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ToolError("the patch has half of a surrogate pair, which no file can hold; leave it out")
    lines = Lines(text)
    first = lines.current
    if first is None:
        raise ToolError(f"the patch is empty; {_REMEDY}")
    if first.rstrip() == envelope.BEGIN:
        operations = tuple(envelope.parse(lines))
    elif unified.is_header(first):
        operations = tuple(unified.parse(lines, zones))
    else:
        raise ToolError(f"line {lines.number} does not start a patch; {_REMEDY}, or with '--- PATH' of a unified diff")
    if not operations:
        raise ToolError("the patch names no file; say which file to add, update or delete")
    return Patch(operations)
