"""``rewind``: back to a message, with files and conversation; the record keeps all of it.

Covers forge_cli.engine.runtime.going_back, forge_cli.record.undo.
"""

from collections.abc import Callable

import pytest

from forge_cli import EventBus, load_worker
from forge_cli.embedding import open_session
from forge_cli.events import TurnStart
from forge_cli.record.log import find_own_session, read_readable
from forge_cli.record.resume import read_past
from forge_cli.record.undo import said_messages
from forge_cli.testing import Project, call, calls
from tests.support.talk import UI, converse, say

from .test_commands import command, in_turn, statuses

WORKER = """
name: w
toolsets:
  filesystem: {}
  shell: {rules: [{pattern: touch, approval: preApproved}, {use: reading}]}
"""


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("old.txt", "before\n")
    return project


def write(path: str, content: str) -> object:
    return calls(call("write_file", path=path, content=content))


def go(
    worker: Project, *turns: object, steps: Callable[[EventBus], list[Callable[[], None]]]
) -> tuple[UI, str]:
    bus = EventBus()
    ui = UI(bus)
    with open_session(load_worker(worker.folder / "worker.yaml")) as session:
        converse(
            worker,
            bus,
            *turns,
            begin=in_turn(bus, *steps(bus)),
            session=session,
            approval_mode="approve_all",
            workspace=worker.folder,
        )
    return ui, session.id


def said(session: str) -> list[str]:
    """The messages that a model would get on resume."""
    lines = read_readable(find_own_session(session)).lines
    return [
        message.text
        for message in read_past(lines).messages
        if message.role == "user" and message.text
    ]


def test_going_back_restores_files_and_conversation(worker: Project) -> None:
    def steps(bus: EventBus) -> list[Callable[[], None]]:
        lines = [lambda: say(bus, "one"), lambda: say(bus, "two"), lambda: say(bus, "three")]
        return [
            *lines,
            lambda: command(bus, "rewind"),
            lambda: command(bus, "rewind", "2"),
            lambda: say(bus, "four"),
        ]

    ui, session = go(
        worker,
        *(write("old.txt", "first\n"), "done one"),
        *(write("old.txt", "second\n"), calls(call("shell", command="wc old.txt")), "done two"),
        *(
            write("new/new.txt", "third\n"),
            calls(call("shell", command="touch made")),
            "done three",
        ),
        "done four",
        steps=steps,
    )
    assert worker.read("old.txt") == "first\n"
    assert not (worker.folder / "new").exists()
    told = [*statuses(ui, "info"), *statuses(ui, "warning")]
    assert {"1. one", "2. two", "3. three"} <= set(told)
    assert "back to before message 2: two" in told
    assert (
        "these may have done more than change files, which is not undone: shell touch made" in told
    )
    assert said(session) == ["one", "four"]
    lines = read_readable(find_own_session(session)).lines
    assert [each.text for each in said_messages(lines)] == ["one", "four"]
    assert "done three" in str([line.data for line in lines])


def test_program_caches_are_recognised_by_their_folders(worker: Project) -> None:
    def steps(bus: EventBus) -> list[Callable[[], None]]:
        return [
            lambda: say(bus, "one"),
            lambda: command(bus, "undo", "--list"),
            lambda: command(bus, "undo"),
        ]

    line = "mkdir -p src/__pycache__; echo 1 > src/__pycache__/a.pyc; echo 2 > src/__pycache__/b.pyc; echo x > real"
    ui, _ = go(worker, calls(call("shell", command=f"sh -c '{line}'")), "done one", steps=steps)
    told = statuses(ui, "info")
    assert [each for each in told if each.startswith("caches")] == [
        "caches would be removed: src/__pycache__",
        "caches removed: src/__pycache__",
    ]
    assert "real removed" in told
    assert not (worker.folder / "src").exists()


def test_going_back_works_twice_and_to_the_beginning(worker: Project) -> None:
    def steps(bus: EventBus) -> list[Callable[[], None]]:
        return [
            *(
                lambda: say(bus, "one"),
                lambda: say(bus, "two"),
                lambda: command(bus, "rewind", "2"),
            ),
            *(
                lambda: say(bus, "three"),
                lambda: command(bus, "compact"),
                lambda: command(bus, "rewind", "2"),
            ),
            *(
                lambda: command(bus, "rewind", "1"),
                lambda: command(bus, "rewind", "1"),
                lambda: say(bus, "four"),
            ),
        ]

    turns = (
        write("old.txt", "1\n"),
        "done",
        write("old.txt", "2\n"),
        "done",
        write("old.txt", "3\n"),
        "done",
    )
    ui, session = go(worker, *turns, "a summary", "done four", steps=steps)
    assert worker.read("old.txt") == "before\n"
    assert said(session) == ["four"]
    assert [error.partition("\n")[0] for error in statuses(ui, "error")] == [
        "there is no message '1'"
    ]


def test_later_changes_by_others_are_kept_and_reported(worker: Project) -> None:
    bus, changed = EventBus(), []
    ui = UI(bus)

    def change(event: object) -> None:
        changed.append(worker.write("old.txt", "mine\n"))

    ui.reactions["turnEnd"] = lambda event: ui.reactions.update(turnEnd=change)
    with open_session(load_worker(worker.folder / "worker.yaml")) as session:
        converse(
            worker,
            bus,
            *(write("old.txt", "1\n"), "done"),
            begin=in_turn(bus, lambda: say(bus, "one"), lambda: command(bus, "rewind", "1")),
            session=session,
            approval_mode="approve_all",
            workspace=worker.folder,
        )
    assert changed
    assert worker.read("old.txt") == "mine\n"
    assert (
        statuses(ui, "warning")[-1] == "old.txt is left as it is: it was changed after the session"
    )
    assert said(session.id) == []


def test_second_undo_passes_a_file_changed_by_others(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    bus.subscribe(
        lambda event: (worker.folder / "b.txt").exists() and worker.write("b.txt", "mine\n"),
        only=(TurnStart,),
    )
    says = [lambda: say(bus, "one"), lambda: say(bus, "two")]
    with open_session(load_worker(worker.folder / "worker.yaml")) as session:
        converse(
            worker,
            bus,
            *(write("old.txt", "1\n"), "done", write("b.txt", "2\n"), "done"),
            begin=in_turn(bus, *says, lambda: command(bus, "undo"), lambda: command(bus, "undo")),
            session=session,
            approval_mode="approve_all",
            workspace=worker.folder,
        )
    assert (worker.read("old.txt"), worker.read("b.txt")) == ("before\n", "mine\n")
    again = (
        f"/undo again continues with earlier changes; 'forge undo {session.id}' asks about each file, "
        "once the conversation has ended"
    )
    told = [event.message for event in ui.of("status") if event.level != "debug"]
    left = "b.txt is left as it is: it was changed after the session"
    assert told[-5:] == [left, again, left, "old.txt restored", again]


@pytest.mark.parametrize("number", ["0", "2", "-1", "x", "1 1", "²"])
def test_missing_message_is_an_error(worker: Project, number: str) -> None:
    ui, session = go(
        worker,
        "done",
        steps=lambda bus: [
            lambda: say(bus, "one"),
            lambda: command(bus, "rewind", *number.split()),
        ],
    )
    assert len(statuses(ui, "error")) == 1
    assert said(session) == ["one"]
