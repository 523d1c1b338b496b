"""Redaction of secrets: known values, shapes of keys, and values after the name of a secret.

A known value is found as it is, in base64 and hex, and with escapes or over several lines, as
``plain_text`` decodes them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from heapq import heapify, heappop, heapreplace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from anyio import CancelScope, to_thread

from forge_cli.core.errors import ForgeError
from forge_cli.core.phrases import MARK
from forge_cli.files.home import forge_home
from forge_cli.sandbox.named import CONTEXT, NamedSecrets, kind_of
from forge_cli.sandbox.shapes import (
    OPEN,
    SHAPES,
    PlainReading,
    only_escapes,
    plain_text,
    respellings,
)

# A shorter value would also be found in ordinary words.
SHORTEST = 8

KEY_NAME = re.compile(
    r"(^|_)(API_?KEYS?|KEYS?|TOKENS?|SECRETS?|PASS|PASSPHRASE|CREDENTIALS?|CREDS|PAT|DSN)(_|$)"
    r"|PASSWORD|PASSWD|SSHPASS|WEBHOOK|_PWD$|_AUTH$"
    r"|(^|_)(DATABASE|DB|REDIS|MONGO(DB)?|POSTGRES(QL)?|PG|MYSQL|AMQP|RABBITMQ|CELERY_BROKER|BROKER)_UR[IL](_|$)",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"://[^\s/?#:@]*:(?P<password>[^\s/?#]+)@")
_VISIBLE = "".join(map(chr, range(ord("!"), ord("~") + 1)))
"""The characters of words that may be, or become, secrets."""
_STARTS = tuple(shape.start for shape in SHAPES if shape.start)
_LONGEST_START = max(map(len, _STARTS))
_BEGUN_STARTS = frozenset(chain.from_iterable(map(accumulate, _STARTS)))
"""Every prefix of a start: ``s``, ``sk``, ``sk-``."""
_KEPT = 2 * CONTEXT
"""The number of characters examined before a secret, for itself and for its name."""
_SIGNS = "%\\+\n\r"
"""Characters, one of which is in every text that ``plain_text`` changes."""
_CUT_OFF = re.compile(r"[%\\][%\\u0-9A-Fa-f]*\Z")
_LONGEST_ESCAPE = 16
_SPAN = re.compile("(.+)", re.DOTALL)
_NONE_NAMED = NamedSecrets("", whole=True)
_LONG = 4096
_LARGE = 65_536
_ROOM = 4_000_000
"""The most characters in the cache of redacted texts."""
_ENTRY = 100
"""Characters that each cached text counts for, besides its own."""


class Redactor:
    """Replaces each secret by a mark that says which one it was."""

    def __init__(
        self,
        environ: Mapping[str, str],
        secrets: Mapping[str, str] | None = None,
        *,
        by_name: bool = True,
    ) -> None:
        """Take secrets from ``secrets``, and from variables with telling names or URLs.

        With ``by_name``, values after the name of a secret in a text are redacted, too.
        """
        self._by_name = by_name
        self._values: dict[str, str] = {}
        rows = [(name, value, True) for name, value in sorted((secrets or {}).items())]
        for name, value in sorted(environ.items()):
            rows.append((name, value, KEY_NAME.search(name) is not None))
        # If two rows have the same value, the first name is in the mark.
        for name, value, is_key in rows:
            found: set[str] = set()
            if url := _URL_PASSWORD.search(value):
                found = {url["password"], unquote(url["password"])}
            if is_key:
                found.add(value)
            for secret in found:
                if len(secret) >= SHORTEST:
                    for spelling in (secret, *respellings(secret)):
                        self._values.setdefault(spelling, MARK.format(name=name))
        self._known: dict[str, str] = {}
        self._room = _ROOM
        self._longest_first = sorted(self._values, key=len, reverse=True)
        self._plain = list(self._plain_forms())
        self._beginnings = _by_first_char(self._longest_first)
        self._plain_beginnings = _by_first_char(plain for _, plain in self._plain)

    def _plain_forms(self) -> Iterator[tuple[str, str]]:
        """Yield each value, the longest first, with its forms after decoding escapes."""
        for value in self._longest_first:
            for plain in {plain_text(value), plain_text(only_escapes(value))}:
                if len(plain) >= SHORTEST:
                    yield value, plain

    def redact(self, value: Any) -> Any:
        """Return JSON data with every secret in its keys and values replaced."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return self._redact_items(value)
        if isinstance(value, list):
            return [self.redact(item) for item in value]
        return value

    def without_names(self) -> Redactor:
        """Return a redactor with the same known secrets that does not judge by names."""
        other = copy(self)
        other._by_name = False
        other._known = {}
        other._room = _ROOM
        return other

    def knows(self, text: str) -> bool:
        """Return True if a text contains a known value in any spelling."""
        return any(value in text for value in self._values) or bool(self._escaped(text, 0))

    def _redact_items(self, value: dict[str, Any]) -> dict[str, Any]:
        known = self._known.get
        redacted: dict[str, Any] = {}
        before = None
        for key, item in value.items():
            if isinstance(item, str):
                # In `"name": "TOKEN", "value": "..."`, the value belongs to that name.
                name = key
                if before and key.lower() == "value":
                    name = before
                clean = None
                if self._by_name and kind_of(name):
                    clean = self._redact_named(name, item)
                redacted[known(key) or self.redact_text(key)] = (
                    clean or known(item) or self.redact_text(item)
                )
                before = item if key.lower() in ("name", "key") else None
            else:
                redacted[known(key) or self.redact_text(key)] = self.redact(item)
                before = None
        return redacted

    def _redact_named(self, name: str, value: str) -> str | None:
        """Redact a value as if it were in JSON under this name; return None if it is no secret."""
        begin = f'{{"{name}": '
        text = begin + json.dumps(value, ensure_ascii=False)
        found = NamedSecrets(text, whole=True).found
        if not found or found[0].start < len(begin):
            return None
        redacted = self.redact_text(text)
        with suppress(ValueError):
            if redacted.startswith(begin):
                return str(json.loads(redacted[len(begin) :]))
            return None
        return MARK.format(name=found[0].kind)

    def redact_text(self, text: str) -> str:
        """Return a text with its secrets replaced.

        Results are cached: record, history and the model's log all redact the same texts, and most
        of a record line is repeated in the next.
        """
        found = self._known.get(text)
        if found is None:
            found = self.settle(text, whole=True)[0]
            self._room -= len(text) + _ENTRY
            # Dropping everything is simple, and the next line fills the cache again.
            if self._room < 0:
                self._known.clear()
                self._room = _ROOM
            self._known[text] = found
        return found

    async def redact_ahead(self, value: Any) -> None:
        """Redact large texts in a thread, before the event loop needs the result."""
        large = [
            text for text in strings_in(value) if len(text) >= _LARGE and text not in self._known
        ]
        if large:
            with CancelScope(shield=True):
                await to_thread.run_sync(self.redact, large)

    def settle(self, text: str, start: int = 0, *, whole: bool = False) -> tuple[str, int]:
        """Redact a text from ``start`` on as far as its continuation cannot change the result.

        Return the redacted part and the position of the rest.
        """
        if start == len(text):
            return "", start
        escaped = len(text) if whole else self._begun_with_escapes(text, start)
        named = NamedSecrets(text, start, whole=whole) if self._by_name else _NONE_NAMED
        begun = escaped
        if not whole:
            begun = min(escaped, named.first_open(start), self._begun(text, start))
        told: list[str] = []
        for match, mark in self._matches(text, start, named):
            if match.start() >= begun or escaped < match.end():
                begun = min(begun, match.start())
                break
            lead, close = text[match.start() : match.start(1)], text[match.end(1) : match.end()]
            told += text[start : match.start()], self.redact_text(lead) if lead else "", mark, close
            start = match.end()
            if begun < start:
                begun = min(escaped, named.first_open(start), self._begun(text, start))
        return "".join([*told, text[start:begun]]), begun

    def _begun(self, text: str, start: int) -> int:
        """Return the start of what may become a secret, else the end of the text."""
        word = max(start, len(text.rstrip(_VISIBLE)))
        first = len(text)
        for each in _STARTS:
            place = text.find(each, word)
            if place >= 0:
                first = min(first, place)
        for at in range(max(word, len(text) - _LONGEST_START), first):
            if text[at:] in _BEGUN_STARTS:
                first = at
                break
        if found := OPEN.search(text, start):
            first = min(first, found.start())
        return _first_end(self._beginnings, text, start, first)

    def _begun_with_escapes(self, text: str, start: int) -> int:
        """Return the start of an incomplete known value with escapes, else the end of the text."""
        if not _has_signs(text, start):
            return len(text)
        cut = _CUT_OFF.search(text, max(start, len(text) - _LONGEST_ESCAPE))
        end = cut.start() if cut else len(text)
        end = start + len(text[start:end].rstrip("\\"))
        read = PlainReading(text[start:end])
        first = _first_end(self._plain_beginnings, read.plain, 0, len(read.plain))
        if first < len(read.plain):
            return start + read.span(first)[0]
        return end

    def _escaped(self, text: str, start: int) -> list[tuple[re.Match[str], str]]:
        """Return the known values that a text contains only with escapes."""
        if not _has_signs(text, start):
            return []
        plain = plain_text(text)
        hidden = [(value, each) for value, each in self._plain if each in plain]
        if not hidden:
            return []
        read = PlainReading(text)
        found = []
        for value, each in hidden:
            place = read.plain.find(each)
            while place >= 0:
                begin = read.span(place)[0]
                end = read.span(place + len(each) - 1)[1]
                if text[begin:end] != value and (match := _SPAN.match(text, begin, end)):
                    found.append((match, self._values[value]))
                place = read.plain.find(each, place + 1)
        return found

    def _matches(
        self, text: str, start: int, named: NamedSecrets
    ) -> Iterator[tuple[re.Match[str], str]]:
        """Yield each secret from left to right with its mark; the first kind wins at a position.

        Only kinds that the text can contain are searched, one at a time: finding a literal start is
        much faster than trying all kinds at every position.
        """
        values = [value for value in self._longest_first if value in text]
        known = [(re.compile(f"({re.escape(value)})"), self._values[value]) for value in values]
        escaped = self._escaped(text, start)
        found_shapes = (shape for shape in SHAPES if shape.anchor in text)
        shapes = [
            (re.compile(shape.pattern), MARK.format(name=shape.name)) for shape in found_shapes
        ]
        kinds = [*known, *((None, mark) for _, mark in escaped), *shapes]
        kinds += [(None, MARK.format(name=each.kind)) for each in named.found]
        if not kinds:
            return
        found: list[tuple[int, int, re.Match[str]]] = []
        for kind, (pattern, _) in enumerate(kinds):
            if pattern and (match := pattern.search(text, start)):
                found.append((match.start(), kind, match))
        for kind, (match, _) in enumerate(escaped, len(known)):
            found.append((match.start(), kind, match))
        first_named = len(kinds) - len(named.found)
        for kind, each in enumerate(named.found, first_named):
            if match := _SPAN.match(text, each.start, each.end):
                found.append((each.start, kind, match))
        heapify(found)
        while found:
            begin, kind, match = found[0]
            pattern, mark = kinds[kind]
            if begin >= start:
                yield match, mark
                start = match.end()
            elif kind >= first_named:
                heappop(found)  # part of another secret
            else:
                # A part of the match is already redacted: look for the rest, or for the next.
                if pattern:
                    later = pattern.search(text, start)
                else:
                    later = _SPAN.match(text, start, match.end())
                if later:
                    heapreplace(found, (later.start(), kind, later))
                else:
                    heappop(found)


