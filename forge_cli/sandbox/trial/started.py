"""Programs that a command starts, as ``watch`` sees them: paths, and relevant words.

A bare interpreter imports this module, like ``enter``.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MAX_PROGRAMS = 200
MAX_COMMANDS = 1000
# The kernel reads no more of a script than this.
_MAX_INTERPRETER = 256


class StartedPrograms:
    """The started programs, each once, in the order of their first start."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        """Keep the words of programs that the plan names, under any name of their files."""
        self._names: frozenset[str] = frozenset(plan["names"])
        self._files: Mapping[tuple[int, int], str] = plan["files"]
        self._search: frozenset[str] = frozenset(plan["search"])
        self._max_words: int = plan["max_words"]
        self._paths: dict[str, None] = {}
        self._commands: dict[tuple[str, ...], None] = {}
        self._unlisted = False
        self._is_first = True

    def add(self, path: str, file: int, words: Sequence[str]) -> None:
        """Record a program by its words, by its file, and as a script's interpreter.

        The first program is the shell that reads the line itself.
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
        # In a folder of PATH, the name decides what a multi-call binary such as busybox does.
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
        """Return True if a word is one of the names or, like ``git-push``, begins with one."""
        name = word.rpartition("/")[2].casefold()
        return name in self._names or name.partition("-")[0] in self._names


def _interpreter(file: int) -> list[str]:
    """Return the interpreter from a script's first line, with its arguments as one word."""
    try:
        head = posix.pread(file, _MAX_INTERPRETER, 0)
    except OSError:
        return []
    line = head.partition(b"\n")[0].decode("utf-8", "surrogateescape")
    return line[2:].split(None, 1) if line.startswith("#!") else []
