"""``forge approvals suggest``: rules that would have answered past questions with yes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Annotated

import typer

from forge_cli.cli.notices import warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.approval import GrantRule
from forge_cli.core.errors import UsageError
from forge_cli.core.text import counted, visible
from forge_cli.core.wire import JsonObject
from forge_cli.engine.replay.drift import described
from forge_cli.files.edit import FileEdit, for_user, lines_to_paste
from forge_cli.inspection.past import MadeCall
from forge_cli.inspection.past_rules import LeftOut, Suggestion, suggest_from_past, write_rules
from forge_cli.process.signals import in_loop
from forge_cli.ui.table import print_json
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.render import Indented, render
from forge_cli.ui.wrap import wrap_for

app = new_app()

UNITS = {"h": "hours", "d": "days", "w": "weeks"}
MAX_SHOWN = 5
"""Calls that are listed below a rule."""


@app.command()
def suggest(
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="30d", help="Only questions of this period, such as 12h, 30d or 4w."
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Add the rules to your own config.yaml.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Suggest rules that would have answered past questions with yes.

    Lists a few rules, those that save most questions first, and none that would have allowed a call
    that you denied. Nothing is executed or sent anywhere.
    """
    with data_output():
        beginning = _beginning(since) if since else ""  # every time is after an empty one
        questions, found, left_out = in_loop(suggest_from_past, beginning, warn)
    asked = sum(each.yes for each in questions)
    edit = None
    if found and write:
        edit = write_rules(list(chain.from_iterable(each.rules for each in found)))
    if as_json:
        print_json(_object(asked, found, left_out, edit))
        return
    for line in _lines(asked, found, left_out):
        sys.stdout.write(wrap_for(sys.stdout, visible(line), 4) + "\n")
    if edit:
        new_console(sys.stdout).print(
            Indented(render(edit.diff, exact=True, lines=None), 4, bar=True), end=""
        )
        sys.stdout.write(visible(f"written to {edit.file}") + "\n")


def _beginning(since: str) -> str:
    """Return the start of the period in the format of log times."""
    parts = re.fullmatch(r"([0-9]{1,4})([hdw])", since)
    if parts is None:
        raise UsageError(
            f"--since {since}: use a number of hours, days or weeks, such as 12h, 30d or 4w",
            hint="as in --since 30d",
        )
    beginning = datetime.now(UTC) - timedelta(**{UNITS[parts[2]]: int(parts[1])})
    # compared as text with times that end in Z, so without any time zone
    return beginning.isoformat(timespec="milliseconds").removesuffix("+00:00")


def _object(
    asked: int, found: Sequence[Suggestion], left_out: Sequence[LeftOut], edit: FileEdit | None
) -> JsonObject:
    return {
        "questions": asked,
        "suggestions": [
            {
                "rules": _texts(each.rules),
                "yaml": lines_to_paste(each.rules, user=True),
                "saves": each.saves,
                "also": [_call(also) for also in each.also],
            }
            for each in found
        ],
        "leftOut": [
            {"rules": _texts(each.rules), "denied": _call(each.denied)} for each in left_out
        ],
        "written": str(edit.file) if edit else None,
    }


def _call(made: MadeCall) -> JsonObject:
    return {"tool": made.past.call.name, "input": made.past.call.args}


def _texts(rules: Sequence[GrantRule]) -> list[str]:
    """Return the rules as they would be written in config.yaml."""
    return [str(for_user(rule)) for rule in rules]


def _lines(asked: int, found: Sequence[Suggestion], left_out: Sequence[LeftOut]) -> Iterator[str]:
    for each in found:
        yield from _texts(each.rules)
        yield f"  saves {each.saves} of {counted(asked, 'question')}"
        yield from (
            f"  would also have allowed: {described(also.past.call)}"
            for also in each.also[:MAX_SHOWN]
        )
        if len(each.also) > MAX_SHOWN:
            yield f"  and {len(each.also) - MAX_SHOWN} more"
    for left in left_out:
        yield from (f"left out: {text}" for text in _texts(left.rules))
        yield f"  you denied: {described(left.denied.past.call)}"
    if not asked:
        yield "nothing to suggest: no call that you approved would ask again"
    elif not found:
        questions = counted(asked, "question")
        yield (
            f"nothing to suggest: no rule in your config.yaml could answer any of the {questions} "
            "that you approved"
        )
    else:
        rules = counted(sum(len(each.rules) for each in found), "rule")
        saved = sum(each.saves for each in found)
        questions = counted(asked, "question")
        yield f"{rules} would have answered {saved} of {questions} that you approved"
