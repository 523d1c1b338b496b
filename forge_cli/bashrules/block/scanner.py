"""A tolerant scan of the blocking side: every simple command that a text could contain.

It knows enough of bash to keep its place. Where it could lose its place it sets ``doubt``, and the
caller searches the bare text as well.
"""

from __future__ import annotations

import re

from forge_cli.bashrules.block.expansions import Assignment, Expansion, Marks, defaults
from forge_cli.bashrules.block.frames import (
    RESERVED,
    FoundCommand,
    Frame,
    FrameKind,
    Heredocs,
    ScanBudget,
    Scanned,
)
from forge_cli.bashrules.block.quoting import ansi_c, protect

_COMMAND = re.compile(
    r"([A-Za-z0-9_./:@%+-]++(?:[ \t]++[A-Za-z0-9_./:@%+-]++)*+)[ \t]*+"
    r"(?=[;\n|)]|&(?!(?:\\\n)*+>)|\Z)"
)
_RUN = re.compile(r"([^ \t\n;&|()<>\"'`$\\#]+)([ \t]*)")
_BLANKS = re.compile(r"[ \t]+")
_EMPTY = re.compile(r"[ \t\n;|]+")
_QUOTED_RUN = re.compile(r"[^\"\\$`]+")
_BRACES_RUN = re.compile(r"[^\"'\\$`}\]<>]+")
_JOINED = r"(?:\\\n)*+"
"""Backslash-newlines, which bash removes before it reads the operator around them."""
_REDIRECT = re.compile(
    "<J<J<|<J<(?:J-)?|<J>|[<>]J&(?:(?:[ \t]|\\\\\n)*-)?|>J>|>J[|]|&J>(?:J>)?|[<>]".replace(
        "J", _JOINED
    )
)
_PROCESS = re.compile(f"[<>]{_JOINED}[(]")
_BACKTICKS = re.compile(r"`([^`\\]*(?:\\.[^`\\]*)*)`", re.DOTALL)
_ESCAPED_IN_BACKTICKS = re.compile(r"\\([\\`$])")
_ANSI_QUOTED = re.compile(rf"\${_JOINED}'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_TRANSLATED = re.compile(rf'\${_JOINED}"')
_NAMED = f"[A-Za-z_](?:{_JOINED}[A-Za-z0-9_])*"
_NAME = re.compile(rf"\${_JOINED}(?:{_NAMED}|[0-9@*#?$!-]|\{{{_JOINED}{_NAMED}{_JOINED}\}})")
_OPENS = re.compile(rf"\${_JOINED}([({{[])")
_ARITHMETIC = re.compile(rf"\${_JOINED}\({_JOINED}\(")
_EXPANSION = re.compile(
    rf"\${_JOINED}\{{{_JOINED}([!#]?){_JOINED}({_NAMED}|[0-9@*]+){_JOINED}(\[[^]}}]*\])?{_JOINED}"
)
_DEFAULTS = re.compile(r":?[-=+?]")
_MAX_INSIDE = 512
_ARRAY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_DESCRIPTOR = re.compile(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
_EXTENDED_GLOB = ("?", "*", "+", "@", "!")


def scan(text: str, budget: ScanBudget, marks: Marks, *, body: bool = False) -> Scanned:
    """Scan a script, or the ``body`` of a here-document that expands."""
    return _Scanner(text, budget, marks, body).scan()


class _Scanner:
    """One pass over one text, without recursion and without going back."""

    def __init__(self, text: str, budget: ScanBudget, marks: Marks, body: bool) -> None:
        self.text = text
        self._marks = marks
        self.pos = 0
        self.result = Scanned(budget)
        self._frames = [Frame("commands")]
        self._owners = [self._frames[0]]
        self._depth = 0
        self._heredocs = Heredocs(text, self.result)
        if body:
            self._push("quotes")
        self._ground = len(self._frames)

    def scan(self) -> Scanned:
        inside = {
            "commands": self._in_commands,
            "subst": self._in_commands,
            "quotes": self._in_quotes,
        }
        budget = self.result.budget
        while self.pos < len(self.text) and budget.steps > 0:
            budget.steps -= 1
            frame = self._frames[-1]
            inside.get(frame.kind, self._in_braces)(frame)
        if self.pos < len(self.text):
            # The command at hand began earlier; search it whole.
            started = [frame.start for frame in self._owners if frame.start >= 0]
            self.result.give_up(min(started, default=self.pos))
        else:
            unclosed = len(self._frames) != self._ground or self._owners[0].case > 0
            self._doubt_if(unclosed or bool(self._heredocs))
        for frame in self._owners:
            self._end_command(frame)
        # `x=git; $x push`: the value may come from anywhere in the text
        self._doubt_if(self.result.assigns and self.result.starts_variable)
        return self.result

    def _doubt_if(self, condition: bool) -> None:
        self.result.doubt = self.result.doubt or condition

    def _push(self, kind: FrameKind, *, arithmetic: bool = False) -> None:
        frame = Frame(kind, arithmetic=arithmetic)
        self._frames.append(frame)
        if kind in ("commands", "subst"):
            self._owners.append(frame)
        elif kind != "quotes":
            self._owners[-1].muted += 1
        self._depth += kind != "commands"

    def _pop(self) -> None:
        frame = self._frames.pop()
        if frame.expansion:
            self._end_expansion(frame, frame.expansion)
        if frame.kind in ("commands", "subst"):
            self._owners.pop()
        elif frame.kind != "quotes":
            self._owners[-1].muted -= 1
        self._depth -= frame.kind != "commands"

    def _in_commands(self, frame: Frame) -> None:
        if frame.start < 0 and not frame.redirect and self._plain_command(frame):
            return
        if run := _RUN.match(self.text, self.pos):
            frame.add(run[1], self.pos)
            self.pos = run.end()
            if run[2]:
                frame.end_word(self.result)
            return
        handle = _AMONG_COMMANDS.get(self.text[self.pos])
        if handle:
            handle(self, frame)
        else:
            self._special(quoted=False)

    def _plain_command(self, frame: Frame) -> bool:
        """Take a whole command at once if it has no special characters; the usual, fast case."""
        found = _COMMAND.match(self.text, self.pos)
        if found is None or frame.array:
            return False
        if frame.case and self.text.startswith(")", found.end()):  # a pattern of `case`
            return False
        words = found[1].split()
        if not RESERVED.isdisjoint(words):
            return False
        self.result.found.append(FoundCommand(words, self.pos, found.end(), self._depth > 0))
        self.pos = found.end()
        return True

    def _blank(self, frame: Frame) -> None:
        frame.end_word(self.result)
        self._pass_over(_BLANKS)

    def _newline(self, frame: Frame) -> None:
        self._end_command(frame)
        self.pos += 1
        if self._heredocs:
            self.pos = self._heredocs.skip(self.pos, self._depth)
        self._pass_over(_EMPTY)

    def _separator(self, frame: Frame) -> None:
        self._end_command(frame)
        self.pos += 1
        self._pass_over(_BLANKS if self._heredocs else _EMPTY)

    def _pass_over(self, nothing: re.Pattern[str]) -> None:
        if found := nothing.match(self.text, self.pos):
            self.pos = found.end()

    def _ampersand(self, frame: Frame) -> None:
        if _REDIRECT.match(self.text, self.pos):
            self._redirect(frame)
        else:
            self._separator(frame)

    def _in_quotes(self, frame: Frame) -> None:
        if run := _QUOTED_RUN.match(self.text, self.pos):
            self._owners[-1].add(protect(run[0]), self.pos)
            self._pass(run[0])
        elif self.text[self.pos] != '"':
            self._special(quoted=True)
        else:
            self.pos += 1
            if len(self._frames) > self._ground:
                self._pop()

    def _in_braces(self, frame: Frame) -> None:
        """Skip the inside of ``${...}`` and ``$[...]``, but not the substitutions in it."""
        if run := _BRACES_RUN.match(self.text, self.pos):
            self._pass(run[0])
            return
        char = self.text[self.pos]
        if char not in "}]'<>":
            self._special(quoted=False)
            return
        self._doubt_if(char == "'")  # whether a quote opens here depends on the quotes around
        self.pos += 1
        if char in "<>" and self.text.startswith("(", self.pos):
            self.pos += 1
            self._push("subst")
        elif char == ("}" if frame.kind == "braces" else "]"):
            self._pop()

    def _pass(self, text: str) -> None:
        self.pos += len(text)
        # A body starts after this line, which a newline in quotes does not end.
        self._doubt_if(bool(self._heredocs) and "\n" in text)

    def _special(self, *, quoted: bool) -> None:
        """Handle a backslash, double quote, backtick or dollar, in words and in quotes."""
        match self.text[self.pos]:
            case "\\":
                self._backslash(quoted)
            case '"':
                self._open_quotes(1)
            case "`":
                self._backticks(quoted)
            case _:
                self._dollar(quoted)

    def _backslash(self, quoted: bool) -> None:
        after = self.text[self.pos + 1 : self.pos + 2]
        if after == "\n":
            self._doubt_if(bool(self._heredocs))
        elif quoted and after not in '$`"\\':
            self._owners[-1].add(protect(f"\\{after}"), self.pos)
        else:
            self._owners[-1].add(protect(after), self.pos, quoted=True)
        self.pos += 2

    def _single_quoted(self, frame: Frame) -> None:
        end = self.text.find("'", self.pos + 1)
        if end < 0 or frame.arithmetic:  # in arithmetic, a quote may be only a character
            self.result.doubt = True
            self.pos += 1
            return
        frame.add(protect(self.text[self.pos + 1 : end]), self.pos, quoted=True)
        self._pass(self.text[self.pos : end + 1])

    def _open_quotes(self, length: int) -> None:
        self._owners[-1].add("", self.pos, quoted=True)
        self.pos += length
        self._push("quotes")

    def _backticks(self, quoted: bool) -> None:
        self._owners[-1].expand(self.pos, self._marks.variable("", quoted=quoted), quoted=quoted)
        found = _BACKTICKS.match(self.text, self.pos)
        if found is None:
            self.result.doubt = True
            self.pos += 1
            return
        script = _ESCAPED_IN_BACKTICKS.sub(r"\1", found[1])
        # In double quotes, bash removes a second level of backslashes.
        self.result.scripts.append(script.replace('\\"', '"') if quoted else script)
        self._pass(found[0])

    def _dollar(self, quoted: bool) -> None:
        owner = self._owners[-1]
        after = self.text[self.pos + 1 : self.pos + 2]
        if found := _NAME.match(self.text, self.pos):
            name = found[0].replace("\\\n", "").strip("{}")[1:].strip("{}")
            owner.expand(self.pos, self._marks.variable(name, quoted=quoted), quoted=quoted)
            if name[0] in "@*123456789":  # arguments of a function are values, too
                self.result.assigns = True
            self.pos = found.end()
        elif opens := _OPENS.match(self.text, self.pos):
            self._open_expansion(owner, opens, quoted)
        elif not quoted and (translated := _TRANSLATED.match(self.text, self.pos)):
            self._open_quotes(len(translated[0]))
        elif not quoted and (ansi := _ANSI_QUOTED.match(self.text, self.pos)):
            owner.add(protect(ansi_c(ansi[1])), self.pos, quoted=True)
            self._pass(ansi[0])
        else:
            self._doubt_if(after == "\\")
            owner.add("$", self.pos)
            self.pos += 1

    def _open_expansion(self, owner: Frame, opens: re.Match[str], quoted: bool) -> None:
        opener = opens[1]
        if opener == "{":
            # `${ cmd; }` and `${|cmd;}` run commands in bash 5.3
            after = self.text[opens.end() : opens.end() + 1]
            self._doubt_if(owner.at_name or after in (" ", "\t", "\n", "|", "\\"))
        # `$((` may open arithmetic or a subshell in a substitution: both are scanned as commands
        arithmetic = _ARITHMETIC.match(self.text, self.pos) is not None
        head = _EXPANSION.match(self.text, self.pos) if opener == "{" else None
        expansion = _expansion(head, quoted) if head else None
        if expansion:
            mark = self._marks.mark(expansion)
        else:
            mark = self._marks.variable("", quoted=quoted)
        owner.expand(self.pos, mark, quoted=quoted)
        self.pos = opens.end()
        kinds: dict[str, FrameKind] = {"(": "subst", "{": "braces", "[": "bracket"}
        self._push(kinds[opener], arithmetic=arithmetic)
        if head:
            self._frames[-1].expansion = expansion
            self._frames[-1].inside = head.end()

    def _end_expansion(self, frame: Frame, expansion: Expansion) -> None:
        """Keep the default or the edit that ``${...}`` gives its value."""
        inside = self.text[frame.inside : min(self.pos - 1, frame.inside + _MAX_INSIDE)]
        if len(inside) == _MAX_INSIDE:
            self.result.doubt = True
        inside = inside.replace("\\\n", "")
        found = _DEFAULTS.match(inside)
        if found:
            expansion.default = inside[found.end() :]
            if "=" in found[0]:
                values = defaults(expansion.default)
                self.result.assignments += [Assignment(expansion.name, text) for text in values]
        elif inside:
            expansion.edits = inside

    def _end_command(self, frame: Frame, *, pattern: bool = False) -> None:
        frame.end_command(self.result, self.pos, nested=self._depth > 0, pattern=pattern)

    def _hash(self, frame: Frame) -> None:
        if frame.pieces is None and not frame.arithmetic:
            end = self.text.find("\n", self.pos)
            self.pos = len(self.text) if end < 0 else end
            return
        self._doubt_if(frame.arithmetic)  # 16#ff is a number, but the arithmetic may be a subshell
        frame.add("#", self.pos)
        self.pos += 1

    def _open_parenthesis(self, frame: Frame) -> None:
        # `?(` is an extended glob if extglob is on, which only the running shell knows
        self._doubt_if(frame.pieces is not None and frame.pieces[-1].endswith(_EXTENDED_GLOB))
        arithmetic = frame.arithmetic or self.text.startswith("((", self.pos)
        array = _ARRAY.fullmatch("".join(frame.pieces)) if frame.pieces else None
        self._end_command(frame)
        self.pos += 1
        self._push("commands", arithmetic=arithmetic)
        self._frames[-1].array = array[1] if array else ""

    def _close_parenthesis(self, frame: Frame) -> None:
        self._end_command(frame, pattern=frame.case > 0)
        self.pos += 1
        if frame.case:  # it ends a pattern, not a subshell
            return
        if len(self._frames) == self._ground:
            self.result.doubt = True
            return
        self._doubt_if(frame.kind == "subst" and bool(self._heredocs))
        self._pop()

    def _redirect(self, frame: Frame) -> None:
        if process := _PROCESS.match(self.text, self.pos):
            frame.expand(self.pos, self._marks.variable("", quoted=False), quoted=False)
            self.pos = process.end()
            self._push("subst")
            return
        # `2>x` and `{fd}>x`: the number or the name is not a word
        if frame.pieces and _DESCRIPTOR.fullmatch("".join(frame.pieces)):
            frame.pieces = None
        frame.end_word(self.result)
        found = _REDIRECT.match(self.text, self.pos)
        operator = found[0].replace("\\\n", "") if found else ""
        self.pos = found.end() if found else self.pos + 1
        if operator in ("<<", "<<-"):
            self._doubt_if(frame.arithmetic or self.text.startswith("\\\n", self.pos))
            if not frame.arithmetic:  # else it shifts bits: $((1 << 2))
                tabs = operator == "<<-"
                self.pos = self._heredocs.announce(self.pos, tabs=tabs, depth=self._depth)
        elif operator and not operator.endswith("-"):
            frame.redirect = operator


def _expansion(head: re.Match[str], quoted: bool) -> Expansion:
    mark = head[1]
    name = head[2].replace("\\\n", "")
    subscript = head[3]
    many = subscript in ("[@]", "[*]") or name in ("@", "*")
    return Expansion(name, quoted, many, indirect=mark == "!" or not name.isidentifier())


_AMONG_COMMANDS = {
    " ": _Scanner._blank,
    "\t": _Scanner._blank,
    "\n": _Scanner._newline,
    ";": _Scanner._separator,
    "|": _Scanner._separator,
    "&": _Scanner._ampersand,
    "'": _Scanner._single_quoted,
    "#": _Scanner._hash,
    "(": _Scanner._open_parenthesis,
    ")": _Scanner._close_parenthesis,
    "<": _Scanner._redirect,
    ">": _Scanner._redirect,
}
