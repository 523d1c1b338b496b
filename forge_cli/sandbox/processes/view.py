"""The copy-on-write view of a draft, if this process works in one."""

from __future__ import annotations

import errno
import os

from msgspec import Struct

from forge_cli.sandbox.processes.limits import spell_size

NO_RENAME = (
    "in a draft, a folder that was there before cannot be renamed in one step: "
    "copy it, then delete the old one"
)
_PATH_SIZE = 4096
"""Bytes that each path counts besides its blocks, since an empty file needs space, too."""


class BoundedView(Struct, frozen=True):
    """The folders that hold everything that a draft changed."""

    folders: tuple[str, ...]
    size: int | None
    """The most bytes that they may hold."""

    @property
    def limit(self) -> str:
        """The limit as it is told to the model."""
        return f"the draft may hold {spell_size(self.size or 0)} (sandbox.draft.size)"

    def left(self) -> int | None:
        """Return how many bytes fit in; None if there is no limit."""
        return None if self.size is None else self.size - self.used()

    def used(self) -> int:
        """Return how many bytes everything takes."""
        used = 0
        waiting = list(self.folders)
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                continue  # it was deleted in the meantime
            for entry in entries:
                try:
                    used += _PATH_SIZE + entry.stat(follow_symlinks=False).st_blocks * 512
                except OSError:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
        return used

    def exceeded(self) -> str | None:
        """Return why a command has to be stopped, or None."""
        left = self.left()
        if left is not None and left < 0:
            return f"it wrote more: {self.limit}"
        return None


_views: list[BoundedView] = []


def work_in_view(view: BoundedView) -> None:
    """Bound the commands of this process by its view from now on."""
    _views[:] = [view]


def session_view() -> BoundedView | None:
    """Return the view of this process; None outside of a draft."""
    return _views[0] if _views else None


def rename_hint(output: str) -> str | None:
    """Return the cause of a failed command whose output says that it met a limit of views."""
    says_it = os.strerror(errno.EXDEV).lower() in output.lower() or "EXDEV" in output
    return NO_RENAME if says_it and session_view() is not None else None
