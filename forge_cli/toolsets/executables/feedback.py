"""Feedback of people on tools, kept in a folder that no tool of a worker can write to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.phrases import FEEDBACK, FEEDBACK_BEFORE
from forge_cli.core.text import readable
from forge_cli.files.home import make_private
from forge_cli.files.lock import acquire_file_lock
from forge_cli.files.regular import read_regular
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.secrets import own_redactor

MAX_TEXT = 2000
"""Characters of one feedback."""
MAX_KEPT = 50
"""Entries that are kept for one tool; older ones are deleted."""
MAX_READ = 10
"""Entries for one tool that a model reads; the newest ones count."""
_SUFFIX = ".jsonl"
_LIMIT = 1024 * 1024
"""Bytes of one file."""


class Feedback(Struct, frozen=True):
    """A remark about a tool, and the content that the tool had then."""

    time: str
    text: str
    digest: str
    """The hash of the content that the tool had."""

    @property
    def day(self) -> str:
        return f"{datetime.fromisoformat(self.time).astimezone():%Y-%m-%d}"


class FeedbackStore:
    """The feedback on all tools: one file for each tool in ``HOME/feedback``."""

    def __init__(self, home: Path) -> None:
        self._root = home / "feedback"

    def add(self, tool: str, digest: str, text: str) -> Feedback:
        """Store feedback with secrets redacted; raise UsageError if it is empty or too long."""
        if not text.strip():
            raise UsageError(
                "the feedback is empty", hint=f'put it in quotes: forge tools feedback {tool} "..."'
            )
        if len(text) > MAX_TEXT:
            raise UsageError(
                f"the feedback has {len(text):,} characters; shorten it to {MAX_TEXT:,}"
            )
        # A terminal can deliver lone surrogates, which UTF-8 cannot express.
        redacted = own_redactor().redact_text(text.encode(errors="replace").decode().strip())
        given = Feedback(datetime.now(UTC).isoformat(timespec="seconds"), redacted, digest)
        file = self._file(tool)
        try:
            make_private(self._root)
            descriptor = acquire_file_lock(file, wait=10)
            try:
                kept = [*self.of(tool), given][-MAX_KEPT:]
                replace_file(
                    file,
                    "".join(f"{json.dumps(msgspec.to_builtins(each))}\n" for each in kept),
                    mode=0o600,
                )
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ForgeError(f"{file} cannot be written: {error.strerror or error}") from None
        return given

    def of(self, tool: str) -> list[Feedback]:
        """Return the feedback on a tool, oldest first; skip unreadable lines."""
        found: list[Feedback] = []
        with suppress(OSError):
            for line in read_regular(self._file(tool), _LIMIT).splitlines():
                with suppress(msgspec.MsgspecError, ValueError):
                    each = msgspec.json.decode(line, type=Feedback)
                    datetime.fromisoformat(each.time)  # skips a line with an invalid time
                    found.append(each)
        return found

    def tools(self) -> set[str]:
        """Return the names of the tools that have feedback."""
        with suppress(OSError):
            return {
                name.removesuffix(_SUFFIX)
                for name in os.listdir(self._root)
                if name.endswith(_SUFFIX)
            }
        return set()

    def forget(self, tool: str) -> None:
        with suppress(OSError):
            self._file(tool).unlink()
            self._root.rmdir()  # fails if other tools have feedback

    def _file(self, tool: str) -> Path:
        return self._root / f"{tool}{_SUFFIX}"


class ReadFeedback:
    """Feedback for the model of one session.

    The model reads the feedback on the current content of a tool. It keeps reading what it has read
    in this session, even after the tool was changed.
    """

    def __init__(self, store: FeedbackStore) -> None:
        self._store = store
        self._read: dict[str, set[str]] = {}
        """The contents whose feedback was read, by tool."""

    def texts(self, tools: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return a paragraph for each tool that has feedback; ``tools`` are names and digests."""
        known, found = self._store.tools(), dict[str, str]()
        for name, digest in tools:
            if name not in known:
                continue
            contents = self._read.setdefault(name, set())
            contents.add(digest)
            given = [each for each in self._store.of(name) if each.digest in contents]
            if given:
                found[name] = _paragraph(given[-MAX_READ:], digest)
        return found


def _paragraph(given: Sequence[Feedback], digest: str) -> str:
    lines = [FEEDBACK]
    for each in given:
        before = "" if each.digest == digest else FEEDBACK_BEFORE
        lines.append(f"- {each.day}{before}: {readable(' '.join(each.text.split()))}")
    return "\n".join(lines)
