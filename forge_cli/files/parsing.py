"""Strict YAML to data with marks: surprising features are refused with place and remedy."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml
from msgspec import Struct, field

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import cut
from forge_cli.files.places import place_in
from forge_cli.schema.marks import MarkedDict, MarkedList

MAX_DEPTH = 50
MAX_NODES = 25_000

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NULL = frozenset({"", "~", "null"})
_BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}

_ANCHOR = "YAML anchors ('&' and '*') are not supported; quote the text, or write out the value"
_TAG = "YAML tags ('!') are not supported; remove the tag, or quote the text"
_DIRECTIVE = "YAML directives ('%') are not supported; remove the line, or quote the text"
_ESCAPE = "unknown escape; write the character itself, double the backslash, or use single quotes"

# PyYAML's message, our sentence, and True to point at the start of the construct.
_SYNTAX = (
    (r"scanning an (?:alias|anchor)", _ANCHOR, True),
    (r"scanning a tag|undefined tag", _TAG, True),
    (r"directive|incompatible YAML", _DIRECTIVE, True),
    (r"cannot start any token", "text cannot begin with this character; quote it", False),
    (
        r"mapping values are not allowed",
        "unexpected ':'; quote the text or check the indentation",
        False,
    ),
    (r"mapping keys are not allowed", "unexpected '?'; quote the text", False),
    (
        r"sequence entries are not allowed",
        "a list cannot begin here; move '-' to the next line, or quote it",
        False,
    ),
    (
        r"scanning a simple key",
        "missing ':' after this key; add one, or indent or quote the text",
        True,
    ),
    (
        r"scanning a block scalar",
        "text after '|' or '>' must start on the next line, with the same indentation on each",
        False,
    ),
    (
        r"quoted scalar.*(?:end of stream|document)",
        "this quote is never closed; close it",
        True,
    ),
    (r"quoted scalar", _ESCAPE, False),
    (
        r"flow",
        "missing ',' or closing bracket before this place; the bracket opens on line {line}",
        False,
    ),
    (
        r"document start",
        "unexpected text after the end of the document; remove it, or check its indentation",
        False,
    ),
    (r"", "invalid YAML; check the indentation and the quotes", False),
)


def parse_mapping(text: str, file: str) -> MarkedDict:
    """Parse one mapping from text that contains only YAML characters."""
    return _Reader(text, file).read()


class _Sequence(Struct):
    """A list that is not complete yet."""

    mark: Mark
    items: list[Any] = field(default_factory=list)
    items_at: list[Mark] = field(default_factory=list)

    def add(self, value: Any, mark: Mark) -> None:
        self.items.append(value)
        self.items_at.append(mark)

    def close(self) -> MarkedList:
        return MarkedList(self.items, mark=self.mark, items_at=self.items_at)


class _Mapping(Struct):
    """A mapping that is not complete yet; ``key`` waits for its value."""

    mark: Mark
    key: str | None = None
    entries: dict[str, Any] = field(default_factory=dict)
    keys_at: dict[str, Mark] = field(default_factory=dict)
    values_at: dict[str, Mark] = field(default_factory=dict)

    def add(self, value: Any, mark: Mark) -> None:
        if self.key is None:
            self.key = self._new_key(value, mark)
            self.keys_at[self.key] = mark
        else:
            self.entries[self.key] = value
            self.values_at[self.key] = mark
            self.key = None

    def _new_key(self, value: Any, mark: Mark) -> str:
        if not isinstance(value, str):
            raise WorkerError(mark, f"a key must be text, not {_kind(value)}; quote it")
        if value in self.keys_at:
            shown = repr(cut(value, 60, "end"))
            first = self.keys_at[value].line
            raise WorkerError(mark, f"duplicate key {shown} (first on line {first}); keep one")
        return value

    def close(self) -> MarkedDict:
        return MarkedDict(
            self.entries.items(), mark=self.mark, keys=self.keys_at, values=self.values_at
        )


class _Reader:
    """Builds data from YAML events on its own stack, up to the first invalid event."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = Mark(file)
        self.nodes = 0
        self.open: list[_Mapping | _Sequence] = []
        self.started = False
        self.top: MarkedDict | None = None

    def read(self) -> MarkedDict:
        try:
            for event in yaml.parse(self.text, Loader=LOADER):
                self._take(event)
        except yaml.MarkedYAMLError as error:
            raise self._syntax(error) from None
        except (yaml.YAMLError, ValueError, OverflowError):
            # PyYAML lets a ValueError out for some escapes, in tags above all
            raise WorkerError(self.at, f"invalid YAML soon after this place: {_ESCAPE}") from None
        if self.top is None:
            raise WorkerError(Mark(self.file), "the file is empty; write at least one 'key: value'")
        return self.top

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                mark = self._node(event)
                self._add(_scalar(event, mark), mark)
            case yaml.MappingStartEvent():
                self._begin(_Mapping(self._node(event)))
            case yaml.SequenceStartEvent():
                self._begin(_Sequence(self._node(event)))
            case yaml.CollectionEndEvent():
                ended = self.open.pop()
                self._add(ended.close(), ended.mark)
            case yaml.AliasEvent():
                raise WorkerError(self._mark(event), _ANCHOR)
            case yaml.DocumentStartEvent():
                self._start(event)

    def _start(self, event: yaml.DocumentStartEvent) -> None:
        if self._text_at(event, "%"):
            raise WorkerError(self._mark(event), _DIRECTIVE)
        if self.started:
            problem = (
                "only one document per file is supported (front matter is for .md and .worker)"
            )
            raise WorkerError(self._mark(event), problem)
        self.started = True

    def _node(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> Mark:
        self.at = mark = self._mark(event)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise WorkerError(
                mark, f"more than {MAX_NODES:,} keys and values; move data to separate files"
            )
        if event.anchor is not None:
            raise WorkerError(mark, _ANCHOR)
        # libyaml does not report a lone '!', which would make a number of a quoted "1".
        if event.tag is not None or self._text_at(event, "!"):
            raise WorkerError(mark, _TAG)
        return mark

    def _begin(self, node: _Mapping | _Sequence) -> None:
        if len(self.open) == MAX_DEPTH:
            raise WorkerError(node.mark, f"nested deeper than {MAX_DEPTH} levels; flatten it")
        if not self.open and isinstance(node, _Sequence):
            raise _not_a_mapping(node.items, node.mark)
        self.open.append(node)

    def _add(self, value: Any, mark: Mark) -> None:
        if self.open:
            self.open[-1].add(value, mark)
        elif isinstance(value, MarkedDict):
            self.top = value
        elif value is not None:
            raise _not_a_mapping(value, mark)

    def _text_at(self, event: yaml.Event, prefix: str) -> bool:
        mark: Any = event.start_mark
        return self.text.startswith(prefix, mark.index)

    def _mark(self, event: yaml.Event) -> Mark:
        mark: Any = event.start_mark
        return Mark(self.file, mark.line + 1, mark.column + 1)

    def _syntax(self, error: yaml.MarkedYAMLError) -> WorkerError:
        broke: Any = error.problem_mark or error.context_mark
        began: Any = error.context_mark or broke
        at = place_in(self.text[: min(broke.index, len(self.text.rstrip()))], Mark(self.file))
        line = self.text.split("\n")[at.line - 1]
        if tab := re.match(r" *\t", line):
            return WorkerError(
                Mark(self.file, at.line, tab.end()), "a tab indents this line; use spaces"
            )
        message = f"{error.context} {error.problem}"
        sentence, at_beginning = next(
            (ours, first) for theirs, ours, first in _SYNTAX if re.search(theirs, message)
        )
        if at_beginning:
            at = place_in(self.text[: began.index], Mark(self.file))
        line_opened = self.open[-1].mark.line if self.open else at.line
        return WorkerError(at, sentence.format(line=line_opened))


def _scalar(event: yaml.ScalarEvent, mark: Mark) -> Any:
    """Convert a scalar; unlike in YAML 1.1, ``0777``, ``12:30`` and ``off`` are text."""
    value: str = event.value
    if _SURROGATE.search(value):
        raise WorkerError(mark, _ESCAPE)
    # A quoted scalar is text, whatever it looks like.
    if not event.implicit[0]:
        return value
    if value in _NULL:
        return None
    if value in _BOOLEANS:
        return _BOOLEANS[value]
    if _INTEGER.fullmatch(value):
        return _integer(value, mark)
    if _FLOAT.fullmatch(value):
        return _float(value, mark)
    return value


def _integer(value: str, mark: Mark) -> int:
    # The length first: int() raises an error of its own for thousands of digits.
    if len(value) > 20 or not -(2**63) <= int(value) < 2**64:
        raise WorkerError(mark, "this number exceeds 64 bits; quote it if it is text")
    return int(value)


def _float(value: str, mark: Mark) -> float:
    number = float(value)
    if math.isinf(number):
        raise WorkerError(mark, "this number is too large; quote it if it is text")
    return number


def _not_a_mapping(value: Any, mark: Mark) -> WorkerError:
    return WorkerError(
        mark, f"the file must contain keys and values ('key: value'), not just {_kind(value)}"
    )


def _kind(value: Any) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "text"
