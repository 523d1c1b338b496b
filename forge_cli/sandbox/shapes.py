"""Shapes of secrets: what the usual kinds of keys look like, whole and while they are still being written."""

from __future__ import annotations

import re

from forge_cli.core.values import dataclass

LETTERS, WORD = "A-Za-z0-9", "A-Za-z0-9_-"
APART = rf"(?:(?<![{WORD}])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{{2}}))"
"""Where a word begins; a line break or a byte that is written as an escape ends with a letter, and counts as well."""


@dataclass(frozen=True)
class Run:
    """Some characters of a class, as it is written in a regular expression."""

    chars: str
    least: int
    most: int | None = None

    def times(self, least: int, most: int | None) -> str:
        return f"[{self.chars}]{{{least},{'' if most is None else most}}}"


@dataclass(frozen=True)
class RawPart:
    """What cannot be said by runs: a regular expression for the whole, and one for any beginning of it."""

    whole: str
    begun: str


Part = str | Run | RawPart


@dataclass(frozen=True)
class Shape:
    """One kind of secret, with the text around it that tells it from others and is no secret itself.

    Each starts with literal text, at a place that ``at`` may limit. It takes linear time to look for it: where a run
    may be of any length, the shape cannot begin anew inside of that run.
    """

    name: str
    secret: tuple[Part, ...]
    lead: tuple[Part, ...] = ()
    close: tuple[Part, ...] = ()
    at: str = ""

    @property
    def anchor(self) -> str:
        """Text that is there wherever the shape is."""
        return max((part for part in (*self.lead, *self.secret) if isinstance(part, str)), key=len)

    def whole(self, group: str) -> str:
        """A regular expression for all of it; the secret is the group with an ``s`` after its name."""
        return f"(?P<{group}>{self.at}{_whole(self.lead)}(?P<{group}s>{_whole(self.secret)}){_whole(self.close)})"

    @property
    def begun(self) -> str:
        """A regular expression for an end of a text that may become a secret of this shape, or a longer one."""
        parts = (*self.lead, *self.secret, *self.close)
        return rf"{self.at}(?!\Z){_begun(parts)}"


def _whole(parts: tuple[Part, ...]) -> str:
    found = ""
    for part in parts:
        match part:
            case str():
                found += re.escape(part)
            case Run():
                found += part.times(part.least, part.most)
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
_LONG = 512
"""More than any of these keys has; what may begin anywhere is bounded."""
LONGEST = 1024
"""More than any shape has before its last space."""


def _key(name: str, start: str, chars: str, least: int, most: int | None = _LONG, at: str = "") -> Shape:
    return Shape(name, (start, Run(chars, least, most)), at=at)


BLOCK = Shape(
    "private-key", ("-----BEGIN ", Run("A-Z0-9 ", 0, 40), "PRIVATE KEY", Run("A-Z ", 0, 6), "-----", _KEY_BLOCK)
)
"""The one shape that may have any number of spaces and line breaks in it."""
SHAPES = (
    BLOCK,
    _key("anthropic", "sk-ant-", WORD, 16),
    _key("openai", "sk-", WORD, 32, None, at=APART),
    *(_key("github", f"gh{kind}_", LETTERS, 36) for kind in "pousr"),
    _key("github", "github_pat_", "A-Za-z0-9_", 40),
    *(_key("gitlab", f"gl{kind}-", WORD, 20) for kind in ("pat", "dt", "rt", "cbt", "ptt", "ft", "oas", "soat")),
    *(_key("aws", start, "A-Z0-9", 16, 16) for start in ("AKIA", "ASIA")),
    *(
        Shape("aws-secret", (Run("A-Za-z0-9/+", 40, 40),), lead=(start, Run(r"\s\"'\\:=>", 1, 12)))
        for start in ("secret_access_key", "SECRET_ACCESS_KEY", "SecretAccessKey")
    ),
    _key("google", "AIza", WORD, 35, 35),
    _key("google-oauth", "GOCSPX-", WORD, 20),
    _key("google-oauth", "ya29.", WORD, 20),
    *(_key("stripe", f"{kind}_{mode}_", LETTERS, 16) for kind in ("sk", "rk") for mode in ("live", "test")),
    _key("stripe", "whsec_", "A-Za-z0-9+/=", 24, at=APART),
    *(_key("slack", f"xox{kind}-", "A-Za-z0-9-", 10) for kind in "abeoprs"),
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
    *(_key("digitalocean", f"do{kind}_v1_", "a-f0-9", 64, 64) for kind in "opr"),
    _key("databricks", "dapi", "a-f0-9", 32, 32, at=APART),
    Shape("telegram", (Run(WORD, 34, 36),), lead=(":",), at=r"(?<=\d{8})"),
    Shape("azure", (Run("A-Za-z0-9+/", 86, 86), "=="), lead=("AccountKey=",)),
    Shape("azure", ("Q~", Run(r"\w.~-", 31, 34)), at=r"(?<=[\w.~-]{3}\d)"),
    _key("age", "AGE-SECRET-KEY-1", "0-9A-Z", 58, 58),
    *(_key("vault", f"hv{kind}.", WORD, 20) for kind in "sbr"),
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
