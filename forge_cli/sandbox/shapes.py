"""Shapes of secrets: the usual kinds of keys, and other spellings of a known value."""

from __future__ import annotations

import binascii
import html
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

_WORD = "A-Za-z0-9_-"
_APART = (f"<![{_WORD}]", r"<=\\[nrt]", r"<=%[0-9A-Fa-f]{2}")
"""The beginning of a word; an escaped line break or byte ends with a letter, and counts as well."""
_ARMOR = r"(?:(?!-----)[A-Za-z0-9+/=\s\\:,.()-])*+"
_HEADER = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,6}-----"


class Shape(NamedTuple):
    """One kind of secret.

    A pattern with an unbounded part cannot begin again inside that part, which keeps the search
    fast. Keys that may begin anywhere have at most 512 characters.
    """

    name: str
    anchor: str
    """Text that every secret of this shape contains."""
    pattern: str
    """A regular expression with the secret as its group; the surrounding text tells it from
    others."""
    start: str
    """The literal text it starts with; a shape without one is in ``OPEN``."""


def _key(
    name: str, start: str, rest: str, at: tuple[str, ...] = (), *, anchor: str | None = None
) -> Shape:
    """Return the shape of a key that starts with literal text.

    Lookbehinds in ``at`` limit its place.

    The lookbehinds follow the literal text, because that is found much faster.
    """
    place = f"(?:{'|'.join(f'(?{each}{re.escape(start)})' for each in at)})" if at else ""
    return Shape(name, anchor or start, f"((?a:{re.escape(start)}{place}{rest}))", start)


def _led(name: str, start: str, pattern: str) -> Shape:
    """Return the shape of a secret that follows a literal text."""
    return Shape(name, start, pattern, start)


