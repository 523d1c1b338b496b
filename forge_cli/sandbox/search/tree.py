"""What is below a folder, level by level, as one sorted list."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.core.errors import ToolError
from forge_cli.core.hints import DisplayHints
from forge_cli.core.results import FileList
from forge_cli.sandbox.files.sandbox import ListedName, Sandbox

SEEN_MAX = 20_000
_CLOSED = frozenset({".git"})


def list_dir(sandbox: Sandbox, path: str, depth: int = 2, limit: int = 200) -> FileList:
    """The files and folders below a folder; of more than ``limit`` the ones that lie highest, the others counted.

    Links to folders and ``.git`` are named but not entered.
    """
    seen: list[tuple[tuple[str, ...], bool]] = []
    folders: list[tuple[str, ...]] = [()]
    count = 0
    for _ in range(depth):
        below: list[tuple[str, ...]] = []
        for names in folders:
            found = _names(sandbox, path, names)
            count += len(found)
            room = min(limit - len(seen), SEEN_MAX)
            seen += [((*names, entry.name), entry.kind == "directory") for entry in found[: max(room, 0)]]
            if count >= SEEN_MAX:
                break
            below += [(*names, entry.name) for entry in found if entry.enters and entry.name not in _CLOSED]
        folders = below if count < SEEN_MAX else []
    files = ("/".join(names) + ("/" if is_folder else "") for names, is_folder in sorted(seen))
    return FileList(sandbox.spell(path), tuple(files), count, DisplayHints(preferred_view="tree"))


def _names(sandbox: Sandbox, path: str, names: tuple[str, ...]) -> Sequence[ListedName]:
    try:
        return sandbox.list_names("/".join((path.rstrip("/"), *names)) if names else path)
    except ToolError:
        if not names:
            raise
        return []
