"""The words of the strict reader: a plain subset of bash, split exactly as bash 5.2 splits it.

To bash, an accepted line means the same words. Every other line raises ``UnreadableLine``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from forge_cli.bashrules.allow.braces import expand_braces
from forge_cli.bashrules.text import UNSEEN


class UnreadableLine(Exception):
    """Raised for a line outside of the subset, with the reason and the place of the character."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.why = why
        self.at = at


class Expanded(NamedTuple):
    """An expansion in a word: a variable or the output of commands."""

    variable: str = ""
    commands: Sequence[Any] = ()
    """The simple commands of a substitution."""
    quoted: bool = False
    is_pipe: bool = False
    """True for ``<(...)``, which becomes the name of a pipe with that output."""


class Unknown(NamedTuple):
    """The reason why a word is unknown before the line runs, and the facts known about it."""

    why: str
    quoted: bool = False
    """True if it stays one word, whatever its value."""
    printed_by: tuple[tuple[str, ...], ...] = ()
    """The words of the commands of the pipeline whose output it is."""
    glob: str = ""
    """The glob that it fits, if it is the name of a file."""
    is_pipe: bool = False
    """True if it is the name of a pipe that a command of the line writes to."""


class ShellWord(NamedTuple):
    """A word after quote removal.

    It is ``bare`` if no part was quoted, and a ``glob`` if file names may replace it. A word with
    expansions has ``pieces`` while the line is read, and later a value or an ``unknown``.
    """

    text: str
    bare: bool = True
    glob: bool = False
    pieces: tuple[str | Expanded, ...] = ()
    unknown: Unknown | None = None
    of_braces: bool = False
    """True for a word of a brace list, which bash takes neither for a keyword nor an assignment."""


class ShellToken(NamedTuple):
    """A token: ``kind`` is ``word``, ``redirect``, ``newline`` or the like, or an operator."""

    kind: str
    at: int
    glued: bool
    word: ShellWord = ShellWord("")


class _Heredoc(Struct, frozen=True):
    delimiter: str
    expands: bool
    tabs: bool


ADDED_BY_XARGS = "xargs adds words that are not known"
PROCESS_SUBSTITUTION = "a process substitution starts a command"
SUBSTITUTION = "a substitution is replaced by the output of a command"
ARITHMETIC = "arithmetic can start commands"
VARIABLE = "a variable is replaced by its value"
BRACES = "braces can become several words"
LEADING_GLOB = "a word that starts with a glob can become an option"
ASSIGNMENT = "an assignment changes what the command does"
CONTROL_FLOW = "control flow is not analysed"
_AFTER_DOLLAR = {
    "'": "$'...' is decoded by the shell",
    '"': '$"..." is translated by the shell',
    "(": SUBSTITUTION,
    "[": ARITHMETIC,
    "{": VARIABLE,
}
_SPECIAL_PARAMETERS = frozenset("@*#?-$!_")
_PARAMETER = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*|\?)|\{([A-Za-z_][A-Za-z0-9_]*)\})(?!\\\n)")
_STATUSES = re.compile(r"\$\{PIPESTATUS(?:\[(?:[0-9]+|[@*])\])?\}")
"""Exit codes: numbers, as ``$?`` is one."""
_LITERAL_DOLLAR = "\n\t /|;&,:%^=+"
_LITERAL_DOLLAR_IN_QUOTES = "\" |)/',;:%^&~<>=+]}\\"
"""Characters after a dollar that is only a dollar."""
_MAX_NESTED = 8

ReadSubstitution = Callable[["Lexer"], Sequence[Any]]
"""A function that reads commands from a lexer up to the parenthesis that ends them."""

_ENDS_WORD = " \t\n;&|()<>"
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|[;&|()<>\n]")
_REDIRECTS = frozenset({"&>>", "&>", "<<<", "<>", "<&", ">>", ">|", ">&", "<", ">"})
_PLAIN = re.compile(r"(?:[A-Za-z0-9_./:@%+,^=!\]-]|[^\x00-\x7f])+")
_USUAL_WORD = re.compile(r"[ \t]*((?:[A-Za-z0-9_./:@%+,^=-]|[^\x00-\x7f])+)(?=[ \t\n;&|)]|\Z)")
_EMPTY_LINES = re.compile(r"[ \t\n]*\n")
_IN_DOUBLE_QUOTES = re.compile(r"[^\"\\$`]+")
_CONTINUED = re.compile(r"(?:\\\n)+(?=[&|;<>()-])")
"""A backslash-newline after an operator, and a character that bash may join to the operator."""
_BRACED = re.compile(r"\{[A-Za-z0-9_+-]*\}(?!(?:\\\n)*[<>])")
_BRACE_WORD = re.compile(r"(?=[^\s{]*\{[^\s]*,)[A-Za-z0-9_./:@%+=*?{},-]+(?=[ \t\n;&|)]|\Z)")
_DELIMITER = re.compile(
    r"(?:'([^'\n]+)'|\"([^\"\\$`\n]+)\"|\\([A-Za-z0-9_]+)|([A-Za-z0-9_]+))(?=[ \t\n;&|()<>]|\Z)"
)
_EXPANDS = re.compile(r"(?<!\\)(?:\\\\)*[$`]|\\\Z")

