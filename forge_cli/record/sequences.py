"""Sequences of shell commands that recur in sessions: read from the logs, normalised, and counted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from forge_cli.core.calls import ToolCall
from forge_cli.core.events import ToolResult, ToolStarted
from forge_cli.files.regular import read_regular
from forge_cli.record.line import BadLine, Line
from forge_cli.record.log import line_prefix
from forge_cli.record.state import CallState, SessionState

SHELL = ("shell", "exec_command")
RAN = ("success", "error", "timeout")
"""How a call ends that was made; a program that fails is an error too."""
LONGEST = 5
TIMES, SESSIONS = 3, 2
"""How often a sequence has to occur, and in how many sessions."""
COMMAND_LIMIT = 2000
"""Characters of a command; a longer one is a script of its own, and no step of another."""
HEAD = 600
"""Bytes of a line in which its type and the name of the tool are."""

_STARTED, _ENDED = line_prefix(ToolStarted), line_prefix(ToolResult)
_VARIABLE = re.compile(
    r"""(?P<text>'[^']*'|"(?:\\.|[^"\\])*")"""
    r"|(?P<mark>\[redacted:[\w-]+\])"
    r"""|(?P<path>[\w.~@%+:-]*/[^\s;|&<>()'"]*|(?<!\S)(?:~|\.\.?)(?!\S)|(?<![\w.])[\w-]+(?:\.[A-Za-z]\w{0,7})+(?!\w))"""
    r"|(?P<number>(?<![\w.])(?=[a-f]*[0-9])[0-9a-f]{7,40}(?!\w)|(?<!\w)[0-9]+(?:[-.:_][0-9]+)*[A-Za-z]{0,2}(?!\w)"
    r"|(?<=\s-[A-Za-z])[0-9]+(?!\w))",
    re.DOTALL,
)
_ADJACENT = re.compile(r"<(?:text|path)>(?:<(?:text|path|number)>)+")
_BEGINS_COMMAND = re.compile(r"(?:^|[;|&(]|\bsudo)\s*\Z")


class RepeatedSequence(Struct, frozen=True):
    """Commands that were called one after another, again and again; what differed stands as ``<path>`` and the like."""

    commands: tuple[str, ...]
    count: int
    sessions: int


def normalise_command(command: str) -> str:
    """A command with placeholders for quoted text, paths and numbers; the programs themselves stay."""
    return _ADJACENT.sub("<path>", " ".join(_VARIABLE.sub(_placeholder, command).split()))


def _placeholder(found: re.Match[str]) -> str:
    kind = found.lastgroup
    is_program = kind == "path" and _BEGINS_COMMAND.search(found.string, 0, found.start())
    return found[0] if is_program or kind == "mark" else f"<{kind}>"


@dataclass
class SessionReader:
    """Reads the commands of sessions, up to so many bytes in all; ``read`` is how many sessions it came to."""

    most_bytes: int
    read: int = 0
    _seen: set[tuple[str, str]] = field(default_factory=set)
    """Calls by time and id: the copy of a session has those of the session itself."""

    def runs(self, files: Iterable[Path]) -> Iterator[tuple[str, list[str]]]:
        """Each session's name with commands that followed each other."""
        left = self.most_bytes
        for path in files:
            if left <= 0:
                return
            with suppress(OSError):
                data = read_regular(path, left)
                left -= len(data)
                self.read += 1
                for run in self._runs(data):
                    yield path.stem, run

    def _runs(self, data: bytes) -> Iterator[list[str]]:
        state = SessionState()
        for piece in data.split(b"\n")[:-1]:
            head = piece[:HEAD]
            if _STARTED in head or _ENDED in head:
                with suppress(BadLine):
                    state.take(Line.read(piece))
        fresh = [call for call in state.calls if self._is_fresh(call)]
        for worker in state.workers.values():
            yield from _runs_of(call for call in fresh if call.worker is worker)

    def _is_fresh(self, state: CallState) -> bool:
        key = state.started.time if state.started else "", state.call.id
        is_fresh = key not in self._seen
        self._seen.add(key)
        return is_fresh


def _runs_of(calls: Iterable[CallState]) -> Iterator[list[str]]:
    """The commands that followed each other directly; a call that was not made ends a run."""
    run: list[str] = []
    for each in calls:
        command = _command(each.call)
        if (
            command is not None
            and len(command) <= COMMAND_LIMIT
            and each.result
            and each.result.status in RAN
        ):
            run.append(normalise_command(command))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _command(call: ToolCall) -> str | None:
    command = call.args.get("command")
    is_shell = call.name in SHELL or call.name.endswith(tuple(f"_{name}" for name in SHELL))
    return command if is_shell and isinstance(command, str) else None


def find_repeated(runs: Iterable[tuple[str, Sequence[str]]]) -> list[RepeatedSequence]:
    """Find what occurred often enough, the longest first; a part of a longer one that is as frequent is left out."""
    counts: dict[tuple[str, ...], int] = {}
    sessions: dict[tuple[str, ...], set[str]] = {}
    for session, run in runs:
        for part in _parts_without_overlap(run):
            counts[part] = counts.get(part, 0) + 1
            sessions.setdefault(part, set()).add(session)
    often = [
        part for part, count in counts.items() if count >= TIMES and len(sessions[part]) >= SESSIONS
    ]
    found: list[RepeatedSequence] = []
    covered: set[tuple[tuple[str, ...], int]] = set()
    for part in sorted(often, key=lambda part: (-len(part), -counts[part], part)):
        if (part, counts[part]) not in covered:
            found.append(RepeatedSequence(part, counts[part], len(sessions[part])))
            covered |= {(inner, counts[part]) for _, inner in _parts(part)}
    return found


def _parts(run: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    for start in range(len(run)):
        for end in range(start + 1, min(start + LONGEST, len(run)) + 1):
            yield start, tuple(run[start:end])


def _parts_without_overlap(run: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every part of a run, as often as it fits in without sharing a call with itself."""
    ends: dict[tuple[str, ...], int] = {}
    for start, part in _parts(run):
        if ends.get(part, 0) <= start:
            ends[part] = start + len(part)
            yield part
