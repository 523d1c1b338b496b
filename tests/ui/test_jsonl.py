"""The record on standard output: one line for each event, flushed as it happens."""

import io
import json

from forge_cli.record.line import Line
from forge_cli.ui.jsonl import JsonLines


class Flushed(io.StringIO):
    """Remembers what was there whenever it was flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def flush(self) -> None:
        self.seen.append(self.getvalue())


def test_each_line_is_one_object_and_there_at_once() -> None:
    stream = Flushed()
    lines = JsonLines(stream)
    lines(Line({"type": "a", "text": "two\nlines, é"}))
    lines(Line({"type": "b"}))
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {"type": "a", "text": "two\nlines, é"},
        {"type": "b"},
    ]
    assert [text.count("\n") for text in stream.seen] == [1, 2]
