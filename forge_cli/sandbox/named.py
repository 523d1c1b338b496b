"""Secrets recognized by the names of their keys, such as ``password: ...`` or ``--token=...``.

Whether a value counts depends only on its own text, the rest of its line, and the ``CONTEXT``
characters before it. A text that arrives in pieces is therefore read like the whole.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from forge_cli.core.phrases import MARKS

CONTEXT = 256
"""The number of characters before a value that are examined."""
_OPENED = 128
"""The most characters between a key and its value: quotes, indents and schemes."""
_MEASURED = 512
"""The number of characters of a value that are examined."""
_LONG_WORD = 20
_ANCHORS = ("pass", "pwd", "secret", "token", "key", "auth", "cookie", "sig", "-u", "--user")
"""Lower-case strings, one of which is in every text with a named secret."""

_BLANK = r"[ \t]{0,40}"
_QUOTE = r"\\{0,16}[\"'`]"
_SUFFIX = (
    r"(?:[_-]?(?:base|old|new|prod|production|staging|dev|live|value|plain|raw|primary|secondary"
    r"|v?\d{1,3}))"
)
_KEYED = re.compile(
    r"(?:pass(?:word|wd|phrase|code|wort)?|pwd|secret|token|key|auth(?:orization)?|cookie|sig(?:nature)?)"
    rf"(?P<suffix>{_SUFFIX}?)(?P<close>(?:{_QUOTE})?\]?)(?:"
    # name: TOKEN, value: ...
    rf"(?P<pair>,?(?:\\[nr]|\s){{0,40}}(?:{_QUOTE})?value(?:{_QUOTE})?{_BLANK}[:=]{_BLANK})"
    # token: str = "..." and token string = "..."
    rf"|(?P<typed>(?:{_BLANK}:{_BLANK}|[ \t]{{1,40}})[a-z][\w\[\]|.]{{0,40}}"
    rf"{_BLANK}:?={_BLANK}(?={_QUOTE}))"
    rf"|(?P<fallback>:-)"  # ${TOKEN:-...}
    rf"|(?P<colon>{_BLANK}:(?![:=]){_BLANK}(?:\s{{1,40}}(?={_QUOTE}))?)"
    rf"|(?P<equals>{_BLANK}(?::=|=>|[=!]?={{1,2}}){_BLANK})"
    rf"|(?P<listed>(?:,{_BLANK}|\()(?={_QUOTE})|[ \t](?=\\{{0,16}}[\"']))|(?P<element>>)"
    r"|(?P<blank>(?:[ \t]|\\n|\r?\n[ \t]){1,40}))"
)
"""The end of a name that may be a secret's, and the text before its value, in lower case."""
_USER = re.compile(
    rf"(?<![\w-])(?:sshpass -p{_BLANK}(?:{_QUOTE})?"
    rf"|(?:-u|--user|--proxy-user)(?:{_BLANK}|=|{_QUOTE},{_BLANK})(?:{_QUOTE})?"
    r"(?P<user>[a-z][\w.@+-]{0,60}):)"
)
"""A user on a command line, followed by the password."""

