"""The rows of the rule sets, read from ``data/*.yaml`` when a rule uses one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Literal, get_args

import yaml
from msgspec import Struct, convert

from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.data import LOADER
from forge_cli.bashrules.programs.options import KnownOptions
from forge_cli.bashrules.sets.listings import is_revision, listed

DATA = Path(__file__).with_name("data")
OptInSet = Literal["building", "localhost", "containers"]
SetName = Literal["reading", "testing", "linting", "building", "localhost", "containers"]
SET_NAMES: frozenset[str] = frozenset(get_args(SetName))
ANY_PROGRAM = "*"
_UNARY = re.compile(r"-[bcdefghkLnOGprsStuwxz]")
_BINARY = re.compile(r"=|==|!=|-eq|-ne|-lt|-le|-gt|-ge|-nt|-ot|-ef")
_FILE_IN_CLUSTER = re.compile(r"-[A-Za-z]+[Xafm]((?:/|~|\.\.).*)", re.DOTALL)
"""A letter that takes a file, behind other letters: ``-nf/x``."""
_OF_ALL = (
    "/dev/null",
    "/dev/stdin",
    "/etc/os-release",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/version",
)
"""Files outside of every zone that tell nothing but what machine it is."""
_NOT_HELD = "it may read more than its words name, and nothing holds this line to reading"
_SEPARATOR = re.compile(r"-[dtFs]/")
"""``cut -d/``: a character that parts fields."""


class SetRow(Struct, frozen=True, forbid_unknown_fields=True):
    """Commands that a rule set pre-approves; ``README.md`` beside the files tells of each key."""

    patterns: tuple[str, ...]
    operands: Literal["files", "script", "text", "format", "test", "none"] = "files"
    takes: Literal["", "names", "text"] = ""
    known: int = 0
    options: frozenset[str] = frozenset()
    passed: str = ""
    flags: frozenset[str] = frozenset()
    values: tuple[str, ...] = ()
    scripts: frozenset[str] = frozenset()
    never: tuple[str, ...] = ()
    programs: frozenset[str] = frozenset()
    pipes: frozenset[str] = frozenset()
    refuses: str = ""
    requires: str = ""
    needs: Literal["", "installed", "packages"] = ""
    vouched: bool = False
    held: frozenset[str] = frozenset()
    wide: str = ""
    match: str = ""
    not_match: str = ""

    @property
    def knows_options(self) -> bool:
        """Whether the row says itself which options may stand behind its patterns; else the tables of programs do."""
        return bool(self.options or self.flags or self.values or self.scripts)

    @property
    def needs_known_options(self) -> bool:
        """Whether an option asks that the tables of programs do not know; what is only printed is no option."""
        return not self.knows_options and self.operands not in ("text", "test")

    def tokens(self, *, held: bool = True) -> Iterator[tuple[str, ...]]:
        """The patterns, or those that count where lines are not held to what the set promises."""
        for pattern in self.patterns:
            tokens = tuple(pattern.split(" "))
            if held or tokens[0] not in self.held:
                yield tokens

    def covers(self, tokens: Sequence[str], words: Sequence[str]) -> bool:
        """Do the words of a command start with one of the patterns?"""
        if tokens[0] == ANY_PROGRAM:
            return tuple(tokens[1:]) == tuple(words[1:]) and words[0] in self.programs
        return tuple(tokens) == tuple(words[: len(tokens)])

    def misfit(
        self,
        words: Sequence[ShellWord],
        reach: int,
        readable: Sequence[str],
        *,
        held: bool,
        leads_inside: Callable[[str], bool],
    ) -> str | None:
        """Why the words behind a pattern of ``reach`` tokens are not what the row allows; ``readable`` are zones.

        Where a line is not ``held`` to what the set promises, only plain forms are allowed; ``leads_inside`` tells
        of a path that goes up whether it stays in the working directory.
        """
        if why := _unsure_start(words[:reach]) or self._unknown_misfit(
            words[reach:], words[0].text, held=held
        ):
            return why
        texts = [word.text for word in words[reach:]]
        if (
            self.wide
            and not held
            and any(re.search(self.wide, f"{words[reach - 1].text} {text}") for text in texts)
        ):
            return _NOT_HELD
        if self.requires and not any(re.search(self.requires, text) for text in texts):
            return "it may write a file, as none of its words says that it does not"
        if unknown := self._unknown_option(
            texts, passed_on="--" in (word.text for word in words[:reach])
        ):
            return f"{unknown} is none of the options that are known to do no more"
        for text in texts:
            if any(
                never.startswith(text.partition("=")[0]) for never in self.never if len(text) > 2
            ):
                return f"{text} names files in a file"
            if self.refuses and re.search(self.refuses, text):
                return f"{text} may name files that are not seen here"
            option = text.startswith("-") and text != "-"
            if option and self.vouched and self.operands == "none":
                return f"with {text} it may do more"
            if not option and (
                self.operands == "none" or (self.operands == "format" and not text.startswith("+"))
            ):
                return f"with {text} it may do more"
        if self.operands in ("files", "script"):
            paths = self._paths(texts)
            if words[0].text == "git":
                paths = (f"HEAD{text[1:]}" if text.startswith("@") else text for text in paths)
            outside = (
                text for text in paths if is_outside(text, readable) and not leads_inside(text)
            )
            if (found := next(outside, None)) is not None:
                return f"{found} may lie outside the zones"
        return None

    def _unknown_option(self, texts: Sequence[str], *, passed_on: bool) -> str | None:
        """The first option that the row does not list, or that is ``passed_on`` to another program."""
        end = len(texts)
        if passed_on:
            end = 0
        elif "--" in texts:
            end = texts.index("--")
        if self.knows_options:
            alone = self.options | self.flags | self.scripts
            valued = self.scripts.union(self.values)
            unknown = (
                text
                for text in texts[:end]
                if _is_option(text) and not _is_known(text, alone, valued)
            )
            if (found := next(unknown, None)) is not None:
                return found
            behind = texts[end:] if self.operands == "none" else ()
        else:
            behind = texts[end:] if passed_on else texts[end + 1 :]
        if self.passed and re.fullmatch(self.passed, " ".join(behind)):
            return None
        return next(filter(_is_option, behind), None)

    def _unknown_misfit(self, words: Sequence[ShellWord], name: str, *, held: bool) -> str | None:
        """Why the row does not take a word that is not known before the line runs, where it stands."""
        if self.operands == "test":
            return _test_misfit(words)
        operands = [word for word in words if not word.text.startswith("-") or word.unknown]
        for place, word in enumerate(words):
            if (unknown := word.unknown) is None:
                continue
            if self.takes == "text" and not any(word is early for early in operands[: self.known]):
                continue
            if unknown.is_pipe and name in self.pipes:
                continue
            lists = (held or unknown.glob) and listed(unknown)
            listed_here = lists or (name == "git" and is_revision(unknown))
            if self.takes == "names" and listed_here and not self._awaits_script(words[:place]):
                continue
            return unknown.why
        return None

    def script_places(self, words: Sequence[str], reach: int) -> Sequence[int]:
        """The places of patterns and programs for the tool among words that a pattern of ``reach`` tokens begins."""
        return (
            [reach + at for at in self._scripts(words[reach:])] if self.operands == "script" else ()
        )

    def _awaits_script(self, words: Sequence[ShellWord]) -> bool:
        """Would the next operand be a script?"""
        texts = [word.text for word in words]
        if self.operands != "script":
            return False
        places = self._scripts([*texts, ""])
        return not places or len(texts) in places

    def _scripts(self, texts: Sequence[str]) -> Sequence[int]:
        """The places of the scripts among the words; none where an option is not known."""
        known = KnownOptions(self.flags, dict.fromkeys(self.values))
        found: list[int] = []
        operands: list[int] = []
        at = 0
        while at < len(texts) and texts[at] != "--":
            taken: int | None = 1
            if not texts[at].startswith("-") or texts[at] == "-":
                operands.append(at)
            elif self._gives_script(texts[at]):
                found.append(at + 1)
                taken = 2
            else:
                taken = known.taken(texts[at])
            if taken is None:
                return ()
            at += taken
        return found or [*operands, *range(at + 1, len(texts))][:1]

    def _gives_script(self, option: str) -> bool:
        """Is the next word a script, by this option or by the last one of a cluster?"""
        if option in self.scripts:
            return True
        return f"-{option[-1]}" in self.scripts and all(
            f"-{each}" in self.flags for each in option[1:-1]
        )

    def _paths(self, texts: Sequence[str]) -> Iterator[str]:
        """The words, and parts of options, that may name files."""
        scripts = self._scripts(texts) if self.operands == "script" else ()
        behind = False
        for at, text in enumerate(texts):
            if at in scripts:
                continue
            if text.startswith("-") and text != "-" and not behind:
                behind = text == "--"
                yield from _in_option(text)
            else:
                yield text


def _is_option(text: str) -> bool:
    return text.startswith("-") and text != "-"


def _is_known(option: str, alone: frozenset[str], valued: frozenset[str]) -> bool:
    """Is it one of these options, a cluster of them, or a number? A value may stand right behind its letter."""
    name, letters = option.partition("=")[0], option[1:]
    if name in alone or name in valued or letters.isdigit():
        return True
    flags = list(
        takewhile(lambda letter: f"-{letter}" in alone and f"-{letter}" not in valued, letters)
    )
    rest = letters[len(flags) :]
    return not option.startswith("--") and (not rest or f"-{rest[0]}" in valued)


def _unsure_start(words: Sequence[ShellWord]) -> str | None:
    """Why it is not known which command starts: ``timeout $x cat`` starts whatever stands second in ``x``."""
    for word in words:
        if word.unknown or word.glob:
            return (
                word.unknown.why
                if word.unknown
                else f"file names may become more words than {word.text}"
            )
    return None


def _test_misfit(words: Sequence[ShellWord]) -> str | None:
    """In a test, a word that is not known is one operand of an operator that is spelled: it cannot be one itself."""
    inner = [word for word in words if word.text not in ("]", "!")]
    found = next((word.unknown for word in inner if word.unknown), None)
    if found is None:
        return None
    texts = [word.text for word in inner]
    plain = all(word.unknown.quoted for word in inner if word.unknown)
    unary = len(inner) == 2 and not inner[0].unknown and _UNARY.fullmatch(texts[0])
    binary = len(inner) == 3 and not inner[1].unknown and _BINARY.fullmatch(texts[1])
    return None if plain and (unary or binary) else found.why


def _in_option(text: str) -> Iterator[str]:
    """``--file=/x`` and ``-f/x`` name files behind the option; ``-f /x`` does so in the next word."""
    name, equals, value = text.partition("=")
    if _SEPARATOR.fullmatch(text):
        return
    if cluster := _FILE_IN_CLUSTER.fullmatch(text):
        yield cluster[1]
    if equals:
        yield value
    elif "/" in name or "~" in name or ".." in name:
        yield name[2:]


def is_outside(text: str, readable: Sequence[str]) -> bool:
    """May this be a path that leads out of the working directory and of the folders ``readable``?"""
    if text.startswith(("~", "@")):  # some programs read options from @FILE
        return True
    if text.startswith("/"):
        path = posixpath.normpath(text)
        inside = any(path == root or path.startswith(root.rstrip("/") + "/") for root in readable)
        return not inside and path not in _OF_ALL
    return ".." in text.replace(":", "/").split("/")


@lru_cache(maxsize=8)
def rows_of(name: SetName) -> tuple[SetRow, ...]:
    text = (DATA / f"{name}.yaml").read_text("utf-8")
    rows = yaml.load(text, LOADER)  # noqa: S506 - the safe one, in C
    return convert(rows, tuple[SetRow, ...])
