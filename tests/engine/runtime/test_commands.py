"""Commands of a person in a conversation: model, worker file, folders, grants, titles, other sessions.

Covers forge_cli.engine.runtime.commands, forge_cli.engine.runtime.prompts, forge_cli.engine.runtime.reopening,
forge_cli.engine.turns.summary, forge_cli.sandbox.zones.declared.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import ApprovalDecision, Event, EventBus, WorkerRuntime, load_worker
from forge_cli.core.messages import Attachment
from forge_cli.embedding import open_session
from forge_cli.engine.replay.recording import open_recording
from forge_cli.events import (
    GrantsEvent,
    ManualToolsAvailable,
    SessionStart,
    SessionUpdate,
    StatusEvent,
    TurnStart,
    UserInput,
)
from forge_cli.record.overview import session_overview
from forge_cli.testing import Project, call, calls, scripted_model
from tests.support.talk import DEADLINE, UI, converse, leave, say

TOOLS = """
from forge_cli import tool

@tool(manual="both", needs_approval=True)
def add(a: int, b: int = 1) -> int:
    "Add."
    return a + b

@tool(manual="manual", needs_approval=False)
def deploy(stage: str = "test") -> str:
    "Deploy."
    return stage

@tool(needs_approval=False)
def think() -> str:
    "Think."
    return "thought"
