"""The tools of a server: as it described them last, as they were approved, and as forge offers them."""

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
"""Of a difference that is shown."""
NAME_MAX = 64
LISTED_MAX = 2000
"""Tools, resources or prompts of one server."""
DESCRIPTION_MAX = 4000
_ODD = re.compile(r"[^a-zA-Z0-9_-]+")


class ServerTool(Struct, frozen=True):
    """A tool in the words of its server, and the digest that grants for it are bound to."""

    name: str
    description: str
    input_schema: JsonObject
    digest: str
    read_only: bool = False
    open_world: bool = False
    definition: str = ""
    """The hash of all that the server says of it but its name, annotations included; for a lock."""
    malformed: str = ""
    """Why it is not a tool at all."""
    needs_task: bool = False
    """Whether it only runs as a task that goes on behind the call."""

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
    """The offer of a connected server, and since when it is known."""

    tools: tuple[ServerTool, ...] = ()
    instructions: str | None = None
    resources: bool = False
    when: str = ""


class KeptOffer(Struct, frozen=True, dict=True):
    """The offer of one server in a file; ``home`` is forge's own."""

    home: Path
    server: McpServer
    workspace: Path

    @cached_property
    def file(self) -> Path:
        """Named after all that decides which tools a server has; where files are among it, after their folder, too."""
        server = self.server
        words = filter(None, (server.command, *server.args))
        return self._named(
            str(self.workspace)
            if any(os.path.isfile(self.workspace / word) for word in words)
            else ""
        )

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
        """None where the server was never connected to."""
        for file in (
            self.file,
            self._named(str(self.workspace)),
        ):  # a file that it names may have been moved away
            with suppress(OSError, ValueError):
                return msgspec.json.decode(file.read_bytes(), type=ServerOffer)
        return None

    def put(self, offer: ServerOffer) -> None:
        """Keep it; a home that cannot be written keeps nothing."""
        with suppress(OSError, ValueError):  # also where a description cannot be written as text
            replace_file(self.file, msgspec.json.encode(offer), mode=0o600, durable=False)


class ToolChange(Struct, frozen=True):
    """A tool is not what was approved."""

    tool: str
    approved: Mapping[str, Any]
    now: Mapping[str, str]

    @property
    def verdict(self) -> Verdict:
        """Asks, even if the worker allows it."""
        parts = [part for part in self.now if self.approved.get(part) != self.now[part]]
        reason = f"its {' and '.join(parts)} changed since it was approved, so it asks again"
        difference = difflib.unified_diff(
            _text(self.approved).splitlines(), _text(self.now).splitlines(), n=0
        )
        lines = [
            visible(cut(line.rstrip("\n"), 300, "end")) for line in list(difference)[2 : LINES + 2]
        ]
        return Verdict(Approval.ASK, reason, by="memory", details=tuple(lines))

    async def preview(self, args: Args, context: ToolContext) -> Preview:
        difference = Diff.of(self.tool, _text(self.approved), _text(self.now))
        return Preview(difference, recap="what was approved, and what it is now")


class Pins:
    """The pins of the tools of one server, as one worker names it."""

    def __init__(self, env: ToolsetEnv, name: str, server: McpServer) -> None:
        self._store = TrustStore(env.home)
        self._key = f"{os.path.realpath(env.worker_dir)}:{env.worker}:{name}"
        self._address = server.identity
        self._known = self._store.pins(self._key)

    def drift(self, tool: ServerTool) -> ToolChange | None:
        """The change of a tool that was approved; None where there is none, or it never was."""
        known, now = self._known.get(tool.name), self._describe(tool)
        return None if known is None or known == now else ToolChange(tool.name, known, now)

    def keep(self, tool: ServerTool) -> bool:
        """The tool as it is now was approved; returns whether that is news."""
        now = self._describe(tool)
        if self._known.get(tool.name) == now:
            return False
        self._known[tool.name] = now
        with suppress(
            OSError, ForgeError
        ):  # a home that cannot be written: then the next session asks
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
    """A tool that is not offered; the sentence says why."""


def names_for(server: str, tools: Iterable[str]) -> dict[str, str]:
    """``SERVER__TOOL`` for each tool: clean, at most 64 characters, and no two alike; a clean one keeps its own."""
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
    """A tool of a server."""

    definition: str
    """For a lock: the hash of all that the server says of it, annotations included."""


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
    if tool.malformed:
        raise Quarantined(f"it is not valid: {visible(cut(tool.malformed, 300, 'end'))}")
    if tool.needs_task:
        raise Quarantined(
            "it only runs as a task (taskSupport: required), which forge does not take part in"
        )
    description = (tool.description or tool.name).strip()
    if visible(description, keep="\n\t") != description:
        raise Quarantined("its description has invisible or control characters")
    if len(description) > DESCRIPTION_MAX:
        notice(f"the description of {name} has {len(description)} characters, and is cut")
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
        raise Quarantined(f"its schema is unsound: {error}") from None
    if problem := unbounded_problem(tool.input_schema):
        raise Quarantined(f"its schema is unsound: {visible(cut(problem, 300, 'end'))}")
    return made


def _hinted_effects(tool: ServerTool) -> frozenset[Effect] | None:
    """The server's word on a tool that changes nothing; None is unknown."""
    if not tool.read_only:
        return None
    return frozenset({Effect.READ, Effect.NETWORK} if tool.open_world else {Effect.READ})


class TooMuchOffered(Exception):
    """A list of a server is longer than any that is of use; the sentence says so."""


async def all_pages(ask: Callable[[str | None], Awaitable[Any]], part: str) -> list[Any]:
    """All of a list that comes in pages; TooMuchOffered where it is longer than a person could look through."""
    page = await ask(None)
    found = list(getattr(page, part))
    while page.next_cursor is not None and len(found) <= LISTED_MAX:
        page = await ask(page.next_cursor)
        found += getattr(page, part)
    if len(found) > LISTED_MAX:
        raise TooMuchOffered(f"it offers more than {LISTED_MAX:,} {part}, and no more are taken")
    return found
