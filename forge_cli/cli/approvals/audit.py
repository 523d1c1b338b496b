"""``forge approvals audit``: rules that no past call has matched."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from forge_cli.cli.notices import warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.text import counted, visible
from forge_cli.inspection.facts import Facts
from forge_cli.inspection.past_rules import compare_rules
from forge_cli.process.signals import in_loop
from forge_cli.ui.table import print_json
from forge_cli.ui.wrap import wrap_for

app = new_app()

_KEYS = ("where", "rule", "verdict", "reason")


@app.command()
def audit(
    provenance: Annotated[
        bool,
        typer.Option(
            "--provenance", help="Count past calls that would ask because of untrusted text."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List rules that no call of your past sessions has matched.

    Checks your own rules, and the rules of the workers that made these calls, as their files are
    now.
    """
    if provenance:
        from forge_cli.cli.untrusted import show_all_words

        show_all_words(as_json=as_json)
        return
    with data_output():
        rules, met, calls = in_loop(compare_rules, warn)
    listed = sorted(rules.items(), key=_place) if calls else []
    never = [{key: rule[key] for key in _KEYS} for where, rule in listed if where not in met]
    if as_json:
        print_json(never)
        return
    lines = [
        f"{rule['where']}: {rule['rule']}: {rule['reason']} ({rule['verdict']})" for rule in never
    ]
    for line in (*lines, _sum_up(len(never), len(rules), calls)):
        sys.stdout.write(wrap_for(sys.stdout, visible(line), 4) + "\n")


def _place(rule: tuple[str, Facts]) -> list[tuple[int, str]]:
    """Return a sort key that puts line 9 before line 10."""
    return [
        (int(piece) if piece.isdigit() else 0, piece) for piece in re.split("([0-9]+)", rule[0])
    ]


def _sum_up(never: int, rules: int, calls: int) -> str:
    if not calls:
        return "there are no past calls to compare rules with"
    if not rules:
        return "there are no rules, neither in your config.yaml nor in a worker of a past session"
    if never:
        said = f"{never} of {counted(rules, 'rule')} never matched"
    else:
        said = f"each of {counted(rules, 'rule')} matched"
    return f"{said}, in {counted(calls, 'past call')}"
