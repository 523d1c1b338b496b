"""The state of a work tree, from the output of ``git status --porcelain=v2``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_LISTED = 1000


@dataclass
class Status:
    """The branch, and the files by state; a file can be staged and modified at once."""

    branch: str | None = None
    upstream: str | None = None
    ahead: int = 0
    behind: int = 0
    staged: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    untracked: list[str] = field(default_factory=list)
    conflicted: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    """The deleted files among those above."""
    renamed: dict[str, str] = field(default_factory=dict)
    """The former names of renamed and copied files."""

    @property
    def clean(self) -> bool:
        return not (self.staged or self.modified or self.untracked or self.conflicted)

    @property
    def summary(self) -> str:
        counts = [
            ("conflicted", self.conflicted),
            ("staged", self.staged),
            ("modified", self.modified),
        ]
        said = [
            f"{len(paths)} {word}"
            for word, paths in [*counts, ("untracked", self.untracked)]
            if paths
        ]
        return f"{self.where}: {', '.join(said) or 'nothing to commit'}"

    @property
    def where(self) -> str:
        place = f"on {self.branch}" if self.branch else "on no branch"
        apart = [
            f"{count} {word}"
            for word, count in (("ahead of", self.ahead), ("behind", self.behind))
            if count
        ]
        if apart:
            place += f", {' and '.join(apart)} {self.upstream}"
        return place

    def data(self) -> dict[str, Any]:
        """Return plain data; long lists are cut, and ``omitted`` counts the rest."""
        found = dict(vars(self))
        omitted: dict[str, int] = {}
        for name, paths in list(found.items()):
            if isinstance(paths, list) and len(paths) > MAX_LISTED:
                omitted[name] = len(paths) - MAX_LISTED
                found[name] = paths[:MAX_LISTED]
        if omitted:
            found["omitted"] = omitted
        return found


def parse_status(text: str, prefix: str = "") -> Status:
    """Parse the output; remove ``prefix`` from paths, which are relative to the repository."""
    status = Status()
    fields = iter(text.split("\0"))
    for line in fields:
        kind, _, rest = line.partition(" ")
        match kind:
            case "#":
                _header(status, rest)
            case "1":
                _changed(status, rest[:2], _path(rest, 7, prefix))
            case "2":
                path = _path(rest, 8, prefix)
                _changed(status, rest[:2], path)
                status.renamed[path] = next(fields, "").removeprefix(prefix)
            case "u":
                status.conflicted.append(_path(rest, 9, prefix))
            case "?":
                status.untracked.append(rest.removeprefix(prefix))
    return status


def _path(rest: str, skipped: int, prefix: str) -> str:
    return rest.split(" ", skipped)[-1].removeprefix(prefix)


def _header(status: Status, rest: str) -> None:
    match rest.split(" "):
        case ["branch.head", name] if name != "(detached)":
            status.branch = name
        case ["branch.upstream", name]:
            status.upstream = name
        case ["branch.ab", ahead, behind]:
            status.ahead, status.behind = int(ahead), -int(behind)  # git writes "+1 -2"


def _changed(status: Status, letters: str, path: str) -> None:
    """Add a file by its two status letters: index and work tree, a dot for unchanged."""
    in_index, in_tree = letters[:1], letters[1:]
    if in_index != ".":
        status.staged.append(path)
    if in_tree != ".":
        status.modified.append(path)
    if "D" in letters:
        status.deleted.append(path)
