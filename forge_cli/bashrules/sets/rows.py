"""The rows of rule sets, read from ``data/*.yaml`` when a rule uses a set."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import yaml
from msgspec import Struct, convert

from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.data import LOADER
from forge_cli.bashrules.programs.options import KnownOptions
from forge_cli.bashrules.sets.listings import is_revision, listed, lists_disk

DATA = Path(__file__).with_name("data")
OptInSet = Literal["building", "localhost", "containers"]
SetName = Literal["reading", "testing", "linting", "building", "localhost", "containers"]
SET_NAMES: frozenset[str] = frozenset(get_args(SetName))
ANY_PROGRAM = "*"
_UNARY = re.compile(r"-[bcdefghkLnOGprsStuwxz]")
_BINARY = re.compile(r"=|==|!=|-eq|-ne|-lt|-le|-gt|-ge|-nt|-ot|-ef")
_FILE_IN_CLUSTER = re.compile(r"-[A-Za-z]+[Xafm]((?:/|~|\.\.).*)", re.DOTALL)
"""A file right after a letter that takes it, in a cluster of letters: ``-nf/x``."""
_OF_ALL = (
    "/dev/null",
    "/dev/stdin",
    "/etc/os-release",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/version",
)
"""Files outside of every zone that only describe the machine."""
_NOT_HELD = "it may read more than its words name, and nothing restricts this line to reading"
_SEPARATOR = re.compile(r"-[dtFs]/")
"""A field separator, as in ``cut -d/``."""


class SetRow(Struct, frozen=True, forbid_unknown_fields=True):
    """Commands that a rule set pre-approves; ``README.md`` beside the files describes each key."""

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
    code: frozenset[str] = frozenset()
    wide: str = ""
    match: str = ""
    not_match: str = ""

    @property
    def knows_options(self) -> bool:
        """True if the row itself lists options; otherwise the tables of programs do."""
        return bool(self.options or self.flags or self.values or self.scripts)

    @property
    def needs_known_options(self) -> bool:
        """True if an option asks that the tables of programs do not know."""
        return not self.knows_options and self.operands not in ("text", "test")

    def tokens(self, *, held: bool = True, checked: bool = False) -> Iterator[tuple[str, ...]]:
        """Yield the patterns; if lines are not held, without those that need it.

        With ``checked``, programs that at most run code of the folder count nevertheless.
        """
        for pattern in self.patterns:
            tokens = tuple(pattern.split(" "))
            name = tokens[0]
            if held or name not in self.held or (checked and name in self.code):
                yield tokens

    def covers(self, tokens: Sequence[str], words: Sequence[str]) -> bool:
        """Return True if the words of a command start with the tokens of a pattern."""
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
        looked: bool,
        leads_inside: Callable[[str], bool],
    ) -> str | None:
        """Return why the row does not allow the words after a pattern of ``reach`` tokens.

        ``readable`` are zones. Unless the line is ``held`` to what the set promises, only plain
        forms are allowed. ``looked`` is True if somebody looks at the files that a listing can
        name. ``leads_inside`` returns True for a path that goes up and stays in the working
        directory.
        """
        behind = words[reach:]
        if why := _unsure_start(words[:reach]):
            return why
        if why := self._unknown_misfit(behind, words[0].text, held=held, looked=looked):
            return why
        texts = [word.text for word in behind]
        if self.wide and not held:
            before = words[reach - 1].text
            if any(re.search(self.wide, f"{before} {text}") for text in texts):
                return _NOT_HELD
        if self.requires and not any(re.search(self.requires, text) for text in texts):
            return "it may write a file, because no option says otherwise"
        passed_on = "--" in (word.text for word in words[:reach])
        if unknown := self._unknown_option(texts, passed_on=passed_on):
            return f"{unknown} is not known as a harmless option"
        for text in texts:
            if why := self._text_misfit(text):
                return why
        if self.operands in ("files", "script"):
            for path in self._paths(texts):
                # @ alone is HEAD to git; to other programs @FILE names a file of options
                if words[0].text == "git" and path.startswith("@"):
                    path = f"HEAD{path[1:]}"
                if is_outside(path, readable) and not leads_inside(path):
                    return _why_outside(path)
        return None

    def _text_misfit(self, text: str) -> str | None:
        """Return why one word is not allowed, by itself."""
        if len(text) > len("-x"):
            name = text.partition("=")[0]
            if any(never.startswith(name) for never in self.never):
                return f"{text} names files in a file"
        if self.refuses and re.search(self.refuses, text):
            return f"{text} may name files that are not visible here"
        if _is_option(text):
            is_refused = self.vouched and self.operands == "none"
        else:
            # `date +%s` prints, `date 0101` sets the clock
            is_format = self.operands == "format" and text.startswith("+")
            is_refused = self.operands in ("none", "format") and not is_format
        return f"with {text} it may do more" if is_refused else None

    def _unknown_option(self, texts: Sequence[str], *, passed_on: bool) -> str | None:
        """Return the first option that is not listed, or that goes to another program."""
        end = len(texts)
        if passed_on:
            end = 0
        elif "--" in texts:
            end = texts.index("--")
        if self.knows_options:
            alone = self.options | self.flags | self.scripts
            valued = self.scripts.union(self.values)
            for text in texts[:end]:
                if _is_option(text) and not _is_known(text, alone, valued):
                    return text
            behind = texts[end:] if self.operands == "none" else ()
        else:
            behind = texts[end:] if passed_on else texts[end + 1 :]
        if self.passed and re.fullmatch(self.passed, " ".join(behind)):
            return None
        return next(filter(_is_option, behind), None)

    def _unknown_misfit(
        self, words: Sequence[ShellWord], name: str, *, held: bool, looked: bool
    ) -> str | None:
        """Return why the row does not take a word that is unknown before the line runs."""
        if self.operands == "test":
            return _test_misfit(words)
        operands = [word for word in words if not word.text.startswith("-") or word.unknown]
        for place, word in enumerate(words):
            if (unknown := word.unknown) is None:
                continue
            # in `jq "$x"` x may be an option; after the words that must be known it is only text
            is_early = any(word is early for early in operands[: self.known])
            if self.takes == "text" and not is_early:
                continue
            if unknown.is_pipe and name in self.pipes:
                continue
            lists = listed(unknown)
            if not held and not unknown.glob:
                lists = lists if looked and lists_disk(unknown) else None
            listed_here = lists or (name == "git" and is_revision(unknown))
            if self.takes == "names" and listed_here and not self._awaits_script(words[:place]):
                continue
            return unknown.why
        return None

    def script_places(self, words: Sequence[str], reach: int) -> Sequence[int]:
        """Return the places of patterns and programs among words that match a pattern."""
        if self.operands != "script":
            return ()
        return [reach + at for at in self._scripts(words[reach:])]

    def _awaits_script(self, words: Sequence[ShellWord]) -> bool:
        """Return True if the next operand would be a script."""
        texts = [word.text for word in words]
        if self.operands != "script":
            return False
        places = self._scripts([*texts, ""])
        return not places or len(texts) in places

    def _scripts(self, texts: Sequence[str]) -> Sequence[int]:
        """Return the places of the scripts among the words; none if an option is unknown."""
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
        """Return True if the next word is a script, by this option or the end of a cluster."""
        if option in self.scripts:
            return True
        if f"-{option[-1]}" not in self.scripts:
            return False
        return all(f"-{each}" in self.flags for each in option[1:-1])

    def _paths(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield the words, and parts of options, that may name files."""
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
    """Return True for one of these options, a cluster of them, or a number."""
    name = option.partition("=")[0]
    letters = option[1:]
    if name in alone or name in valued or letters.isdigit():
        return True
    if option.startswith("--"):
        return False
    for letter in letters:
        if f"-{letter}" in valued:  # its value may come right after the letter
            return True
        if f"-{letter}" not in alone:
            return False
    return True