_OPENING = re.compile(r"(?:[bBrRuU]{1,2}(?=[\"']))?(\\{0,16})([\"'`])")
_BLOCK = re.compile(r"[|>][+-]?\d?[ \t]{0,40}(?:\r?\n|\\n)( {1,40})")
_WORD = re.compile(r"(?:(?!\\+[nrtu\"'`])[^\s\"'`<>;,&|(){}\[\]])*+")
_LINE_WORD = re.compile(r"(?:(?!\\+[nrt\"'`])[^\s\"'`])*+")
_LINE = re.compile(r"(?:(?!\\+[nr\"'`])[^\r\n\"'`])*+")
_WHOLE_LINE = re.compile(r"(?:(?!\\+[nr])[^\r\n])*+")
_CONTENT = re.compile(r"[^<>\r\n]*+")
_LINE_ENDS = re.compile(r"[ \t]*(?:\Z|[\r\n]|[#;][ \t]|\\+[nr]|\\*[\"'`])")
_LINE_BEGINS = re.compile(
    r"[ \t]*(?:\d{1,7}[:|\t→ ][ \t]*)?(?:[-+>*$#][ \t]+|[+-])?[ \t]*"
    r"(?:(?:export|set|env|arg|declare -x|local)[ \t]+)?",
    re.IGNORECASE,
)
_LINE_BREAK = re.compile(r"[\r\n\"'`]|\\[nr]")
_SECTION = re.compile(r"(?:^|\n|\\n)[ \t]*\[[\w .:\"/-]{1,60}\][ \t]*\r?(?:\n|\\n|\\r)")
_IN_QUERY = re.compile(r"(?:[?&]|\\u0026|%26|&amp;)\Z")
_BEFORE_LOGIN = re.compile(r"(?:machine|login)(?:\s|\\n)+\S+(?:\s|\\n)+\Z")
_SETS = re.compile(r"(?:^|[\s\"'`;&])(?:ENV|ARG|setenv|setx|set -\w{1,3})[ \t]+\Z")
_PAIR = re.compile(rf"(?:name|key)(?:{_QUOTE})?[ \t]*[:=][ \t]*(?:{_QUOTE})?\Z", re.IGNORECASE)
_USES_USER = re.compile(r"\b(?:curl|wget|https?|xh)\b[^\n]*\Z", re.IGNORECASE)
_SCHEME = re.compile(
    r"(?:basic|bearer|token|digest|negotiate|ntlm|api-?key|key|bot|hmac|oauth|sso-key|genie_?key|splunk"
    r"|aws4-[\w-]{1,40})[ \t]{1,40}",
    re.IGNORECASE,
)

_NAME = re.compile(r"[\w.$-]{0,64}\Z", re.ASCII)
_ESCAPE = re.compile("[nrt]|u[0-9A-Fa-f]{4}")
"""A line break or ``&`` as JSON writes it, after its backslash."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KINDS = re.compile(
    r"(?:(?P<password>(?:^|_)(?:pass|pwd|pw|requirepass)|pass(?:word|wd|phrase|code|wort))"
    r"|(?P<secret>secret)|(?P<token>token)"
    r"|(?P<key>(?:api|app|secret|private|access|auth|sign|signing|encryption|master|account|ssh|deploy|licen[cs]e"
    r"|session|jwt|storage|subscription|write|admin|hmac|webhook|shared|service|client|ingest(?:ion)?)_?key"
    r"|secret_?key_?base)"
    r"|(?P<authorization>authorization)|(?P<auth>(?:^|_)auth)"
    rf"|(?P<cookie>(?:^|_)cookie)|(?P<signature>(?:^|_)sig(?:nature)?)){_SUFFIX}?$"
)
_NO_SECRET = re.compile(
    r"(?:^|_)(?:page|next|continuation|cursor|sync|pad|eos|bos|unk|mask|sep|cls|stop|start|end|first|last|per|max|min|num"
    r"|special|input|output|prompt|completion|cancel|cancellation|design|by|com|no|has|is|use)_?(?:token|secret|pass|password)$"
)
"""The tokens of models, pages and parsers, and names of flags that only tell if there is a
secret."""

_PLACEHOLDER = re.compile(
    r"#[0-9a-f]{3,8}\Z|\$\{|\$\(|\$\$?[A-Za-z_]\w*\Z|\$env:|\$\d\Z|%\w+%\Z|%\(|%[sdrv]\Z|\{|<|#\{|@\w+@\Z|!\w|\[redacted|[*&][a-z_]\w*\Z"
    r"|[*•x.…_-]+\Z|.*(?:\.\.\.|…|x{4,}|\*{3,})\Z"
    r"|(?:op|env|vault|file|secret|keyring|keychain|ssm|awssm|gcpsm|ref)[:+]|arn:|ENC\[|process\.env|os\.environ"
    r"|(?:your|my|the|insert|enter|replace|put|add|some|any|an?|choose|change)[-_ ]"
    r"|(?:replace|change)[_-]?(?:me|this)\Z|todo\b",
    re.IGNORECASE,
)
_UPPER = re.compile(r"[A-Z]+(?:_[A-Z0-9]+)+")
_PATH = re.compile(
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\]+[\w.@-]{1,40}){2,}[/\\]?|(?:~|\.{1,2})[/\\].*"
)
_NUMBER = re.compile(r"[-+]?v?\d+(?:[.,:_-]\d+)*[a-zA-Z%]{0,3}|0x[0-9a-fA-F]{1,8}")
_DOTTED = re.compile(r"[A-Za-z_]\w{0,23}(?:(?:\.|::|->)[A-Za-z_]\w{0,23})+")
_LETTERS = re.compile(r"[A-Za-z]+(?:[_-][A-Za-z]+)*")
_SIGN = re.compile(r"[!@#$%^&*~+=?]")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_PROSE = re.compile(
    r"[A-Z]|[.!?,;:](?:\s|\Z)|\b(?:the|your|an?|is|are|was|must|of|to|for|and|or|not|no|please|enter|should|field|required|invalid|wrong"
    r"|with|by|in|here|use|set|new|der|die|das|ein|ist)\b"
)
_WORDS = re.compile(
    "password|passwd|passphrase|passcode|pwd|pass|passwort|secret|secrets|token|tokens|key|keys|"
    "apikey|auth|cookie|authtoken|accesstoken|secretkey|authorization|signature|str|string|text|"
    "bytes|byte|int|integer|number|float|bool|boolean|object|any|none|null|nil|undefined|true|"
    "false|yes|no|on|off|void|char|varchar|unknown|never|buffer|secretstr|optional|option|"
    "required|default|value|values|name|names|type|types|env|environ|file|files|path|data|"
    "input|output|args|kwargs|params|param|result|response|request|req|res|self|this|that|user|"
    "username|login|email|account|config|settings|options|auto|basic|bearer|digest|oauth|oauth2|"
    "jwt|header|headers|query|body|form|inherit|include|omit|hidden|masked|test|testing|example|"
    "sample|dummy|foo|bar|baz|foobar|todo|tbd|missing|invalid|valid|expired|changed|unset|"
    "generate|generated|random|read|write|admin|public|private|internal|external|field|column|"
    "label|placeholder|prompt|getpass|hash|hashed|plain|plaintext|encrypted|raw|new|old|current|"
    "previous|next|first|last|list|map"
)
"""Words that follow the name of a secret without being one."""


class NamedSecret(NamedTuple):
    """The position and kind of a value that follows a secret's name."""

    start: int
    end: int
    kind: str


