"""The rules that hold now, compared with the calls of past sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from forge_cli.core.errors import ForgeError
from forge_cli.engine.runtime.facts import Facts, policy_of
from forge_cli.engine.runtime.without_model import bare_worker, opened
from forge_cli.files.home import forge_home
from forge_cli.files.settings import load_user_settings
from forge_cli.files.worker import load_worker
from forge_cli.inspection.looker import look
from forge_cli.inspection.past import Warn, judge_gates, past_gates
from forge_cli.process.signals import in_loop

_BY_NAME = ".approval.tools."


def compare_rules(warn: Warn) -> tuple[dict[str, Facts], set[str], int]:
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
