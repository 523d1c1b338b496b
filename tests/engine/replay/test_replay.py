"""A recorded session drives the current worker without a model; the first difference is reported.

Covers forge_cli.engine.replay.drift, forge_cli.engine.replay.recording.
"""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from forge_cli.core.approval import ApprovalDecision, ApprovalMode, OnAsk
from forge_cli.core.errors import ModelError
from forge_cli.core.events import ContextUsage
from forge_cli.core.messages import Attachment, Delta, ModelRequest, ToolSpec, TurnEnd, Usage
from forge_cli.engine.replay.drift import Drift
from forge_cli.engine.replay.recording import Recording, read_recording
from forge_cli.engine.replay.replay import Course, Tools
from forge_cli.engine.runtime.repeat import Repetition
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.engine.turns.offered import spec_of
from forge_cli.files.worker import load_worker
from forge_cli.process.signals import in_loop
from forge_cli.record.line import Line
from forge_cli.record.log import Log
from forge_cli.record.resume import Resumed, read_past
from forge_cli.schema.tool import Tool
from forge_cli.testing import Project, Seen, call, calls, scripted_model

WORKER = """
name: adder
instructions: |
  You add numbers.
  You are brief.
toolsets:
  custom:
    module: ./tools.py
    tools: [add, note]
    approval: {default: ask, tools: {add: preApproved}}
"""
TOOLS = '''
from pathlib import Path
from forge_cli import tool

@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

def note(text: str) -> str:
    """Write something down."""
    with open(Path(__file__).parent / "noted.txt", "a") as file:
        file.write(text)
    return f"noted {text}"
'''
FILES = """
name: clerk
sandbox:
  zones: [{name: files, mode: rw, approval: {write: preApproved, delete: preApproved}}]
toolsets: {filesystem: {}}
"""
SUM = (calls(call("add", a=2, b=3)), "It is 5.")


