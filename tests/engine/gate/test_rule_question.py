"""Rule sets are asked about once a folder, before the first line that asks and that one covers; the answer is kept."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from forge_cli import ApprovalDecision, EventBus, load_worker
from forge_cli.embedding import open_session
from forge_cli.events import ApprovalRequired
from forge_cli.testing import Project, call, calls
from tests.support.talk import UI, converse, leave, say

pytestmark = pytest.mark.needs("overlay")

WORKER = "name: w\ntoolsets: {shell: {rules: [{use: reading}]}}\n"
ALL = ["building", "localhost", "containers"]
BUILD, LOOK, OTHER = "make build", "curl -s http://127.0.0.1:9/", "touch other"
ONCE = "rule sets"


@pytest.fixture
def worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("FORGE_HOME", str(project.home))
    project.write("worker.yaml", WORKER)
    project.write("Makefile", "build:\n\techo built > out\n")
    project.write("kept.txt", "kept\n")
    project.home.mkdir(mode=0o700, exist_ok=True)
    return project


def asked(
    worker: Project, *lines: str, answer: ApprovalDecision, mode: str = "ask", **options: Any
) -> UI:
    """Run lines in a session with a person who answers the rule question, and says yes to all others."""
    return asked_of(
        worker,
        *[calls(call("shell", command=line)) for line in lines],
        answer=answer,
        mode=mode,
        **options,
    )


def asked_of(
    worker: Project, *turns: Any, answer: ApprovalDecision, mode: str = "ask", **options: Any
) -> UI:
    """Have a model take turns in such a session."""
    bus = EventBus()
    ui = UI(bus, answers=True)

    def watch(event: Any) -> None:
        if event.type == "approvalRequired":
            is_kept = event.request.tool_name == ONCE
            bus.answer(event.request.request_id, answer if is_kept else ApprovalDecision(True))

    def begin() -> None:
        bus.emit("command", {"name": "mode", "args": [mode]})
        say(bus, "go")
        leave(bus)

    bus.subscribe(watch)
    with open_session(load_worker(worker.folder / "worker.yaml")) as session:
        converse(worker, bus, *turns, "done", begin=begin, session=session, **options)
    return ui


def questions(ui: UI) -> list[str]:
    return [event.request.tool_name for event in ui.of("approvalRequired")]


def kept(worker: Project) -> Any:
    file = worker.home / "config.yaml"
    return yaml.safe_load(file.read_text())["policy"]["shell"]["folders"] if file.exists() else None


YES, NO = ApprovalDecision(True), ApprovalDecision(False)


def test_yes_to_a_rule_set_covers_later_lines_and_is_stored(worker: Project) -> None:
    ui = asked(worker, BUILD, LOOK, BUILD, answer=YES)
    assert questions(ui) == [ONCE]
    assert [event.status for event in ui.of("toolResult")] == [
        "success",
        "error",
        "success",
    ]  # nobody listens there
    assert worker.read("out") == "built\n"
    assert kept(worker) == [{"path": str(worker.folder), "use": ALL}]
    (worker.folder / "out").unlink()
    assert questions(asked(worker, LOOK, BUILD, answer=YES)) == []


def test_no_to_a_rule_set_is_stored_and_lines_ask_individually(worker: Project) -> None:
    assert questions(asked(worker, LOOK, OTHER, BUILD, answer=NO)) == [
        ONCE,
        "shell",
        "shell",
        "shell",
    ]
    assert kept(worker) == [{"path": str(worker.folder), "use": []}]
    assert questions(asked(worker, LOOK, answer=YES)) == ["shell"]
    shown = worker.forge("config", "show").stdout
    assert "policy.shell.folders" in shown
    changed = f"[{{path: {worker.folder}, use: [localhost]}}]"
    assert worker.forge("config", "set", "policy.shell.folders", changed).returncode == 0
    assert questions(asked(worker, LOOK, answer=YES)) == []


def test_line_that_does_not_ask_raises_no_question(worker: Project) -> None:
    assert questions(asked(worker, BUILD, OTHER, answer=YES, mode="acceptEdits")) == []
    assert kept(worker) is None


def test_build_with_other_effects_asks_after_a_yes(worker: Project) -> None:
    worker.write("Makefile", "build:\n\techo built > out; rm kept.txt\n")
    assert questions(asked(worker, BUILD, answer=YES)) == [ONCE, "shell"]


def test_question_names_the_text_and_the_file(worker: Project) -> None:
    (event,) = asked(worker, LOOK, answer=YES).of("approvalRequired")
    request = event.request
    assert request.description.startswith("w asks once: may it use builds on a copy")
    assert (request.kept, request.args["command"]) == (str(worker.home / "config.yaml"), LOOK)
    assert f"{{path: {worker.folder}, use: [building, localhost, containers]}}" in str(
        request.preview
    )


def test_unanswered_question_is_not_stored(worker: Project) -> None:
    left = ApprovalDecision(False, note="cancelled in the editor")
    assert questions(asked(worker, LOOK, answer=left)) == [ONCE, "shell"]
    assert kept(worker) is None


@pytest.mark.parametrize(
    "options", [{}, {"approval_mode": "auto_deny"}, {"approval_mode": "approve_all"}], ids=repr
)
def test_question_is_not_asked_in_programs_and_modes(
    worker: Project, options: dict[str, str]
) -> None:
    seen = worker.run(
        calls(call("shell", command=LOOK)), "done", timeout=60, answers=[True], **options
    )
    assert [event.request.tool_name for event in seen.of(ApprovalRequired)] == (
        [] if options else ["shell"]
    )
    assert kept(worker) is None


def test_unwritable_config_keeps_the_answer_for_the_session(worker: Project) -> None:
    file = worker.home / "config.yaml"
    file.write_bytes(b"titles: false\r\n# mine\n")
    ui = asked(worker, LOOK, LOOK, answer=YES)
    assert questions(ui) == [ONCE]
    (warning,) = [
        event.message for event in ui.of("status") if "this session only" in event.message
    ]
    assert f"{{path: {worker.folder}, use:" in warning
    assert file.read_bytes() == b"titles: false\r\n# mine\n"


def test_rule_of_the_worker_still_asks(worker: Project) -> None:
    worker.write("worker.yaml", WORKER.replace("]}", ", {pattern: make, approval: ask}]}"))
    assert questions(asked(worker, BUILD, answer=YES)) == ["shell"]
    assert Path(worker.folder, "out").exists()


SHELL = "shell: {rules: [{use: reading}]}"


def delegated(
    worker: Project, answer: ApprovalDecision, *children: str, parallel: bool = False, parent: bool
) -> UI:
    """Have two calls of a line made by each child, and by the parent before and after them if it has a shell."""
    look = calls(call("shell", command=LOOK))
    for name in children:
        script = {"turns": [look, look, {"text": "done"}]}
        worker.write(f"{name}.script.yaml", json.dumps(script))
        model = f"model: script:{name}.script.yaml"
        worker.write(f"{name}.yaml", f"name: {name}\n{model}\ntoolsets: {{{SHELL}}}\n")
    allowed = f"workers: {{allowed: [{', '.join(children)}], approval: {{default: preApproved}}}}"
    own = f"{SHELL}, " if parent else ""
    worker.write("worker.yaml", f"name: w\ntoolsets: {{{own}{allowed}}}\n")
    tasks = [call(name, input="look") for name in children]
    turns = [calls(*tasks)] if parallel else [calls(each) for each in tasks]
    if parent:
        turns = [look, *turns, look]
    return asked_of(worker, *turns, answer=answer)


@pytest.mark.parametrize(
    ("parent", "can_write", "parallel"),
    [(True, True, False), (True, False, False), (False, False, True), (False, True, True)],
    ids=["parent", "parent, unwritable", "side by side, unwritable", "side by side"],
)
def test_answer_applies_to_parent_and_children(
    worker: Project, parent: bool, can_write: bool, parallel: bool
) -> None:
    if not can_write:
        (worker.home / "config.yaml").write_bytes(b"titles: false\r\n# mine\n")
    ui = delegated(worker, YES, "first", "second", parallel=parallel, parent=parent)
    assert questions(ui) == [ONCE]
    assert (
        len([each for each in ui.of("toolResult") if each.tool_name == "shell"]) == 4 + 2 * parent
    )


def test_answer_of_a_child_applies_to_its_parent(worker: Project) -> None:
    worker.write(
        "child.script.yaml",
        yaml.safe_dump({"turns": [calls(call("shell", command=LOOK)), {"text": "done"}]}),
    )
    worker.write(
        "child.yaml", f"name: child\nmodel: script:child.script.yaml\ntoolsets: {{{SHELL}}}\n"
    )
    allowed = "workers: {allowed: [child], approval: {default: preApproved}}"
    worker.write("worker.yaml", f"name: w\ntoolsets: {{{SHELL}, {allowed}}}\n")
    turns = calls(call("child", input="look")), calls(call("shell", command=BUILD))
    ui = asked_of(worker, *turns, answer=YES)
    assert questions(ui) == [ONCE]
    assert worker.read("out") == "built\n"


def test_no_to_a_parent_applies_to_its_children(worker: Project) -> None:
    ui = delegated(worker, NO, "first", parent=True)
    assert questions(ui) == [ONCE, "shell", "shell", "shell", "shell"]


LINES = """
from forge_cli import Approval, Args, Toolset, Verdict, tool
from forge_cli.events import GrantRule


