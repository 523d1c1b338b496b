"""The strict reader's words: a small plain subset of bash, split exactly as bash 5.2 splits it.

Whatever is accepted here means the same words to bash. Everything else is ``UnreadableLine``.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple


class UnreadableLine(Exception):
    """The line leaves the subset: why, in words for people, and at which character."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.why = why
        self.at = at


class ShellWord(NamedTuple):
    """One word after quote removal; ``bare`` when no part of it was quoted, ``glob`` when file names may replace it."""

    text: str
    bare: bool = True
    glob: bool = False


class ShellToken(NamedTuple):
    """``word``, ``descriptor``, ``redirect``, ``heredoc``, ``newline``, ``end``, or an operator by its own name."""

    kind: str
    at: int
    glued: bool
    word: ShellWord = ShellWord("")


@dataclass(frozen=True)
class _Heredoc:
    delimiter: str
    expands: bool
    tabs: bool


SUBSTITUTION = "a substitution is replaced by the output of a command"
ARITHMETIC = "arithmetic can start commands"
VARIABLE = "a variable is replaced by its value"
BRACES = "braces can become several words"
_AFTER_DOLLAR = {
    "'": "$'...' is decoded by the shell",
    '"': '$"..." is translated by the shell',
    "(": SUBSTITUTION,
    "[": ARITHMETIC,
    "{": VARIABLE,
}
_SPECIAL_PARAMETERS = frozenset("@*#?-$!_")

_ENDS_WORD = " \t\n;&|()<>"
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|[;&|()<>\n]")
_REDIRECTS = frozenset({"&>>", "&>", "<<<", "<>", "<&", ">>", ">|", ">&", "<", ">"})
_PLAIN = re.compile(r"(?:[A-Za-z0-9_./:@%+,^=!\]-]|[^\x00-\x7f])+")
_USUAL_WORD = re.compile(r"[ \t]*((?:[A-Za-z0-9_./:@%+,^=-]|[^\x00-\x7f])+)(?=[ \t\n;&|)]|\Z)")
_EMPTY_LINES = re.compile(r"[ \t\n]*\n")
_IN_DOUBLE_QUOTES = re.compile(r"[^\"\\$`]+")
_CONTINUED = re.compile(r"(?:\\\n)+(?=[&|;<>()-])")
"""Backslash-newline after an operator, and a character that bash may join to it: ``&`` and ``>`` become ``&>``."""
_BRACED = re.compile(r"\{[A-Za-z0-9_+-]*\}(?!(?:\\\n)*[<>])")
_DELIMITER = re.compile(r"(?:'([^'\n]+)'|\"([^\"\\$`\n]+)\"|\\([A-Za-z0-9_]+)|([A-Za-z0-9_]+))(?=[ \t\n;&|()<>]|\Z)")
_EXPANDS = re.compile(r"(?<!\\)(?:\\\\)*[$`]|\\\Z")

_UNUSUAL = re.compile(r"[^\t\n\x20-\x7e]")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def refuse_invisible(text: str) -> None:
    """No character may be there that a prompt would not show, or would obey."""
    invisible = [char for char in set(_UNUSUAL.findall(text)) if _is_invisible(char)]
    if invisible:
        at = min(map(text.index, invisible))
        raise UnreadableLine(f"the character U+{ord(text[at]):04X} cannot be seen", at)


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES or _INVISIBLE.match(char) is not None


