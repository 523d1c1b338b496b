"""Knowledge of programs from ``data/*.yaml``; a file is read when one of its programs is met."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, convert

from forge_cli.bashrules.data import LOADER

DATA = Path(__file__).with_name("data")
_PROGRAMS = re.compile(r"^- programs: \[((?:'[^']*'|[^\]'])*)\]", re.MULTILINE)
_LOADER = re.compile(r"ld(?:-[\w-]+)?\.so")
_VERSION = re.compile(r"(?<=[a-z+])[-.0-9]+\Z")
_PYTHON = re.compile(r"(python|pypy)[-.0-9]*(?:t|d|dbg|-dbg|td)?")
_EMULATOR = re.compile(r"qemu-(?!img|nbd|io|system)")
_COMPILER = re.compile(r"[a-z0-9_.-]+-(gcc|g\+\+|cc|c\+\+|clang|clang\+\+|ld|cpp)")


class ProgramRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of a file: some programs and what is known of them, with example lines as tests.

    ``README.md`` beside the files describes each key. Sets are asked for a word, tuples are
    walked in order.
    """

    programs: frozenset[str]
    below: tuple[str, ...] = ()
    kind: frozenset[str] = frozenset()
    check: str = ""
    starts: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    starts_like: str = ""
    sends_like: str = ""
    discards: tuple[str, ...] = ()
    discards_like: str = ""
    discarding: tuple[str, ...] = ()
    ungranted: tuple[str, ...] = ()
    forms: frozenset[str] = frozenset()
    exact: bool = False
    whole: bool = False
    flags: frozenset[str] = frozenset()
    values: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    runs: Mapping[str, Any] | None = None
    abbreviates: int = 0
    aliases: tuple[str, ...] = ()
    groups: frozenset[str] = frozenset()
    nested: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()
    only_known: bool = False
    never: tuple[str, ...] = ()
    spelled: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset()
    no_input: frozenset[str] = frozenset()
    match: str = ""
    not_match: str = ""
    blocked: str = ""
    not_blocked: str = ""


class KnownProgram(Struct, frozen=True):
    """All that is known of one program, the rows about its subcommands apart."""

    rows: tuple[ProgramRow, ...] = ()
    below: tuple[ProgramRow, ...] = ()
    kind: frozenset[str] = frozenset()
    judged: bool = False
    """True if its options are known well enough to recognize the hazardous ones."""
    minds_words: bool = False
    """True if its effect depends on its words, so that unknown words must not be added."""

    @classmethod
    def of(cls, rows: Sequence[ProgramRow]) -> KnownProgram:
        above = tuple(row for row in rows if not row.below)
        below = tuple(row for row in rows if row.below)
        kind = frozenset[str]().union(*(row.kind for row in above))
        named = cls(above)
        judged = "reader" in kind or any(map(named.says, _JUDGED))
        minds_words = bool(below) or any(map(named.says, _MINDED))
        minds_words = minds_words or not kind.isdisjoint({"state", "interactive"})
        return cls(above, below, kind, judged, minds_words)

    def words(self, key: str) -> tuple[str, ...]:
        return tuple(chain.from_iterable(getattr(row, key) for row in self.rows))

    def names(self, key: str) -> frozenset[str]:
        return frozenset(self.words(key))

    def says(self, key: str) -> bool:
        """Return True if any row has this key."""
        return any(getattr(row, key) for row in self.rows)


_JUDGED = ("check", "starts", "writes", "sends")
_MINDED = (*_JUDGED, "starts_like", "sends_like", "known", "never", "spelled")


@lru_cache(maxsize=1)
def table_index() -> dict[str, Path]:
    """Return the file that describes each program."""
    found: dict[str, Path] = {}
    for path in DATA.glob("*.yaml"):
        for programs in _PROGRAMS.findall(path.read_text("utf-8")):
            for name in programs.split(","):
                if name := name.strip(" \n'"):
                    found[name] = path
    return found


@lru_cache(maxsize=128)
def read_rows(path: Path) -> tuple[ProgramRow, ...]:
    """Return the rows of one file."""
    rows = yaml.load(path.read_text("utf-8"), LOADER)  # noqa: S506 - the safe one, in C
    return convert(rows, tuple[ProgramRow, ...])


@lru_cache(maxsize=4096)
def program_named(name: str) -> KnownProgram:
    """Return the knowledge about a program, by the name that ``program`` returns."""
    path = table_index().get(name)
    rows = [row for row in read_rows(path) if name in row.programs] if path else []
    return KnownProgram.of(rows)


@lru_cache(maxsize=4096)
def program(word: str) -> str:
    """Return the name that a program is known by: no path, lower case, no version."""
    name = word.rsplit("/", 1)[-1].lower().removesuffix(".exe")
    if python := _PYTHON.fullmatch(name):
        return python[1]
    if name in table_index():
        return name
    if _LOADER.match(name):
        return "ld.so"
    if _EMULATOR.match(name):
        return "qemu"
    name = _VERSION.sub("", name)
    cross = _COMPILER.fullmatch(name)
    return cross[1] if cross else name


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def below(path: str) -> bool:
    """Return True if a path stays below the working directory."""
    return path != "" and not path.startswith(("/", "-", "~")) and ".." not in path.split("/")