_UNUSUAL = re.compile(r"[^\t\n\x20-\x7e]")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})


def refuse_invisible(text: str) -> None:
    """Raise ``UnreadableLine`` for a character that a prompt would not show, or would obey."""
    invisible = [char for char in set(_UNUSUAL.findall(text)) if _is_invisible(char)]
    if invisible:
        at = min(map(text.index, invisible))
        raise UnreadableLine(f"the character U+{ord(text[at]):04X} cannot be seen", at)


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES or char in UNSEEN


def _may_expand_braces(word: str) -> bool:
    """Return True if a brace may pair with a later comma: to bash, ``{b}c,d}`` is two words."""
    _, _, behind = word.partition("{")
    inside, _, _ = behind.rpartition("}")
    return "," in inside or ".." in inside


def _word_of_braces(text: str) -> ShellWord:
    glob = any(char in text for char in "*?")
    unknown = Unknown(LEADING_GLOB, glob=text) if text.startswith(("*", "?")) else None
    return ShellWord(text, bare=False, glob=glob, unknown=unknown, of_braces=True)


class Lexer:
    """The tokens of a line, one a call."""

    def __init__(
        self, text: str, read_substitution: ReadSubstitution, pos: int = 0, depth: int = 0
    ) -> None:
        self.text = text
        self.pos = pos
        self.depth = depth
        self._read_substitution = read_substitution
        self._heredocs: list[_Heredoc] = []
        self._waiting: list[ShellToken] = []
        """Words of a brace list that come next, the last one first."""

    def next(self) -> ShellToken:
        if self._waiting:
            return self._waiting.pop()
        # Nearly every word is plain: one match takes it, and the rest of this method is skipped.
        if usual := _USUAL_WORD.match(self.text, self.pos):
            self.pos = usual.end()
            return ShellToken("word", usual.start(1), False, ShellWord(usual[1]))
        before = self.pos
        self._skip_blanks()
        at = self.pos
        glued = at == before and self._after_word(before)
        if at >= len(self.text):
            if self._heredocs:
                raise UnreadableLine("a here-document has no end", at)
            return ShellToken("end", at, glued)
        operator = _OPERATOR.match(self.text, at)
        if operator is None:
            return self._word_token(at, glued)
        if _CONTINUED.match(self.text, operator.end()):
            raise UnreadableLine("a backslash and a newline follow an operator", at)
        self.pos = operator.end()
        return self._operator_token(operator[0], at, glued)

    def target(self) -> ShellWord:
        """Return the word after a redirection operator."""
        self._skip_blanks()
        if self.pos >= len(self.text) or _OPERATOR.match(self.text, self.pos):
            raise UnreadableLine("a redirection has no target", self.pos)
        return self._word()

    def _after_word(self, pos: int) -> bool:
        return pos > 0 and self.text[pos - 1] not in _ENDS_WORD

    def _skip_blanks(self) -> None:
        if blanks := _BLANKS.match(self.text, self.pos):
            self._stay_in_line(blanks[0])
            self.pos = blanks.end()
        if self.text.startswith("#", self.pos) and not self._after_word(self.pos):
            if self.depth:
                raise UnreadableLine("a substitution contains a comment", self.pos)
            end = self.text.find("\n", self.pos)
            self.pos = len(self.text) if end < 0 else end

    def _stay_in_line(self, passed: str) -> None:
        if self._heredocs and "\n" in passed:
            # The body of a here-document starts after this line, which `passed` would continue.
            raise UnreadableLine("the line continues before its here-document", self.pos)

    def _operator_token(self, operator: str, at: int, glued: bool) -> ShellToken:
        match operator:
            case "\n":
                self._skip_heredocs()
                if empty := _EMPTY_LINES.match(self.text, self.pos):
                    self.pos = empty.end()
                return ShellToken("newline", at, glued)
            case ";;" | ";;&" | ";&":
                raise UnreadableLine(CONTROL_FLOW, at)
            case "<<" | "<<-" if self.depth:
                raise UnreadableLine("a substitution contains a here-document", at)
            case "<<" | "<<-":
                self._open_heredoc(tabs=operator == "<<-")
                return ShellToken("heredoc", at, glued)
            case "<" | ">" if self.text.startswith("(", self.pos):
                if operator == ">" or glued:
                    raise UnreadableLine(PROCESS_SUBSTITUTION, at)
                return ShellToken("word", at, glued, self._process_substitution(at))
            case _ if operator in _REDIRECTS:
                return ShellToken("redirect", at, glued, ShellWord(operator))
        return ShellToken(operator, at, glued)

    def _word_token(self, at: int, glued: bool) -> ShellToken:
        if listed := self._brace_words(at, glued):
            return listed
        word = self._word()
        number = word.bare and word.text.isascii() and word.text.isdecimal()
        kind = "descriptor" if number and self.text.startswith(("<", ">"), self.pos) else "word"
        return ShellToken(kind, at, glued, word)

    def _word(self) -> ShellWord:
        start = self.pos
        parts: list[str | Expanded] = [""]
        bare = True
        has_glob = False
        leads_with_glob = False
        has_brace = False
        while self.pos < len(self.text):
            if plain := _PLAIN.match(self.text, self.pos):
                parts.append(plain[0])
                self.pos = plain.end()
                continue
            char = self.text[self.pos]
            if char in _ENDS_WORD:
                break
            # A backslash-newline joins lines and quotes nothing.
            bare = bare and (char not in "'\"\\" or self.text.startswith("\\\n", self.pos))
            if char in "*?[":
                has_glob = True
                leads_with_glob = leads_with_glob or not any(parts)
            has_brace = has_brace or char == "{"
            last = parts[-1]
            parts.extend(self._piece(char, last[-1:] if isinstance(last, str) else "$"))
        raw = self.text[start : self.pos]
        if (has_brace or "$(" in raw) and _may_expand_braces(raw):
            raise UnreadableLine(BRACES, start)
        if any(isinstance(part, Expanded) for part in parts):
            if "\\\n" in raw:
                raise UnreadableLine("a backslash and a newline follow an expansion", start)
            return ShellWord(raw, bare, has_glob, tuple(part for part in parts if part))
        text = "".join(part for part in parts if isinstance(part, str))
        if text == "[":  # the command `[`, not an open bracket expression
            return ShellWord(text, bare)
        unknown = Unknown(LEADING_GLOB, glob=text) if leads_with_glob else None
        return ShellWord(text, bare, has_glob, unknown=unknown)

    def _piece(self, char: str, before: str) -> Sequence[str | Expanded]:
        """Read the special character at ``pos``, for a word that ends with ``before`` so far."""
        match char:
            case "\\":
                return [self._escaped()]
            case "'":
                return [self._single_quoted()]
            case '"':
                return self._double_quoted()
            case "$" | "`":
                return [self._dollar(_LITERAL_DOLLAR, quoted=False)]
            case "*" | "?" | "[":
                return [self._take()]
            case "{" | "}":
                return [self._brace(before)]
            case "~" if before in ("", "=", ":"):
                raise UnreadableLine("~ is replaced by a home directory", self.pos)
            case "~" | "#":
                return [self._take()]
        raise UnreadableLine(f"{char!r} is not understood here", self.pos)

    def _take(self) -> str:
        self.pos += 1
        return self.text[self.pos - 1]

    def _escaped(self) -> str:
        self.pos += 1
        if self.pos >= len(self.text):
            raise UnreadableLine("the line ends with a backslash", self.pos)
        char = self._take()
        self._stay_in_line(char)
        return "" if char == "\n" else char

    def _single_quoted(self) -> str:
        start = self.pos + 1
        end = self.text.find("'", start)
        if end < 0:
            raise UnreadableLine("a quote is not closed", self.pos)
        self.pos = end + 1
        self._stay_in_line(self.text[start:end])
        return self.text[start:end]

    def _double_quoted(self) -> Sequence[str | Expanded]:
        start = self.pos
        parts: list[str | Expanded] = []
        self.pos += 1
        while self.pos < len(self.text):
            if plain := _IN_DOUBLE_QUOTES.match(self.text, self.pos):
                parts.append(plain[0])
                self.pos = plain.end()
            elif self.text[self.pos] == '"':
                self.pos += 1
                self._stay_in_line(self.text[start : self.pos])
                return parts
            elif self.text[self.pos] == "\\":
                # In double quotes, a backslash before any other character stays.
                escaped = self._escaped()
                parts.append(escaped if escaped in ("", "$", "`", '"', "\\") else f"\\{escaped}")
            else:
                parts.append(self._dollar(_LITERAL_DOLLAR_IN_QUOTES, quoted=True))
        raise UnreadableLine("a quote is not closed", start)

    def _dollar(self, literal_before: str, *, quoted: bool) -> str | Expanded:
        """Read a plain dollar, a variable or a substitution; refuse others and backticks."""
        after = self.text[self.pos + 1 : self.pos + 2]
        if self.text[self.pos] == "`":
            raise UnreadableLine(SUBSTITUTION, self.pos)
        if self.text.startswith("$((", self.pos):
            raise UnreadableLine(ARITHMETIC, self.pos)
        if after == "(":
            return self._substitution(quoted=quoted)
        if parameter := _PARAMETER.match(self.text, self.pos):
            self.pos = parameter.end()
            return Expanded(parameter[1] or parameter[2], quoted=quoted)
        if statuses := _STATUSES.match(self.text, self.pos):
            self.pos = statuses.end()
            return Expanded(statuses[0], quoted=quoted)
        if after in literal_before and not self.text.startswith("\\\n", self.pos + 1):
            return self._take()
        why = "'$' is not understood here"
        if after.isalnum() or after in _SPECIAL_PARAMETERS:
            why = VARIABLE
        raise UnreadableLine(_AFTER_DOLLAR.get(after, why), self.pos)

    def _substitution(self, *, quoted: bool) -> Expanded:
        start = self.pos
        if self.depth == _MAX_NESTED:
            raise UnreadableLine(SUBSTITUTION, start)
        commands = self._nested_commands(start)
        self._stay_in_line(self.text[start : self.pos])
        return Expanded(commands=commands, quoted=quoted)

    def _nested_commands(self, start: int) -> Sequence[Any]:
        """Read the commands in parentheses, whose opening takes two characters."""
        inner = Lexer(self.text, self._read_substitution, start + 2, self.depth + 1)
        commands = self._read_substitution(inner)
        self.pos = inner.pos
        return commands

    def _process_substitution(self, start: int) -> ShellWord:
        """Read ``<(...)`` as a word of its own: the name of a pipe, which bash never splits."""
        if self.depth == _MAX_NESTED:
            raise UnreadableLine(PROCESS_SUBSTITUTION, start)
        commands = self._nested_commands(start)
        raw = self.text[start : self.pos]
        self._stay_in_line(raw)
        if "{" in raw or (self.pos < len(self.text) and self.text[self.pos] not in _ENDS_WORD):
            raise UnreadableLine(PROCESS_SUBSTITUTION, start)
        piece = Expanded(commands=commands, quoted=True, is_pipe=True)
        return ShellWord(raw, bare=False, pieces=(piece,))

    def _brace_words(self, at: int, glued: bool) -> ShellToken | None:
        """Return the first word of a brace list at ``at``, and queue the others; else None."""
        found = _BRACE_WORD.match(self.text, at)
        texts = expand_braces(found[0]) if found else None
        if found is None or texts is None:
            return None
        self.pos = found.end()
        tokens = [ShellToken("word", at, glued, _word_of_braces(text)) for text in texts]
        self._waiting = tokens[:0:-1]  # all but the first, the last one first
        return tokens[0]

    def _brace(self, before: str) -> str:
        # `{` and `}` that stand alone are words of the grammar.
        if not before and self.text[self.pos + 1 : self.pos + 2] in _ENDS_WORD:
            return self._take()
        braced = _BRACED.match(self.text, self.pos)
        if braced is None:
            raise UnreadableLine(BRACES, self.pos)
        self.pos = braced.end()
        return braced[0]

    def _open_heredoc(self, *, tabs: bool) -> None:
        self._skip_blanks()
        delimiter = _DELIMITER.match(self.text, self.pos)
        if delimiter is None:
            raise UnreadableLine("the delimiter of a here-document is not a plain word", self.pos)
        self.pos = delimiter.end()
        text = next(filter(None, delimiter.groups()))
        is_bare = delimiter[4] is not None  # the body expands only if no part was quoted
        self._heredocs.append(_Heredoc(text, expands=is_bare, tabs=tabs))

    def _skip_heredocs(self) -> None:
        for heredoc in self._heredocs:
            while (line := self._body_line(heredoc.tabs)) != heredoc.delimiter:
                if heredoc.expands and _EXPANDS.search(line):
                    raise UnreadableLine("the here-document is expanded by the shell", self.pos)
        self._heredocs.clear()

    def _body_line(self, tabs: bool) -> str:
        if self.pos >= len(self.text):
            raise UnreadableLine("a here-document has no end", self.pos)
        end = self.text.find("\n", self.pos)
        if end < 0:
            end = len(self.text)
        line = self.text[self.pos : end]
        self.pos = min(end + 1, len(self.text))
        return line.lstrip("\t") if tabs else line
