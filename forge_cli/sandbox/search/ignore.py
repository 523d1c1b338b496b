"""What a search leaves out: what ``.gitignore`` says, hidden files, and what may hold secrets.

Part of the programs that search, as ``glob`` is.
"""

from __future__ import annotations

import os
import stat

from forge_cli.sandbox.search.glob import Glob
from forge_cli.sandbox.search.tokens import BadGlob
from forge_cli.sandbox.secret import DOT_ENV

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = ".gitignore"
_SECRET = DOT_ENV.encode()
_SIZE_MAX = 1024 * 1024
_SPECIAL = frozenset("*?[]{}\\")


class IgnoreRule:
    """One line of a ``.gitignore``; its glob has to match a whole path below the folder of the file."""

    def __init__(self, glob: str, *, negated: bool = False, folders_only: bool = False) -> None:
        self.glob = glob
        self.negated = negated
        self.folders_only = folders_only
        self.matches = Glob(glob).matches

    @classmethod
    def parse(cls, line: str) -> IgnoreRule | None:
        """The rule, or None for a comment and for what means nothing."""
        if line.startswith("#"):
            return None
        text = line if line.endswith("\\ ") else line.rstrip()
        negated = text.startswith("!")
        text = text.removeprefix("!")
        anchored = text.startswith("/")
        text = text.removeprefix("/") if anchored else text.removeprefix("\\") if text[:2] in ("\\!", "\\#") else text
        folders_only = text.endswith("/")
        text = text.removesuffix("/").removesuffix("\\") if folders_only else text
        if not text:
            return None
        if not anchored and "/" not in text and text != "**":
            text = f"**/{text}"
        try:
            return cls(f"{text}/*" if text.endswith("/**") else text, negated=negated, folders_only=folders_only)
        except BadGlob:
            return None

    def below(self, folder: str) -> str:
        """The same rule as a line for the folder that the given one is in."""
        escaped = "".join(f"\\{char}" if char in _SPECIAL else char for char in folder)
        prefix = f"{escaped}/" if folder else ""
        return f"{'!' if self.negated else ''}/{prefix}{self.glob}{'/' if self.folders_only else ''}"


def parse_rules(data: bytes) -> tuple[IgnoreRule, ...]:
    """The rules of a file, up to the first line that is not UTF-8 text."""
    rules = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            rule = IgnoreRule.parse(line.decode())
        except UnicodeDecodeError:
            break
        if rule:
            rules.append(rule)
    return tuple(rules)


class IgnoreLevel:
    """The rules of one folder and, for what they say nothing about, of those above it.

    ``folder`` is its path below the root of the zone: empty, or with a slash at its end.
    """

    def __init__(
        self, rules: tuple[IgnoreRule, ...] = (), folder: bytes = b"", above: IgnoreLevel | None = None
    ) -> None:
        self.rules = rules
        self.folder = folder
        self.above = above

    @classmethod
    def above_folder(cls, folder: bytes, *, root: str = ".") -> IgnoreLevel:
        """The level of the folder that the given one is in; nothing above the root of the zone counts."""
        level = cls()
        names = folder.split(b"/") if folder else []
        for count in range(len(names)):
            level = level.enter(b"/".join(names[:count]), root=root)
        return level

    def enter(self, folder: bytes, *, root: str = ".") -> IgnoreLevel:
        """The level of a folder below; one without rules of its own adds nothing."""
        rules = _read(os.path.join(os.fsencode(root), folder, os.fsencode(FILE)))
        return IgnoreLevel(rules, folder + b"/" if folder else b"", self) if rules else self

    def ignores(self, path: bytes, *, is_folder: bool) -> bool | None:
        """Whether the last rule that matches leaves the path out; None where none matches."""
        level: IgnoreLevel | None = self
        while level is not None:
            below = path[len(level.folder) :]
            for rule in reversed(level.rules):
                if (is_folder or not rule.folders_only) and rule.matches(below):
                    return not rule.negated
            level = level.above
        return None

    def leaves_out(self, path: bytes, *, is_folder: bool) -> bool:
        """Whether a search goes past a file or folder; a hidden one only when a rule asks for it."""
        name = path[path.rfind(b"/") + 1 :]
        if not self.rules and self.above is None:
            return name.startswith(b".")
        if name == b".git" or name.lower().startswith(_SECRET):
            return True
        ignored = self.ignores(path, is_folder=is_folder)
        return name.startswith(b".") if ignored is None else ignored

    def lines(self) -> Iterator[str]:
        """All rules as one file in the root of the zone would have them."""
        if self.above:
            yield from self.above.lines()
        yield from (rule.below(os.fsdecode(self.folder).rstrip("/")) for rule in self.rules)


def _read(path: bytes) -> tuple[IgnoreRule, ...]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ()
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ()
        return parse_rules(file.read(_SIZE_MAX))
