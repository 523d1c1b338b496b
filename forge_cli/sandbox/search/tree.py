"""What is below a folder, level by level, as one sorted list."""

from __future__ import annotations

from itertools import islice

from forge_cli.core.errors import ToolError
from forge_cli.core.results import DisplayHints, FileList
from forge_cli.core.sandbox import FolderEntry
from forge_cli.core.values import dataclass
from forge_cli.sandbox.files.sandbox import Sandbox

SEEN_MAX = 20_000
_CLOSED = frozenset({".git"})


def list_dir(sandbox: Sandbox, path: str, depth: int = 2, limit: int = 200) -> FileList:
    """The files and folders below a folder; of more than ``limit`` the ones that lie highest, the others counted.

    Links to folders and ``.git`` are named but not entered.
    """
    seen: list[_Node] = []
    folders, count = [_Node((), is_folder=True)], 0
    for _ in range(depth):
        below: list[_Node] = []
        for folder in folders:
            found = _entries(sandbox, path, folder)
            count += len(found)
            below += (folder.inside(entry) for entry in islice(found, SEEN_MAX))
            if count >= SEEN_MAX:
                break
        seen += below
        folders = [node for node in below if count < SEEN_MAX and _is_open(sandbox, path, node)]
    return FileList(
        sandbox.spell(path), tuple(map(str, sorted(seen[:limit]))), count, DisplayHints(preferred_view="tree")
    )


@dataclass(frozen=True, order=True)
class _Node:
    """A file or folder, by the names that lead to it."""

    names: tuple[str, ...]
    is_folder: bool

    def __str__(self) -> str:
        return "/".join(self.names) + ("/" if self.is_folder else "")

    def inside(self, entry: FolderEntry) -> _Node:
        return _Node((*self.names, entry.name), is_folder=entry.kind == "directory")

    def below(self, path: str) -> str:
        return "/".join((path.rstrip("/"), *self.names)) if self.names else path


def _entries(sandbox: Sandbox, path: str, folder: _Node) -> list[FolderEntry]:
    try:
        return sandbox.list(folder.below(path))
    except ToolError:
        if not folder.names:
            raise
        return []


def _is_open(sandbox: Sandbox, path: str, node: _Node) -> bool:
    """Whether the listing enters a folder."""
    if not node.is_folder or node.names[-1] in _CLOSED:
        return False
    try:
        return sandbox.stat(node.below(path), follow=False).kind == "directory"
    except ToolError:
        return False
