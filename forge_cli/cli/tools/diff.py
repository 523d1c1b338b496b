"""``forge tools diff``: what has changed in a tool since a call of it was last let through."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import RenderableType

from forge_cli.cli.options import new_app
from forge_cli.cli.tools.programs import NameArgument, own_tools
from forge_cli.core.results import Diff
from forge_cli.toolsets.executables.approved import File
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.render import plain, render

app = new_app()


@app.command()
def diff(name: NameArgument) -> None:
    """Show what changed since a tool was last approved.

    Compared with its files as they were when a call of it was last let through.
    """
    found = own_tools().changes(name)
    console = new_console(sys.stdout)
    if found is None:
        console.print(plain(f"{name}: never approved; no call of it has been let through yet"))
        return
    since = f"{found.since:%Y-%m-%d %H:%M}, when a call of it was last let through"
    console.print(plain(f"{name}: {'changed' if found.files else 'nothing changed'} since {since}"))
    for change in found.files:
        for line in _lines(f"{name}/{change.path}", change.before, change.after):
            console.print(line)


def _lines(path: str, old: File | None, new: File | None) -> Iterator[RenderableType]:
    if old and new and old.executable != new.executable:
        yield plain(f"{path} {'can' if new.executable else 'cannot'} be executed now")
    if old and new and old.hash == new.hash:
        return
    if new is None:
        yield plain(f"{path} was deleted")
    if (old is None or old.text is not None) and (new is None or new.text is not None):
        yield render(Diff.of(path, old.text if old else None, (new.text if new else None) or ""), lines=None)
    else:
        yield plain(f"{path} differs, and is not text or too long: {_sized(old)}, now {_sized(new)}")


def _sized(file: File | None) -> str:
    return "no file" if file is None else f"{file.size} bytes (sha256 {file.hash[:16]})"
