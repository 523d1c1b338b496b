"""The programs that a command starts, as ``watch`` sees them: their paths, and the words of those that are asked for.

A bare interpreter imports this, as it does ``enter``.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MAX_PROGRAMS, MAX_COMMANDS = 200, 1000
_MAX_INTERPRETER = 256


class StartedPrograms:
    """The programs that were started, each once, in the order in which that happened first."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        """Keep the words of programs with the names of the plan, whatever name a link gives to their files."""
        self._names: frozenset[str] = frozenset(plan["names"])
        self._files: Mapping[tuple[int, int], str] = plan["files"]
        self._search: frozenset[str] = frozenset(plan["search"])
        self._max_words: int = plan["max_words"]
        self._paths: dict[str, None] = {}
        self._commands: dict[tuple[str, ...], None] = {}
        self._unlisted = False
        self._is_first = True

    def add(self, path: str, file: int, words: Sequence[str]) -> None:
        """Record one, by the words that it is given, by the name of its file, and as the kernel starts a script.

        The first is the shell that reads the line itself.
        """
        if len(self._paths) < MAX_PROGRAMS:
            self._paths[path] = None
        is_first = self._is_first
        self._is_first = False
        if not self._names or is_first:
            return
        rest = words[1:]
        self._keep(words)
        self._keep([path, *rest])
        # in a folder of PATH the name says what a file does that has many of them, such as busybox
        if path.rpartition("/")[0] not in self._search:
            info = posix.fstat(file)
            self._keep([self._files.get((info.st_dev, info.st_ino), path), *rest])
        if interpreter := _interpreter(file):
            self._keep([*interpreter, path, *rest])
        self._unlisted = self._unlisted or len(words) >= self._max_words

    def found(self) -> dict[str, Any]:
        commands = [list(words) for words in self._commands]
        return {"programs": list(self._paths), "commands": commands, "unlisted": self._unlisted}

    def _keep(self, words: Sequence[str]) -> None:
        command = tuple(words)
        if command in self._commands or not any(map(self._is_named, words)):
            return
        if len(self._commands) < MAX_COMMANDS:
            self._commands[command] = None
        else:
            self._unlisted = True

    def _is_named(self, word: str) -> bool:
        """Whether a word is one of the names, or, as in ``git-push``, begins with one."""
        name = word.rpartition("/")[2].casefold()
        return name in self._names or name.partition("-")[0] in self._names


def _interpreter(file: int) -> list[str]:
    """The words in the first line of a script that name its interpreter, of which all behind the first are one."""
    try:
        head = posix.pread(file, _MAX_INTERPRETER, 0)
    except OSError:
        return []
    line = head.partition(b"\n")[0].decode("utf-8", "surrogateescape")
    return line[2:].split(None, 1) if line.startswith("#!") else []
