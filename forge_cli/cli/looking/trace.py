"""What a process reads while it looks: files that it opens, folders that it lists, and modules that it has loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_LOCATED = "forge.locate"
"""Our own event: below a zone, files are opened by the descriptor of their folder, and by their last name."""
_LOOKS = frozenset({"open", "os.listdir", "os.scandir", _LOCATED})
_PASSING = ("/proc/", "/dev/", "/sys/")
_STANDARD = os.path.dirname(os.__file__) + os.sep


class ReadTrace:
    """The absolute paths of what was read, there or not; ``complete`` unless something was read in another way."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.complete = True

    def add(self, paths: object) -> None:
        """What another process has seen."""
        if isinstance(paths, list) and all(isinstance(path, str) for path in paths):
            self.paths.update(paths)
        else:
            self.complete = False

    def seen(self) -> list[str]:
        """All that the answer can depend on; the standard library is that of the interpreter."""
        loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        return sorted(_lasting({*self.paths, *(os.path.abspath(file) for file in loaded if isinstance(file, str))}))

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        for path in args if event == _LOCATED else args[:1]:
            if isinstance(path, str | bytes | os.PathLike):
                self.paths.add(os.path.abspath(os.fsdecode(path)))
            elif event == "os.listdir":  # a descriptor, and nothing says where that is
                self.complete = False


_active: ReadTrace | None = None
_hooked = False


def active_trace() -> ReadTrace | None:
    return _active


@contextmanager
def tracing() -> Iterator[ReadTrace]:
    """Note what is read in the block, in this process."""
    global _active, _hooked
    if not _hooked:
        sys.addaudithook(_hear)
        _hooked = True
    _active = ReadTrace()
    try:
        yield _active
    finally:
        _active = None


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _active is not None and event in _LOOKS:
        _active.hear(event, args)


def _lasting(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        standard = path.startswith(_STANDARD) and "site-packages" not in path
        if not standard and not path.startswith(_PASSING) and not path.endswith(".pyc"):
            yield path
