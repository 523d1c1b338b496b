"""The tools of a server: as last described, as approved, and as forge offers them."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from forge_cli.core.approval import Approval, Effect, Verdict
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ForgeError, SchemaError
from forge_cli.core.locking import hash_of
from forge_cli.core.results import Diff
from forge_cli.core.source import Source
from forge_cli.core.text import cut, visible
from forge_cli.core.tool import LONGEST, Args, Execute, Preview, digest_of
from forge_cli.core.wire import JsonObject
from forge_cli.files.mcp import McpServer
from forge_cli.files.replace import replace_file
from forge_cli.files.trust import TrustStore
from forge_cli.schema.json.bounded import unbounded_problem
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import ToolsetEnv
from forge_cli.toolsets.mcp.transports import MALFORMED

if TYPE_CHECKING:
    import mcp_types

LINES = 40
"""Lines of a difference that are shown."""
NAME_MAX = 64
LISTED_MAX = 2000
"""Tools, resources or prompts of one server."""
DESCRIPTION_MAX = 4000
_ODD = re.compile(r"[^a-zA-Z0-9_-]+")


class ServerTool(Struct, frozen=True):
    """A tool as its server describes it, with the digest that grants are bound to."""

    name: str
    description: str
    input_schema: JsonObject
    digest: str
    read_only: bool = False
    open_world: bool = False
    definition: str = ""
    """The hash of the whole description except the name, with annotations; for lock files."""
    malformed: str = ""
    """Why the description is invalid."""
    needs_task: bool = False
    """True if the tool only runs as a task that continues after the call."""

    @classmethod
    def of(cls, tool: mcp_types.Tool, identity: str) -> ServerTool:
        schema, hints = dict(tool.input_schema), tool.annotations
        content = json.dumps([identity, tool.name, tool.description, schema], sort_keys=True)
        return cls(
            tool.name,
            tool.description or tool.title or "",
            schema,
            digest_of(content.encode()),
            hints is not None and hints.read_only_hint is True,
            hints is not None and hints.open_world_hint is True,
            hash_of(
                tool.model_dump(
                    mode="json", by_alias=True, exclude={"name", "meta"}, exclude_none=True
                )
            ),
            str((tool.meta or {}).get(MALFORMED, "")),
            tool.execution is not None and tool.execution.task_support == "required",
        )


class ServerOffer(Struct, frozen=True):
    """The tools of a server, its instructions, and when they were listed."""

    tools: tuple[ServerTool, ...] = ()
    instructions: str | None = None
    resources: bool = False
    when: str = ""


class KeptOffer(Struct, frozen=True, dict=True):
    """The last offer of a server, stored in a file below ``home``."""

    home: Path
    server: McpServer
    workspace: Path

    @cached_property
    def file(self) -> Path:
        """The path, which depends on everything that decides which tools a server has."""
        server = self.server
        words = filter(None, (server.command, *server.args))
        folder = ""
        # A relative path names another server in another working directory.
        if any(os.path.isfile(self.workspace / word) for word in words):
            folder = str(self.workspace)
        return self._named(folder)

    def _named(self, folder: str) -> Path:
        server = self.server
        deciding = [
            server.identity,
            sorted(server.env.items()),
            sorted(server.headers.items()),
            folder,
        ]
        return self.home / "cache" / "mcp" / f"{digest_of(json.dumps(deciding).encode())[:32]}.json"

    def find(self) -> ServerOffer | None:
        """Return the stored offer; None if the server was never connected."""
        # The second name is used if a file of the command line has been moved away.
        for file in (self.file, self._named(str(self.workspace))):
            with suppress(OSError, ValueError):
                return msgspec.json.decode(file.read_bytes(), type=ServerOffer)
        return None

    def put(self, offer: ServerOffer) -> None:
        """Store an offer; do nothing if the home is not writable."""
        with suppress(OSError, ValueError):  # ValueError for text that UTF-8 cannot encode
            replace_file(self.file, msgspec.json.encode(offer), mode=0o600, durable=False)


class ToolChange(Struct, frozen=True):
    """A tool whose description changed since it was approved."""

    tool: str
    approved: Mapping[str, Any]
    now: Mapping[str, str]

    @property
    def verdict(self) -> Verdict:
        """A verdict that asks, even if the worker pre-approves the tool."""
        parts = [part for part in self.now if self.approved.get(part) != self.now[part]]
        reason = f"its {' and '.join(parts)} changed since it was approved"
        difference = difflib.unified_diff(
            _text(self.approved).splitlines(), _text(self.now).splitlines(), n=0
        )
        changed = list(difference)[2 : LINES + 2]  # without the two lines with file names
        lines = [visible(cut(line.rstrip("\n"), 300, "end")) for line in changed]
        return Verdict(Approval.ASK, reason, by="memory", details=tuple(lines))

    async def preview(self, args: Args, context: ToolContext) -> Preview:
        difference = Diff.of(self.tool, _text(self.approved), _text(self.now))
        return Preview(difference, recap="the approved description, and the current one")


class Pins:
    """The approved descriptions of the tools of one server in one worker."""

    def __init__(self, env: ToolsetEnv, name: str, server: McpServer) -> None:
        self._store = TrustStore(env.home)
        self._key = f"{os.path.realpath(env.worker_dir)}:{env.worker}:{name}"
        self._address = server.identity
        self._known = self._store.pins(self._key)

    def drift(self, tool: ServerTool) -> ToolChange | None:
        """Return the change of a tool since its approval; None if there is none."""
        known = self._known.get(tool.name)
        now = self._describe(tool)
        if known is None or known == now:
            return None
        return ToolChange(tool.name, known, now)

    def keep(self, tool: ServerTool) -> bool:
        """Store the current description as approved; return True if it is new."""
        now = self._describe(tool)
        if self._known.get(tool.name) == now:
            return False
        self._known[tool.name] = now
        with suppress(OSError, ForgeError):  # without a writable home, the next session asks again
            self._store.pin(self._key, tool.name, now)
        return True

    def _describe(self, tool: ServerTool) -> dict[str, str]:
        return {
            "address": self._address,
            "description": tool.description,
            "schema": json.dumps(tool.input_schema, sort_keys=True, indent=1),
        }


def _text(pin: Mapping[str, Any]) -> str:
    return "".join(f"{pin.get(part, '')}\n" for part in ("address", "description", "schema"))


class Quarantined(Exception):
    """Raised for a tool that is not offered; the message is the reason."""


def names_for(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return unique tool names ``SERVER__TOOL`` of at most 64 valid characters.

    Tools with valid names are named first, so that they keep their names.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for tool in sorted(tools, key=lambda tool: _ODD.search(tool) is not None):
        name = f"{server}__{_ODD.sub('_', tool) or '_'}"
        if len(name) > NAME_MAX or name in taken:
            mark = f"_{digest_of(tool.encode())[:8]}"
            name = name[: NAME_MAX - len(mark)] + mark
        taken.add(name)
        found[tool] = name
    return found


@dataclass(kw_only=True)
class ServedTool(Tool):
    """A tool of an MCP server."""

    definition: str
    """The hash of the server's description with annotations, for lock files."""


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
    """Make a Tool for a server's tool; raise Quarantined if it cannot be offered safely."""
    if tool.malformed:
        raise Quarantined(f"invalid description: {visible(cut(tool.malformed, 300, 'end'))}")
    if tool.needs_task:
        raise Quarantined(
            "it only runs as a task (taskSupport: required), which forge does not support"
        )
    description = (tool.description or tool.name).strip()
    if visible(description, keep="\n\t") != description:
        raise Quarantined("its description contains invisible or control characters")
    if len(description) > DESCRIPTION_MAX:
        notice(f"the description of {name} was cut: it has {len(description)} characters")
        description = cut(description, DESCRIPTION_MAX)
    made = ServedTool(
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
    try:
        made.schema.probe()
    except (SchemaError, RecursionError) as error:
        raise Quarantined(f"its schema is invalid: {error}") from None
    if problem := unbounded_problem(tool.input_schema):
        raise Quarantined(f"its schema is invalid: {visible(cut(problem, 300, 'end'))}")
    return made


def _hinted_effects(tool: ServerTool) -> frozenset[Effect] | None:
    """Return the effects that the server claims for a read-only tool; None if unknown."""
    if not tool.read_only:
        return None
    return frozenset({Effect.READ, Effect.NETWORK} if tool.open_world else {Effect.READ})


class TooMuchOffered(Exception):
    """Raised for a list that is too long to be useful."""


async def all_pages(ask: Callable[[str | None], Awaitable[Any]], part: str) -> list[Any]:
    """Return all pages of a list; raise TooMuchOffered beyond LISTED_MAX."""
    page = await ask(None)
    found = list(getattr(page, part))
    # A server could send pages without end.
    while page.next_cursor is not None and len(found) <= LISTED_MAX:
        page = await ask(page.next_cursor)
        found += getattr(page, part)
    if len(found) > LISTED_MAX:
        raise TooMuchOffered(f"it offers more than {LISTED_MAX:,} {part}, the limit of forge")
    return found
