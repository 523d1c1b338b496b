"""Sets of characters, written for both dialects of regular expressions."""

from __future__ import annotations

from dataclasses import field

from forge_cli.core.values import dataclass

UNDECODABLE = r"\udc80-\udcff"
"""What stands for a byte that is not UTF-8 text in a string; ripgrep lets no set match such a byte."""
_SPACE = r"\t\v-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_PYTHON = {"d": r"\d", "D": r"\D", "w": r"\w", "W": r"\W", "s": _SPACE, "S": r"\S\x1c-\x1f"}
_RUST = {"d": r"\d", "D": r"\D", "w": r"\p{L}\p{N}_", "W": r"[^\p{L}\p{N}_]", "s": r"[^\S\n]", "S": r"\S"}


@dataclass(frozen=True)
class Written:
    """A part of a pattern: for Python, for Python where a text has bytes that are not UTF-8, and for ripgrep."""

    plain: str
    careful: str
    rust: str
    char: str = ""
    """The one character that it is, if it is one."""
    repeats: bool = False
    """It says how often what comes before it comes."""

    @classmethod
    def same(cls, text: str) -> Written:
        return cls(text, text, text)

    @classmethod
    def character(cls, char: str) -> Written:
        code = python_code(char)
        return cls(code, code, rust_code(char), char)


ANY = Written(".", rf"[^\n{UNDECODABLE}]", ".")


def python_code(char: str) -> str:
    return char if _is_plain(char) else f"\\U{ord(char):08x}"


def rust_code(char: str) -> str:
    return char if _is_plain(char) else f"\\x{{{ord(char):x}}}"


def _is_plain(char: str) -> bool:
    return char.isascii() and char.isalnum()


@dataclass
class CharacterSet:
    """The members of a set; a newline is never one, since no line has any."""

    python: list[str] = field(default_factory=list)
    rust: list[str] = field(default_factory=list)
    wide: bool = False
    """Some member also stands for a newline or for what is not UTF-8 text."""

    def add(self, start: str, end: str) -> None:
        if start == end == "\n":
            return
        self.python.append(f"{python_code(start)}-{python_code(end)}")
        self.rust.append(f"{rust_code(start)}-{rust_code(end)}")
        self.wide = self.wide or start <= "\n" <= end or (start <= "\udcff" and end >= "\udc80")

    def add_shorthand(self, letter: str) -> None:
        self.python.append(_PYTHON[letter])
        self.rust.append(_RUST[letter])
        self.wide = self.wide or letter.isupper()

    def written(self, *, negated: bool) -> Written:
        python, rust = "".join(self.python), "".join(self.rust)
        if negated:
            return Written(rf"[^{python}\n]", rf"[^{python}\n{UNDECODABLE}]", rf"[^{rust}\n]")
        if self.wide:
            return Written(rf"(?:(?!\n)[{python}])", rf"(?:(?![\n{UNDECODABLE}])[{python}])", f"[{rust}]")
        return Written(f"[{python}]", f"[{python}]", f"[{rust}]")


def shorthand(letter: str) -> Written:
    """What ``\\d``, ``\\w``, ``\\s`` and their opposites mean outside of a set."""
    found = CharacterSet()
    found.add_shorthand(letter.lower())
    return found.written(negated=letter.isupper())