class NamedSecrets:
    """The named secrets of a text from ``start`` on.

    Unless the text is ``whole``, ``open`` has the positions of possible secrets that are
    incomplete.
    """

    def __init__(self, text: str, start: int = 0, *, whole: bool) -> None:
        self.found: list[NamedSecret] = []
        self.open: list[int] = []
        self._text = text
        self._whole = whole
        self._reached = False
        """True once the current value reaches the end of the text, so that it may continue."""
        self._ends: dict[object, tuple[int, int]] = {}
        # Lowering this letter would make the text longer, and shift all positions.
        lowered = text.lower() if text.isascii() else text.replace("İ", "i").lower()
        if not any(anchor in lowered for anchor in _ANCHORS):
            return
        first = max(0, start - CONTEXT - _OPENED)
        keyed = ((match, self._keyed) for match in _KEYED.finditer(lowered, first))
        users = ((match, self._of_user) for match in _USER.finditer(lowered, first))
        for match, read in (*keyed, *users):
            if start - _OPENED < match.end() < len(text):
                self._take(match, read, start)
        self.found.sort()
        self.open.sort()

    def first_open(self, start: int) -> int:
        """Return the first position of a possible secret from ``start`` on, else the end."""
        return next(
            (max(place, start) for place in self.open if place > start - _OPENED), len(self._text)
        )

    def _take(
        self, match: re.Match[str], read: Callable[[re.Match[str]], NamedSecret | None], start: int
    ) -> None:
        self._reached = False
        secret = read(match)
        if self._reached and not self._whole:
            self.open.append(match.end())
        elif secret and start <= secret.start < secret.end:
            self.found.append(secret)

    def _keyed(self, match: re.Match[str]) -> NamedSecret | None:
        """Return the value after a key, if the name is a secret's and the value looks like one."""
        word_end = match.end("suffix")
        lead = self._text[max(0, match.end() - CONTEXT) : word_end]
        name = _name_at_the_end(lead)
        kind = kind_of(name)
        if kind is None:
            return None
        before = lead[: len(lead) - len(name)]
        at = match.end()
        how = match.lastgroup
        if how == "pair" and not _PAIR.search(before):
            return None
        if how == "blank" and not _follows_by_a_blank(name, before):
            return None
        if kind == "signature" and not _IN_QUERY.search(before):
            return None
        if how == "colon" and before.endswith(":"):
            return None  # arn:aws:...:secret:name
        if block := how == "colon" and _BLOCK.match(self._text, at):
            return self._block(block, kind)
        if opening := _OPENING.match(self._text, at):
            # A comma separates the items of any list, and a space the words of any sentence.
            of_flag = name.startswith("-")
            between = match[how or 0]
            if (
                between in (" ", "\t")
                and not of_flag
                and name.lower() not in ("password", "passphrase")
            ):
                return None
            sure = how != "listed" or of_flag or between in (" ", "(")
            return self._quoted(
                opening, kind, sure=sure and (kind != "token" or match["close"] != "")
            )
        if how == "element":
            if before.endswith("<"):
                return self._element(at, kind)
            return None
        if how in ("typed", "listed"):
            return None
        if kind in ("authorization", "cookie"):
            return self._header(at, kind)
        return self._plain(match, kind, name, before)

    def _of_user(self, match: re.Match[str]) -> NamedSecret | None:
        """Return the password after a user on a command line."""
        end = self._end(_WORD, match.end())
        value = self._text[match.end() : end]
        lead = self._text[max(0, match.end() - CONTEXT) : match.start()]
        sure = match["user"] is None or _USES_USER.search(lead) is not None
        if (
            value == match["user"]
            or value.isdigit()
            or is_placeholder(value)
            or not (sure or _is_strong(value))
        ):
            return None
        return NamedSecret(match.end(), end, "password")

    def _block(self, block: re.Match[str], kind: str) -> NamedSecret | None:
        """Return the indented lines of a YAML block."""
        indent = block[1]
        begin = block.end()
        known_begin, end = self._ends.get(("block", indent), (0, 0))
        if not known_begin <= begin < end:  # else this key is a line of a block already read
            end = self._end(_LINE, begin)
            following = re.compile(rf"(?:\r?\n|\\n){indent}(?=\S)")
            while further := following.match(self._text, end):
                end = self._end(_LINE, further.end())
            self._ends["block", indent] = (begin, end)
        # The next line of the block may not have arrived completely.
        self._reached = self._reached or end + len(indent) + 4 > len(self._text)
        self._reached = self._reached or end == len(self._text)
        value = self._text[begin : min(end, begin + _MEASURED)]
        if _counts_in_quotes(kind, value.strip()):
            return NamedSecret(begin, end, kind)
        return None

    def _quoted(self, opening: re.Match[str], kind: str, *, sure: bool) -> NamedSecret | None:
        """Return a value in quotes; unless ``sure``, only a value that is no ordinary word."""
        begin = opening.end()
        end = self._close(opening)
        value = self._text[begin : min(end, begin + _MEASURED)]
        if kind == "authorization" and (scheme := _SCHEME.match(value)):
            begin += scheme.end()
            value = value[scheme.end() :]
            if _counts_in_header(kind, value, known=True):
                return NamedSecret(begin, end, kind)
            return None
        may = sure or kind == "cookie" or len(value) >= _LONG_WORD or _is_strong(value)
        if may and _counts_in_quotes(kind, value):
            return NamedSecret(begin, end, kind)
        return None

    def _close(self, opening: re.Match[str]) -> int:
        """Return the end of a quoted text, also in JSON inside JSON, or else of the line."""
        depth = len(opening[1])
        quote = opening[2]
        begin, end = self._ends.get((depth, quote), (0, 0))
        if begin <= opening.end() <= end:
            return end
        newline = self._text.find("\n", opening.end())
        last = newline if newline >= 0 else len(self._text)
        end = opening.end()
        while (end := self._text.find(quote, end, last)) >= 0:
            escapes = len(self._text[opening.end() : end]) - len(
                # Each level of JSON doubles the backslashes, so their number tells whether this
                # quote is nested.
                self._text[opening.end() : end].rstrip("\\")
            )
            if escapes < depth or (escapes - depth) % (2 * (depth + 1)) == 0:
                break
            end += 1
        close = last if end < 0 else end - depth
        self._reached = self._reached or (end < 0 and last == len(self._text))
        self._ends[depth, quote] = (opening.end(), max(close, opening.end()))
        return max(close, opening.end())

    def _header(self, at: int, kind: str) -> NamedSecret | None:
        end = self._end(_LINE, at)
        if self._text[at:end].endswith("="):
            end = self._end(_WHOLE_LINE, end)  # quoted parameters, as in Digest
        value = self._text[at : min(end, at + _MEASURED)]
        scheme = _SCHEME.match(value) if kind == "authorization" else None
        if scheme:
            at += scheme.end()
            value = value[scheme.end() :]
        counts = _counts_in_header(kind, value.strip(), known=scheme is not None)
        if counts:
            return NamedSecret(at, at + len(self._text[at:end].rstrip()), kind)
        return None

    def _element(self, at: int, kind: str) -> NamedSecret | None:
        end = self._end(_CONTENT, at)
        # The closing tag may not have arrived yet.
        self._reached = self._reached or end + 2 > len(self._text)
        is_secret = self._text.startswith("</", end) and _counts_in_quotes(
            kind, self._text[at:end].strip()
        )
        if is_secret:
            return NamedSecret(at, end, kind)
        return None

    def _plain(self, match: re.Match[str], kind: str, name: str, before: str) -> NamedSecret | None:
        """Return an unquoted value.

        The more it looks like code or prose, the stronger it has to be.
        """
        at = match.end()
        how = match.lastgroup
        in_query = _IN_QUERY.search(before) is not None
        of_flag = before.endswith("-") or name.startswith("-")
        # After a quoted name, JSON and code have quotes too, or the value is no text.
        begins_line = not (in_query or match["close"]) and _begins_line(before, is_cut=at > CONTEXT)
        end = self._end(_WORD, at)
        if begins_line and how in ("colon", "equals"):
            longer = self._end(_LINE_WORD, at)
            ended = _LINE_ENDS.match(self._text, longer)
            self._reached = self._reached or (ended.end() if ended else longer) == len(self._text)
            if ended and self._text[end : end + 1] not in ("(", "["):
                # A semicolon or a comma at the end of a line is not part of the value.
                end = longer - (self._text[longer - 1 : longer] in (";", ","))
            begins_line = ended is not None
        value = self._text[at : min(end, at + _MEASURED)]
        after = self._text[end : end + 1]
        if after in ("(", "[") or (after == "<" and how == "colon") or is_placeholder(value):
            return None
        if kind == "signature":
            if len(value) >= 16:
                return NamedSecret(at, end, kind)
            return None
        blanks = match[how][-1:] in (" ", "\t") if how else False
        if how in ("fallback", "listed", "blank") and not of_flag:
            is_open = True
        elif how == "equals":
            assigned = begins_line and (not blanks or _SECTION.search(before) is not None)
            sets = not blanks and (of_flag or name.isupper() or before.rstrip(" ").endswith(";"))
            is_open = in_query or sets or assigned
        else:
            is_header = "-" in name and len(value) >= 8
            is_open = (
                how == "colon"
                and begins_line
                and (is_header or (kind == "password" and value.islower()))
            )
        strong = _is_strong(value) or (
            kind == "password" and len(value) >= 4 and value.isdigit() and begins_line
        )
        counts = strong or (is_open and _counts_when_open(kind, value, after))
        if counts:
            return NamedSecret(at, end, kind)
        return None

    def _end(self, pattern: re.Pattern[str], at: int) -> int:
        begin, end = self._ends.get(pattern, (0, 0))
        if not begin <= at < end:
            match = pattern.match(self._text, at)
            end = match.end() if match else at
            self._ends[pattern] = (at, end)
        self._reached = self._reached or end == len(self._text)
        return end


