"""The tools of a server as forge offers them: under names that are free, with descriptions that hide nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from forge_cli.core.approval import Effect
from forge_cli.core.errors import SchemaError
from forge_cli.core.source import Source
from forge_cli.core.text import cut, visible
from forge_cli.core.tool import LONGEST, Execute, digest_of
from forge_cli.schema.input_schema import InputSchema
from forge_cli.schema.tool import Tool
from forge_cli.toolsets.mcp.kept import ServerTool
from forge_cli.toolsets.mcp.pins import ToolChange

NAME_MAX = 64
DESCRIPTION_MAX = 4000
_ODD = re.compile(r"[^a-zA-Z0-9_-]+")


class Quarantined(Exception):
    """A tool that is not offered; the sentence says why."""


def names_for(server: str, tools: Iterable[str]) -> dict[str, str]:
    """``SERVER__TOOL`` for each tool: clean, at most 64 characters, and no two alike."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for tool in tools:
        name = f"{server}__{_ODD.sub('_', tool) or '_'}"
        if len(name) > NAME_MAX or name in taken:
            mark = f"_{digest_of(tool.encode())[:8]}"
            name = name[: NAME_MAX - len(mark)] + mark
        taken.add(name)
        found[tool] = name
    return found


def offered_tool(
    name: str,
    tool: ServerTool,
    *,
    server: str,
    execute: Execute,
    drift: ToolChange | None,
    notice: Callable[[str], None],
    believe_hints: bool = False,
) -> Tool:
    """A tool of a server; ``Quarantined`` where what it says of itself could not be judged."""
    description = (tool.description or tool.name).strip()
    if visible(description, keep="\n\t") != description:
        raise Quarantined("its description has invisible or control characters")
    if len(description) > DESCRIPTION_MAX:
        notice(f"the description of {name} has {len(description)} characters, and is cut")
        description = cut(description, DESCRIPTION_MAX)
    try:
        InputSchema.of(tool.input_schema)
    except SchemaError as error:
        raise Quarantined(f"its schema is unsound: {error}") from None
    return Tool(
        name=name,
        description=description,
        input_schema=tool.input_schema,
        execute=execute,
        needs_approval=drift.verdict if drift else None,
        preview=drift.preview if drift else None,
        effects=_hinted_effects(tool) if believe_hints else None,
        timeout=LONGEST,
        source=Source("mcp", server),
        digest=tool.digest,
        definition=tool.definition,
    )


def _hinted_effects(tool: ServerTool) -> frozenset[Effect] | None:
    """The server's word on a tool that changes nothing; None is unknown."""
    if not tool.read_only:
        return None
    return frozenset({Effect.READ, Effect.NETWORK} if tool.open_world else {Effect.READ})
