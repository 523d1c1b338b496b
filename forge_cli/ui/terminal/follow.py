"""A session that another process works on, drawn on the terminal from the lines of its log."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from rich.text import Text as Styled

from forge_cli.core.events import Event, MessageEvent, Origin, SessionStart, Streaming
from forge_cli.core.phrases import is_own
from forge_cli.core.text import readable
from forge_cli.record.line import BadLine, Line
from forge_cli.ui.terminal.terminal import TerminalUI

TAIL_BYTES = 64 * 1024
"""Bytes at the end of a log that are read for the last screen."""


class FollowUI(TerminalUI):
    """A terminal UI that also shows messages, because nobody has typed them here."""

    _has_streamed = False

    def _draw(self, event: Event) -> None:
        match event:
            case MessageEvent(origin=None, message=message):
                if message.role == "user":
                    self._show_user(message.text)
                elif message.text and not self._has_streamed:
                    self._finish_text()
                    self._write(readable(message.text).rstrip("\n") + "\n")
                self._has_streamed = False
                super()._draw(event)
            case Streaming(origin=None, delta=delta) if self._stream_text:
                self._has_streamed = self._has_streamed or bool(delta)
                super()._draw(event)
            case SessionStart():
                pass
            case _:
                super()._draw(event)

    def _show_user(self, text: str) -> None:
        if not text or is_own(text):
            return
        self._finish_text()
        head, *more = readable(text).split("\n")
        said = Styled.assemble(("> ", "bold cyan"), (head, "bold"))
        for line in more:
            said.append(f"\n  {line}")
        self._console.print(said)


class LogTail:
    """The complete lines of a log that is still written, read as they come."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self._path = path
        self._place = start

    @classmethod
    def last_screen(cls, path: Path) -> LogTail:
        """Return the tail that begins near the end of a log."""
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return cls(path)
        start = max(0, size - TAIL_BYTES)
        tail = cls(path, start)
        if start:
            with open(path, "rb") as stream:
                stream.seek(start)
                tail._place += len(stream.readline())
        return tail

    def read(self) -> list[Line]:
        """Return the lines that were added since the last call."""
        try:
            with open(self._path, "rb") as stream:
                stream.seek(self._place)
                data = stream.read()
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self._place += end
        found: list[Line] = []
        for piece in data[:end].splitlines():
            try:
                found.append(Line.read(piece))
            except BadLine:
                continue
        return found


def event_of(line: Line) -> Event | None:
    """Return the event of a line, with its child worker; None if the line is damaged."""
    try:
        event: Event = line.event
    except BadLine:
        return None
    if not line.delegation:
        return event
    return replace(event, origin=Origin(line.worker, line.depth, line.delegation, (line.worker,)))


def first_lines(path: Path) -> list[Line]:
    """Return the first line of a log, which describes the session; none if there is none yet."""
    try:
        with open(path, "rb") as stream:
            return [Line.read(stream.readline())]
    except (OSError, BadLine):
        return []
