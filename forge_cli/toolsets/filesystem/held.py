"""Files as the tools hold them: looked at and stamped before a change, so that what was shown is what is changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from anyio import to_thread

from forge_cli.core.results import ORIGINAL_LIMIT, Diff
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.tool import digest_of
from forge_cli.core.zones import Access
from forge_cli.sandbox.files.held import HeldFile
from forge_cli.sandbox.files.sandbox import whole_sandbox

T = TypeVar("T")
ABSENT = "absent"
SHOWN_MAX = 4 * ORIGINAL_LIMIT
"""Bytes of a file that a diff repeats, if at all: a character takes no more than four."""


def spell(view: SandboxView, path: str) -> str:
    """A path as results name it."""
    return whole_sandbox(view).spell(path)


def hold(view: SandboxView, path: str, access: Access, *, follow: bool = True) -> AbstractContextManager[HeldFile]:
    return whole_sandbox(view).hold(path, access, follow=follow)


async def look_at(look: Callable[[HeldFile], T], file: HeldFile) -> T:
    """Look at a file; a large one in a thread, because all of it is hashed."""
    if file.kind != "file" or file.info().size <= SHOWN_MAX:
        return look(file)
    return await to_thread.run_sync(look, file, abandon_on_cancel=True)


def current(file: HeldFile) -> tuple[bytes | None, str]:
    """What a file holds now, as far as a diff shows it, with a stamp; None where there is none, and for folders."""
    if file.kind != "file":
        return None, ABSENT
    data = file.read(SHOWN_MAX + 1)
    return data, digest_of(data) if len(data) <= SHOWN_MAX else file.digest()


def entry_stamp(file: HeldFile) -> str:
    return file.digest() if file.kind == "file" else str(file.kind)


def not_restored(file: HeldFile) -> str | None:
    """What whoever is asked for a change should know of a file that could not be restored."""
    return f"forge undo will not restore it: {file.unkept}" if file.unkept else None


def diff(path: str, before: bytes | None, content: str) -> Diff:
    try:
        return Diff.of(path, None if before is None else before.decode(), content)
    except UnicodeDecodeError:
        return Diff(path, None, content, is_new=False, bytes_written=len(content.encode()))
