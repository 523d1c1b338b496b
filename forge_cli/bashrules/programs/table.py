"""Knowledge of programs: rows of ``data/*.yaml``, of which a file is read when one of its programs is met."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from forge_cli.bashrules.data import LOADER

DATA = Path(__file__).with_name("data")
_PROGRAMS = re.compile(r"^- programs:(.*(?:\n {4}.*)*)", re.MULTILINE)
_LOADER = re.compile(r"ld(?:-[\w-]+)?\.so")
_VERSION = re.compile(r"(?<=[a-z+])[-.0-9]+\Z")
_PYTHON = re.compile(r"(python|pypy)[-.0-9]*(?:t|d|dbg|-dbg|td)?")
_EMULATOR = re.compile(r"qemu-(?!img|nbd|io|system)")
_COMPILER = re.compile(r"[a-z0-9_.-]+-(gcc|g\+\+|cc|c\+\+|clang|clang\+\+|ld|cpp)")


class ProgramRow(Struct, frozen=True):
    """One row of a file: some programs and what is known of them, with lines that are its tests.

    Names and options stand in one text, with blanks between them. ``README.md`` beside the files tells of each key.
    """

    programs: str
    below: str = ""
    kind: str = ""
    check: str = ""
    starts: str = ""
    writes: str = ""
    sends: str = ""
    starts_like: str = ""
    sends_like: str = ""
    discards: str = ""
    discards_like: str = ""
    discarding: str = ""
    ungranted: str = ""
    forms: str = ""
    exact: bool = False
    whole: bool = False
    flags: str = ""
    values: str = ""
    takes: str = ""
    runs: Mapping[str, Any] | None = None
    abbreviates: int = 0
    aliases: str = ""
    groups: str = ""
    nested: str = ""
    known: str = ""
    only_known: bool = False
    never: str = ""
    spelled: str = ""
    tools: str = ""
    no_input: str = ""
    match: str = ""
    not_match: str = ""
    blocked: str = ""
    not_blocked: str = ""


class KnownProgram(Struct, frozen=True, dict=True):
    """All that is known of one program: the rows that name it, those below one of its subcommands apart."""

    rows: tuple[ProgramRow, ...] = ()
    below: tuple[ProgramRow, ...] = ()

    def words(self, key: str) -> tuple[str, ...]:
        return tuple(word for row in self.rows for word in getattr(row, key).split())

    def names(self, key: str) -> frozenset[str]:
        return frozenset(self.words(key))

    def says(self, key: str) -> bool:
        """Whether any row has this key."""
        return any(getattr(row, key) for row in self.rows)

    @cached_property
    def kind(self) -> frozenset[str]:
        return self.names("kind")

    @cached_property
    def judged(self) -> bool:
        """Whether its options are known well enough to tell which of them are odd."""
        return "reader" in self.kind or any(map(self.says, ("check", "starts", "writes", "sends")))

    @cached_property
    def minds_words(self) -> bool:
        """Whether what it does depends on its words, so that unknown words must not be added."""
        keys = ("check", "starts", "writes", "sends", "starts_like", "sends_like", "known", "never", "spelled")
        return bool(self.below) or any(map(self.says, keys)) or not self.kind.isdisjoint({"state", "interactive"})


@lru_cache(maxsize=1)
def table_index() -> dict[str, Path]:
    """The file that each program stands in."""
    found: dict[str, Path] = {}
    for path in DATA.glob("*.yaml"):
        for programs in _PROGRAMS.findall(path.read_text("utf-8")):
            found.update(dict.fromkeys(programs.replace(">-\n", "").split(), path))
    return found


@lru_cache(maxsize=128)
def read_rows(path: Path) -> tuple[ProgramRow, ...]:
    return tuple(ProgramRow(**row) for row in yaml.load(path.read_text("utf-8"), LOADER))  # noqa: S506 - the safe one, in C


@lru_cache(maxsize=4096)
def program_named(name: str) -> KnownProgram:
    """The row of a program, by the name that ``program`` gives it; most have none."""
    path = table_index().get(name)
    rows = [row for row in read_rows(path) if name in row.programs.split()] if path else []
    return KnownProgram(tuple(row for row in rows if not row.below), tuple(row for row in rows if row.below))


@lru_cache(maxsize=4096)
def program(word: str) -> str:
    """The name that a program is known by: without its path, in lower case, without a version."""
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
    return frozenset(text.split())


def below(path: str) -> bool:
    """Whether a path stays below the working directory."""
    return path != "" and not path.startswith(("/", "-", "~")) and ".." not in path.split("/")