@lru_cache(4096)
def kind_of(name: str) -> str | None:
    """Return the kind of secret that a key of this name has, or None."""
    plain = _CAMEL.sub("_", name.rpartition(".")[2]).lower().replace("-", "_").strip("_$")
    found = _KINDS.search(plain)
    # PWD and OLDPWD are working directories.
    if found is None or _NO_SECRET.search(plain) or name in ("PWD", "OLDPWD"):
        return None
    return found.lastgroup


def is_placeholder(value: str) -> bool:
    """Return True if a value only refers to a secret, or stands for none."""
    plain = MARKS.sub("", value).strip("\"' ,;")
    if not plain or _WORDS.fullmatch(plain.lower()) or _UPPER.fullmatch(plain):
        return True
    return _PLACEHOLDER.match(plain) is not None or _PATH.fullmatch(plain) is not None


def _name_at_the_end(lead: str) -> str:
    found = _NAME.search(lead)
    name = found[0] if found else ""
    escape = _ESCAPE.match(name) if lead[: len(lead) - len(name)].endswith("\\") else None
    return name[escape.end() :] if escape else name


def _begins_line(before: str, *, is_cut: bool) -> bool:
    begin = -1 if is_cut else 0
    for found in _LINE_BREAK.finditer(before):
        begin = found.end()
    return begin >= 0 and _LINE_BEGINS.fullmatch(before, begin) is not None


