"""Patterns that mean the same to Python's regular expressions and to ripgrep's.

Each is read once and written out for both. What only one of them knows is always refused. No part
of a pattern matches a newline, so a whole text can be searched at once and still line by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_cli.core.errors import ToolError
from forge_cli.core.values import dataclass
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.search.sets import ANY, CharacterSet, Written, shorthand

LENGTH_MAX = 1000
_REPEAT_MAX = 1000
_DEPTH_MAX = 50
_SHORTHANDS = frozenset("dDwWsS")
_REPEATS = frozenset("*+?{")
_ANCHORS = {"A": "^", "Z": "$", "z": "$", "b": r"\b", "B": r"\B"}
_CONTROL = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "n": "\n"}
_CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xu]\{([0-9a-fA-F]{1,6})\}")
_REPEAT = re.compile(r"\{(\d{1,9})\}|\{(\d{0,9}),(\d{0,9})\}")
_NAMED = re.compile(r"\(\?P?<[A-Za-z_]\w*>")
_FLAGGED = re.compile(r"\(\?([ims]*)(?:-([ims]+))?:")
_FLAGS = re.compile(r"\(\?([ims]+)\)")
_POSIX = re.compile(r"\[:(\w+):\]")
_POSIX_SETS = {
    "alnum": ("AZ", "az", "09"),
    "alpha": ("AZ", "az"),
    "blank": ("  ", "\t\t"),
    "digit": ("09",),
    "lower": ("az",),
    "space": ("\t\t", "\v\r", "  "),
    "upper": ("AZ",),
    "word": ("AZ", "az", "09", "__"),
    "xdigit": ("09", "AF", "af"),
}


@dataclass(frozen=True)
class Dialects:
    """One pattern in every way it is needed."""

    plain: str
    careful: str
    rust: str
    literal: str = ""
    """Text that is in every line that matches; empty where none is known."""
    any_case: bool = False
    """The literal, which is ASCII then and in lower case, may be there in any case."""
    is_text: bool = False
    """The literal is all there is."""


def dialects(pattern: str) -> Dialects:
    """The pattern for both engines, or a refusal that says what is wrong with it and where."""
    if not pattern:
        raise ToolError("the pattern is empty; say what to look for")
    if len(pattern) > LENGTH_MAX:
        raise ToolError(f"the pattern has {len(pattern)} characters; {LENGTH_MAX} are the most")
    reader = _Reader(pattern)
    flags = reader.accept(_FLAGS)
    any_case = bool(flags and "i" in flags[1])
    parts = [(Written.same("(?i)" if any_case else ""), 0)]
    while not reader.done:
        parts.append((_part(reader), reader.depth))
    if reader.depth:
        raise reader.wrong("a parenthesis is not closed")
    plain, careful, rust = zip(*((part.plain, part.careful, part.rust) for part, _ in parts), strict=True)
    literal = _literal(parts)
    found = Dialects(
        "".join(plain),
        "".join(careful),
        "".join(rust),
        literal if not any_case else literal.lower() if literal.isascii() else "",
        any_case=any_case,
        is_text=not any_case and all(part.char for part, _ in parts[1:]),
    )
    try:
        re.compile(found.careful, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise reader.wrong(str(error)) from None
    return found


def _literal(parts: Sequence[tuple[Written, int]]) -> str:
    """The longest text in a pattern outside of everything that could make it optional; each part has its depth."""
    runs = [""]
    for part, depth in parts:
        if depth == 0 and part.char:
            runs[-1] += part.char
            continue
        if depth == 0 and part.plain == "|":
            return ""
        if part.repeats:
            runs[-1] = runs[-1][:-1]
        runs.append("")
    return max(runs, key=len)


@dataclass
class _Reader:
    """Where the reading is, and what came just before."""

    text: str
    at: int = 0
    depth: int = 0
    repeatable: bool = False

    @property
    def done(self) -> bool:
        return self.at >= len(self.text)

    def peek(self, ahead: int = 0) -> str:
        """A character that is still to come; nothing behind the end."""
        return self.text[self.at + ahead : self.at + ahead + 1]

    def take(self) -> str:
        if self.done:
            raise self.wrong("it ends in the middle of an escape or a set")
        self.at += 1
        return self.text[self.at - 1]

    def accept(self, what: re.Pattern[str]) -> re.Match[str] | None:
        found = what.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def wrong(self, why: str) -> ToolError:
        return ToolError(f"the pattern {shown(self.text)} cannot be used: {why} (at character {max(self.at, 1)})")


def _part(reader: _Reader) -> Written:
    if reader.peek() == "(":
        return _group(reader)
    if reader.peek() in _REPEATS and (found := _repetition(reader)):
        return found
    reader.repeatable = True
    match char := reader.take():
        case ")":
            reader.depth -= 1
            if reader.depth < 0:
                raise reader.wrong("a parenthesis is not opened")
            return Written.same(")")
        case "|" | "^" | "$":
            reader.repeatable = False
            return Written.same(char)
        case ".":
            return ANY
        case "[":
            return _set(reader)
        case "\\":
            return _escape(reader)
    return Written.character(_on_a_line(reader, char))


def _group(reader: _Reader) -> Written:
    reader.repeatable = False
    reader.depth += 1
    if reader.depth > _DEPTH_MAX:
        raise reader.wrong(f"more than {_DEPTH_MAX} parentheses inside each other")
    if reader.accept(_NAMED):
        return Written.same("(?:")
    if flags := reader.accept(_FLAGGED):
        on, off = "i" in flags[1], "i" in (flags[2] or "")
        if on and off:
            raise reader.wrong("a flag is set and unset at once")
        return Written.same("(?i:" if on else "(?-i:" if off else "(?:")
    reader.take()
    if reader.peek() == "?":
        known = "(?:...), (?P<name>...) and (?i:...), and (?i) at the start"
        raise reader.wrong(f"of groups that start with '(?' both Python and ripgrep know {known}")
    return Written.same("(?:")


def _repetition(reader: _Reader) -> Written | None:
    """A quantifier, or None for a brace that is none and so stands for itself."""
    counted = reader.accept(_REPEAT)
    if counted:
        sign = _count(reader, *counted.groups())
    elif reader.peek() == "{":
        return None
    else:
        sign = reader.take()
    if not reader.repeatable:
        raise reader.wrong("there is nothing to repeat")
    reader.repeatable = False
    if reader.peek() == "?":
        sign += reader.take()
    return Written(sign, sign, sign, repeats=True)


def _count(reader: _Reader, exactly: str | None, least: str | None, most: str | None) -> str:
    low, high = int(exactly or least or 0), int(exactly or most or 0)
    if max(low, high) > _REPEAT_MAX:
        raise reader.wrong(f"more than {_REPEAT_MAX} repetitions")
    if exactly:
        return f"{{{low}}}"
    if most and low > high:
        raise reader.wrong("the least number of repetitions is greater than the most")
    return f"{{{low},{high if most else ''}}}"


def _escape(reader: _Reader) -> Written:
    if reader.peek() in _SHORTHANDS:
        return shorthand(reader.take())
    if reader.peek() in _ANCHORS:
        reader.repeatable = False
        return Written.same(_ANCHORS[reader.take()])
    return Written.character(_on_a_line(reader, _escaped(reader)))


def _escaped(reader: _Reader) -> str:
    """The one character that an escape stands for."""
    if code := reader.accept(_CODE):
        number = int(next(filter(None, code.groups())), 16)
        if number > 0x10FFFF:
            raise reader.wrong("there is no such character")
        return chr(number)
    char = reader.take()
    if char in _CONTROL:
        return _CONTROL[char]
    if char in "<>":
        raise reader.wrong(f"'\\{char}' means different things in different places; use '\\b' or {char!r}")
    if char.isalnum():
        raise reader.wrong(f"'\\{char}' is not known to both Python and ripgrep")
    return char


def _on_a_line(reader: _Reader, char: str) -> str:
    if char == "\n":
        raise reader.wrong("a match lies on one line, so it has no newline")
    return _usable(reader, char)


def _usable(reader: _Reader, char: str) -> str:
    if char == "\0" or "\ud800" <= char <= "\udfff":
        raise reader.wrong("no text has this character")
    return char


def _set(reader: _Reader) -> Written:
    negated = reader.peek() == "^"
    if negated:
        reader.take()
    found, first = CharacterSet(), True
    while first or reader.peek() != "]":
        _member(reader, found)
        first = False
    reader.take()
    if not negated and not found.python:
        raise reader.wrong("the set is empty")
    return found.written(negated=negated)


def _member(reader: _Reader, found: CharacterSet) -> None:
    """One member of a set, or a range of them."""
    if posix := reader.accept(_POSIX):
        for span in _POSIX_SETS.get(posix[1], ()):
            found.add(span[0], span[1])
        if posix[1] not in _POSIX_SETS:
            raise reader.wrong(f"{posix[0]} is not known")
        return
    if reader.peek() == "\\" and reader.peek(1) in _SHORTHANDS:
        reader.take()
        found.add_shorthand(reader.take())
        if _is_range(reader):
            raise reader.wrong("a range starts with a character, not with a set")
        return
    start = end = _single(reader)
    if _is_range(reader):
        reader.take()
        end = _single(reader)
    if start > end:
        raise reader.wrong(f"the range {shown(start)} to {shown(end)} is empty")
    found.add(start, end)


def _is_range(reader: _Reader) -> bool:
    """Whether a hyphen follows that makes a range; one at the end of a set is a member."""
    return reader.peek() == "-" and reader.peek(1) not in ("]", "")


def _single(reader: _Reader) -> str:
    char = reader.take()
    if char != "\\":
        return _usable(reader, char)
    if reader.peek() == "b":
        reader.take()
        return "\b"
    if reader.peek() in _SHORTHANDS:
        raise reader.wrong("a range ends with a character, not with a set")
    return _usable(reader, _escaped(reader))