def _unsure_start(words: Sequence[ShellWord]) -> str | None:
    """Return why it is unknown which command starts: ``timeout $x cat`` starts a word of ``x``."""
    for word in words:
        if word.unknown:
            return word.unknown.why
        if word.glob:
            return f"{word.text} may become several words"
    return None


def _test_misfit(words: Sequence[ShellWord]) -> str | None:
    """Return why a test is not allowed: an unknown word must be an operand of a plain operator."""
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
    """Yield the file that an option may name: ``--file=/x``, ``-f/x``."""
    name, equals, value = text.partition("=")
    if _SEPARATOR.fullmatch(text):
        return
    if cluster := _FILE_IN_CLUSTER.fullmatch(text):
        yield cluster[1]
    if equals:
        yield value
    elif "/" in name or "~" in name or ".." in name:
        yield name[2:]


def _why_outside(path: str) -> str:
    """Return the reason for an operand that ``is_outside``."""
    # It may well be in a zone. But links decide where ".." leads, so that only absolute paths are
    # compared with zones.
    if not path.startswith(("/", "~", "@")):
        return f"{path} goes up by '..'; a rule set knows other zones by absolute paths only"
    return f"{path} may be outside of the zones"


def is_outside(text: str, readable: Sequence[str]) -> bool:
    """Return True if a path may lead out of the working directory and the readable folders."""
    if text.startswith(("~", "@")):  # some programs read options from @FILE
        return True
    if text.startswith("/"):
        path = posixpath.normpath(text)
        inside = any(path == root or path.startswith(root.rstrip("/") + "/") for root in readable)
        return not inside and path not in _OF_ALL
    return ".." in text.replace(":", "/").split("/")


@lru_cache(maxsize=8)
def rows_of(name: SetName) -> tuple[SetRow, ...]:
    """Return the rows of a rule set."""
    text = (DATA / f"{name}.yaml").read_text("utf-8")
    rows = yaml.load(text, LOADER)  # noqa: S506 - the safe one, in C
    return convert(rows, tuple[SetRow, ...])