def _follows_by_a_blank(name: str, before: str) -> bool:
    """Return True if a space separates a name from its value: on a command line or in .netrc.

    Elsewhere, a space is the end of a word.
    """
    if name.startswith("-"):
        return before[-1:] in ("", " ", "\t", "\n", '"', "'", "`")
    is_login = name == "password" and _BEFORE_LOGIN.search(before) is not None
    return is_login or name == "requirepass" or _SETS.search(before) is not None


def _is_strong(value: str) -> bool:
    """Return True if a value is unlike words, names and numbers in code or prose."""
    if len(value) < 6 or _NUMBER.fullmatch(value) or _DOTTED.fullmatch(value) or value.isdigit():
        return False
    has_letter = any(char.isalpha() for char in value)
    has_digit = any(char.isdigit() for char in value)
    # ``password1`` is a name like ``password``.
    if not has_letter or kind_of(value.rstrip("0123456789")):
        return False
    # At the end of a word, these signs are punctuation.
    return has_digit or _SIGN.search(value.rstrip("=?!")) is not None


def _counts_when_open(kind: str, value: str, after: str) -> bool:
    """Return True if a value in an unambiguous place counts, unless it is code."""
    if after in (",", ")") and value.isidentifier() and not any(char.isdigit() for char in value):
        return False
    if kind == "auth":
        return _is_login(value)
    if kind == "password":
        return len(value) >= 3 and not _DOTTED.fullmatch(value)
    return _counts_in_quotes(kind, value) and not _DOTTED.fullmatch(value)


