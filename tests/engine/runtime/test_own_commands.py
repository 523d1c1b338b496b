"""A command that the person types with ``!``: it runs at once, and the model reads of it with the next message.

Covers forge_cli.engine.gate.consent.
"""

import pytest

from forge_cli import EventBus, load_worker
from forge_cli.embedding import open_session
from forge_cli.events import ManualToolInvoke
from forge_cli.record.log import read_readable
from forge_cli.testing import Project
from tests.support.talk import UI, converse, leave, say

WORKER = """
name: w
sandbox: {isolation: "off"}
toolsets:
  shell:
    rules: [{pattern: rm, approval: blocked, reason: nothing is deleted here}]
"""


@pytest.fixture
def worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.folder)
    project.write("worker.yaml", WORKER)
    return project


def run(bus: EventBus, command: str) -> None:
    bus.emit(ManualToolInvoke("shell", {"command": command}, own_command=True))


def users(ui: UI) -> list[str]:
    return [event.message.text for event in ui.of("message") if event.message.role == "user"]


def test_own_command_runs_without_asking_and_is_in_the_next_message(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)

    def begin() -> None:
        run(bus, "echo one > made.txt; cat made.txt; exit 3")
        say(bus, "why?", "and now?")
        leave(bus)

    converse(worker, bus, "{task}", "{task}", begin=begin)
    told = "<command-run-by-user>\n$ echo one > made.txt; cat made.txt; exit 3\nexit code: 3\none\n</command-run-by-user>"
    assert users(ui) == [f"why?\n\n{told}", "and now?"]
    assert ui.answers == users(ui)
    assert ui.of("approvalRequired") == []
    (decided,) = ui.of("approvalDecided")
    assert (decided.verdict, decided.approved, decided.by) == ("preApproved", True, "user")
    assert "the person typed it; for the model: " in decided.reason
    assert worker.read("made.txt") == "one\n"


def test_blocked_own_command_is_not_run_or_reported(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    worker.write("kept.txt", "kept")

    def begin() -> None:
        run(bus, "rm kept.txt")
        say(bus, "go")
        leave(bus)

    converse(worker, bus, "{task}", begin=begin, approval_mode="approve_all")
    (result,) = ui.of("toolResult")
    assert result.status == "blocked"
    assert "nothing is deleted here" in result.error
    assert users(ui) == ["go"]
    assert worker.read("kept.txt") == "kept"


def test_call_without_the_own_command_mark_asks(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus, toolResult=lambda event: say(bus, "go") or leave(bus))
    converse(
        worker,
        bus,
        "{task}",
        begin=lambda: bus.emit(
            "manualToolInvoke", {"toolName": "shell", "args": {"command": "touch x"}}
        ),
    )
    assert [event.status for event in ui.of("toolResult")] == ["denied"]
    assert users(ui) == ["go"]


def test_own_command_is_not_denied_by_any_mode(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus, toolResult=lambda event: leave(bus))
    converse(worker, bus, begin=lambda: run(bus, "touch x"), approval_mode="auto_deny")
    assert [event.status for event in ui.of("toolResult")] == ["success"]


def test_long_output_of_an_own_command_is_cut(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)

    def begin() -> None:
        run(bus, "seq 1 100000")
        say(bus, "go")
        leave(bus)

    converse(worker, bus, "done", begin=begin)
    (said,) = users(ui)
    assert 10_000 < len(said) < 21_000
    assert "99999\n100000\n</command-run-by-user>" in said


def test_own_command_is_not_in_a_new_conversation(worker: Project) -> None:
    bus = EventBus()

    def clear(event: object) -> None:
        bus.emit("command", {"name": "clear"})
        say(bus, "go")
        leave(bus)

    ui = UI(bus, toolResult=clear)
    converse(worker, bus, "{task}", begin=lambda: run(bus, "echo one"))
    assert users(ui) == ["go"]


def test_own_command_is_logged_redacted_and_read_on_resume(
    worker: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "tr0ub4dor-and-3")
    bus, loaded = EventBus(), load_worker(worker.folder / "worker.yaml")

    def begin() -> None:
        run(bus, "printf 'tr0ub4dor-%s' and-3")
        say(bus, "go")
        leave(bus)

    with open_session(loaded) as session:
        converse(worker, bus, "fine", begin=begin, session=session)
        assert session.log
        record = session.log.path
    assert "tr0ub4dor-and-3" not in record.read_text()
    assert [
        line.event.own_command
        for line in read_readable(record).lines
        if line.type == "manualToolInvoke"
    ] == [True]
    with open_session(loaded, resume=session.id, task="next") as resumed:
        assert resumed.resumed
        first = resumed.resumed.past.messages[0].text
    assert first.startswith("go\n\n<command-run-by-user>\n$ printf ")
    assert "[redacted:SHOP_TOKEN]\n</command-run-by-user>" in first
