"""The command ``forge inbox``: everything that waits for you, and answers to it."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from forge_cli.apps.inbox.screen import InboxScreen
from forge_cli.cli.notices import warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.errors import UsageError
from forge_cli.core.text import local_time
from forge_cli.process.stdin import is_interactive
from forge_cli.record.inbox import InboxItem, inbox_items
from forge_cli.record.runs import note_look
from forge_cli.ui.table import Column, print_json, print_table

app = new_app()

WATCH_INTERVAL = 1.0
"""Seconds between two looks with ``--watch``."""


@app.command()
def inbox(
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and show what comes; Ctrl+C leaves.")
    ] = False,
    as_json: JsonOption = False,
    count: Annotated[bool, typer.Option("--count", help="Print only the number.")] = False,
) -> None:
    """Show what waits for you: questions, drafts and ended runs.

    On a terminal, a number or Enter opens an item: a question is asked as at a prompt, and a draft
    is reviewed. An ended run is listed until you have seen it here.
    """
    if as_json and count:
        raise UsageError("--json and --count contradict each other; keep one")
    if as_json or count or not (is_interactive() and sys.stdout.isatty()):
        _print(watch=watch, as_json=as_json, count=count)
        return
    InboxScreen(watch=watch).run()
    note_look()


def _print(*, watch: bool, as_json: bool, count: bool) -> None:
    """Print the list, and with ``watch`` whatever comes later, one line each."""
    items = inbox_items(warn)
    if count:
        _print_count(items)
    elif not as_json:
        _print_table(items)
    elif watch:
        _print_lines(items)
    else:
        print_json([item.wire() for item in items])
    while watch:
        time.sleep(WATCH_INTERVAL)
        known = {item.key for item in items}
        before = len(items)
        items = inbox_items(lambda sentence: None)
        new = [item for item in items if item.key not in known]
        if count and len(items) != before:
            _print_count(items)
        elif as_json:
            _print_lines(new)
        elif new and not count:
            _print_table(new, head=False)


def _print_count(items: list[InboxItem]) -> None:
    sys.stdout.write(f"{len(items)}\n")
    sys.stdout.flush()


def _print_lines(items: list[InboxItem]) -> None:
    for item in items:
        sys.stdout.write(json.dumps(item.wire(), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _print_table(items: list[InboxItem], *, head: bool = True) -> None:
    if not items:
        sys.stderr.write("nothing waits for you\n")
        return
    rows = [
        {
            "what": item.state or item.kind,
            "session": item.session,
            "worker": item.worker,
            "since": local_time(item.time, "%Y-%m-%d %H:%M"),
            "about": " ".join(item.about.split()),
        }
        for item in items
    ]
    if head:
        print_table(["what", "session", "worker", "since", Column("about", room=40)], rows)
    else:
        for row in rows:
            sys.stdout.write("  ".join(row.values()) + "\n")
    sys.stdout.flush()