def _counts_in_quotes(kind: str, value: str) -> bool:
    if is_placeholder(value):
        return False
    if kind in ("authorization", "cookie"):
        return _counts_in_header(kind, value, known=False)
    if kind == "auth":
        return _is_login(value)
    if any(char.isspace() for char in value):
        return kind == "password" and _PROSE.search(value) is None
    if kind == "password":
        return len(value) >= 3
    if kind == "signature" or len(value) < 6 or _NUMBER.fullmatch(value):
        return False
    return not (_LETTERS.fullmatch(value) and kind_of(value)) and not _DOTTED.fullmatch(value)


def _counts_in_header(kind: str, value: str, *, known: bool) -> bool:
    if is_placeholder(value):
        return False
    if kind == "cookie":
        name, given, rest = value.partition("=")
        is_name = len(name) < 80 and " " not in name.strip()
        return bool(given) and is_name and not is_placeholder(rest.partition(";")[0])
    if "=" in value and "," in value:
        return True  # parameters, as in Digest
    return " " not in value and len(value) >= 6 and (known or _is_strong(value))


def _is_login(value: str) -> bool:
    """Return True for ``user:password`` in base64, or for a long key."""
    if not _BASE64.fullmatch(value) or (_LETTERS.fullmatch(value.rstrip("=")) and len(value) < 12):
        return False
    try:
        # Surplus padding is ignored, while missing padding is an error.
        plain = binascii.a2b_base64(value.rstrip("=") + "==", strict_mode=False)
    except binascii.Error:
        plain = b""
    return (b":" in plain and plain.isascii()) or (len(value) >= 16 and _is_strong(value))
