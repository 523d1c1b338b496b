"""Editing a file: what a replacement makes of it, found out before anybody is asked and again when it is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from anyio import to_thread

from forge_cli.core.difference import unified_diff
from forge_cli.core.errors import ToolError
from forge_cli.core.hints import DisplayHints
from forge_cli.core.results import Diff, Text
from forge_cli.core.tool import digest_of
from forge_cli.sandbox.files.held import HeldFile
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.patches import Replaced, replace_text
from forge_cli.toolsets.filesystem.changes import for_model, holds_secrets
from forge_cli.toolsets.filesystem.held import SHOWN_MAX


@dataclass(frozen=True)
class Edit:
    """A replacement that fits the file as it is now."""

    path: str
    replaced: Replaced
    stamp: str
    """Of the content that it fits."""
    quiet: bool
    """The file may hold secrets: the model reads none of its lines."""

    @property
    def data(self) -> bytes:
        return self.replaced.after.encode()

    @property
    def changes(self) -> list[str]:
        """The lines of a unified diff."""
        return unified_diff(self.replaced.before, self.replaced.after, self.path, self.path)

    def preview(self) -> Diff | Text:
        """The change, also in a file that is too long to be repeated."""
        diff = self.diff()
        return Text("\n".join(self.changes), DisplayHints("code", "diff")) if diff.original is None else diff

    def diff(self) -> Diff:
        lines = self.replaced.lines
        where = f"line {lines[0]}" if len(lines) == 1 else f"{len(lines)} places, the first at line {lines[0]}"
        summary = f"Changed {self.path} at {where}."
        text = summary if self.quiet else for_model(summary, self.changes[2:])
        return replace(Diff.of(self.path, self.replaced.before, self.replaced.after), model_text=text)


async def plan_edit(file: HeldFile, path: str, old: str, new: str, *, everywhere: bool) -> Edit:
    """What becomes of a file; a ToolError where the old text is not there, or in more places than one."""
    if file.kind is None:
        raise ToolError(f"{shown(path)} does not exist; make a new file with write_file")
    data, quiet = file.read(), holds_secrets(path, file.virtual)
    work = partial(replace_text, path, data, old, new, everywhere=everywhere, quiet=quiet)
    replaced = work() if len(data) <= SHOWN_MAX else await to_thread.run_sync(work, abandon_on_cancel=True)
    return Edit(path, replaced, digest_of(data), quiet)
