"""Rules of ``.gitignore`` files: which paths git leaves out, decided by the last rule that matches."""

from __future__ import annotations

import os
import re
import stat
from itertools import groupby

from msgspec import Struct

from forge_cli.sandbox.globs import BadGlob, glob_expression, match_any
from forge_cli.sandbox.protected import is_secret

IGNORE_FILE = b".gitignore"
_READ_MAX = 1024 * 1024
"""Bytes of a file of rules that are read."""
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class IgnoreRule(Struct, frozen=True):
    """One line of a ``.gitignore``: a glob for paths below its folder, or without a slash for names at any depth."""

    expression: str
    negated: bool = False
    folders_only: bool = False

    @classmethod
    def parse(cls, line: str) -> IgnoreRule | None:
        """The rule, or None for a comment and for what matches nothing."""
        if line.startswith("#"):
            return None
        text = _without_trailing_blanks(line)
        negated = text.startswith("!")
        text = text.removeprefix("!")
        folders_only = text.endswith("/")
        text = text.removesuffix("/")
        glob = text.removeprefix("/") if "/" in text else f"**/{text}"
        try:
            return cls(glob_expression(glob), negated, folders_only) if text else None
        except BadGlob:
            return None


def _without_trailing_blanks(line: str) -> str:
    """A backslash keeps the blank behind it."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return f"{text} " if backslashes % 2 and len(text) < len(line) else text


class IgnoreRun(Struct, frozen=True):
    """Rules that follow each other and all ignore, or all bring back; their paths have a character for each byte."""

    negated: bool
    files: re.Pattern[str]
    folders: re.Pattern[str]


def parse_rules(data: bytes) -> tuple[IgnoreRun, ...]:
    """The rules of a file, the last ones first: they decide."""
    lines = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
    rules = [
        rule for line in reversed(lines) if (rule := IgnoreRule.parse(line.removesuffix("\r")))
    ]
    runs = [(negated, list(run)) for negated, run in groupby(rules, key=lambda rule: rule.negated)]
    return tuple(
        IgnoreRun(
            negated,
            files=match_any(rule.expression for rule in run if not rule.folders_only),
            folders=match_any(rule.expression for rule in run),
        )
        for negated, run in runs
    )


class IgnoreLevel(Struct, frozen=True):
    """The rules of one folder and, for what they say nothing about, of those above it.

    ``folder`` is its path below the root of the zone: empty, or with a slash at its end.
    """

    runs: tuple[IgnoreRun, ...] = ()
    folder: bytes = b""
    above: IgnoreLevel | None = None

    @classmethod
    def above_folder(cls, root: bytes, folder: bytes) -> IgnoreLevel:
        """The level of the folder that the given one is in; nothing above the root of the zone counts."""
        level = cls()
        names = folder.split(b"/") if folder else []
        for count in range(len(names)):
            level = level.enter(root, b"/".join(names[:count]))
        return level

    def enter(self, root: bytes, folder: bytes) -> IgnoreLevel:
        """The level of a folder below; one without rules of its own adds nothing."""
        runs = _read_rules(os.path.join(root, folder, IGNORE_FILE))
        if not runs:
            return self
        return IgnoreLevel(runs, folder + b"/" if folder else b"", self)

    def ignores(self, path: bytes, *, is_folder: bool) -> bool | None:
        """Whether the last rule that matches leaves the path out; None where none matches."""
        level: IgnoreLevel | None = self
        while level is not None:
            below = path[len(level.folder) :].decode("latin-1")
            for run in level.runs:
                if (run.folders if is_folder else run.files).fullmatch(below):
                    return not run.negated
            level = level.above
        return None

    def leaves_out(self, path: bytes, name: bytes, *, is_folder: bool) -> bool:
        """Whether a search goes past a file or folder; a hidden one only when a rule asks for it."""
        is_hidden = name.startswith(b".")
        if (is_hidden or not name.isascii()) and (name == b".git" or is_secret(os.fsdecode(name))):
            return True
        ignored = self.ignores(path, is_folder=is_folder) if self.runs else None
        return is_hidden if ignored is None else ignored


def _read_rules(path: bytes) -> tuple[IgnoreRun, ...]:
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except OSError:
        return ()
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ()
        return parse_rules(file.read(_READ_MAX))
