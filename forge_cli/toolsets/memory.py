"""The toolset ``memory``: Markdown notes that a worker keeps between sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from forge_cli.core.approval import Effect
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.results import Diff, FileContent
from forge_cli.core.tool import Args, Preview, digest_of
from forge_cli.files.replace import replace_file
from forge_cli.schema.tool import tool
from forge_cli.schema.toolset import Toolset

MAX_NOTE = 256 * 1024
"""Characters of one note."""
MemoryId = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
        description="The topic: lowercase letters, digits, '-' and '_'",
    ),
]


class MemoryToolset(Toolset):
    """Notes in ``memory/WORKER-PLACE/TOPIC.md`` in forge's home, separate for each worker.

    The place is a hash of the worker's folder, so that a worker of the same name from another
    repository cannot read them.
    """

    name = "memory"

    @property
    def folder(self) -> Path:
        """The folder of this worker's notes."""
        place = digest_of(os.path.realpath(self.env.worker_dir).encode(errors="surrogateescape"))
        return self.env.home / "memory" / f"{self.env.worker}-{place[:12]}"

    def topics(self) -> list[str]:
        """Return the topics of all notes, sorted."""
        return sorted(path.stem for path in self.folder.glob("*.md"))

    @tool(needs_approval=False, read_only=True)
    async def get_memory(self, memory_id: MemoryId) -> FileContent:
        """Read the note on a topic from an earlier session."""
        text = self._read(memory_id)
        if text is None:
            known = ", ".join(self.topics()) or "none yet"
            raise ToolError(f"there is no note on '{memory_id}'; known topics: {known}")
        return FileContent(memory_id, text, size=len(text.encode()))

    @tool(needs_approval=True, preview="_show_change", effects=[Effect.WRITE])
    async def save_memory(
        self,
        memory_id: MemoryId,
        content: Annotated[
            str, Field(max_length=MAX_NOTE, description="The whole note, as Markdown")
        ],
        *,
        context: ToolContext,
    ) -> Diff:
        """Save a note on a topic for later sessions; replaces an existing note."""
        before = self._read(memory_id)
        if context.stamp not in (None, _stamp(before)):
            raise Stale(f"the note on '{memory_id}' has changed since it was shown")
        try:
            replace_file(self._path(memory_id), content, mode=0o600)
        except OSError as error:
            raise ToolError(f"the note could not be saved: {error.strerror}") from None
        return Diff.of(memory_id, before, content)

    async def _show_change(self, args: Args, context: ToolContext) -> Preview:
        before = self._read(args["memory_id"])
        return Preview(
            Diff.of(args["memory_id"], before, args["content"]),
            stamp=_stamp(before),
            shows=("content",),
        )

    def _path(self, memory_id: str) -> Path:
        return self.folder / f"{memory_id}.md"

    def _read(self, memory_id: str) -> str | None:
        try:
            return self._path(memory_id).read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ToolError(f"the note on '{memory_id}' cannot be read: {error.strerror}") from None

    def instructions(self) -> str:
        known = ", ".join(self.topics()) or "none yet"
        return f"get_memory reads notes from earlier sessions. Topics: {known}."


def _stamp(note: str | None) -> str:
    return "absent" if note is None else digest_of(note.encode())


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [MemoryToolset]
