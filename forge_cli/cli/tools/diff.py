"""``forge tools diff``: what has changed in a tool since a call of it was last let through."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from rich.console import RenderableType

from forge_cli.cli.options import new_app
from forge_cli.cli.tools.programs import NameArgument, folder_of
from forge_cli.core.errors import ForgeError
from forge_cli.core.results import Diff
from forge_cli.files.home import forge_home
from forge_cli.toolsets.executables.approved import Approved, File, read_files
from forge_cli.toolsets.executables.registry import walk
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.render import plain, render_diff

app = new_app()


@app.command()
def diff(name: NameArgument) -> None:
    """Show what changed since a tool was last approved.

    Compared with its files as they were when a call of it was last let through.
    """
    folder = folder_of(name)
    try:
        now = read_files(folder, [path for path in walk(folder) if not path.endswith("/")])
    except OSError as error:
        raise ForgeError(f"{folder} cannot be read: {error.strerror or error}") from None
    approved = Approved(forge_home()).last(name)
    console = new_console(sys.stdout)
    if approved is None:
        console.print(plain(f"{name}: never approved; no call of it has been let through yet"))
        return
    since = f"{approved.at:%Y-%m-%d %H:%M}, when a call of it was last let through"
    changes = list(_changes(name, approved.files, now))
    console.print(plain(f"{name}: {'changed' if changes else 'nothing changed'} since {since}"))
    for change in changes:
        console.print(change)


def _changes(name: str, before: Mapping[str, File], after: Mapping[str, File]) -> Iterator[RenderableType]:
    for path in sorted({*before, *after}):
        old, new, shown = before.get(path), after.get(path), f"{name}/{path}"
        if old == new:
            continue
        if old and new and old.executable != new.executable:
            yield plain(f"{shown} {'can' if new.executable else 'cannot'} be executed now")
        if old and new and old.hash == new.hash:
            continue
        if new is None:
            yield plain(f"{shown} was deleted")
        if (old is None or old.text is not None) and (new is None or new.text is not None):
            yield render_diff(Diff.of(shown, old.text if old else None, (new.text if new else None) or ""))
        else:
            yield plain(f"{shown} differs, and is no text or too long: {_sized(old)}, now {_sized(new)}")


def _sized(file: File | None) -> str:
    return "no file" if file is None else f"{file.size} bytes (sha256 {file.hash[:16]})"