"""
WORKER = "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [add, think]}}\n"
POLICY = WORKER.replace("think]", "think], approval: {default: ask, tools: {add: ask}}")
EDITED = WORKER.replace("[add, think]", "[add, deploy]")


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    return project


def command(bus: EventBus, name: str, *args: str) -> None:
    bus.emit("command", {"name": name, "args": list(args)})


def in_turn(bus: EventBus, *steps: Callable[[], None]) -> Callable[[], None]:
    """Do the steps one after the other, as if a person typed them ahead, and leave."""

    def begin() -> None:
        for step in steps:
            step()
        leave(bus)

    return begin


def after_answers(bus: EventBus, *steps: Callable[[], None]) -> None:
    """Do a step after each task that has ended, and leave after the last; a task ends with its answer."""
    waiting = list(steps)

    def take(event: Event) -> None:
        if event.type == "turnEnd" and getattr(event, "stop", "") == "end":
            waiting.pop(0)() if waiting else leave(bus)

    bus.subscribe(take)


def edit(project: Project, bus: EventBus, file: str, content: str) -> Callable[[], None]:
    """Write to a file, and then say something."""

    def write() -> None:
        project.write(file, content)
        say(bus, "two")

    return write


def statuses(ui: UI, level: str) -> list[str]:
    return [
        event.message
        for event in ui.seen
        if isinstance(event, StatusEvent) and event.level == level
    ]


def test_model_change_applies_to_the_next_turn_and_to_a_resumed_session(worker: Project) -> None:
    worker.write("other.yaml", "turns: [{text: 'other: {task}'}, {text: again}]\n")
    worker.write("worker.yaml", WORKER + "model: script:that-of-the-worker.yaml\n")
    bus, loaded = EventBus(), load_worker(worker.folder / "worker.yaml")
    ui = UI(bus)
    begin = in_turn(
        bus,
        lambda: say(bus, "one"),
        lambda: command(bus, "model", "script:other.yaml"),
        lambda: say(bus, "two"),
    )
    with open_session(loaded) as session:
        result = converse(
            worker, bus, "first", begin=begin, session=session, workspace=worker.folder
        )
    assert ui.answers == ["first", "other: two"]
    assert result
    assert result.model == "script:other.yaml"
    assert [event.model for event in ui.of("sessionUpdate")] == ["script:other.yaml"]
    assert session.log
    assert session_overview(session.log.path).model == "script:other.yaml"
    with open_session(loaded, resume=session.id, task="three") as resumed:
        again = EventBus()
        seen = UI(again)

        async def main() -> None:
            given = {"worker": loaded, "bus": again, "session": resumed, "workspace": worker.folder}
            async with WorkerRuntime(**given) as runtime:
                assert (await runtime.run("three")).response == "again"

        anyio.run(main)
        assert [event.model for event in seen.of("sessionStart")] == ["script:other.yaml"]
    assert [part.task.text for part in open_recording(session.id).parts] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("name", "says"), [("nope", "'nope' is not a model"), ("script:gone.yaml", "gone.yaml")]
)
def test_invalid_model_name_keeps_the_current_model(worker: Project, name: str, says: str) -> None:
    bus = EventBus()
    ui = UI(bus)
    converse(
        worker,
        bus,
        "a",
        "b",
        begin=in_turn(
            bus, lambda: say(bus, "1"), lambda: command(bus, "model", name), lambda: say(bus, "2")
        ),
    )
    assert ui.answers == ["a", "b"]
    (error,) = statuses(ui, "error")
    assert says in error
    assert ui.of("sessionUpdate") == []


def test_compact_replaces_messages_with_a_summary(worker: Project) -> None:
    bus, loaded = EventBus(), load_worker(worker.folder / "worker.yaml")
    ui = UI(bus)
    turns = ("one", "two", "the summary", "three")
    begin = in_turn(
        bus, lambda: say(bus, "1", "2"), lambda: command(bus, "compact"), lambda: say(bus, "3")
    )
    with open_session(loaded) as session:
        converse(worker, bus, *turns, begin=begin, session=session)
    assert "Compacted: 3 messages replaced by a summary." in statuses(ui, "info")
    with open_session(loaded, resume=session.id, task="4") as resumed:
        assert resumed.resumed
        messages = resumed.resumed.past.messages
    assert [message.text for message in messages[1:]] == ["two", "3", "three"]
    assert messages[0].summary
    assert (messages[0].summary.text, messages[0].summary.said) == ("the summary", ("1", "2"))
    assert [part.task.text for part in open_recording(session.id).parts] == ["1", "2", "3"]


def test_compact_without_old_messages_says_so(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    converse(worker, bus, begin=in_turn(bus, lambda: command(bus, "compact")))
    assert statuses(ui, "info") == ["nothing to compact yet"]


def test_edited_worker_is_loaded_before_the_next_task(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    after_answers(bus, edit(worker, bus, "worker.yaml", EDITED))
    converse(worker, bus, "first", "second", begin=lambda: say(bus, "one"))
    assert ui.answers == ["first", "second"]
    assert [event.tools for event in ui.seen if isinstance(event, TurnStart)] == [
        ("add", "think"),
        ("add",),
    ]
    menus = [
        [tool["name"] for tool in event.tools]
        for event in ui.seen
        if isinstance(event, ManualToolsAvailable)
    ]
    assert menus == [["add"], ["add", "deploy"]]
    (said,) = statuses(ui, "info")
    assert said.startswith(
        "worker.yaml was read again: 1 tool added (deploy); 1 tool removed (think)"
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("# a comment\n" + POLICY, "nothing has changed"),
        (
            POLICY.replace("default: ask", "default: blocked"),
            "2 tools with another policy (add, think)",
        ),
        (POLICY.replace("add: ask", "add: blocked"), "1 tool with another policy (add)"),
    ],
)
def test_policy_identity_depends_on_its_content_not_its_place(
    worker: Project, content: str, says: str
) -> None:
    worker.write("worker.yaml", POLICY)
    bus = EventBus()
    ui = UI(bus)
    after_answers(bus, edit(worker, bus, "worker.yaml", content))
    converse(worker, bus, "first", "second", begin=lambda: say(bus, "one"))
    assert f"worker.yaml was read again: {says}" in statuses(ui, "info")


def test_messages_stay_when_the_worker_is_reloaded(worker: Project) -> None:
    bus, loaded = EventBus(), load_worker(worker.folder / "worker.yaml")

    def edit() -> None:
        worker.write("worker.yaml", "instructions: Be brief.\n" + EDITED)
        command(bus, "reload")
        say(bus, "two")

    after_answers(bus, edit)
    with open_session(loaded) as session:
        converse(worker, bus, "first", "second", begin=lambda: say(bus, "one"), session=session)
    with open_session(loaded, resume=session.id, task="three") as resumed:
        assert resumed.resumed
        assert [message.text for message in resumed.resumed.past.messages] == [
            "one",
            "first",
            "two",
            "second",
        ]


@pytest.mark.parametrize(
    ("file", "content", "place"),
    [
        ("worker.yaml", WORKER + "toolsetz: {}\n", "worker.yaml:3:1"),
        ("worker.yaml", WORKER.replace("think", "thimk"), "worker.yaml:2:"),
        ("worker.yaml", "name: other\n", "the worker is called 'other' now"),
    ],
)
def test_invalid_edit_keeps_the_worker_and_names_the_place(
    worker: Project, file: str, content: str, place: str
) -> None:
    bus = EventBus()
    ui = UI(bus)
    after_answers(bus, edit(worker, bus, file, content), lambda: say(bus, "three"))
    converse(worker, bus, "first", "second", "third", begin=lambda: say(bus, "one"))
    assert ui.answers == ["first", "second", "third"]
    assert [event.tools for event in ui.seen if isinstance(event, TurnStart)] == [
        ("add", "think")
    ] * 3
    (error,) = statuses(ui, "error")
    assert "the worker stays as it was" in error
    assert place in error


def test_model_of_an_edited_worker_applies_to_the_next_turn(worker: Project) -> None:
    worker.write("a.yaml", "turns: [{text: a}]\n")
    worker.write("b.yaml", "turns: [{text: b}]\n")
    worker.write("worker.yaml", WORKER + "model: script:a.yaml\n")
    bus = EventBus()
    ui = UI(bus)

    async def main() -> None:
        after_answers(bus, edit(worker, bus, "worker.yaml", WORKER + "model: script:b.yaml\n"))
        with anyio.fail_after(DEADLINE):
            runtime = WorkerRuntime(worker=load_worker(worker.folder / "worker.yaml"), bus=bus)
            async with runtime, anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.converse)
                await anyio.wait_all_tasks_blocked()
                say(bus, "one")

    anyio.run(main)
    assert ui.answers == ["a", "b"]


def grants(ui: UI) -> list[list[str]]:
    return [
        [f"{grant.tool_name} {grant.text}" for grant in event.grants]
        for event in ui.seen
        if isinstance(event, GrantsEvent)
    ]


def always(bus: EventBus) -> Callable[[Event], None]:
    def answer(event: Any) -> None:
        if event.type == "approvalRequired":
            bus.answer(event.request.request_id, ApprovalDecision(True, remember="session"))

    return answer


def test_grants_are_listed_and_revoked(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    bus.subscribe(always(bus), answers=True)
    add = calls(call("add", a=1))
    begin = in_turn(
        bus, lambda: say(bus, "1", "2"), lambda: command(bus, "revoke", "1"), lambda: say(bus, "3")
    )
    converse(worker, bus, add, "a", add, "b", add, "c", begin=begin)
    assert len(ui.of("approvalRequired")) == 2
    assert grants(ui) == [["add a=1 b=1"], [], ["add a=1 b=1"]]
    assert "1 grant revoked" in statuses(ui, "info")


@pytest.mark.parametrize("which", ["1", "0", "x", "-1"])
def test_missing_grant_cannot_be_revoked(worker: Project, which: str) -> None:
    bus = EventBus()
    ui = UI(bus)
    converse(
        worker,
        bus,
        begin=in_turn(
            bus, lambda: command(bus, "revoke", which), lambda: command(bus, "revoke", "all")
        ),
    )
    (error,) = statuses(ui, "error")
    assert error.startswith(f"there is no grant '{which}': nothing has been allowed")


def test_policy_change_drops_the_grants(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    bus.subscribe(always(bus), answers=True)
    add = calls(call("add", a=1))
    after_answers(bus, edit(worker, bus, "worker.yaml", EDITED))
    converse(worker, bus, add, "a", add, "b", begin=lambda: say(bus, "one"))
    assert len(ui.of("approvalRequired")) == 2
    assert grants(ui) == [["add a=1 b=1"], [], ["add a=1 b=1"]]
    assert "1 grant dropped: the policy has changed" in statuses(ui, "info")


def test_folder_is_added_as_a_zone(worker: Project, tmp_path: Path) -> None:
    worker.write("worker.yaml", "name: w\ntoolsets: {filesystem: {}}\n")
    more = tmp_path / "more"
    more.mkdir()
    (more / "a.txt").write_text("here")
    bus = EventBus()
    ui = UI(bus)
    read = calls(call("read_file", path="/more/a.txt"))
    begin = in_turn(
        bus,
        lambda: command(bus, "add-dir", f"{more}:ro"),
        lambda: command(bus, "add-dir", "gone"),
        lambda: say(bus, "go"),
    )
    converse(worker, bus, read, "{result}", begin=begin, workspace=worker.folder)
    assert "here" in ui.answers[-1]
    (update,) = ui.of("sessionUpdate")
    assert [zone["name"] for zone in update.zones] == ["workspace", "more"]
    (error,) = statuses(ui, "error")
    assert "there is no such folder" in error


def test_attachments_are_sent_with_a_task(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    file = Attachment("a.txt", "text/plain", b"content")
    begin = in_turn(
        bus,
        lambda: bus.emit(UserInput("", "look", (file,))),
        lambda: bus.emit(UserInput("", "", (file,))),
    )
    converse(worker, bus, "{task}", "{task}", begin=begin)
    said = [event.message for event in ui.of("message") if event.message.role == "user"]
    assert [(message.text, message.attachments) for message in said] == [
        ("look", (file,)),
        ("Look at the attached files.", (file,)),
    ]


def titled(project: Project, bus: EventBus, script: str, **options: Any) -> UI:
    """A conversation of two tasks with a scripted model that may know a title; the second waits for the title."""
    project.write("script.yaml", script)
    ui, first = UI(bus), list[Event]()

    def take(event: Event) -> None:
        if isinstance(event, SessionUpdate) or (event.type == "turnEnd" and first):
            leave(bus)
        elif event.type == "turnEnd":
            first.append(event)

    bus.subscribe(take)

    async def main() -> None:
        with anyio.fail_after(DEADLINE):
            given = {
                "model": "script:script.yaml",
                "workspace": project.folder,
                "bus": bus,
                **options,
            }
            runtime = WorkerRuntime(worker=load_worker(project.folder / "worker.yaml"), **given)
            async with runtime, anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.converse)
                await anyio.wait_all_tasks_blocked()
                say(bus, "one")
                await anyio.wait_all_tasks_blocked()
                say(bus, "two")

    anyio.run(main)
    return ui


def test_session_title_comes_from_the_model_after_its_first_answer(worker: Project) -> None:
    with open_session(load_worker(worker.folder / "worker.yaml")) as session:
        ui = titled(
            worker,
            EventBus(),
            "title: '\"Counting sheep.\"'\nturns: [{text: a}, {text: b}]\n",
            session=session,
        )
    (update,) = ui.of("sessionUpdate")
    assert update.title == "Counting sheep"
    assert session.log
    assert session_overview(session.log.path).title == "Counting sheep"
    assert [event.turn for event in ui.of("turnStart")] in ([1], [1, 1])


def test_titles_can_be_disabled(worker: Project) -> None:
    home = Path(worker.home)
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("titles: false\n")
    with worker.environment():
        ui = titled(worker, EventBus(), "title: x\nturns: [{text: a}, {text: b}]\n")
    assert ui.of("sessionUpdate") == []
    assert ui.answers == ["a", "b"]


def test_session_title_set_by_a_person_is_found_on_resume(worker: Project) -> None:
    bus, loaded = EventBus(), load_worker(worker.folder / "worker.yaml")
    ui = UI(bus)
    with open_session(loaded) as session:
        begin = in_turn(bus, lambda: command(bus, "name", "My", "sheep"), lambda: say(bus, "one"))
        converse(worker, bus, "a", begin=begin, session=session)
    assert [event.title for event in ui.of("sessionUpdate")] == ["My sheep"]
    again = EventBus()
    seen = UI(again)
    with open_session(loaded, resume=session.id, task="two") as resumed:
        converse(
            worker, again, "b", begin=in_turn(again, lambda: say(again, "two")), session=resumed
        )
    (start,) = [event for event in seen.seen if isinstance(event, SessionStart)]
    assert (start.title, start.session, start.worker) == ("My sheep", session.id, "w")
    assert start.zones
    assert start.zones[0]["name"] == "workspace"


def test_another_session_is_opened_next(worker: Project) -> None:
    loaded = load_worker(worker.folder / "worker.yaml")
    with open_session(loaded) as first:
        bus = EventBus()
        converse(worker, bus, "a", begin=in_turn(bus, lambda: say(bus, "one")), session=first)
    bus = EventBus()
    ui = UI(bus)

    async def main() -> str | None:
        with anyio.fail_after(DEADLINE), open_session(loaded) as session:
            async with WorkerRuntime(
                worker=loaded, model=scripted_model(), bus=bus, session=session
            ) as runtime:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(runtime.converse)
                    await anyio.wait_all_tasks_blocked()
                    command(bus, "resume", "nope")
                    command(bus, "resume", session.id)
                    command(bus, "resume", first.id)
                return runtime.next_session

    assert anyio.run(main) == first.id
    assert [error.partition("\n")[0] for error in statuses(ui, "error")] == [
        "there is no session 'nope'",
        "this is the session that you are in",
    ]


def test_changes_of_the_session_are_undone(worker: Project) -> None:
    worker.write("worker.yaml", "name: w\ntoolsets: {filesystem: {}}\n")
    worker.write("old.txt", "before\n")
    bus, loaded = EventBus(), load_worker(worker.folder / "worker.yaml")
    ui = UI(bus)
    write = calls(
        call("write_file", path="new.txt", content="x\n"),
        call("write_file", path="old.txt", content="y\n"),
    )
    steps = [
        lambda: command(bus, "undo", "--list"),
        lambda: command(bus, "undo"),
        lambda: command(bus, "undo"),
    ]
    with open_session(loaded) as session:
        begin = in_turn(bus, lambda: say(bus, "go"), *steps)
        converse(
            worker,
            bus,
            write,
            "done",
            begin=begin,
            session=session,
            approval_mode="approve_all",
            workspace=worker.folder,
        )
    assert worker.read("old.txt") == "before\n"
    assert not (worker.folder / "new.txt").exists()
    said = statuses(ui, "info")
    assert "new.txt would be removed" in said
    assert "old.txt restored" in said
    assert said[-1] == "nothing to undo: no change is kept"


def test_undo_reverts_one_message(worker: Project) -> None:
    worker.write("worker.yaml", "name: w\ntoolsets: {filesystem: {}}\n")
    bus, loaded = EventBus(), load_worker(worker.folder / "worker.yaml")
    ui = UI(bus)

    def made(name: str) -> list[Any]:
        return [calls(call("write_file", path=f"{name}.txt", content="x\n")), "done"]

    def undone(*words: str) -> Callable[[], None]:
        return lambda: command(bus, "undo", *words)

    def said(*words: str) -> list[Callable[[], None]]:
        return [partial(say, bus, word) for word in words]

    with open_session(loaded) as session:
        converse(
            worker,
            bus,
            *(*made("a"), *made("b"), "only words", *made("c"), *made("d")),
            begin=in_turn(
                bus,
                *said("a", "b", "talk"),
                *(undone("--redo"), undone(), undone("--redo"), undone(), undone(), undone()),
                *(*said("c", "d"), undone("--all"), undone("--redo", "--list"), undone("--redo")),
            ),
            session=session,
            approval_mode="approve_all",
            workspace=worker.folder,
        )
    told = statuses(ui, "info")
    assert [line for line in told if ".txt" in line or "nothing" in line] == [
        "nothing to redo: no undo is kept",
        "b.txt removed",
        "b.txt restored",
        "b.txt removed",
        "a.txt removed",
        "nothing to undo: no change is kept",
        "c.txt removed",
        "d.txt removed",
        "c.txt would be restored",
        "d.txt would be restored",
        "c.txt restored",
        "d.txt restored",
    ]
    assert sorted(path.name for path in worker.folder.glob("?.txt")) == ["c.txt", "d.txt"]


def test_session_without_a_log_cannot_be_undone(worker: Project) -> None:
    bus = EventBus()
    ui = UI(bus)
    converse(worker, bus, begin=in_turn(bus, lambda: command(bus, "undo")))
    assert statuses(ui, "error") == ["this session is not kept, so it cannot be undone"]
