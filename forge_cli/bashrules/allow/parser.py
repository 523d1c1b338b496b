"""The strict reader of the allowing side: a line as the commands that bash would start."""

from __future__ import annotations

import re
from enum import Enum, auto

from msgspec.structs import replace

from forge_cli.bashrules.allow.lexer import (
    ADDED_BY_XARGS,
    ASSIGNMENT,
    BRACES,
    CONTROL_FLOW,
    VARIABLE,
    Expanded,
    Lexer,
    ShellToken,
    ShellWord,
    Unknown,
    UnreadableLine,
    refuse_invisible,
)
from forge_cli.bashrules.allow.values import (
    MAX_COMMANDS,
    Binding,
    Nesting,
    Redirect,
    Simple,
    prints_elsewhere,
    resolved,
)
from forge_cli.bashrules.programs.table import word_set


class _Expect(Enum):
    COMMAND = auto()
    """After ``&&``, ``|``, ``(``, ``{``: a command must come, on this line or a later one."""
    COMMAND_HERE = auto()
    """After ``!``: a command must come on this line."""
    COMMAND_OR_END = auto()
    WORD = auto()
    """Inside a simple command."""
    ASSIGNED = auto()
    """After an assignment: another one, or a separator."""
    SEPARATOR = auto()
    """After ``)`` or ``}``."""


