"""``forge tools feedback``: comments on a tool, for the workers that write tools."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.tools.choose import NameArgument
from forge_cli.core.errors import UsageError
from forge_cli.core.text import counted, readable, visible
from forge_cli.files.home import forge_home
from forge_cli.toolsets.executables.feedback import Feedback, FeedbackStore
from forge_cli.toolsets.executables.manage import ExecutableManager
from forge_cli.toolsets.executables.versions import SHORT
from forge_cli.ui.table import print_json, print_table

app = new_app()


@app.command()
def feedback(
    name: NameArgument,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="Your comment. Default: list the comments."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also list comments on earlier versions.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Delete all comments.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Comment on a tool, or list the comments on it.

    Workers that write tools see the comments on the current version.
    """
    digest = ExecutableManager(forge_home()).current_digest(name)
    store = FeedbackStore(forge_home())
    if clear and (text is not None or every):
        raise UsageError("--clear cannot be combined with other arguments")
    if text is not None and every:
        raise UsageError("--all lists comments and TEXT adds one; keep one of them")
    if clear:
        count = len(store.of(name))
        store.forget(name)
        sys.stdout.write(visible(f"deleted {counted(count, 'comment')} on {name}") + "\n")
        return
    if text is not None:
        given = store.add(name, digest, text)
        if as_json:
            print_json(_wire(given, digest))
        else:
            sys.stdout.write(
                visible(f"kept; workers that make tools read it with {name}, until it is changed")
                + "\n"
            )
        return
    _list(name, store.of(name), digest, every=every, as_json=as_json)


def _list(name: str, found: list[Feedback], digest: str, *, every: bool, as_json: bool) -> None:
    shown = [each for each in found if every or each.digest == digest]
    if as_json:
        print_json([_wire(each, digest) for each in shown])
        return
    rows = [
        {
            "time": f"{datetime.fromisoformat(each.time).astimezone():%Y-%m-%d %H:%M}",
            "version": each.digest[:SHORT] if each.digest != digest else "current",
            "feedback": readable(" ".join(each.text.split())),
        }
        for each in shown
    ]
    if rows:
        columns = ["time", "version", "feedback"] if every else ["time", "feedback"]
        print_table(columns, rows)
    before = len(found) - len(shown)
    if before:
        comments = counted(before, "comment")
        note = f"{comments} on earlier versions: forge tools feedback {name} --all"
        sys.stderr.write(visible(note) + "\n")
    elif not rows:
        sys.stderr.write(visible(f"no comments on {name} yet") + "\n")


def _wire(each: Feedback, digest: str) -> dict[str, object]:
    return {
        "time": each.time,
        "text": each.text,
        "version": each.digest,
        "current": each.digest == digest,
    }
