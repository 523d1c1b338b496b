"""The index of a session's words: what the person said, and what each result brought."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from forge_cli.core.approval import ValueOrigin
from forge_cli.core.text import cut, visible

if TYPE_CHECKING:
    from forge_cli.engine.provenance.files import FilesAtStart
    from forge_cli.engine.provenance.table import WordTable

# Imports inside functions are for sessions that read untrusted text: others need none of them.

Trust = Literal["untrusted", "trusted", "neutral"]
"""Untrusted text is a stranger's, trusted words count; neutral text is neither."""

MAX_WAITING = 1_000_000
"""Characters of results that are kept before anything untrusted was read."""
MAX_TITLE = 120
SHARE = 10
"""The index takes at most one tenth of the record."""
_PERSON = 0
_MODEL = 1
"""The numbers of the first two sources, which are no results."""


class WordSource(Struct, frozen=True):
    """A text that the session read: a result of a call, or the model's own words."""

    tool: str
    number: int
    """The number of the call among those of its tool, from 1 on."""
    title: str = ""
    """What was read, such as a URL or a path."""
    call: str | None = None
    line: int | None = None
    time: str | None = None

    def sentence(self) -> str:
        """Return the source for people."""
        about = f" ({visible(cut(self.title, MAX_TITLE, 'end'))})" if self.title else ""
        return f"the result of {self.tool} #{self.number}{about}"


class Read(Struct, frozen=True):
    """A result with the trust in it, as the index takes it."""

    tool: str
    text: str
    trust: Trust
    from_network: bool = False
    title: str = ""
    call: str | None = None
    line: int | None = None
    time: str | None = None
    files: tuple[Path, ...] = ()
    """Trusted only if these are as they were when the session began."""
    tracked: bool = False
    """True if git has to track these files as well."""