def own_redactor(secrets: Mapping[str, str] | None = None, home: Path | None = None) -> Redactor:
    """Return a redactor for the environment, the user's stored keys and these ``secrets``."""
    stored: dict[str, str] = {}
    # The code that needs the home reports it if it is impossible.
    with suppress(ForgeError):
        place = home or forge_home()
        if os.path.lexists(place / "keys.json"):
            from forge_cli.files.keys import stored_keys

            stored = stored_keys(place)
    return Redactor(os.environ, {**stored, **(secrets or {})})


def strings_in(value: Any) -> Iterator[str]:
    """Yield the texts in JSON data, except keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings_in(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)


class RedactedStream:
    """Redaction of a text that arrives in pieces.

    What may become a secret waits for the next piece.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before = ""
        self._held: list[str] = []
        self._length = 0
        self._enough = 0

    def add(self, piece: str) -> str:
        """Add a piece; return the text that can be shown now."""
        self._held.append(piece)
        self._length += len(piece)
        if self._length < self._enough:
            return ""
        text = self._before + "".join(self._held)
        told, end = self._redactor.settle(text, len(self._before))
        self._before = text[max(0, end - _KEPT) : end]
        self._held = [text[end:]]
        self._length = len(text) - end
        # Look less often at a long held text: otherwise, one long word would cost quadratic time.
        self._enough = self._length * 5 // 4 if self._length > _LONG else 0
        return told

    def close(self) -> str:
        """Return the rest of the text."""
        text = self._before + "".join(self._held)
        start = len(self._before)
        self._before = ""
        self._held = []
        self._length = 0
        self._enough = 0
        return self._redactor.settle(text, start, whole=True)[0]


def _has_signs(text: str, start: int) -> bool:
    return any(text.find(sign, start) >= 0 for sign in _SIGNS)


def _by_first_char(values: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for value in values:
        found.setdefault(value[0], []).append(value)
    return found


def _first_end(values: Mapping[str, Sequence[str]], text: str, start: int, first: int) -> int:
    """Return the first position before ``first`` where a value may begin that the text cuts off."""
    for place in range(start, first):
        for value in values.get(text[place], ()):
            if len(value) > len(text) - place and value.startswith(text[place:]):
                return place
    return first
