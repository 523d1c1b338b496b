"""What a transcript shows in the place of a secret must not get into a file in its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from forge_cli.core.context import CallContext
from forge_cli.core.errors import ToolError
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.tool import Args
from forge_cli.sandbox.files.sandbox import whole_sandbox
from forge_cli.sandbox.secrets import added_mark, has_mark

if TYPE_CHECKING:
    from forge_cli.sandbox.patches.model import Change


def check_content(args: Args, context: CallContext) -> bool:
    """Before anybody is asked; a program may put a rule of its own in the place of this one."""
    refuse_redacted(args["path"], args["content"], context.sandbox)
    return False


def refuse_redacted(path: str, content: str, sandbox: SandboxView) -> None:
    if has_mark(content):
        from forge_cli.sandbox.patches.apply import reader

        refuse_marks([reader(whole_sandbox(sandbox))(path)], [content.encode()])


def refuse_marks_in(changes: Sequence[Change]) -> None:
    refuse_marks((change.before for change in changes), (change.after for change in changes))


def refuse_marks(before: Iterable[bytes | None], after: Iterable[bytes | None]) -> None:
    old, new = (b"\n".join(filter(None, data)).decode(errors="replace") for data in (before, after))
    if mark := added_mark(old, new):
        raise ToolError(
            f"nothing was written: {mark} stands where a secret was redacted, and is not content for a file; "
            "change only the other lines, with edit_file or apply_patch"
        )