SHAPES = (
    # A key that was cut off before its last line is a secret, too.
    _led(
        "private-key",
        "-----BEGIN ",
        rf"({_HEADER}(?:{_ARMOR}-----END [A-Z0-9 ]{{1,60}}-----"
        r"|(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{16,}+)++))",
    ),
    _key("anthropic", "sk-ant-", r"[\w-]{16,512}"),
    _key("openai", "sk-", r"[\w-]{32,}", _APART),
    _key("github", "gh", "[pousr]_[A-Za-z0-9]{36,512}"),
    _key("github", "github_pat_", r"\w{40,512}"),
    _key("gitlab", "gl", r"(?:pat|dt|rt|cbt|ptt|ft|oas|soat)-[\w-]{20,512}"),
    _key("aws", "A", "[KS]IA[A-Z0-9]{16}", anchor="IA"),
    *(
        _led("aws-secret", start, rf"{start}[\s\"'\\:=>]{{1,12}}([A-Za-z0-9/+]{{40}})")
        for start in ("secret_access_key", "SECRET_ACCESS_KEY", "SecretAccessKey")
    ),
    _key("google", "AIza", r"[\w-]{35}"),
    _key("google-oauth", "GOCSPX-", r"[\w-]{20,512}"),
    _key("google-oauth", "ya29.", r"[\w-]{20,512}"),
    _key("stripe", "sk_", "(?:live|test)_[A-Za-z0-9]{16,512}"),
    _key("stripe", "rk_", "(?:live|test)_[A-Za-z0-9]{16,512}"),
    _key("stripe", "whsec_", "[A-Za-z0-9+/=]{24,512}", _APART),
    _key("slack", "xox", "[abeoprs]-[A-Za-z0-9-]{10,512}"),
    _key("slack-app", "xapp-", "[A-Za-z0-9-]{20,512}"),
    _led(
        "slack-webhook", "hooks.slack.com/", r"hooks\.slack\.com/[a-z]{1,20}/([A-Za-z0-9/]{20,512})"
    ),
    _led("discord-webhook", "/api/webhooks/", r"/api/webhooks/([0-9]{17,20}/[A-Za-z0-9_-]{60,80})"),
    _key("huggingface", "hf_", "[A-Za-z0-9]{30,}", _APART),
    _key("npm", "npm_", "[A-Za-z0-9]{36,512}"),
    _key("pypi", "pypi-", r"[\w-]{50,512}"),
    _key("sendgrid", "SG.", r"[\w-]{16,32}\.[\w-]{32,64}", _APART),
    _key("jwt", "eyJ", r"[\w-]{5,}\.eyJ[\w-]{5,}\.[\w-]{8,}", _APART, anchor=".eyJ"),
    _key("groq", "gsk_", "[A-Za-z0-9]{20,}", _APART),
    _key("xai", "xai-", "[A-Za-z0-9]{20,}", _APART),
    _key("doppler", "dp.", r"(?:ct|pt|st|sa|scim|audit)\.[A-Za-z0-9]{40,512}"),
    _key("doppler", "dp.st.", r"[a-z0-9_-]{2,35}\.[A-Za-z0-9]{40,512}"),
    _key("figma", "fig", r"(?:d|o|u|or|ur|oh|uh)_[\w-]{36,512}", _APART),
    _key("new-relic", "NR", r"(?:AK|AA|BR|II|IQ|JS|RA|SP)-[\w-]{19,512}", _APART),
    _key("new-relic", "", "[a-f0-9]{36}NRAL", _APART, anchor="NRAL"),
    *(
        _key("new-relic", f"{region}01x", "[xa-f0-9]{30,32}NRAL")
        for region in ("ap", "eu", "gov", "jp", "us")
    ),
    _key("postman", "PMA", "[KT]-[A-Za-z0-9-]{24,512}"),
    _key("shopify", "shp", "(?:at|ca|it|pa|ss|tka|ua)_[A-Za-z0-9]{32,512}"),
    _key("square", "sq0", r"(?:atp|acp|csp)-[\w-]{22,512}"),
    # The end of a word that is not part of a longer one in base64.
    _key("square", "EAAA", r"[\w-]{60}(?![+/=\w-])", (f"<![+/{_WORD}]", *_APART[1:])),
    _key("digitalocean", "do", "[opr]_v1_[a-f0-9]{64}", anchor="_v1_"),
    _key("databricks", "dapi", "[a-f0-9]{32}", _APART),
    _led("telegram", ":", r":(?<=\d{8}:)([A-Za-z0-9_-]{34,36})"),
    _led("azure", "AccountKey=", "AccountKey=([A-Za-z0-9+/]{86}==)"),
    _key("azure", "Q~", r"[\w.~-]{31,34}", (r"<=[\w.~-]{3}\d",)),
    _key("age", "AGE-SECRET-KEY-1", "[0-9A-Z]{58}"),
    _key("vault", "hv", r"[sbr]\.[\w-]{20,512}"),
    _key("docker", "dckr_pat_", r"[\w-]{20,512}"),
    _key("linear", "lin_api_", "[A-Za-z0-9]{32,512}"),
    _key("replicate", "r8_", "[A-Za-z0-9]{32,}", _APART),
    _key("perplexity", "pplx-", "[A-Za-z0-9]{32,512}"),
    _key("tailscale", "tskey-", r"[\w-]{16,512}"),
    _key("grafana", "glsa_", r"\w{32,512}"),
    _key("mailgun", "key-", "[a-f0-9]{32}", _APART),
    _key("twilio", "SK", "[a-f0-9]{32}", _APART),
    *(
        _led("bearer", start, rf"{start}([A-Za-z0-9._~+/=-]{{16,}})")
        for start in ("Bearer ", "bearer ")
    ),
    _led("basic-auth", "uthorization: Basic ", "uthorization: Basic ([A-Za-z0-9+/=]{12,})"),
    _led(
        "url-password",
        "://",
        r"://[^\s/?#<>\"'`\\:@]*:((?!\[redacted:|[$<{*])[^\s/?#<>\"'`\\]+(?=@))",
    ),
)

OPEN = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,64}+-{0,4}+\Z"
    rf"|{_HEADER}{_ARMOR}(?:-----[A-Z0-9 ]{{0,64}}+-{{0,4}}+)?\Z"
    r"|(?:secret_access_key|SECRET_ACCESS_KEY|SecretAccessKey)[\s\"'\\:=>]{1,12}[!-~]*+\Z"
    r"|[Bb]earer [!-~]*+\Z"
    r"|uthorization: (?:Basic )?[!-~]*+\Z"
    r"|://[^\s/?#<>\"'`\\]*+\Z"
    rf"|(?:{'|'.join(f'(?{each})' for each in _APART)})[a-f0-9]{{1,36}}+[NRAL]{{0,4}}+\Z"
)
"""The end of a text that may become a secret, or a longer one, beyond a word after a ``start``."""

