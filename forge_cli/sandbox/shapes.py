"""Shapes of secrets: what the usual kinds of keys look like, whole and while they are still being written."""

from __future__ import annotations

import re
from dataclasses import dataclass

LETTERS, WORD = "A-Za-z0-9", "A-Za-z0-9_-"
APART = (f"<![{WORD}]", r"<=\\[nrt]", r"<=%[0-9A-Fa-f]{2}")
"""The beginning of a word; a line break or a byte written as an escape ends with a letter, and counts as well."""


@dataclass(frozen=True)
class Run:
    """Some characters of a class, as it is written in a regular expression."""

    chars: str
    least: int
    most: int | None = None

    def times(self, least: int, most: int | None) -> str:
        return f"[{self.chars}]{{{least},{'' if most is None else most}}}"


@dataclass(frozen=True)
class Choice:
    """One of several literal texts."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class RawPart:
    """A shape that runs cannot describe: a regular expression for the whole, and one for any beginning of it."""

    whole: str
    begun: str


Part = str | Run | Choice | RawPart


@dataclass(frozen=True)
class Shape:
    """One kind of secret, with the text around it that tells it from others and is not a secret itself.

    Each starts with literal text, which may be empty, at a place that ``at`` may limit: what may stand before, as
    lookbehinds. It takes linear time to look for it: where a run may be of any length, the shape cannot begin again
    inside of that run.
    """

    name: str
    secret: tuple[Part, ...]
    lead: tuple[Part, ...] = ()
    close: tuple[Part, ...] = ()
    at: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Text that is there wherever the shape is."""
        return max((part for part in (*self.lead, *self.secret) if isinstance(part, str)), key=len)

    @property
    def start(self) -> str:
        """The literal text that it starts with."""
        start = (self.lead or self.secret)[0]
        assert isinstance(start, str)  # noqa: S101
        return start

    @property
    def whole(self) -> str:
        """A regular expression for all of it, with the secret as its group.

        It looks at what stands before only after the literal text, which is found much faster than a lookbehind.
        """
        start, rest = self._begin(), _whole((self.lead or self.secret)[1:])
        found = f"{start}{rest}({_whole(self.secret)})" if self.lead else f"({start}{rest})"
        return found + _whole(self.close)

    @property
    def begun(self) -> str:
        """A regular expression for an end of a text, from all of ``start`` on, that may become this, or longer."""
        return self._begin() + _begun((*self.lead, *self.secret, *self.close)[1:])

    @property
    def place(self) -> str:
        """A regular expression, of no length, for where it may start."""
        return _after(self.at)

    def _begin(self) -> str:
        return re.escape(self.start) + _after(self.at, self.start)


def _after(at: tuple[str, ...], start: str = "") -> str:
    """That one of these stands before ``start``, which has been read already."""
    return f"(?:{'|'.join(f'(?{each}{re.escape(start)})' for each in at)})" if at else ""


def _whole(parts: tuple[Part, ...]) -> str:
    found = ""
    for part in parts:
        match part:
            case str():
                found += re.escape(part)
            case Run():
                found += part.times(part.least, part.most)
            case Choice():
                found += f"(?:{'|'.join(map(re.escape, part.options))})"
            case RawPart():
                found += part.whole
    return found


def _begun(parts: tuple[Part, ...]) -> str:
    if not parts:
        return "(?!)"
    part, rest = parts[0], parts[1:]
    match part:
        case RawPart():
            return part.begun
        case Choice():
            return f"(?:{'|'.join(_begun((option, *rest)) for option in part.options)})"
        case str():
            found = _begun(rest)
            for char in reversed(part):
                found = rf"(?:\Z|{re.escape(char)}{found})"
            return found
        case Run() if rest:
            return rf"(?:{part.times(0, part.most)}+\Z|{part.times(part.least, part.most)}{_begun(rest)})"
        case Run():
            return rf"{part.times(0, part.most and part.most - 1)}+\Z"


_ARMOR = r"(?:(?!-----)[A-Za-z0-9+/=\s\\:,.()-])*+"
_KEY_BLOCK = RawPart(
    whole=rf"(?:{_ARMOR}-----END [A-Z0-9 ]{{1,60}}-----|(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{{16,}}+)++)",
    begun=rf"{_ARMOR}(?:-----[A-Z0-9 ]{{0,64}}+-{{0,4}}+)?\Z",
)
"""A key that was cut off before its last line is one, too."""
_PASSWORD = RawPart(
    whole=r"(?!\[redacted:|[$<{*])[^\s/?#<>\"'`\\]+(?=@)",
    begun=r"[^\s/?#<>\"'`\\]*+\Z",
)
_NO_BASE64 = RawPart(whole=f"(?![+/={WORD}])", begun=r"\Z")
"""The end of a word that is not part of a longer one in base64."""
_LONG = 512
"""More than any of these keys has; what may begin anywhere is bounded."""
LONGEST = 1024
"""More than any shape has before its last space."""


def _key(name: str, start: str, chars: str, least: int, most: int | None = _LONG, at: tuple[str, ...] = ()) -> Shape:
    return Shape(name, (start, Run(chars, least, most)), at=at)


