"""Words and values of a text, in a form in which equal ones are equal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

MAX_VALUE = 2_000
"""The most characters of a value that is compared; a longer one is never known."""

_URL = re.compile(r"[a-z][a-z0-9+.-]{0,20}://[^\s\"'<>`\\)\]}|]+")
_MAIL = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_HOST = re.compile(r"(?:[\w-]+\.)+[^\W\d_][\w-]*")
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w,])")
_DECIMAL = re.compile(r"\d+(?:\.\d+)?")
_COMPOUND = re.compile(r"[\w.@+~%#/:-]+")
"""A run without blanks, quotes, commas and brackets; a plain word is the simplest one."""
_WORD = re.compile(r"\w+")
# The bounds keep the time linear for a text with many quotes that nothing closes.
_QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|`([^`\n]{1,200})`"
    r"|“([^”\n]{1,200})”|„([^“\n]{1,200})“|«([^»\n]{1,200})»"
)
_TYPED = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[.,;:!?\n]")
_NEGATIONS = frozenset(
    ("not", "never", "no", "without", "avoid", "cannot", "dont", "nor", "instead")
)
_WEB = frozenset(("http", "https", "ws", "wss", "ftp", "ftps", "ssh", "git", "sftp"))
_DOTTED = re.compile(r"[.:]")
_HERE = frozenset(("localhost", "127.0.0.1", "::1", "0.0.0.0"))  # noqa: S104 - nothing is bound
MAX_NEGATED = 4
"""How many words after a "not" it takes away: "do not send or merge" names neither."""
_SPLIT = re.compile(r"[^\W_]+")


def normalise(text: str) -> str:
    """Return a text without differences that people do not see: NFKC, no format characters, case.

    Zero-width characters and soft hyphens could otherwise make two equal words differ, or hide one.
    """
    if text.isascii():
        return text.casefold()
    plain = unicodedata.normalize("NFKC", text)
    shown = "".join(char for char in plain if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", shown.casefold())


def values_in(text: str) -> set[str]:
    """Return every word and value of a text, normalised.

    A value such as an address is there as a whole, and never as its parts joined in another way:
    ``26`` is not in ``2026``, and ``evil.example`` is not in ``corp.evil.example``.
    """
    plain = normalise(text)
    found: set[str] = set()
    for match in _URL.finditer(plain):
        found.update(_of_url(match[0].rstrip(".,;:!?")))
    for match in _GROUPED.finditer(plain):
        found.add(_number(match[0]))
    for match in _QUOTED.finditer(plain):
        found.add(" ".join(next(filter(None, match.groups())).split()))
    for match in _COMPOUND.finditer(plain):
        run = match[0]
        if run.isalnum():
            found.add(run)
            continue
        found.update(_of_compound(run))
    found.discard("")
    return found


def _of_url(url: str) -> Iterator[str]:
    yield url.rstrip("/")
    with suppress(ValueError):
        yield urlsplit(url).hostname or ""


def _of_compound(run: str) -> Iterator[str]:
    """Yield the forms of a run such as an address, a path or a number, and its plain words."""
    if len(run) > MAX_VALUE:
        return
    whole = _trimmed(run)
    yield whole
    if _DECIMAL.fullmatch(whole):
        yield _number(whole)
    # The parts of an address are not words of their own: who names a mailbox names no host.
    rest = run
    for match in _MAIL.finditer(run):
        yield match[0]
        rest = rest.replace(match[0], " ")
    if "://" in rest:
        return
    if "/" in rest and ":" in rest:
        # A repository behind a host: git@github.com:owner/name.git
        yield _trimmed(rest.partition(":")[2])
    if rest == run:
        first = whole.partition("/")[0].partition(":")[0]
        if _HOST.fullmatch(first):
            yield first
            # The words of a host are no words of the text.
            rest = run.replace(first, " ")
    for match in _WORD.finditer(rest):
        yield match[0]
        if "_" in match[0]:
            yield from _SPLIT.findall(match[0])


def _trimmed(run: str) -> str:
    """Return a run without punctuation around it, and a repository without ``.git``."""
    return run.strip(".:,;-+#%").rstrip("/").removesuffix(".git")


def _number(text: str) -> str:
    """Return a number in one form: ``1,200.50`` and ``1200.5`` are equal."""
    whole, _, part = text.replace(",", "").partition(".")
    part = part.rstrip("0")
    return f"{whole}.{part}" if part else whole


def parts_of(value: object) -> list[str]:
    """Return the normalised words and values that all have to be known for a value to be known.

    Every run of characters without blanks counts as a whole, so that an address cannot be put
    together of words.
    """
    plain = normalise(text_of(value))
    found: list[str] = []
    for chunk in plain.split():
        found.extend(_parts_of_chunk(chunk))
    return list(dict.fromkeys(filter(None, found)))


def _parts_of_chunk(chunk: str) -> Iterator[str]:
    bare = chunk.strip(".,;:!?()[]{}<>\"'`“”„«»|*")
    if not bare:
        return
    if _URL.match(bare):
        yield bare.rstrip("/")
        return
    if _GROUPED.fullmatch(bare) or _DECIMAL.fullmatch(bare):
        yield _number(bare)
        return
    if _COMPOUND.fullmatch(bare):
        # A leading sign of a handle or a currency is no part of the name.
        yield _trimmed(bare).lstrip("@~") or bare
        return
    rest = bare
    for match in _URL.finditer(bare):
        yield match[0].rstrip("/")
        rest = rest.replace(match[0], " ")
    runs = [match[0] for match in _COMPOUND.finditer(rest)]
    for run in runs:
        yield _trimmed(run).lstrip("@~")
    if not runs and rest == bare:
        yield bare


def host_of(part: str) -> str | None:
    """Return the host of a normalised URL, or of ``host/path`` and ``host:port``; else None."""
    if "://" in part:
        try:
            return urlsplit(part).hostname
        except ValueError:
            return None
    first = part.partition("/")[0].partition(":")[0]
    return first if "@" not in first and _HOST.fullmatch(first) else None


def is_here(text: str) -> bool:
    """Return True if a text has the address of a server, and all of them are this machine."""
    parts = [part for part in parts_of(text) if "://" in part]
    return bool(parts) and not any(map(reaches, parts))


def reaches(part: str) -> bool:
    """Return True if a normalised part is an address of a mailbox, a host or a page elsewhere.

    An address such as ``note://1`` means something to its server only.
    """
    host = host_of(part)
    if host in _HERE or part.partition("/")[0].partition(":")[0] in _HERE:
        return False
    scheme, colon, _ = part.partition("://")
    if colon and scheme not in _WEB:
        return host is not None and bool(_DOTTED.search(host))
    return bool(colon) or "@" in part or host is not None


def text_of(value: object) -> str:
    """Return all texts of a value, such as the args of a call, with blanks between them."""
    match value:
        case str():
            return value
        case bool() | None:
            return ""
        case float() if value.is_integer():
            return str(int(value))
        case bytes():
            return value.decode("utf-8", "replace")
        case dict():
            return " ".join(f"{text_of(key)} {text_of(item)}" for key, item in value.items())
        case list() | tuple() | set() | frozenset():
            return " ".join(map(text_of, value))
        case _:
            return str(value)


def named_in(text: str) -> Iterator[str]:
    """Yield the stems of the words that a person typed, except those that a "not" takes away."""
    left = 0
    for match in _TYPED.finditer(normalise(text)):
        word = match[0].replace("’", "'")
        if not word[0].isalnum():
            left = 0
        elif word in _NEGATIONS or word.endswith("n't"):
            left = MAX_NEGATED
        elif left > 0:
            left -= 1
        elif word.isalpha():
            yield stem(word)


def stem(word: str) -> str:
    """Return the stem of an English word: ``sending``, ``sends`` and ``send`` have the same."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    if word.endswith("i"):
        word = f"{word[:-1]}y"
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word
