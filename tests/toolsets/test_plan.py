"""The toolset ``plan``: steps written down, one at a time in progress, and shown as a list to tick off."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from forge_cli.core.events import ApprovalDecided
from forge_cli.core.media import DisplayHints
from forge_cli.core.results import Custom, Text
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.testing import Project, Seen, call, calls
from forge_cli.toolsets.plan import checklist
from forge_cli.ui.terminal.render import render
from tests.support.listener import Listener

STEPS = [
    {"step": "read the notes", "status": "completed"},
    {"step": "write the report", "status": "in_progress"},
    {"step": "send it", "status": "pending"},
]


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", "name: w\ninstructions: You report.\ntoolsets: {plan: {}}\n")
    return project


def update(project: Project, **args: Any) -> Seen:
    return project.run(calls(call("update_plan", **args)), "{result}")


def shown(value: Custom) -> list[str]:
    screen = StringIO()
    Console(file=screen, width=80).print(render(value, PluginHost().renderer))
    return screen.getvalue().splitlines()


def test_plan_is_stored_without_asking(worker: Project) -> None:
    seen = update(worker, plan=STEPS, explanation="first things first")
    (outcome,) = seen.outcomes
    assert outcome.status == "success"
    assert outcome.value.kind == "plan.update"
    assert outcome.value.data == {"explanation": "first things first", "plan": STEPS}
    assert seen.result.response == "Plan updated: 1 of 3 steps completed."
    assert [decided.verdict for decided in seen.of(ApprovalDecided)] == ["preApproved"]


def test_plan_is_a_checklist_on_the_terminal(worker: Project) -> None:
    (outcome,) = update(worker, plan=STEPS, explanation="first things first").outcomes
    ticked = ["[x] read the notes", "[>] write the report", "[ ] send it"]
    assert shown(outcome.value) == ["first things first", *ticked]
    assert checklist(update(worker, plan=STEPS).outcomes[0].value) == Text(
        "\n".join(ticked), DisplayHints(language="checklist")
    )


def test_plan_has_at_most_one_step_in_progress(worker: Project) -> None:
    both = [{"step": name, "status": "in_progress"} for name in "ab"]
    (outcome,) = update(worker, plan=both).outcomes
    assert (outcome.status, outcome.error) == (
        "error",
        "more than one step is in_progress; work on one step at a time",
    )


@pytest.mark.parametrize("status", ["pending", "completed"])
def test_plan_may_have_no_step_in_progress(worker: Project, status: str) -> None:
    assert update(worker, plan=[{"step": "a", "status": status}] * 2).statuses == ["success"]
    assert update(worker, plan=[]).statuses == ["success"]


@pytest.mark.parametrize(
    "plan",
    [
        None,
        "read",
        ["read"],
        [{"step": "a"}],
        [{"step": "", "status": "pending"}],
        [{"step": "a", "status": "done"}],
        [{"step": "a", "status": "pending", "note": "x"}],
    ],
)
def test_invalid_plan_is_refused(worker: Project, plan: Any) -> None:
    assert update(worker, plan=plan).statuses == ["invalid"]


def test_prompt_recommends_the_plan(worker: Project) -> None:
    model = Listener()
    worker.run(model=model)
    assert model.system[0].startswith(
        "You report.\n\nFor work with several steps, keep a plan with update_plan"
    )
