"""Secrets: known values of the environment and known shapes of keys, taken out of what is stored or sent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from forge_cli.sandbox.shapes import BLOCK, LONGEST, SHAPES

MARK = "[redacted:{name}]"
SHORTEST = 8
MARKS = re.compile(r"\[redacted:[A-Za-z0-9_-]+\]")

KEY_NAME = re.compile(
    r"(^|_)(API_?KEYS?|KEYS?|TOKENS?|SECRETS?|PASS|PASSPHRASE|CREDENTIALS?|CREDS|PAT|DSN)(_|$)"
    r"|PASSWORD|PASSWD|SSHPASS|WEBHOOK|_PWD$|_AUTH$"
    r"|(^|_)(DATABASE|DB|REDIS|MONGO(DB)?|POSTGRES(QL)?|PG|MYSQL|AMQP|RABBITMQ|CELERY_BROKER|BROKER)_UR[IL](_|$)",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"://[^\s/?#:@]*:(?P<password>[^\s/?#]+)@")
_ANCHORS = tuple(shape.anchor for shape in SHAPES)
_CONTEXT = 16
"""As many characters as any shape looks at before its beginning."""
_LONG = 4096


class Redactor:
    """Replaces each secret by a mark that says which one it was."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._values: dict[str, str] = {}
        for name, value in sorted(environ.items()):
            url = _URL_PASSWORD.search(value)
            secrets = [value] if KEY_NAME.search(name) else []
            secrets += [url["password"]] if url else []
            for secret in secrets:
                if len(secret) >= SHORTEST:
                    self._values.setdefault(secret, MARK.format(name=name))
        self._longest_first = sorted(self._values, key=len, reverse=True)

    def redact(self, value: Any) -> Any:
        """JSON data with every secret in it replaced, in keys and values alike."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {self.redact(key): self.redact(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.redact(item) for item in value]
        return value

    def redact_text(self, text: str) -> str:
        pattern = self._pattern(text)
        return pattern.sub(self._mark, text) if pattern else text

    def settle(self, text: str, start: int = 0, *, whole: bool = False) -> tuple[str, int]:
        """What can be told of a text from ``start`` on, however it continues, and where the rest begins."""
        begun = len(text) if whole else self._begun(text, start)
        pattern, told = self._pattern(text), list[str]()
        while pattern and (match := pattern.search(text, start)) and match.start() < begun:
            told += text[start : match.start()], self._mark(match)
            start = match.end()
            if begun < start:
                begun = self._begun(text, start)
        return "".join([*told, text[start:begun]]), begun

    def _begun(self, text: str, start: int) -> int:
        """Where a secret begins that is not complete, or may become longer; the end of the text if nowhere."""
        last_space = max(text.rfind(space) for space in " \n\t")
        near = max(start, min(last_space, len(text)) - LONGEST)
        places = [
            found.start() for found in (_begun_block().search(text, start), _begun_key().search(text, near)) if found
        ]
        first = min(places, default=len(text))
        for value in self._values:
            for index in range(max(start, len(text) - len(value) + 1), first):
                if value.startswith(text[index:]):
                    first = index
                    break
        return first

    def _pattern(self, text: str) -> re.Pattern[str] | None:
        """For what can be in this text at all, which is much faster than to try every shape at every place."""
        known = tuple(value for value in self._longest_first if value in text)
        shapes = tuple(index for index, anchor in enumerate(_ANCHORS) if anchor in text)
        return _compiled(known, shapes) if known or shapes else None

    def _mark(self, match: re.Match[str]) -> str:
        group = match.lastgroup or ""
        if group == "known":
            return self._values[match.group()]
        lead, end = match.start(group + "s"), match.end(group + "s")
        mark = MARK.format(name=SHAPES[int(group[1:])].name)
        return self.redact_text(match.string[match.start() : lead]) + mark + match.string[end : match.end()]


class RedactedStream:
    """A text that comes in pieces: each is told as far as no secret can begin in it, the rest with what follows."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before = ""
        self._held: list[str] = []
        self._length = 0
        self._enough = 0

    def add(self, piece: str) -> str:
        """What can be told now."""
        self._held.append(piece)
        self._length += len(piece)
        if self._length < self._enough:
            return ""
        text = self._before + "".join(self._held)
        told, end = self._redactor.settle(text, len(self._before))
        self._before, self._held = text[max(0, end - _CONTEXT) : end], [text[end:]]
        self._length = len(text) - end
        # what is held for long is looked at less often, or one long run would cost quadratic time
        self._enough = self._length * 5 // 4 if self._length > _LONG else 0
        return told

    def close(self) -> str:
        """The rest, and no more will follow."""
        text, start = self._before + "".join(self._held), len(self._before)
        self._before, self._held, self._length, self._enough = "", [], 0, 0
        return self._redactor.settle(text, start, whole=True)[0]


@cache
def _begun_key() -> re.Pattern[str]:
    return re.compile("|".join(shape.begun for shape in SHAPES if shape is not BLOCK))


@cache
def _begun_block() -> re.Pattern[str]:
    return re.compile(BLOCK.begun)


@lru_cache(maxsize=256)
def _compiled(known: tuple[str, ...], shapes: tuple[int, ...]) -> re.Pattern[str]:
    values = [f"(?P<known>{'|'.join(map(re.escape, known))})"] if known else []
    return re.compile("|".join(values + [SHAPES[index].whole(f"g{index}") for index in shapes]))


def has_mark(value: Any) -> bool:
    """Whether this JSON data has the mark of a redacted secret."""
    if isinstance(value, str):
        return MARKS.search(value) is not None
    if isinstance(value, dict):
        return any(has_mark(key) or has_mark(item) for key, item in value.items())
    return isinstance(value, list) and any(map(has_mark, value))


def added_mark(before: str, after: str) -> str | None:
    """A mark that a text has more often than it had before, if any."""
    added = Counter(MARKS.findall(after)) - Counter(MARKS.findall(before))
    return next(iter(added), None)
