"""The record on standard output: one JSON object a line, flushed as it happens."""

from __future__ import annotations

from typing import TextIO

from forge_cli.record.line import Line


class JsonLines:
    """A sink of the record that writes lines to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, line: Line) -> None:
        self._stream.write(line.text())
        self._stream.flush()
