"""Rules of ``.gitignore`` files; the last rule that matches a path decides."""

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
"""The number of bytes read of a file with rules."""
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class IgnoreRule(Struct, frozen=True):
    """One line of a ``.gitignore``: a glob for paths, or for names at any depth."""

    expression: str
    negated: bool = False
    folders_only: bool = False

    @classmethod
    def parse(cls, line: str) -> IgnoreRule | None:
        """Parse a line; return None for a comment or a glob that matches nothing."""
        if line.startswith("#"):
            return None
        text = _without_trailing_blanks(line)
        negated = text.startswith("!")
        text = text.removeprefix("!")
        folders_only = text.endswith("/")
        text = text.removesuffix("/")
        glob = text.removeprefix("/") if "/" in text else f"**/{text}"
        try:
            if text:
                return cls(glob_expression(glob), negated, folders_only)
            return None
        except BadGlob:
            return None


def _without_trailing_blanks(line: str) -> str:
    """Remove trailing spaces, except one that a backslash escapes."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    if backslashes % 2 and len(text) < len(line):
        return f"{text} "
    return text


class IgnoreRun(Struct, frozen=True):
    """Consecutive rules that all ignore or all re-include; each byte of a path is one character."""

    negated: bool
    files: re.Pattern[str]
    folders: re.Pattern[str]


def parse_rules(data: bytes) -> tuple[IgnoreRun, ...]:
    """Parse the rules of a file and return them last first, since the last match decides."""
    # Git skips a byte order mark as well.
    lines = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
    rules = []
    for line in reversed(lines):
        rule = IgnoreRule.parse(line.removesuffix("\r"))
        if rule is not None:
            rules.append(rule)
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
    """The rules of one folder; if none matches, those of the folders above it decide.

    ``folder`` is the path below the root of the zone: empty, or with a slash at the end.
    """

    runs: tuple[IgnoreRun, ...] = ()
    folder: bytes = b""
    above: IgnoreLevel | None = None

    @classmethod
    def above_folder(cls, root: bytes, folder: bytes) -> IgnoreLevel:
        """Return the level of the parent of ``folder``; nothing above the zone's root counts."""
        level = cls()
        names = folder.split(b"/") if folder else []
        for count in range(len(names)):
            level = level.enter(root, b"/".join(names[:count]))
        return level

    def enter(self, root: bytes, folder: bytes) -> IgnoreLevel:
        """Return the level of a folder below this one, or this level if the folder has no rules."""
        runs = _read_rules(os.path.join(root, folder, IGNORE_FILE))
        if not runs:
            return self
        return IgnoreLevel(runs, folder + b"/" if folder else b"", self)

    def ignores(self, path: bytes, *, is_folder: bool) -> bool | None:
        """Return whether the last matching rule ignores the path; None if no rule matches."""
        level: IgnoreLevel | None = self
        while level is not None:
            below = path[len(level.folder) :].decode("latin-1")
            for run in level.runs:
                if (run.folders if is_folder else run.files).fullmatch(below):
                    return not run.negated
            level = level.above
        return None

    def leaves_out(self, path: bytes, name: bytes, *, is_folder: bool) -> bool:
        """Return True if a search skips a file or folder.

        Hidden ones are skipped unless re-included.
        """
        is_hidden = name.startswith(b".")
        # The name of a secret file can be disguised by characters that look alike.
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
