"""The record on standard output: one JSON object a line, flushed as it happens."""

from __future__ import annotations

import json
from typing import TextIO

from forge_cli.core.signature import JsonObject


class JsonLines:
    """A sink of the record that writes lines to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, line: JsonObject) -> None:
        self._stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._stream.flush()
