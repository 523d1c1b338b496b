"""The overview of a session: its task and its end, also for a damaged log."""

from pathlib import Path

import pytest

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.events import Event, SessionEnd, SessionStart, StatusEvent
from forge_cli.record.overview import session_overview
from forge_cli.record.places import session_file
from forge_cli.record.recorder import SessionLog
from tests.support.lines import lines_of

START = SessionStart("script:x", "/somewhere", "interactive", worker_file="/somewhere/worker.yaml")


def keep(*events: Event) -> Path:
    with SessionLog.create(session_file("s1")) as log:
        log.copy(lines_of(START, *events))
    return log.path


@pytest.mark.parametrize(
    ("events", "status", "waits"),
    [
        ([], "interrupted", True),
        ([SessionEnd({"status": "completed"})], "completed", False),
        ([SessionEnd({"status": "parked"})], "parked", True),
        (
            [SessionEnd({"status": "parked"}), ApprovalResponse("r", ApprovalDecision(True))],
            "parked",
            True,
        ),
        (
            [
                SessionEnd({"status": "parked"}),
                ApprovalResponse("r", ApprovalDecision(True)),
                START,
            ],
            "interrupted",
            True,
        ),
        ([SessionEnd({"status": "limit"})], "limit", False),
        ([SessionEnd({"status": "limit"}), START], "limit", False),
    ],
)
def test_overview_summarises_a_session(events: list[Event], status: str, waits: bool) -> None:
    seen = session_overview(keep(StatusEvent("info", "a"), *events))
    assert (seen.session, seen.worker, seen.model, seen.workspace) == (
        "s1",
        "w",
        "script:x",
        "/somewhere",
    )
    assert (seen.status, seen.waits, seen.pid, seen.task) == (status, waits, None, "")