class Lines(Toolset):
    name = "lines"
    allowed = False

    def by_name(self, args: Args) -> Verdict:
        if self.allowed:
            return Verdict(Approval.PRE_APPROVED, "it is known")
        at = ("names", "-")
        rule = GrantRule(at, args["name"], "this name", user_at=at, user_says=["here"], user_refuses=["nowhere"])
        return Verdict(Approval.ASK, "it is new", grants=[[rule]])

    @tool(needs_approval="by_name")
    def greet(self, name: str) -> str:
        "Greet somebody."
        return f"hello {name}"

    def rule_kept(self, rule: GrantRule) -> None:
        ADDED
"""


def test_toolset_is_notified_of_a_stored_rule(worker: Project) -> None:
    heard = greeted(worker, "self.allowed = (rule.at, rule.says) == (('names', '-'), ['here'])")
    assert questions(heard) == [ONCE]
    assert [event.status for event in heard.of("toolResult")] == ["success", "success"]


def test_toolset_that_fails_on_a_stored_rule_is_named(worker: Project) -> None:
    heard = greeted(worker, "raise RuntimeError('no idea')")
    (warning,) = [event.message for event in heard.of("status") if "no idea" in event.message]
    assert "toolsets.custom" in warning
    assert "from the next session on" in warning
    assert questions(heard)[:2] == [ONCE, "greet"]


def greeted(worker: Project, added: str) -> UI:
    worker.write("tools.py", LINES.replace("ADDED", added))
    toolset = "{module: ./tools.py, tools: [Lines], approval: {default: preApproved}}"
    worker.write("worker.yaml", f"name: w\ntoolsets: {{custom: {toolset}}}\n")
    bus = EventBus()
    ui = UI(bus, answers=True)
    bus.subscribe(
        lambda event: event.type == "approvalRequired" and bus.answer(event.request.request_id, YES)
    )

    def begin() -> None:
        say(bus, "go")
        leave(bus)

    turns = [calls(call("greet", name=name)) for name in ("Ada", "Bob")]
    with open_session(load_worker(worker.folder / "worker.yaml")) as session:
        converse(worker, bus, *turns, "done", begin=begin, session=session)
    return ui