class Lexer:
    """Splits a line into tokens, one a call."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self._heredocs: list[_Heredoc] = []

    def next(self) -> ShellToken:
        if usual := _USUAL_WORD.match(self.text, self.pos):
            self.pos = usual.end()
            return ShellToken("word", usual.start(1), False, ShellWord(usual[1]))
        before = self.pos
        self._skip_blanks()
        at, glued = self.pos, self.pos == before and self._after_word(before)
        if at >= len(self.text):
            if self._heredocs:
                raise UnreadableLine("a here-document has no end", at)
            return ShellToken("end", at, glued)
        operator = _OPERATOR.match(self.text, at)
        if operator is None:
            return self._word_token(at, glued)
        if _CONTINUED.match(self.text, operator.end()):
            raise UnreadableLine("an operator goes on behind a backslash", at)
        self.pos = operator.end()
        return self._operator_token(operator[0], at, glued)

    def target(self) -> ShellWord:
        """The word that a redirection operator needs after it."""
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
            end = self.text.find("\n", self.pos)
            self.pos = len(self.text) if end < 0 else end

    def _stay_in_line(self, passed: str) -> None:
        if self._heredocs and "\n" in passed:
            raise UnreadableLine("the line goes on before its here-document", self.pos)

    def _operator_token(self, operator: str, at: int, glued: bool) -> ShellToken:
        match operator:
            case "\n":
                self._skip_heredocs()
                if empty := _EMPTY_LINES.match(self.text, self.pos):
                    self.pos = empty.end()
                return ShellToken("newline", at, glued)
            case ";;" | ";;&" | ";&":
                raise UnreadableLine("control flow is not analysed", at)
            case "<<" | "<<-":
                self._open_heredoc(tabs=operator == "<<-")
                return ShellToken("heredoc", at, glued)
            case "<" | ">" if self.text.startswith("(", self.pos):
                raise UnreadableLine("a process substitution starts a command", at)
            case _ if operator in _REDIRECTS:
                return ShellToken("redirect", at, glued, ShellWord(operator))
        return ShellToken(operator, at, glued)

    def _word_token(self, at: int, glued: bool) -> ShellToken:
        word = self._word()
        number = word.bare and word.text.isascii() and word.text.isdecimal()
        kind = "descriptor" if number and self.text.startswith(("<", ">"), self.pos) else "word"
        return ShellToken(kind, at, glued, word)

    def _word(self) -> ShellWord:
        start, parts = self.pos, [""]
        bare, glob = True, False
        while self.pos < len(self.text):
            if plain := _PLAIN.match(self.text, self.pos):
                parts.append(plain[0])
                self.pos = plain.end()
                continue
            char = self.text[self.pos]
            if char in _ENDS_WORD:
                break
            bare = bare and (char not in "'\"\\" or self.text.startswith("\\\n", self.pos))
            glob = glob or char in "*?["
            if piece := self._piece(char, parts[-1][-1:]):
                parts.append(piece)
        text = "".join(parts)
        self._refuse_brace_expansion(start)
        return ShellWord(text, bare, glob and text != "[")

    def _piece(self, char: str, before: str) -> str:
        """What the special character at ``pos`` adds, with what belongs to it, to a word that ends in ``before``."""
        match char:
            case "\\":
                return self._escaped()
            case "'":
                return self._single_quoted()
            case '"':
                return self._double_quoted()
            case "$" | "`":
                return self._dollar("\n\t ")
            case "*" | "?" | "[":
                return self._glob(before)
            case "{" | "}":
                return self._brace(before)
            case "~" if before in ("", "=", ":"):
                raise UnreadableLine("~ is replaced by a home directory", self.pos)
            case "~" | "#":
                return self._take()
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
        start, end = self.pos + 1, self.text.find("'", self.pos + 1)
        if end < 0:
            raise UnreadableLine("a quote is not closed", self.pos)
        self.pos = end + 1
        self._stay_in_line(self.text[start:end])
        return self.text[start:end]

    def _double_quoted(self) -> str:
        start, parts = self.pos, []
        self.pos += 1
        while self.pos < len(self.text):
            if plain := _IN_DOUBLE_QUOTES.match(self.text, self.pos):
                parts.append(plain[0])
                self.pos = plain.end()
            elif self.text[self.pos] == '"':
                self.pos += 1
                self._stay_in_line(self.text[start : self.pos])
                return "".join(parts)
            elif self.text[self.pos] == "\\":
                escaped = self._escaped()
                parts.append(escaped if escaped in ("", "$", "`", '"', "\\") else f"\\{escaped}")
            else:
                parts.append(self._dollar('" |)/'))
        raise UnreadableLine("a quote is not closed", start)

    def _dollar(self, literal_before: str) -> str:
        """A dollar that is only a dollar; any other, and a backtick, is refused."""
        after = self.text[self.pos + 1 : self.pos + 2]
        if self.text[self.pos] == "`":
            raise UnreadableLine(SUBSTITUTION, self.pos)
        if self.text.startswith("$((", self.pos):
            raise UnreadableLine(ARITHMETIC, self.pos)
        if after in literal_before:
            return self._take()
        named = after.isalnum() or after in _SPECIAL_PARAMETERS
        raise UnreadableLine(_AFTER_DOLLAR.get(after, VARIABLE if named else "'$' is not understood here"), self.pos)

    def _glob(self, before: str) -> str:
        alone = self.text[self.pos] == "[" and self.text[self.pos + 1 : self.pos + 2] in ("", " ", "\t", "\n")
        if not before and not alone:
            raise UnreadableLine("a word that starts with a glob can become an option", self.pos)
        return self._take()

    def _brace(self, before: str) -> str:
        alone = not before and self.text[self.pos + 1 : self.pos + 2] in _ENDS_WORD
        if alone:
            return self._take()
        braced = _BRACED.match(self.text, self.pos)
        if braced is None:
            raise UnreadableLine(BRACES, self.pos)
        self.pos = braced.end()
        return braced[0]

    def _refuse_brace_expansion(self, start: int) -> None:
        """Bash may pair a brace with a comma far behind it: ``{b}c,d}`` is two words."""
        raw = self.text[start : self.pos]
        if "{" in raw and ("," in raw or ".." in raw) and _BRACED.search(raw):
            raise UnreadableLine(BRACES, start)

    def _open_heredoc(self, *, tabs: bool) -> None:
        self._skip_blanks()
        delimiter = _DELIMITER.match(self.text, self.pos)
        if delimiter is None:
            raise UnreadableLine("the end of a here-document is not a plain word", self.pos)
        self.pos = delimiter.end()
        self._heredocs.append(_Heredoc(next(filter(None, delimiter.groups())), delimiter[4] is not None, tabs))

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
        end = len(self.text) if end < 0 else end
        line = self.text[self.pos : end]
        self.pos = min(end + 1, len(self.text))
        return line.lstrip("\t") if tabs else line
