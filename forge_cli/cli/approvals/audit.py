"""``forge approvals audit``: rules that no call of the past has met."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from forge_cli.cli.notices import warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.table import print_json
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import counted, visible
from forge_cli.engine.runtime.facts import Facts, policy_of
from forge_cli.engine.runtime.without_model import bare_worker, opened
from forge_cli.files.home import forge_home
from forge_cli.files.settings import load_user_settings
from forge_cli.files.worker import load_worker
from forge_cli.inspection.looker import look
from forge_cli.inspection.past import judge_gates, past_gates
from forge_cli.process.signals import in_loop
from forge_cli.ui.wrap import wrap_for

app = new_app()

_KEYS = ("where", "rule", "verdict", "reason")
_BY_NAME = ".approval.tools."


@app.command()
def audit(as_json: JsonOption = False) -> None:
    """List rules that no call of your past sessions has met.

    The rules of the workers that made these calls, and your own, as their files are now.
    """
    with data_output():
        rules, met, calls = _compare()
    listed = sorted(rules.items(), key=_place) if calls else []
    never = [{key: rule[key] for key in _KEYS} for where, rule in listed if where not in met]
    if as_json:
        print_json(never)
        return
    lines = [f"{rule['where']}: {rule['rule']}: {rule['reason']} ({rule['verdict']})" for rule in never]
    for line in (*lines, _sum_up(len(never), len(rules), calls)):
        sys.stdout.write(wrap_for(sys.stdout, visible(line), 4) + "\n")


def _place(rule: tuple[str, Facts]) -> list[tuple[int, str]]:
    """Sorts line 9 before line 10."""
    return [(int(piece) if piece.isdigit() else 0, piece) for piece in re.split("([0-9]+)", rule[0])]


def _sum_up(never: int, rules: int, calls: int) -> str:
    if not calls:
        return "there are no past calls that rules could be compared with"
    if not rules:
        return "there are no rules, neither in your config.yaml nor in a worker of a past session"
    said = f"{never} of {counted(rules, 'rule')} never met" if never else f"each of {counted(rules, 'rule')} was met"
    return f"{said}, in {counted(calls, 'past call')}"


def _compare() -> tuple[dict[str, Facts], set[str], int]:
    """All rules by their place, the places of those that were met, and how many different calls there were."""
    judged, _ = in_loop(judge_gates, past_gates(warn), warn)
    rules: dict[str, Facts] = {}
    met: set[str] = set()
    with TemporaryDirectory(prefix="forge-") as empty, suppress(ForgeError):  # a toolset may need settings of a worker
        rules |= {rule["where"]: rule for rule in _written(look(policy_at, None, empty))}
    for gate, calls in judged:
        policy = look(policy_at, gate.file, str(gate.workspace), worker=gate.file, folder=gate.workspace)
        called = {made.past.call.name for made, _ in calls}
        rules |= {rule["where"]: rule for rule in _written(policy)}
        met |= {where for _, now in calls for where in now.met}
        met |= {rule["where"] for rule in _written(policy) if rule.get("tool") in called}
    return rules, met, sum(len(calls) for _, calls in judged)


async def policy_at(worker: str | None, workspace: str) -> Facts:
    """What is said by a worker and by the user, or by the user alone."""
    alone = bare_worker(dict.fromkeys(load_user_settings(forge_home()).policy))
    found = load_worker(worker) if worker else alone
    async with opened(found, workspace=Path(workspace), make_zones=False) as assembly:
        return policy_of(assembly)


def _written(policy: Facts) -> Iterator[Facts]:
    """The rules that stand in a file: entries of lists, and of tools by their name."""
    yield from (rule for rule in policy["rules"] if rule["where"] and str(rule["rule"]).endswith("]"))
    yield from (rule for rule in policy["tools"] if rule["where"] and _BY_NAME in str(rule["rule"]))
