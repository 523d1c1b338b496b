"""What a transcript shows in the place of a secret must not get into a file in its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forge_cli.core.errors import ToolError
from forge_cli.core.sandbox import SandboxView
from forge_cli.sandbox import patches
from forge_cli.sandbox.secrets import added_mark, has_mark
from forge_cli.toolsets.filesystem.held import whole_sandbox


def refuse_redacted(path: str, content: str, sandbox: SandboxView) -> None:
    if has_mark(content):
        refuse_marks([patches.reader(whole_sandbox(sandbox))(path)], [content.encode()])


def refuse_marks_in(changes: Sequence[patches.Change]) -> None:
    refuse_marks((change.before for change in changes), (change.after for change in changes))


def refuse_marks(before: Iterable[bytes | None], after: Iterable[bytes | None]) -> None:
    old, new = (b"\n".join(filter(None, data)).decode(errors="replace") for data in (before, after))
    if mark := added_mark(old, new):
        raise ToolError(
            f"nothing was written: {mark} stands where a secret was redacted, and is not content for a file; "
            "change only the other lines, with edit_file or apply_patch"
        )