_RESERVED = word_set(
    "if then elif else fi for while until do done case esac select function coproc in [[ ]]"
)
_NEXT = {
    ("if", "then"): "then",
    ("then", "elif"): "if",
    ("then", "else"): "else",
    ("while", "do"): "do",
}
"""The next part of a compound command, by its current part and the word that ends it."""
_LAST = word_set("then-fi else-fi do-done")
_VARIABLE_NAME = re.compile(r"(?!npm_)(?!.*_proxy$)[a-z][a-z0-9_]*")
"""Names that neither a program nor the shell itself reads from the environment."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\+?=|\[)")
_PLAIN_TARGET = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_./-]*")
MAX_TOKENS = 16_000
"""A limit on the work for one line; blocked commands are found in longer lines, too."""
_MOVE_SHELL = frozenset({"cd", "pushd", "popd"})
_SYNTAX = "bash would not accept this"


def read_line(text: str) -> tuple[Simple, ...]:
    """Return the simple commands in order; raise ``UnreadableLine`` for an unsupported line."""
    refuse_invisible(text)
    parser = _Parser(Lexer(text, _read_substitution))
    commands = parser.line()
    if parser.bindings or parser.expands:
        commands = resolved(commands, parser.bindings)
    return tuple(commands)


def _read_substitution(lexer: Lexer) -> list[Simple]:
    return _Parser(lexer).line()


class _Parser:
    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self.bindings: list[Binding] = []
        """Loops and assignments that give values to variables."""
        self.expands = False
        self._commands: list[Simple] = []
        self._at = 0
        """The index of the command that words and redirections belong to."""
        self._loops: list[int] = []
        """For each open loop, the index of its first command."""
        self._tangled = False
        """True if commands run in another order than they are written in."""
        self._conditional = False
        self._background: list[tuple[int, int]] = []
        """For each ``&``, the first command before it and the first one after it."""
        self._open: list[str] = []
        self._nestings = [Nesting(0, 0)]
        self._expect = _Expect.COMMAND_OR_END
        self._piped = False
        self._tokens = 0
        self._descriptor = ""
        self._assigned: list[ShellToken] = []
        """Assignments that may belong to a command that follows."""

    def line(self) -> list[Simple]:
        while (token := self._next()).kind != "end" and not self._ends_substitution(token):
            self._take(token)
        self._bind()
        unfinished = self._open or self._expect in (_Expect.COMMAND, _Expect.COMMAND_HERE)
        if unfinished or (token.kind == "end") == (self._lexer.depth > 0):
            raise UnreadableLine(_SYNTAX, token.at)
        if self._lexer.depth and (self.bindings or not self._commands):
            raise UnreadableLine("a substitution is not plain", token.at)
        for command in self._commands:
            _refuse_hidden_prefix(command, token.at)
        return self._marked()

    def _next(self) -> ShellToken:
        token = self._lexer.next()
        if self._tokens > MAX_TOKENS:
            raise UnreadableLine(f"it has more than {MAX_TOKENS} words", token.at)
        self._tokens += 1
        return token

    def _ends_substitution(self, token: ShellToken) -> bool:
        return token.kind == ")" and self._lexer.depth > 0 and not self._open

    def _marked(self) -> list[Simple]:
        """Return the commands, those marked that the shell does not wait for."""
        self._feed()
        if self._tangled:
            self._commands = [replace(command, beside=0) for command in self._commands]
        ends: dict[int, int] = {}
        for first, end in self._background:
            ends[first] = max(end, ends.get(first, 0))
        if not ends:
            return self._commands
        marked: list[Simple] = []
        end = 0
        for place, command in enumerate(self._commands):
            end = max(end, ends.get(place, 0))
            marked.append(replace(command, background=True) if place < end else command)
        return marked

    def _feed(self) -> None:
        """Note, for each ``xargs``, the commands that print the words it adds."""
        for place, command in enumerate(self._commands):
            if command.words[:1] != [ShellWord("xargs")]:
                continue
            first = place
            while first and self._commands[first].piped:
                first -= 1
            # The input is only known if the pipeline prints it, and nothing else does.
            printers = self._commands[first:place]
            if not printers or any(map(prints_elsewhere, printers)) or command.beside != first:
                continue
            if any(redirect.operator.startswith("<") for redirect in command.redirects):
                continue
            fed = Unknown(ADDED_BY_XARGS, printed_by=tuple(tuple(each.texts) for each in printers))
            self._commands[place] = replace(command, fed=fed)

    @property
    def _in_command(self) -> bool:
        return self._expect in (_Expect.WORD, _Expect.SEPARATOR, _Expect.ASSIGNED)

    def _take(self, token: ShellToken) -> None:
        match token.kind:
            case "word":
                self._word(token)
            case "descriptor":
                self._descriptor = token.word.text
            case "redirect":
                self._simple(token).redirects.append(self._redirect(token))
            case "heredoc":
                self._simple(token).redirects.append(
                    Redirect("<<", token.word, self._taken_descriptor())
                )
            case "newline":
                self._newline(token)
            case ";" | "&":
                self._separate(token, _Expect.COMMAND_OR_END)
            case "&&" | "||" | "|" | "|&":
                self._separate(token, _Expect.COMMAND)
                self._piped = token.kind in ("|", "|&")
                self._conditional = True
            case "(":
                self._begin(token)
            case ")":
                self._end(token)

    def _word(self, token: ShellToken) -> None:
        # Words of the grammar count only where a command may begin, and only unquoted.
        if self._expect is _Expect.ASSIGNED:
            self._first_word(token)
        elif self._in_command:
            self._add(token)
        elif not token.word.bare:
            self._first_word(token)
        elif token.word.text == "{":
            self._begin(token)
        elif token.word.text == "}":
            self._end(token)
        elif token.word.text == "!":
            self._negate(token)
        elif token.word.text in _RESERVED:
            self._control(token)
        else:
            self._first_word(token)

    def _first_word(self, token: ShellToken) -> None:
        if token.word.of_braces:
            raise UnreadableLine(BRACES, token.at)
        if _ASSIGNMENT.match(token.word.text):
            self._assign(token)
        elif token.word.pieces:
            raise UnreadableLine(VARIABLE, token.at)
        else:
            self._add(token)

    def _add(self, token: ShellToken) -> None:
        """Add a word to its command, after the commands that it substitutes, which run first."""
        command = self._simple(token)
        inner = self._substitutes(token.word)
        self._commands[self._at : self._at] = inner
        self._at += len(inner)
        command.words.append(token.word)

    def _substitutes(self, word: ShellWord) -> list[Simple]:
        inner: list[Simple] = []
        for piece in word.pieces:
            if isinstance(piece, Expanded):
                inner += piece.commands
                self.expands = True
        self.expands = self.expands or word.unknown is not None
        self._tangled = self._tangled or bool(inner)
        return inner

    def _assign(self, token: ShellToken) -> None:
        """Read ``name=value``, by itself or before a command."""
        name, equals, _ = token.word.text.partition("=")
        # `"a"=b` and `a\=b` are commands: the name and the `=` have to be there unquoted.
        is_plain = equals and self._lexer.text.startswith(f"{name}=", token.at)
        if not is_plain or not _NAME.fullmatch(name):
            raise UnreadableLine(ASSIGNMENT, token.at)
        self._commands += self._substitutes(token.word)
        self._assigned.append(token)
        self._expect = _Expect.ASSIGNED

    def _bind(self) -> None:
        """Record assignments without a command, which apply to the rest of the line.

        A name that a program may read from its environment counts as a command that asks.
        """
        assigned = self._assigned
        self._assigned = []
        if self._expect is not _Expect.ASSIGNED:
            return
        if self._piped:
            raise UnreadableLine(ASSIGNMENT, assigned[0].at)
        words = [token.word for token in assigned]
        names = [word.text.partition("=")[0] for word in words]
        if not all(map(_VARIABLE_NAME.fullmatch, names)):
            self._commands.append(Simple(assigned=words, at=assigned[0].at, beside=self._beside()))
        sure = len(self._nestings) == 1 and not self._conditional
        for token in assigned:
            name, _, value = token.word.text.partition("=")
            # The pieces begin with the text before the first expansion: take the name off.
            first, *others = token.word.pieces or ("",)
            pieces = (str(first)[len(name) + 1 :], *others) if token.word.pieces else ()
            word = token.word._replace(text=value, pieces=pieces)
            start = len(self._commands)
            self.bindings.append(Binding(name, (word,), start, sure=sure, at=token.at))

    def _control(self, token: ShellToken) -> None:
        """Read a word that begins, continues or ends a loop or a condition."""
        word = token.word.text
        before = self._open[-1] if self._open else ""
        if word in ("if", "while", "until"):
            self._enter("if" if word == "if" else "while", loop=word != "if")
        elif word == "for":
            self._for(token)
        elif self._expect is not _Expect.COMMAND_OR_END:
            raise UnreadableLine(CONTROL_FLOW if word in ("case", "[[") else _SYNTAX, token.at)
        elif after := _NEXT.get((before, word)):
            self._open[-1] = after
            count = len(self._commands)
            self._nestings[-1] = Nesting(count, count, outside=self._nestings[-1].outside)
            self._expect = _Expect.COMMAND
        elif f"{before}-{word}" in _LAST:
            self._leave(word, token.at)
        else:
            raise UnreadableLine(CONTROL_FLOW, token.at)

    def _enter(self, kind: str, *, loop: bool = False) -> None:
        self._open.append(kind)
        if loop:
            self._loops.append(len(self._commands))
            self._tangled = True  # a later round runs the last command before the first one
        count = len(self._commands)
        self._nestings.append(Nesting(count, count, outside=self._nestings[-1].beside))
        self._expect = _Expect.COMMAND
        self._piped = False

    def _leave(self, word: str, at: int) -> None:
        self._open.pop()
        self._nestings.pop()
        self._expect = _Expect.SEPARATOR
        if word == "done":
            start = self._loops.pop()
            body = self._commands[start:]
            # Folders are followed in the order of the commands, so that a `cd` in a loop would
            # count once instead of once a round.
            if any(not _MOVE_SHELL.isdisjoint(command.texts) for command in body):
                raise UnreadableLine("a loop changes its working directory", at)
            for place, binding in enumerate(self.bindings):
                if binding.loop and binding.end is None and binding.start == start:
                    self.bindings[place] = replace(binding, end=len(self._commands))

    def _for(self, token: ShellToken) -> None:
        """Read ``for name in words; do``, whose words are known before the first round."""
        name = self._next().word
        is_plain = name.bare and _VARIABLE_NAME.fullmatch(name.text)
        if self._next().word != ShellWord("in") or not is_plain:
            raise UnreadableLine(CONTROL_FLOW, token.at)
        words: list[ShellWord] = []
        while (each := self._next()).kind == "word":
            words.append(each.word)
            self._commands += self._substitutes(each.word)
        if each.kind not in (";", "newline"):
            raise UnreadableLine(_SYNTAX, each.at)
        while (each := self._next()).kind == "newline":
            pass
        if each.kind != "word" or each.word != ShellWord("do"):
            raise UnreadableLine(_SYNTAX, each.at)
        binding = Binding(name.text, tuple(words), len(self._commands), loop=True, at=token.at)
        self.bindings.append(binding)
        self._enter("do", loop=True)

    def _simple(self, token: ShellToken) -> Simple:
        """Return the command that a word or redirection belongs to; a group has no words."""
        if self._expect is _Expect.SEPARATOR and (token.kind == "word" or not self._commands):
            raise UnreadableLine(_SYNTAX, token.at)
        if not self._in_command or self._expect is _Expect.ASSIGNED:
            if len(self._commands) == MAX_COMMANDS:
                raise UnreadableLine(f"it has more than {MAX_COMMANDS} commands", token.at)
            nested = self._lexer.depth > 0
            here = Simple(
                assigned=[each.word for each in self._assigned],
                at=self._assigned[0].at if self._assigned else token.at,
                piped=self._piped,
                beside=self._beside(),
                sure=len(self._nestings) == 1 and not self._conditional and not nested,
                nested=nested,
            )
            self._assigned = []
            self._commands.append(here)
            self._at = len(self._commands) - 1
            self._expect = _Expect.WORD
        return self._commands[self._at]

    def _redirect(self, token: ShellToken) -> Redirect:
        self._tokens += 1
        operator = token.word.text
        target = self._lexer.target()
        if target.pieces or target.unknown:
            raise UnreadableLine(target.unknown.why if target.unknown else VARIABLE, token.at)
        # To bash, `>&-x` is a closed descriptor and then a word, and `>&'$(x)'` starts x, because
        # bash expands this target twice.
        copies = operator in ("<&", ">&") and target.text != "-"
        is_odd = copies and not _PLAIN_TARGET.fullmatch(target.text)
        if is_odd or (target.text == "-" and not target.bare):
            raise UnreadableLine("the target of a copied descriptor is not plain", token.at)
        return Redirect(operator, target, self._taken_descriptor())

    def _taken_descriptor(self) -> str:
        taken = self._descriptor
        self._descriptor = ""
        return taken

    def _newline(self, token: ShellToken) -> None:
        if self._expect is _Expect.COMMAND_HERE:
            raise UnreadableLine(_SYNTAX, token.at)
        if self._in_command:
            self._separate(token, _Expect.COMMAND_OR_END)

    def _separate(self, token: ShellToken, expect: _Expect) -> None:
        if not self._in_command:
            raise UnreadableLine(_SYNTAX, token.at)
        assigned = self._expect is _Expect.ASSIGNED
        self._bind()
        self._expect = expect
        self._piped = False
        self._conditional = False
        here = self._nestings[-1]
        count = len(self._commands)
        if token.kind == "&":
            self._background.append((here.first, count))
            # assignments before the `&` may have run in the background, too
            self.bindings = [replace(binding, sure=False) for binding in self.bindings]
        if token.kind == "|&" and self._commands:
            self._commands[self._at].redirects.append(Redirect(">&", ShellWord("1"), "2"))
        if token.kind in ("|", "|&"):
            here.piped = True
            if assigned:
                raise UnreadableLine(ASSIGNMENT, token.at)
            if self._commands:
                # a `cd` in a pipeline moves a subshell only
                self._commands[self._at] = replace(self._commands[self._at], sure=False)
        else:
            first = here.first if token.kind in ("&&", "||") else count
            self._nestings[-1] = Nesting(first, count, outside=here.outside)

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
        # `((` is arithmetic, and `{x` an ordinary word
        if kind == "(" and after in ("(", "\\"):
            raise UnreadableLine(CONTROL_FLOW, token.at)
        if kind == "{" and after not in (" ", "\t", "\n"):
            raise UnreadableLine(CONTROL_FLOW, token.at)
        self._enter(kind)

    def _end(self, token: ShellToken) -> None:
        kind = token.word.text or token.kind
        complete = self._expect is _Expect.COMMAND_OR_END or (kind == ")" and self._in_command)
        if not complete or not self._open or self._open[-1] + kind not in ("()", "{}"):
            raise UnreadableLine(_SYNTAX, token.at)
        self._bind()
        self._leave(kind, token.at)


def _refuse_hidden_prefix(command: Simple, at: int) -> None:
    """Refuse a prefix after another prefix: an assignment after a redirection or ``time``."""
    texts = command.texts
    if texts and _ASSIGNMENT.match(texts[0]):
        raise UnreadableLine(ASSIGNMENT, at)
    if texts and texts[0] == "time":
        rest = next((text for text in texts[1:] if text not in ("-p", "--")), "")
        # bash still reads keywords after `time`
        if rest in _RESERVED or rest in "{}!" or _ASSIGNMENT.match(rest):
            raise UnreadableLine(CONTROL_FLOW, at)
