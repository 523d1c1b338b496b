"""The strict reader of the allow side: a command line as the simple commands that bash would start, or a refusal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

from forge_cli.toolsets.shell.allow.lexer import Lexer, ShellToken, ShellWord, UnreadableLine, refuse_invisible
from forge_cli.toolsets.shell.programs.names import names


class Redirect(NamedTuple):
    """One redirection with a literal target; of a here-document only the operator is kept."""

    operator: str
    target: ShellWord
    descriptor: str = ""
    """The number in front of it, if there is one."""


@dataclass(frozen=True)
class Simple:
    """One simple command, with its own redirections and those of a group that ends with it."""

    words: list[ShellWord] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    at: int = 0
    piped: bool = False
    """Whether its input is the output of the command before it."""
    beside: int = 0
    """The number of the first command of its pipeline."""
    background: bool = False
    """Whether the commands behind it do not wait for it."""


@dataclass
class _Nesting:
    """A group or the line itself: where its current list and its current pipeline began."""

    first: int
    pipeline: int
    piped: bool = False
    outside: int | None = None
    """Where the outermost pipeline began that this group is a part of, if it is part of one."""

    @property
    def beside(self) -> int | None:
        """Where the outermost pipeline began that a command in it is a part of."""
        return self.outside if self.outside is not None else self.pipeline if self.piped else None


class _Expect(Enum):
    COMMAND = auto()
    """After ``&&``, ``|``, ``(``, ``{``: a command must come, on a later line if need be."""
    COMMAND_HERE = auto()
    """After ``!``: a command must come on this line."""
    COMMAND_OR_END = auto()
    WORD = auto()
    """Inside a simple command."""
    SEPARATOR = auto()
    """After ``)`` or ``}``."""


_RESERVED = names("if then elif else fi for while until do done case esac select function coproc in [[ ]]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\+?=|\[)")
_PLAIN_TARGET = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_./-]*")
COMMANDS_AT_MOST = 5000
TOKENS_AT_MOST = 16_000
"""More than that nobody writes by hand or reads at a prompt; what is blocked among them is found all the same."""
_SYNTAX = "bash would not accept this"


def read_line(text: str) -> list[Simple]:
    """The simple commands of a line, in order; raises ``UnreadableLine`` for whatever is not plain."""
    refuse_invisible(text)
    return _Parser(text).line()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._commands: list[Simple] = []
        self._background: list[tuple[int, int]] = []
        """The first of some commands that nobody waits for, and the first behind them."""
        self._open: list[str] = []
        self._nestings = [_Nesting(0, 0)]
        self._expect = _Expect.COMMAND_OR_END
        self._piped = False
        self._tokens = 0
        self._descriptor = ""

    def line(self) -> list[Simple]:
        while (token := self._lexer.next()).kind != "end":
            if self._tokens > TOKENS_AT_MOST:
                raise UnreadableLine(f"it has more than {TOKENS_AT_MOST} words", token.at)
            self._tokens += 1
            self._take(token)
        if self._open or self._expect in (_Expect.COMMAND, _Expect.COMMAND_HERE):
            raise UnreadableLine(_SYNTAX, token.at)
        for command in self._commands:
            _refuse_hidden_prefix(command, token.at)
        return self._marked()

    def _marked(self) -> list[Simple]:
        """The commands, with those marked that nobody waits for; groups of them stand in one another."""
        last: dict[int, int] = {}
        for first, end in self._background:
            last[first] = max(end, last.get(first, 0))
        marked, end = [], 0
        for place, command in enumerate(self._commands if last else ()):
            end = max(end, last.get(place, 0))
            marked.append(replace(command, background=True) if place < end else command)
        return marked or self._commands

    @property
    def _in_command(self) -> bool:
        return self._expect in (_Expect.WORD, _Expect.SEPARATOR)

    def _take(self, token: ShellToken) -> None:
        match token.kind:
            case "word":
                self._word(token)
            case "descriptor":
                self._descriptor = token.word.text
            case "redirect":
                self._simple(token).redirects.append(self._redirect(token))
            case "heredoc":
                self._simple(token).redirects.append(Redirect("<<", token.word, self._taken_descriptor()))
            case "newline":
                self._newline(token)
            case ";" | "&":
                self._separate(token, _Expect.COMMAND_OR_END)
            case "&&" | "||" | "|" | "|&":
                self._separate(token, _Expect.COMMAND)
                self._piped = token.kind in ("|", "|&")
            case "(":
                self._begin(token)
            case ")":
                self._end(token)

    def _word(self, token: ShellToken) -> None:
        if self._in_command:
            self._simple(token).words.append(token.word)
        elif not token.word.bare:
            self._first_word(token)
        elif token.word.text == "{":
            self._begin(token)
        elif token.word.text == "}":
            self._end(token)
        elif token.word.text == "!":
            self._negate(token)
        elif token.word.text in _RESERVED:
            raise UnreadableLine("control flow is not analysed", token.at)
        else:
            self._first_word(token)

    def _first_word(self, token: ShellToken) -> None:
        if _ASSIGNMENT.match(token.word.text):
            raise UnreadableLine("an assignment changes what the command does", token.at)
        self._simple(token).words.append(token.word)

    def _simple(self, token: ShellToken) -> Simple:
        """The command that a word or redirection belongs to; only redirections belong to a group."""
        if self._expect is _Expect.SEPARATOR and token.kind == "word":
            raise UnreadableLine(_SYNTAX, token.at)
        if not self._in_command:
            if len(self._commands) == COMMANDS_AT_MOST:
                raise UnreadableLine(f"it has more than {COMMANDS_AT_MOST} commands", token.at)
            self._commands.append(Simple(at=token.at, piped=self._piped, beside=self._beside()))
            self._expect = _Expect.WORD
        return self._commands[-1]

    def _redirect(self, token: ShellToken) -> Redirect:
        """To bash ``>&-x`` is a closed descriptor and then a word, and ``>&'$(x)'`` starts x: it expands twice."""
        self._tokens += 1
        operator, target = token.word.text, self._lexer.target()
        if operator in ("<&", ">&") and target.text != "-" and not _PLAIN_TARGET.fullmatch(target.text):
            raise UnreadableLine("the target of a copied descriptor is not plain", token.at)
        if target.text == "-" and not target.bare:
            raise UnreadableLine("the target of a copied descriptor is not plain", token.at)
        return Redirect(operator, target, self._taken_descriptor())

    def _taken_descriptor(self) -> str:
        taken, self._descriptor = self._descriptor, ""
        return taken

    def _newline(self, token: ShellToken) -> None:
        if self._expect is _Expect.COMMAND_HERE:
            raise UnreadableLine(_SYNTAX, token.at)
        if self._in_command:
            self._separate(token, _Expect.COMMAND_OR_END)

    def _separate(self, token: ShellToken, expect: _Expect) -> None:
        if not self._in_command:
            raise UnreadableLine(_SYNTAX, token.at)
        self._expect, self._piped = expect, False
        here, count = self._nestings[-1], len(self._commands)
        if token.kind == "&":
            self._background.append((here.first, count))
        if token.kind in ("|", "|&"):
            here.piped = True
        else:
            first = here.first if token.kind in ("&&", "||") else count
            self._nestings[-1] = _Nesting(first, count, outside=here.outside)

    def _beside(self) -> int:
        beside = self._nestings[-1].beside
        return len(self._commands) if beside is None else beside

    def _negate(self, token: ShellToken) -> None:
        if self._piped or self._expect is _Expect.COMMAND_HERE:
            raise UnreadableLine(_SYNTAX, token.at)
        self._expect = _Expect.COMMAND_HERE

    def _begin(self, token: ShellToken) -> None:
        if self._in_command or token.glued:
            raise UnreadableLine(_SYNTAX, token.at)
        kind = token.word.text or token.kind
        after = self._lexer.text[self._lexer.pos : self._lexer.pos + 1]
        if (kind == "(" and after in ("(", "\\")) or (kind == "{" and after not in (" ", "\t", "\n")):
            raise UnreadableLine("control flow is not analysed", token.at)
        self._open.append(kind)
        self._nestings.append(_Nesting(len(self._commands), len(self._commands), outside=self._nestings[-1].beside))
        self._expect, self._piped = _Expect.COMMAND, False

    def _end(self, token: ShellToken) -> None:
        kind = token.word.text or token.kind
        complete = self._expect is _Expect.COMMAND_OR_END or (kind == ")" and self._in_command)
        if not complete or not self._open or self._open.pop() + kind not in ("()", "{}"):
            raise UnreadableLine(_SYNTAX, token.at)
        self._nestings.pop()
        self._expect = _Expect.SEPARATOR


def _refuse_hidden_prefix(command: Simple, at: int) -> None:
    """Words that are prefixes only after something else: an assignment after a redirection, or after ``time``."""
    texts = [word.text for word in command.words]
    if texts and _ASSIGNMENT.match(texts[0]):
        raise UnreadableLine("an assignment changes what the command does", at)
    if texts and texts[0] == "time":
        rest = next((text for text in texts[1:] if text not in ("-p", "--")), "")
        if rest in _RESERVED or rest in "{}!" or _ASSIGNMENT.match(rest):
            raise UnreadableLine("control flow is not analysed", at)
