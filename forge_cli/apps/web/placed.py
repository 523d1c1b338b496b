"""Entries of a session with their places on the page, and what the tabs have not been told of them yet."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from forge_cli.core.notify import RetryNotice
from forge_cli.core.wire import JsonObject
from forge_cli.ui.transcript.entries import Noted, Said, TranscriptEntry

_NUMBER = re.compile(r"\d[\d.]*")


@dataclass
class PlacedEntry:
    """An entry with its place on the page."""

    key: str
    entry: TranscriptEntry
    kind: str
    parent: str | None
    seq: int
    """The last line that changed it."""
    grown: bool = False
    """Has some of its text been shown already, while it was written?"""
    of_command: bool = False
    """Did a command say it, and no message lead to it?"""
    before: str | None = None
    """The key of the entry that it comes before, where it is not the last one."""
    html: str | None = None
    """None until somebody looks."""

    @property
    def level(self) -> str:
        """How loud a note is."""
        return self.entry.level if isinstance(self.entry, Noted) else ""

    @property
    def passes(self) -> bool:
        """Is it a note that counts only until something follows?"""
        return isinstance(self.entry, Noted) and RetryNotice.read(self.entry.text) is not None

    @property
    def source(self) -> str | None:
        """The Markdown of an answer, to be copied."""
        return self.entry.text if self.kind == "answer" and isinstance(self.entry, Said) else None

    @property
    def is_shown(self) -> bool:
        """An answer without words has nothing to show, and the title stands above the conversation."""
        match self.entry:
            case Said(text=text, files=files):
                return self.grown or bool(text.strip() or files)
            case _:
                return self.kind != "title"


@dataclass
class PendingChanges:
    """Changes that the tabs have not been told yet."""

    entries: dict[str, None] = field(default_factory=dict)
    states: dict[str, None] = field(default_factory=dict)
    grown: bool = False
    """Has the answer that is being written more text?"""
    void: dict[str, None] = field(default_factory=dict)
    """Answers of which the text so far does not count."""
    outputs: dict[str, str] = field(default_factory=dict)
    others: list[JsonObject] = field(default_factory=list)


def is_again(before: TranscriptEntry, now: Noted) -> bool:
    """Is this the warning before it once more, with other numbers: another try, say? Then it stands in its place."""
    if not isinstance(before, Noted) or not before.level or before.level != now.level:
        return False
    return _NUMBER.sub("", before.text) == _NUMBER.sub("", now.text)