_HEX = "[0-9A-Fa-f]"
_BREAK = re.compile(r"[\r\n]\s*+", re.ASCII)
_ESCAPE = re.compile(
    # Every alternative begins with one of these characters, which are found fast.
    r"[%\\\r\n](?:"
    rf"(?<=%)(?P<byte>{_HEX}{{2}})"
    rf"|(?<=\\)\\*+(?:u(?P<high>[Dd][89ABab]{_HEX}{{2}})\\++u(?P<low>[Dd][C-Fc-f]{_HEX}{{2}})"
    rf"|u(?P<code>{_HEX}{{4}})|[bfnrt]\s*+|(?P<char>[^%]?))"
    r"|(?<=[\r\n])\s*+)",
    re.ASCII,
)
"""An escaped character in a URL or in JSON, also JSON inside JSON, or a wrapped line."""

_CONTINUED = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that continue a character."""


def plain_text(text: str) -> str:
    """Return a text with its escapes decoded, as bytes: every spelling of a value gives the same.

    Line breaks are removed with the spaces after them, because long words are wrapped.
    """
    given = _in_bytes(text)
    if "%" in given or "\\" in given:
        plain = _ESCAPE.sub(_read_escape, given)
    else:
        plain = _BREAK.sub("", given)
    return plain.replace("+", " ")


class PlainReading:
    """A text like ``plain_text``, with the original position of each character."""

    def __init__(self, text: str) -> None:
        self._given = _in_bytes(text)
        end = 0
        self._is_ascii = len(self._given) == len(text)
        parts: list[str] = []
        size = 0
        self._begins: list[int] = []
        self._pieces: list[tuple[int, int | None]] = []
        for escape in _ESCAPE.finditer(self._given):
            for part, piece in (
                (self._given[end : escape.start()], (end, None)),
                (_read_escape(escape), escape.span()),
            ):
                parts.append(part)
                self._begins.append(size)
                self._pieces.append(piece)
                size += len(part)
            end = escape.end()
        self._begins.append(size)
        self._pieces.append((end, None))
        # A plus sign is a space in forms.
        self.plain = "".join([*parts, self._given[end:]]).replace("+", " ")

    def span(self, place: int) -> tuple[int, int]:
        """Return the span in the text of the character at this position of the plain text."""
        piece = bisect_right(self._begins, place) - 1
        begin, end = self._pieces[piece]
        if end is None:
            begin += place - self._begins[piece]
            end = begin + 1
        if self._is_ascii:
            return (begin, end)
        return (self._in_text(begin), self._in_text(end))

    def _in_text(self, place: int) -> int:
        return len(self._given[:place].encode("latin-1").translate(None, _CONTINUED))


def respellings(value: str) -> Iterator[str]:
    """Yield other spellings of a value without escapes: in base64, in hex, and for HTML."""
    yield from in_base64(value)
    data = value.encode("utf-8", "surrogatepass")
    yield from (data.hex(), data.hex().upper(), html.escape(value), html.escape(value, quote=False))


def in_base64(value: str) -> Iterator[str]:
    """Yield the base64 characters of a value for each alignment in the encoded data."""
    data = value.encode("utf-8", "surrogatepass")
    # Three bytes become four characters, so that there are three alignments.
    for before in range(3):
        text = binascii.b2a_base64(bytes(before) + data, newline=False).decode()
        # The characters at both ends also depend on the bytes around the value.
        found = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield from {found, found.replace("+", "-").replace("/", "_")}


def only_escapes(text: str) -> str:
    """Escape every byte as in a URL, so that nothing can be mistaken for an escape."""
    return "".join(f"%{ord(byte):02x}" for byte in _in_bytes(text))


def _read_escape(escape: re.Match[str]) -> str:
    match escape.lastgroup:
        case None:
            return ""
        case "char":
            said = escape["char"]
        case "byte":
            said = chr(int(escape["byte"], 16))
        case _:
            codes = escape["code"] or escape["high"] + escape["low"]
            said = _in_bytes(bytes.fromhex(codes).decode("utf-16-be", "surrogatepass"))
    return said if said >= " " else ""


def _in_bytes(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("latin-1")