@pytest.fixture
def adder(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    return project


@pytest.fixture
def clerk(project: Project) -> Project:
    project.write("worker.yaml", FILES)
    return project


def recording(*sessions: Seen, file: str = "record.jsonl") -> Recording:
    """A recording of the seen events; several of them are one resumed session."""
    lines = [
        Line.read(Line(line.data).text().encode()) for seen in sessions for line in seen.record
    ]
    return read_recording(Log(Path(file), tuple(lines)))


def replay(
    project: Project, record: Recording, tools: Tools = Tools.READ_ONLY, **options: Any
) -> Course:
    with project.environment():
        given: dict[str, Any] = {"workspace": project.folder, **options}
        worker = load_worker(project.folder / "worker.yaml")
        return in_loop(Repetition(worker=worker, recording=record, tools=tools, **given).go)


def drift(
    project: Project, record: Recording, tools: Tools = Tools.READ_ONLY, **options: Any
) -> Drift:
    with pytest.raises(Drift) as caught:
        replay(project, record, tools, **options)
    return caught.value


def rewrite(project: Project, name: str, old: str, new: str) -> None:
    text = project.read(name)
    assert old in text
    project.write(name, text.replace(old, new))


@pytest.mark.parametrize("tools", Tools)
def test_unchanged_session_does_not_drift(adder: Project, tools: Tools) -> None:
    course = replay(adder, recording(adder.run(*SUM)), tools)
    assert (course.turns, course.ran + course.taken, course.unsure) == (2, 1, 0)
    assert course.taken == (tools is Tools.RECORDED)


@pytest.mark.parametrize(
    ("file", "old", "new", "kind", "told"),
    [
        (
            "worker.yaml",
            "You are brief.",
            "You are funny.",
            "request",
            [
                "the system prompt differs in line 2",
                "recorded: You are brief.",
                "now:      You are funny.",
            ],
        ),
        (
            "tools.py",
            "Add two numbers.",
            "Sum two numbers.",
            "request",
            ["the description of 'add' differs", "recorded: Add two numbers."],
        ),
        (
            "tools.py",
            "a: int, b: int",
            "a: int, b: float",
            "request",
            [
                "the input schema of 'add' differs at properties.b.type",
                'recorded: "integer"',
                'now:      "number"',
            ],
        ),
        (
            "worker.yaml",
            "add: preApproved",
            "add: ask",
            "verdict",
            [
                'add {"a": 2, "b": 3} is judged differently',
                "recorded: preApproved: ",
                "now:      ask: ",
            ],
        ),
        (
            "worker.yaml",
            "{default: ask, tools: {add: preApproved}}",
            "{default: preApproved}",
            "verdict",
            ["is judged by another rule", "approval.tools.add)", "approval.default)"],
        ),
        (
            "tools.py",
            "a + b",
            "1 / 0",
            "result",
            ["recorded: success: 5", "now:      error: ZeroDivisionError"],
        ),
    ],
)
def test_every_change_has_its_own_message(
    adder: Project, file: str, old: str, new: str, kind: str, told: list[str]
) -> None:
    record = recording(adder.run(*SUM))
    rewrite(adder, file, old, new)
    found = drift(adder, record)
    assert found.kind == kind
    assert [part for part in told if part not in str(found)] == []


def test_record_with_older_tool_descriptions_is_replayed(
    clerk: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    older: dict[str, Any] = {"required": {}}

    def spec_then(tool: Tool) -> ToolSpec:
        spec = spec_of(tool)
        text = json.dumps(spec.input_schema).replace('"description": "', '"description": "Then: ')
        schema = {**json.loads(text), **older["required"]}
        return replace(spec, description=f"Then: {spec.description}", input_schema=schema)

    with monkeypatch.context() as then:
        then.setattr("forge_cli.engine.turns.loop.spec_of", spec_then)
        work = calls(call("write_file", path="/files/a.txt", content="x\n")), "Done."
        described = recording(clerk.run(*work))
        older["required"] = {"required": []}
        asked = recording(clerk.run(*work))
    for tools in Tools:
        assert replay(clerk, described, tools).turns == 2
        assert "the input schema of '" in str(drift(clerk, asked, tools))


def test_renamed_tool_is_reported_with_the_nearest_name(adder: Project) -> None:
    record = recording(adder.run(*SUM))
    rewrite(adder, "tools.py", "def add(", "def add_up(")
    for old in ("[add, note]", "{add: preApproved}"):
        rewrite(adder, "worker.yaml", old, old.replace("add", "add_up"))
    found = drift(adder, record)
    assert found.kind == "tools"
    assert (
        "other tools are offered: 'add' is gone, 'add_up' is new; 'add_up' is the nearest to 'add'"
        in str(found)
    )


def test_new_tool_is_a_difference(adder: Project) -> None:
    record = recording(adder.run(*SUM))
    rewrite(adder, "worker.yaml", "[add, note]", "[add, note, less]")
    adder.write(
        "tools.py", f"{TOOLS}\ndef less(a: int) -> int:\n    '''One less.'''\n    return a - 1\n"
    )
    assert "other tools are offered: 'less' is new" in str(drift(adder, record))


def test_result_of_a_writing_call_comes_from_the_record(adder: Project) -> None:
    seen = adder.run(calls(call("note", text="x")), "Done.", answers=[True])
    course = replay(adder, recording(seen))
    assert (course.ran, course.taken) == (0, 1)
    assert adder.read("noted.txt") == "x"


@pytest.mark.parametrize("tools", Tools)
def test_denied_call_stays_denied(adder: Project, tools: Tools) -> None:
    record = recording(adder.run(calls(call("note", text="x")), "No.", answers=[False]))
    course = replay(adder, record, tools, mode=ApprovalMode.APPROVE_ALL)
    assert course.taken == 1
    assert not (adder.folder / "noted.txt").exists()


def test_blocked_call_is_refused_again_with_the_same_message(adder: Project) -> None:
    rewrite(adder, "worker.yaml", "add: preApproved", "add: preApproved, note: blocked")
    record = recording(adder.run(calls(call("note", text="x")), "No."))
    assert replay(adder, record, Tools.LIVE).taken == 0
    rewrite(adder, "worker.yaml", "note: blocked", "note: ask")
    found = drift(adder, record, Tools.RECORDED)
    assert (found.recorded or "").startswith("blocked: ")
    assert (found.now or "").startswith("ask: ")


def test_impossible_calls_are_refused_again(adder: Project) -> None:
    wrong = calls(call("add", a="x", b=1), call("nothing"), call("add", a=1, b=1))
    record = recording(adder.run(wrong, "Hm."))
    assert replay(adder, record).turns == 2
    rewrite(adder, "tools.py", "a: int, b: int", "a: str | int, b: int")
    assert "the input schema of 'add' differs at properties.a" in str(drift(adder, record))


def test_call_refused_then_and_allowed_now_is_drift(adder: Project) -> None:
    adder.write(
        "tools.py",
        TOOLS.replace("a + b", "a + b if a else 0").replace(
            "@tool(read_only=True)",
            "from forge_cli import ToolError\ndef word(args):\n    raise ToolError('not today')\n\n"
            "@tool(read_only=True, needs_approval=word)",
        ),
    )
    rewrite(adder, "worker.yaml", ", tools: {add: preApproved}", "")
    record = recording(adder.run(*SUM))
    rewrite(adder, "tools.py", "raise ToolError('not today')", "return False")
    found = drift(adder, record)
    assert found.kind == "verdict"
    assert "was refused, and now is not" in str(found)
    assert found.recorded == "error: not today"


def test_another_task_is_another_request(adder: Project) -> None:
    seen = adder.run("Hello.", task="say hello\nto everybody")
    seen.lines[1]["message"]["content"] = "say hello\nto me"
    assert "drift in turn 1: the history differs" in str(drift(adder, recording(seen)))


def test_folder_may_be_another_one(adder: Project, tmp_path: Path) -> None:
    adder.write(
        "tools.py", TOOLS.replace("-> int", "-> str").replace("a + b", "f'I am {__file__}'")
    )
    record = recording(adder.run(*SUM))
    moved = Project(tmp_path / "elsewhere")
    for name in ("worker.yaml", "tools.py"):
        moved.write(name, adder.read(name))
    assert replay(moved, record).ran == 1
    rewrite(moved, "tools.py", "I am", "We are")
    found = drift(moved, record)
    assert (found.recorded, found.now) == (
        f"I am {adder.folder}/tools.py",
        f"We are {moved.folder}/tools.py",
    )


def test_times_are_not_compared(adder: Project) -> None:
    clock = "from datetime import datetime, UTC\n"
    adder.write(
        "tools.py",
        clock + TOOLS.replace("-> int", "-> str").replace("a + b", "datetime.now(UTC).isoformat()"),
    )
    assert replay(adder, recording(adder.run(*SUM))).ran == 1


def test_secrets_unknown_on_this_machine_are_not_compared(
    adder: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    adder.write(
        "tools.py", TOOLS.replace("-> int", "-> str").replace("a + b", "'it is hunter22hunter'")
    )
    monkeypatch.setenv("MY_TOKEN", "hunter22hunter")
    task = "the token is hunter22hunter"
    seen = adder.run(
        calls(call("add", a=1, b=1), call("note", text="hunter22hunter")),
        "Ok.",
        task=task,
        answers=[True],
    )
    assert "hunter22" not in json.dumps(seen.lines)
    monkeypatch.delenv("MY_TOKEN")
    assert replay(adder, recording(seen), Tools.LIVE).turns == 2
    assert adder.read("noted.txt") == "hunter22hunter"


@pytest.mark.long
def test_requests_that_depend_on_skipped_calls_are_not_compared(clerk: Project) -> None:
    write = call("write_file", path="/files/a/b.txt", content="new")
    look = [
        call("read_file", path="/files/a/b.txt"),
        call("list_dir", path="/files"),
        call("delete_file", path="/files/a/b.txt"),
    ]
    record = recording(clerk.run(calls(write, *look), "Done."))
    course = replay(clerk, record)
    assert (course.ran, course.unsure) == (2, 2)
    clerk.write("files/other.txt", "other")
    assert replay(clerk, record).unsure == 2
    assert drift(clerk, record, Tools.LIVE).kind == "result"
    (clerk.folder / "files/other.txt").unlink()
    assert replay(clerk, record, Tools.LIVE).ran == 4


def test_requests_that_do_not_depend_on_skipped_calls_are_compared(clerk: Project) -> None:
    clerk.write("files/in.txt", "before")
    write = call("write_file", path="/files/out.txt", content="new")
    record = recording(clerk.run(calls(write, call("read_file", path="/files/in.txt")), "Done."))
    clerk.write("files/in.txt", "after")
    found = drift(clerk, record)
    assert (found.recorded, found.now) == ("1: before", "1: after")


def test_denied_call_has_created_nothing(clerk: Project) -> None:
    rewrite(clerk, "worker.yaml", "write: preApproved", "write: ask")
    clerk.write("files/in.txt", "before")
    write = call("write_file", path="/files/in.txt", content="new")
    record = recording(
        clerk.run(calls(write, call("read_file", path="/files/in.txt")), "Done.", answers=[False])
    )
    clerk.write("files/in.txt", "after")
    assert drift(clerk, record).kind == "result"


def test_existing_file_is_written_again(clerk: Project) -> None:
    record = recording(
        clerk.run(calls(call("write_file", path="/files/a.txt", content="new")), "Done.")
    )
    assert replay(clerk, record, Tools.LIVE).ran == 1


def test_zones_are_not_created_for_a_replay(clerk: Project, tmp_path: Path) -> None:
    looks = [
        call("list_files", path="/files"),
        call("file_exists", path="/files/x"),
        call("read_file", path="/files/x"),
    ]
    record = recording(clerk.run(calls(*looks), "Nothing."))
    fresh = Project(tmp_path / "fresh")
    fresh.write("worker.yaml", FILES)
    assert replay(fresh, record).ran == 3
    assert sorted(path.name for path in fresh.folder.iterdir()) == ["worker.yaml"]


def test_difference_in_a_long_text_is_shown_at_its_place(clerk: Project) -> None:
    lines = [f"line {number} " + "x" * 300 for number in range(50)]
    clerk.write("files/in.txt", "\n".join(lines))
    record = recording(clerk.run(calls(call("read_file", path="/files/in.txt")), "Done."))
    lines[30] += " and more"
    clerk.write("files/in.txt", "\n".join(lines))
    found = drift(clerk, record)
    assert "gives another result in line 32" in str(found)
    assert (found.now or "").endswith(" and more")
    assert len(str(found).splitlines()) == 3


def test_limit_that_ends_the_work_earlier_is_drift(adder: Project) -> None:
    record = recording(adder.run(*SUM))
    adder.write("worker.yaml", f"{WORKER}limits: {{max_turns: 1}}\n")
    found = drift(adder, record)
    assert (found.kind, found.turn) == ("turns", 2)
    assert "this turn is not reached" in str(found)
    assert "limit" in (found.now or "")


def test_answer_that_is_no_longer_valid_is_drift(adder: Project) -> None:
    adder.write(
        "worker.yaml",
        f"{WORKER}output_schema: {{type: object, properties: {{n: {{type: integer}}}}}}\n",
    )
    record = recording(adder.run('{"n": 5}'))
    assert replay(adder, record).turns == 1
    rewrite(adder, "worker.yaml", "type: integer", "type: string")
    assert "the system prompt differs" in str(drift(adder, record))


def test_repairs_are_part_of_the_record(adder: Project) -> None:
    adder.write("worker.yaml", f"{WORKER}output_schema: {{type: object}}\n")
    assert replay(adder, recording(adder.run("five", '{"n": 5}'))).turns == 2


def test_session_that_reached_a_limit_is_replayed_up_to_it(adder: Project) -> None:
    seen = adder.run(
        calls(call("add", a=1, b=1)), calls(call("add", a=2, b=2)), "Done.", on_ask=OnAsk.FAIL
    )
    lines = seen.record
    for end in range(4, len(lines)):
        cut = Seen(record=lines[:end])
        assert replay(adder, recording(cut)).turns <= 3


def test_session_stopped_by_a_refusal_is_replayed(adder: Project) -> None:
    both = calls(call("note", text="x"), call("add", a=1, b=1))
    seen = adder.run(both, "Done.", on_ask=OnAsk.FAIL)
    assert seen.statuses == ["denied", "interrupted"]
    course = replay(adder, recording(seen))
    assert (course.turns, course.taken) == (1, 2)


def resume(project: Project, before: list[Seen], *turns: Any, **options: Any) -> Seen:
    lines = [line for seen in before for line in seen.record]
    resumed = Resumed(read_past(lines), lines[-1])
    model = scripted_model(*turns, name="later")
    return project.run(model=model, resume=resumed, **options)


def test_resumed_session_is_replayed_part_by_part(adder: Project) -> None:
    first = adder.run(*SUM)
    second = resume(adder, [first], calls(call("add", a=3, b=3)), "It is 6.", task="and 3 + 3?")
    record = recording(first, second)
    assert [part.task.text for part in record.parts] == ["go", "and 3 + 3?"]
    assert replay(adder, record).turns == 4
    rewrite(adder, "tools.py", "a + b", "a + b if a == 2 else 7")
    found = drift(adder, record)
    assert (found.recorded, found.now) == ("6", "7")


def test_session_interrupted_in_a_call_and_resumed_is_replayed(adder: Project) -> None:
    rewrite(
        adder, "worker.yaml", "{default: ask, tools: {add: preApproved}}", "{default: preApproved}"
    )
    first = adder.run(calls(call("note", text="x"), call("add", a=1, b=1)), "Never.")
    place = next(index for index, line in enumerate(first.record) if line.type == "toolResult")
    cut = Seen(record=first.record[:place])
    second = resume(
        adder, [cut], calls(call("note", text="x")), "Done.", task="go on", answers=[True]
    )
    assert second.asked[0].reason.endswith("and may have run")
    course = replay(adder, recording(cut, second))
    assert (course.turns, course.taken) == (3, 1)


def test_parked_session_is_replayed_before_and_after_the_answer(adder: Project) -> None:
    both = calls(call("note", text="x"), call("note", text="y"))
    first = adder.run(both, "Never.", on_ask=OnAsk.PARK)
    assert first.result.status == "parked"
    assert replay(adder, recording(first)).turns == 1
    second = resume(adder, [first], "Done.", task="", approval_mode="approve_all")
    course = replay(adder, recording(first, second))
    assert (course.turns, course.taken) == (2, 2)
    rewrite(adder, "worker.yaml", "add: preApproved", "add: preApproved, note: blocked")
    assert "is judged differently" in str(drift(adder, recording(first)))


def test_attachments_come_from_the_record(adder: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter22hunter")
    files = (
        Attachment("a.txt", "text/plain", b"hunter22hunter"),
        Attachment("b.png", "image/png", b"\x89PNG"),
    )
    seen = Seen()

    async def work(runtime: WorkerRuntime) -> None:
        async with runtime:
            await runtime.run("look", files)

    with adder.environment():
        worker = load_worker(adder.folder / "worker.yaml")
        model, wiring = scripted_model("Fine."), Wiring(sinks=(seen.take,))
        in_loop(
            work, WorkerRuntime(worker=worker, model=model, workspace=adder.folder, wiring=wiring)
        )
    monkeypatch.delenv("MY_TOKEN")
    assert replay(adder, recording(seen)).turns == 1


def test_manual_calls_are_not_made_again(adder: Project) -> None:
    adder.write("tools.py", TOOLS.replace("def note", "@tool(manual='both')\ndef note"))
    seen = Seen()

    async def work(runtime: WorkerRuntime) -> None:
        async with runtime:
            await runtime.invoke("note", {"text": "x"})
            await runtime.run("add")
            await runtime.invoke("note", {"text": "y"})
            await runtime.run("add more")

    with adder.environment():
        worker = load_worker(adder.folder / "worker.yaml")
        model, wiring = scripted_model(*SUM, *SUM), Wiring(sinks=(seen.take,))
        options: dict[str, Any] = {
            "workspace": adder.folder,
            "wiring": wiring,
            "approval_mode": "approve_all",
        }
        in_loop(work, WorkerRuntime(worker=worker, model=model, **options))
    record = recording(seen)
    assert [part.task.text for part in record.parts] == ["add", "add more"]
    course = replay(adder, record, Tools.LIVE)
    assert (course.turns, course.ran) == (4, 2)
    assert adder.read("noted.txt") == "xy"


PARENT = """
name: boss
toolsets:
  custom: {module: ./tools.py, tools: [ask_adder], approval: {default: preApproved}}
"""
DELEGATING = '''
from forge_cli import ToolContext

async def ask_adder(question: str, *, context: ToolContext) -> str:
    """Ask the adder."""
    return await context.delegate("below/worker.yaml", question)
'''


@pytest.fixture
def boss(project: Project) -> Project:
    project.write("worker.yaml", PARENT)
    project.write("tools.py", DELEGATING)
    project.write("below/worker.yaml", f"{WORKER}model: script:script.yaml\n")
    project.write("below/tools.py", TOOLS)
    script = {"turns": [calls(call("add", a=2, b=3)), {"text": "5, I think"}]}
    project.write("below/script.yaml", json.dumps(script))
    return project


def test_child_worker_is_driven_by_its_own_turns(boss: Project) -> None:
    record = recording(boss.run(calls(call("ask_adder", question="2 + 3?")), "It is 5."))
    (boss.folder / "below/script.yaml").unlink()
    assert replay(boss, record).turns == 2
    assert replay(boss, record, Tools.LIVE).turns == 4
    rewrite(boss, "below/tools.py", "a + b", "a - b")
    assert replay(boss, record).turns == 2
    found = drift(boss, record, Tools.LIVE)
    assert (found.kind, found.turn, found.recorded, found.now) == ("result", 1, "5", "-1")


def test_changed_child_worker_is_drift(boss: Project) -> None:
    record = recording(boss.run(calls(call("ask_adder", question="2 + 3?")), "It is 5."))
    rewrite(boss, "below/worker.yaml", "name: adder", "name: guesser")
    found = drift(boss, record, Tools.LIVE)
    assert "starts the worker 'guesser', which is not in the recording" in str(found)


def test_child_worker_that_waited_for_an_answer_is_replayed(boss: Project) -> None:
    script = {"turns": [calls(call("note", text="x")), {"text": "noted"}]}
    boss.write("below/script.yaml", json.dumps(script))
    first = boss.run(calls(call("ask_adder", question="note x")), "Never.", on_ask=OnAsk.PARK)
    assert first.result.status == "parked"
    second = resume(boss, [first], "Done.", task="", approval_mode="approve_all")
    assert (second.result.response, boss.read("below/noted.txt")) == ("Done.", "x")
    record = recording(first, second)
    assert replay(boss, record).turns == 2
    assert boss.read("below/noted.txt") == "x"
    assert replay(boss, record, Tools.LIVE, mode=ApprovalMode.APPROVE_ALL).turns == 4
    assert boss.read("below/noted.txt") == "xx"


def test_failed_child_worker_is_not_started_again(boss: Project) -> None:
    boss.write("below/script.yaml", json.dumps({"turns": [calls(call("add", a=1, b=1))]}))
    seen = boss.run(calls(call("ask_adder", question="2 + 3?")), "I do not know.")
    assert seen.statuses == ["success", "error"]
    course = replay(boss, recording(seen), Tools.LIVE)
    assert (course.turns, course.ran, course.taken) == (2, 0, 1)


def test_limit_on_cost_needs_no_price(adder: Project) -> None:
    record = recording(adder.run(*SUM))
    adder.write("worker.yaml", f"{WORKER}limits: {{max_cost: 1}}\n")
    assert replay(adder, record).turns == 2


def test_session_grant_is_not_asked_for_again(adder: Project) -> None:
    twice = [calls(call("note", text="x")), calls(call("note", text="x")), "Done."]
    seen = adder.run(*twice, answers=[ApprovalDecision(True, remember="session")])
    assert replay(adder, recording(seen)).taken == 2


def test_old_records_without_system_and_specs_are_compared_as_a_whole(adder: Project) -> None:
    seen = adder.run(*SUM)
    for line in seen.lines:
        line.pop("system", None)
        line.pop("specs", None)
    record = recording(seen)
    assert replay(adder, record).turns == 2
    rewrite(adder, "worker.yaml", "You are brief.", "You are funny.")
    assert "the request differs, but the recording has only its hash" in str(drift(adder, record))


class Narrow:
    """A model with a small window: three bytes are a token, and it refuses more than ``holds`` tokens."""

    def __init__(self, *turns: Any, window: int | None, holds: int) -> None:
        self.name, self.context_window, self.holds = "narrow:test", window, holds
        self.conversation = scripted_model(*turns)
        self.summaries = scripted_model(*["Numbers were added."] * 9)
        self.asked_for_summaries = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        told = sum(len(json.dumps(message.wire())) for message in request.messages)
        told += sum(len(result.text) for message in request.messages for result in message.results)
        if told // 3 > self.holds:
            raise ModelError("too long", too_long=True)
        self.asked_for_summaries += not request.tools
        async for delta in (self.conversation if request.tools else self.summaries).stream(request):
            yield replace(delta, usage=Usage(told // 3, 1)) if isinstance(delta, TurnEnd) else delta

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("window", "holds"), [(5_000, 9_000), (2_000, 9_000), (None, 4_000), (None, 1_500)]
)
def test_compaction_is_replayed_as_recorded(adder: Project, window: int | None, holds: int) -> None:
    adder.write("tools.py", TOOLS.replace("-> int", "-> str").replace("a + b", "f'{a + b:03000}'"))
    turns = [calls(call("add", a=number, b=1), text="words " * 150) for number in range(8)]
    model = Narrow(*turns, "Done.", window=window, holds=holds)
    seen = adder.run(model=model)
    made_room = [event for event in seen.of(ContextUsage) if event.elided or event.summarised]
    assert (seen.result.status, bool(made_room)) == ("completed", True)
    course = replay(adder, recording(seen))
    assert (course.turns, course.ran) == (9 + model.asked_for_summaries, 8)