BLOCK = Shape(
    "private-key", ("-----BEGIN ", Run("A-Z0-9 ", 0, 40), "PRIVATE KEY", Run("A-Z ", 0, 6), "-----", _KEY_BLOCK)
)
"""The one shape that may have any number of spaces and line breaks in it."""
SHAPES = (
    BLOCK,
    _key("anthropic", "sk-ant-", WORD, 16),
    _key("openai", "sk-", WORD, 32, None, at=APART),
    Shape("github", ("gh", Choice(tuple("pousr")), "_", Run(LETTERS, 36, _LONG))),
    _key("github", "github_pat_", "A-Za-z0-9_", 40),
    Shape("gitlab", ("gl", Choice(("pat", "dt", "rt", "cbt", "ptt", "ft", "oas", "soat")), "-", Run(WORD, 20, _LONG))),
    Shape("aws", ("A", Choice(("K", "S")), "IA", Run("A-Z0-9", 16, 16))),
    *(
        Shape("aws-secret", (Run("A-Za-z0-9/+", 40, 40),), lead=(start, Run(r"\s\"'\\:=>", 1, 12)))
        for start in ("secret_access_key", "SECRET_ACCESS_KEY", "SecretAccessKey")
    ),
    _key("google", "AIza", WORD, 35, 35),
    _key("google-oauth", "GOCSPX-", WORD, 20),
    _key("google-oauth", "ya29.", WORD, 20),
    *(Shape("stripe", (start, Choice(("live_", "test_")), Run(LETTERS, 16, _LONG))) for start in ("sk_", "rk_")),
    _key("stripe", "whsec_", "A-Za-z0-9+/=", 24, at=APART),
    Shape("slack", ("xox", Choice(tuple("abeoprs")), "-", Run("A-Za-z0-9-", 10, _LONG))),
    _key("slack-app", "xapp-", "A-Za-z0-9-", 20),
    Shape("slack-webhook", (Run("A-Za-z0-9/", 20, _LONG),), lead=("hooks.slack.com/", Run("a-z", 1, 20), "/")),
    Shape("discord-webhook", (Run("0-9", 17, 20), "/", Run(WORD, 60, 80)), lead=("/api/webhooks/",)),
    _key("huggingface", "hf_", LETTERS, 30, None, at=APART),
    _key("npm", "npm_", LETTERS, 36),
    _key("pypi", "pypi-", WORD, 50),
    Shape("sendgrid", ("SG.", Run(WORD, 16, 32), ".", Run(WORD, 32, 64)), at=APART),
    Shape("jwt", ("eyJ", Run(WORD, 5), ".eyJ", Run(WORD, 5), ".", Run(WORD, 8)), at=APART),
    _key("groq", "gsk_", LETTERS, 20, None, at=APART),
    _key("xai", "xai-", LETTERS, 20, None, at=APART),
    Shape("doppler", ("dp.", Choice(("ct", "pt", "st", "sa", "scim", "audit")), ".", Run(LETTERS, 40, _LONG))),
    Shape("doppler", ("dp.st.", Run("a-z0-9_-", 2, 35), ".", Run(LETTERS, 40, _LONG))),
    Shape("figma", ("fig", Choice(("d", "o", "u", "or", "ur", "oh", "uh")), "_", Run(WORD, 36, _LONG)), at=APART),
    Shape(
        "new-relic",
        ("NR", Choice(("AK", "AA", "BR", "II", "IQ", "JS", "RA", "SP")), "-", Run(WORD, 19, _LONG)),
        at=APART,
    ),
    Shape("new-relic", ("", Run("a-f0-9", 36, 36), "NRAL"), at=APART),
    *(
        Shape("new-relic", (f"{region}01x", Run("xa-f0-9", 30, 32), "NRAL"))
        for region in ("ap", "eu", "gov", "jp", "us")
    ),
    Shape("postman", ("PMA", Choice(tuple("KT")), "-", Run("A-Za-z0-9-", 24, _LONG))),
    Shape("shopify", ("shp", Choice(("at", "ca", "it", "pa", "ss", "tka", "ua")), "_", Run(LETTERS, 32, _LONG))),
    Shape("square", ("sq0", Choice(("atp", "acp", "csp")), "-", Run(WORD, 22, _LONG))),
    Shape("square", ("EAAA", Run(WORD, 60, 60), _NO_BASE64), at=(f"<![+/{WORD}]", *APART[1:])),
    Shape("digitalocean", ("do", Choice(tuple("opr")), "_v1_", Run("a-f0-9", 64, 64))),
    _key("databricks", "dapi", "a-f0-9", 32, 32, at=APART),
    Shape("telegram", (Run(WORD, 34, 36),), lead=(":",), at=(r"<=\d{8}",)),
    Shape("azure", (Run("A-Za-z0-9+/", 86, 86), "=="), lead=("AccountKey=",)),
    Shape("azure", ("Q~", Run(r"\w.~-", 31, 34)), at=(r"<=[\w.~-]{3}\d",)),
    _key("age", "AGE-SECRET-KEY-1", "0-9A-Z", 58, 58),
    Shape("vault", ("hv", Choice(tuple("sbr")), ".", Run(WORD, 20, _LONG))),
    _key("docker", "dckr_pat_", WORD, 20),
    _key("linear", "lin_api_", LETTERS, 32),
    _key("replicate", "r8_", LETTERS, 32, None, at=APART),
    _key("perplexity", "pplx-", LETTERS, 32),
    _key("tailscale", "tskey-", WORD, 16),
    _key("grafana", "glsa_", "A-Za-z0-9_", 32),
    _key("mailgun", "key-", "a-f0-9", 32, 32, at=APART),
    _key("twilio", "SK", "a-f0-9", 32, 32, at=APART),
    *(Shape("bearer", (Run("A-Za-z0-9._~+/=-", 16),), lead=(start,)) for start in ("Bearer ", "bearer ")),
    Shape("basic-auth", (Run("A-Za-z0-9+/=", 12),), lead=("uthorization: Basic ",)),
    Shape("url-password", (_PASSWORD,), lead=("://", Run(r"^\s/?#<>\"'`\\:@", 0), ":")),
)