class SessionWords:
    """Words of one session, shared by all its workers.

    Nothing is split into words before the session has read untrusted text: until then texts are
    only kept, up to a bound.
    """

    def __init__(self, began: float) -> None:
        """Begin the words of a session that began at a time, in seconds since the epoch."""
        self._began = began
        self._files: FilesAtStart | None = None
        self.written: set[str] = set()
        """Toolsets and servers to which the session may have written words of strangers."""
        self.line_of: Callable[[], int | None] = lambda: None
        """Returns the number of the last recorded line."""
        self.reached: set[str] = set()
        """Calls whose commands reached the network, as far as connections are recorded."""
        self._table: WordTable | None = None
        self._mine: list[tuple[str, bool]] = []
        """What the person said, and whether it was typed."""
        self._said: set[str] = set()
        """Stems of what the person said, which name deeds."""
        self._waiting: deque[tuple[Read, WordSource]] = deque()
        self._held = 0
        self._sources: list[WordSource] = []
        self._numbers: Counter[str] = Counter()
        self._seen = 0
        self.first_untrusted: WordSource | None = None
        """The first untrusted text that was read; None before."""
        self.approved: set[str] = set()
        """Fingerprints of calls that the person approved for the session, although they asked."""
        self.questions = 0
        """The number of questions in the current task."""
        self.flood: str | None = None
        """Why the current task has to end, after too many questions."""
        self.foreign_task = False
        """True if a server wrote the next task."""

    @property
    def is_tainted(self) -> bool:
        """True once the session has read untrusted text."""
        return self.first_untrusted is not None

    @property
    def bytes(self) -> int:
        """The memory of the table of words."""
        return self._table.bytes if self._table else 0

    @property
    def record_bytes(self) -> int:
        """The size of all texts that the session has taken, in characters."""
        return self._seen

    def say(self, text: str) -> None:
        """Take words of the person, which nothing takes back."""
        self._seen += len(text)
        if self._table is None:
            self._mine.append((text, False))
        else:
            self._add_mine(text)

    def name_deeds(self, text: str) -> None:
        """Take words that the person typed; only these name what a call may do."""
        self._seen += len(text)
        if self._table is None:
            self._mine.append((text, True))
        else:
            self._add_mine(text, typed=True)

    def trust(self, text: str) -> None:
        """Take trusted words, such as instructions; they name no deed."""
        self.say(text)

    def endorse(self, values: Iterable[str]) -> None:
        """Count values as the person's from now on."""
        for value in values:
            self.say(value)

    def take(self, read: Read) -> None:
        """Take a result; the first untrusted one starts the index."""
        self._numbers[read.tool] += 1
        source = WordSource(
            read.tool,
            self._numbers[read.tool],
            read.title,
            read.call,
            read.line,
            read.time,
        )
        self._seen += len(read.text)
        if read.trust == "untrusted" and self.first_untrusted is None:
            self.first_untrusted = source
        if self._table is not None:
            self._add(read, source)
            return
        self._waiting.append((read, source))
        self._held += len(read.text)
        # The oldest are dropped: their words are unknown then, so that a call asks at most.
        while self._held > MAX_WAITING and len(self._waiting) > 1:
            self._held -= len(self._waiting.popleft()[0].text)

    def write(self, text: str) -> None:
        """Take words that the model wrote, such as args: what comes back of them is its own."""
        if self._table is not None:
            self._seen += len(text)
            self._add_text(text, _MODEL, 0)

    def is_known(self, part: str) -> bool:
        """Return True if the person said a normalised value, or a trusted source has it."""
        from forge_cli.engine.provenance.table import MINE, TRUSTED

        return bool(self._flags(part) & (MINE | TRUSTED))

    def is_from_network(self, part: str) -> bool:
        """Return True if a page or server brought a value before the session wrote it itself."""
        from forge_cli.engine.provenance.table import FROM_NETWORK

        return bool(self._flags(part) & FROM_NETWORK)

    def is_said(self, stem: str) -> bool:
        """Return True if the person typed a word with this stem."""
        self._begin()
        return stem in self._said

    def origin(self, argument: str, part: str) -> ValueOrigin:
        """Return where a value first appeared."""
        from forge_cli.engine.provenance.words import host_of

        self._begin()
        number = None
        if self._table is not None:
            number = self._table.source(part)
            if number is None and (host := host_of(part)):
                number = self._table.source(host)
        if number is None or number <= _MODEL:
            return ValueOrigin(argument, part)
        source = self._sources[number]
        return ValueOrigin(argument, part, source.sentence(), source.call, source.line, source.time)

    def _flags(self, part: str) -> int:
        self._begin()
        return self._table.flags(part) if self._table else 0

    def _begin(self) -> None:
        """Split everything that was kept so far, in the order in which it came."""
        if self._table is not None:
            return
        from forge_cli.engine.provenance.table import WordTable

        self._table = WordTable()
        self._sources = [WordSource("person", 0), WordSource("model", 0)]
        for text, typed in self._mine:
            self._add_mine(text, typed=typed)
        for read, source in self._waiting:
            self._add(read, source)
        self._mine.clear()
        self._waiting.clear()

    def _add_mine(self, text: str, *, typed: bool = False) -> None:
        from forge_cli.engine.provenance.table import MINE
        from forge_cli.engine.provenance.words import named_in

        if typed:
            self._said.update(named_in(text))
        self._add_text(text, _PERSON, MINE)

    def _add(self, read: Read, source: WordSource) -> None:
        from forge_cli.engine.provenance.table import FROM_NETWORK, TRUSTED

        flags = 0
        if read.trust == "trusted" and self._holds(read):
            flags = TRUSTED
        elif read.from_network:
            flags = FROM_NETWORK
        self._sources.append(source)
        self._add_text(read.text, len(self._sources) - 1, flags)

    def _holds(self, read: Read) -> bool:
        """Return True if the files of a trusted result are as they were at the start."""
        if not read.files:
            return True
        if self._files is None:
            from forge_cli.engine.provenance.files import FilesAtStart

            self._files = FilesAtStart(self._began)
        return self._files.hold(read.files, tracked=read.tracked)

    def _add_text(self, text: str, source: int, flags: int) -> None:
        from forge_cli.engine.provenance.words import values_in

        if self._table is None:
            return
        self._table.most_bytes = max(self._table.most_bytes, self._seen // SHARE)
        for word in values_in(text):
            self._table.add(word, source, flags)
