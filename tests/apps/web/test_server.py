"""Sessions in a browser: the state of every tab, actions of one tab, and the log.

Covers forge_cli.apps.web.api, forge_cli.apps.web.live, forge_cli.apps.web.sessions, forge_cli.apps.web.command,
forge_cli.apps.web.drawing, forge_cli.apps.web.objects, forge_cli.apps.web.tabs, forge_cli.apps.web.view,
forge_cli.ui.queue, forge_cli.engine.runtime.options and forge_cli.engine.runtime.conversation.
"""

import base64
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from forge_cli.apps.web import tabs, view
from forge_cli.apps.web.drawing import SessionDrawing
from forge_cli.core.actions import CommandEvent, Interrupt, UserInput
from forge_cli.core.approval import ApprovalDecision, OnAsk
from forge_cli.core.events import MessageEvent, ModeChanged, StatusEvent, Streaming
from forge_cli.core.messages import Message
from forge_cli.core.notify import RetryNotice, StatusNotice
from forge_cli.core.phrases import INTERRUPTED_ANSWER
from forge_cli.record.line import Line
from forge_cli.record.log import find_own_session, read_session, session_files
from forge_cli.record.pending import answer_request
from forge_cli.testing import Project
from tests.support.lines import lines_of

from .pages import Browser, FakeTab, Json, eventually, play, serving_page

WORKER = """
name: tester
description: Tries things
instructions: You try things.
model: script:script.yaml
toolsets:
  filesystem: {}
  custom:
    module: ./tools.py
    tools: [wait, add, deploy, speak]
    approval: {default: preApproved, tools: {add: ask}}
"""
TOOLS = '''
"""Tools of every temper."""

import anyio

from forge_cli import ToolContext, tool


async def wait(context: ToolContext) -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    return ""


@tool(manual="both")
def add(a: int, b: int = 2) -> str:
    """Add two numbers.

    Args:
        a: The <first> one.
    """
    return str(a + b)


@tool(manual="manual")
def deploy() -> str:
    """Only a person deploys."""
    return "deployed"


def speak() -> str:
    """Say something that looks like markup."""
    return "<script>alert(1)</script>"
'''
WRITES = """
turns:
  - text: "I *write* it."
    calls: [{tool: write_file, input: {path: a.py, content: "x = 1\\n"}}]
  - text: "Done: {task}"
  - text: "Again: {task}"
"""


@pytest.fixture
def tester(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    project.write("script.yaml", WRITES)
    return project


def script(project: Project, *turns: Any) -> None:
    spoken = [{"text": turn} if isinstance(turn, str) else turn for turn in turns]
    project.write("script.yaml", json.dumps({"turns": spoken}))


def calls(*made: Any, text: str = "") -> Any:
    return {"text": text, "calls": [{"tool": tool, "input": args} for tool, args in made]}


def record(project: Project, session: str | None = None) -> list[Line]:
    with project.environment():
        files = session_files()
        path = next(path for path in files if session in (None, path.stem))
        return list(read_session(path).lines)


def kinds(lines: list[Line]) -> list[str]:
    return [line.type for line in lines]


def test_conversation_with_an_approval_is_drawn_and_kept(tester: Project) -> None:
    async def story(browser: Browser) -> Any:
        session = await browser.start()
        tab = await browser.open(session)
        assert tab.states["session"]["live"]
        assert tab.status == "idle"
        await browser.act(session, "input", text="go <on>")
        request = await tab.request()
        assert (request["tool"], request["path"], request["risk"]) == (
            "write_file",
            ["tester"],
            "medium",
        )
        assert '<span class="plus">' in request["html"]
        assert "1 file, +1 -0" in request["html"]
        assert "writing in zone &#x27;workspace&#x27; needs your OK" in request["html"]
        assert request["choices"][0]["value"] == "once"
        assert request["choices"][-1] == {"value": "no", "key": "n", "label": "Deny"}
        await tab.wait(lambda tab: tab.status == "waiting")
        await browser.act(session, "answer", request=request["request"], choice="once")
        await tab.until("Done: go &lt;on&gt;")
        await tab.wait(lambda tab: tab.status == "idle" and not tab.requests)
        assert "I <em>write</em> it." in tab.html
        assert "ask -&gt; yes by user" in tab.html
        assert [entry["kind"] for entry in tab.entries.values()] == [
            "user",
            "answer",
            "call",
            "answer",
        ]
        assert tab.states["usage"]["turns"] == 2
        assert tab.states["usage"]["calls"] == 1
        return session

    session = play(tester, story)
    assert tester.read("a.py") == "x = 1\n"
    lines = record(tester, session)
    assert kinds(lines)[-2:] == ["command", "sessionEnd"]
    assert {"userInput", "approvalRequired", "approvalResponse", "approvalDecided"} <= set(
        kinds(lines)
    )


def test_reading_page_writes_nothing(tester: Project) -> None:
    async def story(browser: Browser) -> Any:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="go")
        await tab.wait(lambda tab: tab.status == "idle" and "Done" in tab.html)
        return tab.html

    assert "read-only" in play(tester, story, read_only=True)
    assert not (tester.folder / "a.py").exists()


def test_mode_is_shown_and_can_be_changed(tester: Project) -> None:
    script(tester, calls(("write_file", {"path": "a.txt", "content": "x"})), "Done: {task}")

    async def story(browser: Browser) -> str:
        session = await browser.start()
        tab = await browser.open(session)
        shown = tab.states["session"]
        assert (shown["mode"], shown["modeTitle"]) == ("ask", "ask")
        assert [mode["title"] for mode in shown["modes"]] == ["ask", "accept edits", "read only"]
        await browser.act(session, "input", text="/mode acceptEdits")
        await tab.wait(lambda tab: tab.states["session"]["modeTitle"] == "accept edits")
        await browser.act(session, "input", text="go")
        await tab.until("Done: go")
        return session

    session = play(tester, story)
    assert tester.read("a.txt") == "x"
    lines = record(tester, session)
    assert [line.event for line in lines if line.type == "modeChanged"] == [
        ModeChanged("acceptEdits")
    ]
    assert "approvalRequired" not in kinds(lines)


def test_input_line_has_the_same_meaning_as_in_the_terminal(tester: Project) -> None:
    tester.write("notes.md", "Butter\n")
    script(tester, calls(("write_file", {"path": "a.txt", "content": "x = 1\n"})), "Done: {task}")

    async def story(browser: Browser) -> str:
        session = await browser.start()
        tab = await browser.open(session)

        async def enter(text: str, **more: Any) -> Json:
            return dict(await browser.act(session, "input", text=text, **more))

        async def complete(text: str) -> list[str]:
            path = f"/api/sessions/{session}/complete"
            return [each["text"] for each in await browser.get(path, params={"text": text})]

        assert "list the commands" in (await enter("/help", columns=60))["shown"]
        assert (await complete("/und"), await complete("see @not")) == (["/undo"], ["@notes.md"])
        assert "@/workspace/" in await complete("see @/work")
        assert (await enter("/t add -i"))["form"] == {"tool": "add", "given": {}}
        assert "the page has no trace level" in (await enter("/trace"))["shown"]
        refused = await browser.act(session, "input", 400, text="!ls")
        assert "no shell tool" in refused["error"]
        await enter("/mode acceptEdits")
        await enter("go @notes.md")
        await tab.until("Done: go")
        assert "with notes.md" in tab.html
        await enter("/undo")
        await tab.until("a.txt removed")
        other = await browser.start()
        await browser.act(other, "input", text="/name Another")
        await browser.act(other, "close")
        await enter(f"/resume {other}")
        await tab.wait(lambda tab: "go" in tab.states)
        assert tab.states["go"]["id"] == other
        assert list(browser.serving.sessions.live) == [other]
        return session

    play(tester, story)
    assert not (tester.folder / "a.txt").exists()


def test_message_length_is_limited_as_on_the_command_line(tester: Project, monkeypatch) -> None:
    monkeypatch.setattr("forge_cli.apps.web.api.MAX_TASK_BYTES", 1000)
    monkeypatch.setattr("forge_cli.apps.web.api.MAX_BODY", 5000)
    script(tester, "Done.")

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        for text in ("x" * 1001, "ü" * 501):
            refused = await browser.act(session, "input", 400, text=text)
            assert refused["error"].startswith(
                "the message has more than 1000 bytes, the maximum\n  write it"
            )
        refused = await browser.act(session, "input", 400, text="x" * 5000)
        assert refused["error"].startswith("the request has more than")
        await browser.act(session, "input", text="ü" * 500)
        await tab.until("Done.")

    play(tester, story)


def test_message_can_be_edited_after_going_back(
    tester: Project,
) -> None:
    script(tester, "One.", calls(("write_file", {"path": "a.txt", "content": "x"})), "Two.")

    async def story(browser: Browser) -> str:
        session = await browser.start()
        tab = await browser.open(session)
        for text in ("/mode accept edits", "first", "second @worker.yaml"):
            await browser.act(session, "input", text=text)
        await tab.until("Two.")
        await browser.act(session, "input", text="/rewind 2")
        await tab.until("back to before message 2: second @worker.yaml")
        assert tab.states["edit"]["text"] == "second @worker.yaml"
        return tab.html

    html = play(tester, story)
    assert "a.txt removed" in html
    assert "the conversation went back: the model does not read" in html


def test_edited_worker_is_announced_and_not_as_the_user(tester: Project) -> None:
    script(tester, "One.", "Two.")

    async def story(browser: Browser) -> list[Json]:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="first")
        await tab.until("One.")
        zones = "sandbox: {zones: [{name: work, path: ., mode: rw, approval: {write: blocked}}]}\n"
        tester.write("worker.yaml", WORKER + zones)
        await browser.act(session, "input", text="second")
        await tab.until("Two.")
        return list(tab.entries.values())

    said = [(entry["kind"], entry["html"]) for entry in play(tester, story)]
    assert [kind for kind, _ in said] == ["user", "answer", "note", "note", "user", "answer"]
    assert "worker.yaml was read again: other" in said[2][1]
    assert "the model is told: Since this session began" in said[3][1]


def test_model_retries_are_one_warning_with_a_count() -> None:
    tries = [
        StatusEvent.of("warning", StatusNotice.of_retry(RetryNotice("it broke off", wait, n, 5)))
        for wait, n in ((0.5, 2), (1, 3))
    ]
    others = [
        StatusEvent("warning", "somebody says; trying again in 1 s (4 of 5)"),
        MessageEvent(Message("assistant", "Half", ()), cut_off=True),
    ]
    drawing = SessionDrawing("s")
    for line in lines_of(*tries, *others):
        drawing.take(line)
    shown = [(item["level"], item["html"]) for item in drawing.history(0)]
    assert [level for level, _ in shown] == ["warning passing", "warning", ""]
    assert "(3 of 5)" in shown[0][1]
    assert "The answer is incomplete" in shown[2][1]


def test_failed_attempt_leaves_no_text() -> None:
    """Neither before the next try, nor below the error, which would hide its way to try again."""
    drawing = SessionDrawing("s")
    again, over = (
        StatusEvent.of("warning", StatusNotice.of_retry(RetryNotice("it broke off", 1, 2, 2))),
        StatusEvent("error", "it broke off"),
    )
    seen = []
    for event in (
        Streaming("r", "Half", False),
        again,
        Streaming("r", "Other", False),
        over,
        Streaming("q", "New", False),
    ):
        for line in lines_of(event):
            drawing.take(line)
        growing = [item["rest"] for item in drawing.state() if item["type"] == "delta"]
        changed = [
            (item["type"], item["key"])
            for item in drawing.drain()
            if item["type"] in ("delta", "void")
        ]
        seen.append((growing, changed))
    assert seen == [
        (["<p>Half</p>\n"], [("delta", "a.0")]),
        ([], [("void", "a.0")]),
        (["<p>Other</p>\n"], [("delta", "a.1")]),
        ([], [("void", "a.1")]),
        (["<p>New</p>\n"], [("delta", "a.2")]),
    ]


def test_cut_answer_precedes_its_reason() -> None:
    drawing = SessionDrawing("s")
    half, nothing = (
        MessageEvent(Message("assistant", text, ()), cut_off=True)
        for text in ("Half", INTERRUPTED_ANSWER)
    )
    for line in lines_of(Interrupt("interrupted"), half, Interrupt("terminated"), nothing):
        drawing.take(line)
    told = [(item["key"], item["before"]) for item in drawing.drain() if item["type"] == "entry"]
    assert told == [("e0", None), ("a.0", "e0"), ("e2", None)]
    assert [item["key"] for item in drawing.history(0)] == ["a.0", "e0", "e2"]


def test_no_with_a_reason_is_sent_to_the_model(tester: Project) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="go")
        request = await tab.request()
        await browser.act(
            session, "answer", request=request["request"], choice="no", feedback="use\nanother name"
        )
        await tab.until("the user said no: use another name")
        await tab.until("Done: go")

    play(tester, story)
    assert not (tester.folder / "a.py").exists()


def test_yes_for_the_session_covers_the_next_call(tester: Project) -> None:
    script(tester, calls(("add", {"a": 1})), calls(("add", {"a": 1})), "over")

    async def story(browser: Browser) -> list[str]:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="go")
        request = await tab.request()
        refused = await browser.act(
            session, "answer", 400, request=request["request"], choice="always"
        )
        assert "unknown choice" in refused["error"]
        await browser.act(session, "answer", request=request["request"], choice="session")
        await tab.until("over")
        told = [
            entry["parent"]
            for entry in tab.entries.values()
            if "allowed for the session: this exact call" in entry["html"]
        ]
        assert told == [next(key for key, entry in tab.entries.items() if entry["kind"] == "call")]
        return tab.types()

    assert play(tester, story).count("request") == 1


@pytest.mark.parametrize(("choice", "asked"), [("session", 2), ("session2", 1)])
def test_grant_for_every_call_of_a_tool_is_a_separate_choice(
    tester: Project, choice: str, asked: int
) -> None:
    tester.write("worker.yaml", WORKER.replace("{default: preApproved, tools: {add: ask}}", "{}"))
    script(tester, calls(("add", {"a": 1})), calls(("add", {"a": 2})), "over")

    async def story(browser: Browser) -> list[str]:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="go")
        request = await tab.request()
        offered = [(each["value"], each["about"]) for each in request["choices"] if "about" in each]
        assert offered == [("session", "this exact call"), ("session2", "every call of add")]
        await browser.act(session, "answer", 400, request=request["request"], choice="session3")
        await browser.act(session, "answer", request=request["request"], choice=choice)
        if asked > 1:
            await tab.wait(lambda tab: tab.types().count("request") == 2)
            again = await tab.request()
            await browser.act(session, "answer", request=again["request"], choice="no")
        await tab.until("over")
        return tab.types()

    assert play(tester, story).count("request") == asked


@pytest.mark.needs("overlay")
@pytest.mark.parametrize("choice", ["once", "no"])
def test_rule_set_answer_is_asked_once_and_stored(tester: Project, choice: str) -> None:
    tester.write("worker.yaml", "name: tester\nmodel: script:script.yaml\ntoolsets: {shell: {}}\n")
    tester.write("Makefile", "build:\n\techo built > out\n")
    script(tester, calls(("shell", {"command": "make build"})), "done")

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="go")
        request = await tab.request()
        assert request["tool"] == "rule sets"
        assert [each["label"] for each in request["choices"]] == [
            "Allow from now on",
            "Deny from now on",
        ]
        assert "use: [building, localhost, containers]" in request["html"]
        await browser.act(session, "answer", request=request["request"], choice=choice)
        if choice == "no":
            line = await tab.wait(
                lambda tab: [each for each in tab.requests.values() if each["tool"] == "shell"]
            )
            await browser.act(session, "answer", request=line[0]["request"], choice="no")
        await tab.until("done")

    play(tester, story)
    kept = "[building, localhost, containers]" if choice == "once" else "[]"
    assert f"use: {kept}" in (tester.home / "config.yaml").read_text()
    assert (tester.folder / "out").exists() == (choice == "once")


def test_first_answer_counts_and_every_tab_shows_it(tester: Project) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        one, other = await browser.open(session), await browser.open(session)
        await browser.act(session, "input", text="go")
        request = (await one.request())["request"]
        assert (await other.request())["request"] == request
        await browser.act(session, "answer", request=request, choice="no")
        late = await browser.act(session, "answer", 409, request=request, choice="once")
        assert late["by"] == "user"
        await other.wait(lambda tab: not tab.requests)
        decided = next(item for item in other.objects if item["type"] == "decided")
        assert (decided["request"], decided["verdict"], decided["by"]) == (request, "no", "user")
        unknown = await browser.act(session, "answer", 400, request="approval_x", choice="once")
        assert "unknown request" in unknown["error"]

    play(tester, story)
    assert not (tester.folder / "a.py").exists()


def test_closing_the_last_tab_answers_nothing_and_a_new_tab_finds_the_request(
    tester: Project,
) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        first = await browser.open(session)
        await browser.act(session, "input", text="go")
        request = await first.request()
        first.scope.cancel()
        await first.wait(lambda tab: tab.ended)
        late = await browser.open(session)
        assert late.requests.keys() == {request["request"]}
        assert late.status == "waiting"
        await browser.act(session, "answer", request=request["request"], choice="once")
        await late.until("Done: go")

    play(tester, story)


def test_reconnected_tab_misses_and_duplicates_nothing(tester: Project) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        whole, broken = await browser.open(session), await browser.open(session)
        await browser.act(session, "input", text="one")
        request = await broken.request()
        broken.scope.cancel()
        await broken.wait(lambda tab: tab.ended)
        await browser.act(session, "answer", request=request["request"], choice="once")
        await whole.until("Done: one")
        seen = len(broken.objects)
        await browser.open(session, broken.last, broken)
        assert "Done: one" in broken.html
        await browser.act(session, "input", text="two")
        for tab in (whole, broken):
            await tab.until("Again: two")
        assert broken.entries == whole.entries
        assert list(broken.entries) == list(whole.entries)
        sent = [item["key"] for item in broken.objects[seen:] if item["type"] == "entry"]
        assert "e0" not in sent  # it was there before the break
        fresh = await browser.open(session)
        assert fresh.entries == whole.entries

    play(tester, story)


def test_late_tab_gets_the_whole_streamed_text(tester: Project) -> None:
    tester.write("tools.py", TOOLS + MODEL)
    tester.write(
        "worker.yaml",
        WORKER.replace("model: script:script.yaml", "model: slow:x\nplugins: [./tools.py]"),
    )

    async def story(browser: Browser) -> None:
        session = await browser.start()
        first = await browser.open(session)
        await browser.act(session, "input", text="go")
        await first.wait(lambda tab: "".join(tab.texts.values()) == "<p>two</p>\n")
        assert first.status == "writing"
        late = await browser.open(session)
        assert (late.texts, late.done) == (first.texts, first.done)
        assert list(late.done.values()) == ["<p>one</p>\n"]
        await browser.open(session, first.last, first)
        assert (first.texts, first.done) == (late.texts, late.done)
        (tester.folder / "go").touch()
        await late.until("two three")
        assert late.texts == {}
        key = next(entry["key"] for entry in late.entries.values() if entry["kind"] == "answer")
        assert any(item["type"] == "delta" and item["key"] == key for item in late.objects)

    play(tester, story)


MODEL = """
import pathlib

from forge_cli import hookimpl
from forge_cli.hooks import ModelFactory, TextDelta, TurnEnd


class SlowModel:
    name = "slow:x"
    context_window = 1000

    async def stream(self, request):
        yield TextDelta("one\\n\\n")
        yield TextDelta("two ")
        while not pathlib.Path(__file__).with_name("go").exists():
            await anyio.sleep(0.01)
        yield TextDelta("three")
        yield TurnEnd("end")

    async def aclose(self):
        pass


@hookimpl
def forge_models():
    return [ModelFactory("slow", lambda model, settings: SlowModel())]
"""


def test_stop_interrupts_and_returns_queued_messages(tester: Project) -> None:
    script(tester, calls(("wait", {})), "after {task}")
    file = {
        "name": "a.txt",
        "media_type": "text/plain",
        "data": base64.b64encode(b"hello").decode(),
    }

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="first")
        await tab.wait(lambda tab: tab.status == "running")
        assert tab.states["status"]["detail"] == "wait"
        assert next(entry for entry in tab.entries.values() if entry["kind"] == "call")["open"]
        await browser.act(session, "input", text="second", attachments=[file])
        await browser.act(session, "input", text="/name Later")
        await browser.act(session, "input", text="third")
        await tab.wait(
            lambda tab: tab.states["status"]["queued"] == ["second", "/name Later", "third"]
        )
        back = await browser.act(session, "interrupt")
        assert back == {
            "text": "second\n/name Later\nthird",
            "shown": "attached to your next message: a.txt",
        }
        await tab.wait(lambda tab: tab.status == "idle" and tab.states["status"]["queued"] == [])
        assert await browser.act(session, "interrupt") == {"text": "", "shown": ""}
        await browser.act(session, "input", text="fourth")
        await tab.until("after fourth")
        call = next(entry for entry in tab.entries.values() if entry["kind"] == "call")
        assert (call["open"], "interrupted" in call["html"]) == (False, True)

    play(tester, story)
    assert "interrupt" in kinds(record(tester))
    said = [line.event.message for line in record(tester) if isinstance(line.event, MessageEvent)]
    assert [(each.text, len(each.attachments)) for each in said if each.role == "user"] == [
        ("first", 0),
        ("fourth", 1),
    ]


def test_command_waits_for_the_messages_before_it(tester: Project) -> None:
    script(
        tester,
        calls(("add", {"a": 1}), ("speak", {})),
        "after {task}",
        "after {task}",
        "after {task}",
    )

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        for text in ("first", "second", "/clear", "/mode accept edits", "third"):
            await browser.act(session, "input", text=text)
        await tab.wait(lambda tab: tab.states["status"]["queued"] == ["second", "/clear", "third"])
        request = (await tab.request())["request"]
        for html in ('class="call waiting"', 'class="call next"'):
            await tab.until(html)
        await browser.act(session, "answer", request=request, choice="once")
        await tab.until("after third")

    play(tester, story)
    told = [line.event for line in record(tester)]
    typed = [event for event in told if isinstance(event, UserInput | CommandEvent)]
    words = [event.content if isinstance(event, UserInput) else event.name for event in typed]
    assert words == ["first", "mode", "second", "clear", "third", "exit"]


def test_message_is_retried_with_its_files_and_an_empty_answer_is_reported(
    tester: Project,
) -> None:
    script(tester, "", "again {task}")
    file = {
        "name": "a.txt",
        "media_type": "text/plain",
        "data": base64.b64encode(b"hello").decode(),
    }

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "retry", 400)
        await browser.act(session, "input", text="look", attachments=[file])
        await tab.until("the answer of the model is empty")
        await browser.act(session, "retry")
        await tab.until("again look")

    play(tester, story)
    said = [line.event.message for line in record(tester) if isinstance(line.event, MessageEvent)]
    asked = [
        (each.text, [file.name for file in each.attachments])
        for each in said
        if each.role == "user"
    ]
    assert asked == [("look", ["a.txt"])] * 2


def test_args_of_a_manual_call_are_checked_at_their_fields(tester: Project) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        tools = {
            tool["name"]: tool
            for group in tab.states["tools"]["categories"]
            for tool in group["tools"]
        }
        assert tools.keys() >= {"add", "deploy"}
        assert "speak" not in tools
        first, second = tools["add"]["fields"]
        assert (first["name"], first["type"], first["required"]) == ("a", "number", True)
        assert (second["has_default"], second["default"]) == (True, 2)
        wrong = await browser.act(session, "invoke", 422, tool="add", input={"a": "many"})
        assert wrong["fields"].keys() == {"a"}
        missing = await browser.act(session, "invoke", 422, tool="add", input={})
        assert missing["fields"].keys() == {"a"}
        refused = await browser.act(session, "invoke", 400, tool="speak", input={})
        assert "unknown tool" in refused["error"]
        await browser.act(session, "invoke", tool="add", input={"a": "40"})
        request = await tab.request()
        assert "you want to call add" in request["title"]
        await browser.act(session, "answer", request=request["request"], choice="once")
        await tab.until('<pre class="text">42</pre>')
        await tab.wait(lambda tab: tab.status == "idle")

    play(tester, story)
    assert "manualToolInvoke" in kinds(record(tester))


def test_question_is_answered_once(tester: Project) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        bus, heard = browser.serving.sessions.live[session].bus, list[str | None]()

        async def ask() -> None:
            heard.append(await bus.ask_input("Who are <you>?", ("me", "you")))

        browser.tasks.start_soon(ask)
        await tab.wait(lambda tab: tab.questions)
        (request, question), *_ = tab.questions.items()
        assert "Who are &lt;you&gt;?" in question["html"]
        assert question["options"] == ["me", "you"]
        assert tab.status == "waiting"
        late = await browser.open(session)
        assert late.questions == tab.questions
        await browser.act(session, "reply", request=request, content="me")
        await tab.wait(lambda tab: not tab.questions)
        await browser.act(session, "reply", 409, request=request, content="again")
        assert heard == ["me"]

    play(tester, story)


def test_parked_request_is_answered_in_the_inbox_and_resumed(tester: Project) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        await browser.act(session, "input", text="go")
        await eventually(lambda: not browser.serving.sessions.live)
        rows = await browser.get("/api/inbox")
        assert (await browser.get("/api/state"))["parked"] == 1
        (row,) = rows
        assert (row["session"], row["tool"], row["worker"], row["about"]) == (
            session,
            "write_file",
            "tester",
            "go",
        )
        assert [choice["value"] for choice in row["choices"]] == ["once", "no"]
        assert "1 file, +1 -0" in row["html"]
        tab = await browser.open(session)
        assert (tab.states["session"]["live"], tab.status) == (False, "ended")
        listed = await browser.get("/api/sessions")
        assert [(each["id"], each["live"], each["parked"]) for each in listed] == [
            (session, False, True)
        ]
        wrong = await browser.post(
            f"/api/inbox/{session}/{row['request']}", {"choice": "session"}, 400
        )
        assert "unknown choice" in wrong["error"]
        await browser.post(f"/api/inbox/{session}/{row['request']}", {"choice": "once"})
        assert (await browser.get("/api/inbox"))[0]["answer"] == "yes"
        assert (await browser.get("/api/state"))["parked"] == 0
        await browser.act(session, "input", 400, text="nobody is there")
        assert (await browser.act(session, "resume"))["id"] == session
        await tab.until("Done: go")
        assert tab.states["session"]["live"]

    play(tester, story, on_ask=OnAsk.PARK)
    assert tester.read("a.py") == "x = 1\n"


def test_first_answer_counts_also_from_another_terminal(tester: Project) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="go")
        request = (await tab.request())["request"]
        decision = ApprovalDecision(True, via="forge approvals answer")
        await to_thread.run_sync(
            lambda: answer_request(find_own_session(session), request, decision)
        )
        await tab.until("ask -&gt; yes by user (forge approvals answer)")
        late = await browser.act(session, "answer", 409, request=request, choice="no")
        assert late["by"] == "forge approvals answer"
        await tab.until("Done: go")

    play(tester, story)
    assert tester.read("a.py") == "x = 1\n"


def test_inbox_answers_the_prompt_of_another_process(
    tester: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="go")
        request = (await tab.request())["request"]
        monkeypatch.setattr(browser.serving.sessions, "live", {})  # as another server sees it
        (row,) = await browser.get("/api/inbox")
        assert (row["session"], row["request"], row["answer"]) == (session, request, None)
        await browser.post(
            f"/api/inbox/{session}/{request}", {"choice": "no", "feedback": "not yet"}
        )
        await tab.until("the user said no: not yet")
        await tab.until("no by user (forge web)")

    play(tester, story)


def test_request_with_an_open_tab_is_not_parked(tester: Project) -> None:
    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="go")
        request = await tab.request()
        tab.scope.cancel()
        await tab.wait(lambda tab: tab.ended)
        (row,) = await browser.get("/api/inbox")
        assert [choice["key"] for choice in row["choices"]] == ["y", "s", "n"]
        tab = await browser.open(session)
        await browser.post(f"/api/inbox/{session}/{request['request']}", {"choice": "session"})
        await tab.until("Done: go")

    play(tester, story, on_ask=OnAsk.PARK)


def test_session_is_closed_read_forked_and_resumed(tester: Project) -> None:
    script(tester, "Hello **{task}**", "And {task}", "Third {task}")

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="one")
        await tab.until("Hello <strong>one</strong>")
        await browser.act(session, "input", text="/name The title")
        await tab.wait(lambda tab: tab.states["title"]["title"] == "The title")
        unknown = await browser.act(session, "input", text="/nme")
        assert "did you mean '/name'?" in unknown["shown"]
        await browser.act(session, "close")
        await tab.wait(
            lambda tab: not tab.states["session"]["live"] and not tab.states["tools"]["categories"]
        )
        refused = await browser.act(session, "invoke", 400, tool="add", input={"a": 1})
        assert refused["error"] == f"session '{session}' is not running\n  resume it first"
        reader = await browser.open(session)
        assert reader.states["tools"]["categories"] == []
        assert "Hello <strong>one</strong>" in reader.html
        fork = (await browser.act(session, "fork"))["id"]
        assert fork != session
        copy = await browser.open(fork)
        assert "Hello <strong>one</strong>" in copy.html
        assert (await browser.act(session, "resume"))["id"] == session
        assert (await browser.act(session, "resume"))["id"] == session
        await browser.act(session, "input", text="two")
        await reader.until("two")
        assert reader.states["tools"]["categories"]
        listed = {each["id"]: each for each in await browser.get("/api/sessions")}
        assert (listed[session]["title"], listed[session]["live"]) == ("The title", True)
        found = await browser.get("/api/sessions", params={"search": "HELLO"})
        assert {each["id"] for each in found} == {session, fork}
        assert "Hello" in found[0]["match"]
        assert await browser.get("/api/sessions", params={"search": "nowhere"}) == []
        checked = await browser.get(f"/api/sessions/{fork}/verify")
        assert checked["ok"]
        assert "ok" in checked["text"]
        for format, words in (
            ("html", "Hello <strong>one"),
            ("markdown", "> Hello **one**"),
            ("jsonl", '"seq": 1'),
        ):
            answer = await browser.client.get(
                f"/api/sessions/{fork}/export", params={"format": format}
            )
            assert words in answer.text
            assert answer.headers["content-disposition"].startswith("attachment; filename=")
        assert (
            await browser.client.get(f"/api/sessions/{fork}/export?format=pdf")
        ).status_code == 400

    play(tester, story)


@pytest.mark.long
def test_session_of_another_process_is_followed_read_only(
    tester: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tester, "Hello", "More")

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="one")
        await tab.until("Hello")
        elsewhere = await other_server(browser, session)
        assert "in use by process" in elsewhere

    async def other_server(browser: Browser, session: str) -> str:
        async with serving_page(tester) as second:
            reader = await second.open(session)
            assert not reader.states["session"]["live"]
            refused = await second.act(session, "resume", 409)
            await browser.act(session, "input", text="two")
            await reader.until("More")
            return str(refused["error"])

    play(tester, story)


def test_attachment_type_comes_from_its_content(tester: Project) -> None:
    script(tester, "Seen.")
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        refused = await browser.act(
            session, "input", 400, text="x", attachments=[{"name": "a", "data": "%%"}]
        )
        assert "not base64" in refused["error"]
        assert "empty" in (await browser.act(session, "input", 400, text=" "))["error"]
        given = [{"name": "../<a>.png", "media_type": "text/html", "data": picture}]
        await browser.act(session, "input", text="look", attachments=given)
        await tab.until("with &lt;a&gt;.png")
        await tab.until("Seen.")

    play(tester, story)
    (said,) = (line for line in record(tester) if line.type == "userInput")
    assert said.data["attachments"][0]["mediaType"] == "image/png"


def test_child_worker_is_part_of_the_call_that_started_it(tester: Project) -> None:
    child = "name: child\ninstructions: x\nmodel: script:child-script.yaml\ntoolsets: {filesystem: {}}\n"
    tester.write("child.yaml", child)
    tester.write(
        "child-script.yaml",
        json.dumps(
            {"turns": [calls(("write_file", {"path": "c", "content": "c"})), {"text": "mine"}]}
        ),
    )
    tester.write(
        "worker.yaml",
        WORKER.replace("toolsets:", "toolsets:\n  workers: {allowed: [./child.yaml]}"),
    )
    script(tester, calls(("child", {"input": "do"})), "over")

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text="go")
        request = await tab.request()
        assert request["path"] == ["tester"]
        await browser.act(session, "answer", request=request["request"], choice="once")
        request = await tab.wait(
            lambda tab: next(
                (each for each in tab.requests.values() if each["tool"] != "child"), None
            )
        )
        assert request["path"] == ["tester", "child"]
        await browser.act(session, "answer", request=request["request"], choice="once")
        await tab.until("over")
        outer = next(
            entry
            for entry in tab.entries.values()
            if entry["kind"] == "call" and entry["parent"] is None
        )
        inner = [entry for entry in tab.entries.values() if entry["parent"] == outer["key"]]
        assert {"answer", "call", "note", "user"} <= {entry["kind"] for entry in inner}
        await tab.wait(lambda tab: tab.states["tree"]["workers"][1:])
        root, below = tab.states["tree"]["workers"]
        assert (root["name"], below["name"], below["parent"]) == ("tester", "child", root["id"])

    play(tester, story)


def test_text_from_others_is_escaped(tester: Project) -> None:
    nasty = "<img src=x onerror=alert(1)>"
    tester.write(f"{nasty}.yaml".replace("/", ""), WORKER.replace("name: tester", "name: tester2"))
    script(
        tester, calls(("read_file", {"path": nasty}), ("speak", {}), (nasty, {nasty: nasty})), nasty
    )

    async def story(browser: Browser) -> FakeTab:
        session = await browser.start()
        tab = await browser.open(session)
        await browser.act(session, "input", text=nasty)
        await tab.wait(lambda tab: tab.status == "idle" and len(tab.entries) > 4)
        return tab

    html = play(tester, story).html
    assert "<img" not in html
    assert "<script" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_workers_of_the_folder_are_listed_and_broken_ones_say_why(tester: Project) -> None:
    tester.write("broken.yaml", "name: broken\ninstructions: x\ntoolsets: {shel: 1}\nmodle: x\n")
    tester.write("compose.yaml", "services: {}\n")
    tester.write(
        ".forge/workers/own.yaml", "name: own\ninstructions: x\nmodel: script:script.yaml\n"
    )

    async def story(browser: Browser) -> None:
        state = await browser.get("/api/state")
        rows = {row["name"]: row for row in state["workers"]}
        assert {"tester", "broken", "own", "coder"} <= rows.keys()
        assert "compose" not in rows
        assert rows["tester"]["error"] is None
        assert "modle" in rows["broken"]["error"]
        assert "not trusted" in rows["own"]["error"]
        assert state["folder"] == str(tester.folder)
        refused = await browser.post("/api/sessions", {"worker": "own"}, 400)
        assert "not trusted" in refused["error"]
        unknown = await browser.post("/api/sessions", {"worker": "testr"}, 400)
        assert "did you mean 'tester'?" in unknown["error"]
        await browser.post("/api/sessions", {"worker": "broken"}, 400)
        assert (await browser.client.get("/api/sessions/nothing/events")).status_code == 400

    play(tester, story)


def test_worker_that_cannot_be_opened_is_one_message(tester: Project) -> None:
    async def story(browser: Browser) -> Any:
        return await browser.post("/api/sessions", {"worker": "tester"}, 400)

    (tester.folder / "script.yaml").unlink()
    assert "script.yaml" in play(tester, story)["error"]


@pytest.mark.long
def test_tab_that_does_not_read_is_dropped_without_delaying_others(
    tester: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabs, "MAX_QUEUED", 20_000)
    script(tester, *("{task}" for _ in range(40)))

    async def story(browser: Browser) -> None:
        session = await browser.start()
        quick = await browser.open(session)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", browser.access.port))
        head = f"GET /api/sessions/{session}/events HTTP/1.1\r\nHost: 127.0.0.1:{browser.access.port}\r\n"
        slow.sendall(
            f"{head}Authorization: {browser.client.headers['authorization']}\r\n\r\n".encode()
        )
        shown = (await browser.serving.sessions.look(session)).tabs
        await eventually(lambda: len(shown) == 2)
        with slow:
            for number in range(40):
                await browser.act(session, "input", text=f"{'x' * 300_000} number {number}.")
                await quick.wait(
                    lambda tab, n=number: (
                        tab.html.count(f"number {n}.") == 2 and tab.status == "idle"
                    )
                )
                if len(shown) == 1:
                    return
        raise AssertionError("the slow tab is still there")

    play(tester, story)


def test_long_history_is_loaded_in_parts(tester: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "ENTRIES_PER_MESSAGE", 3)
    script(tester, *(f"answer {number}" for number in range(6)))

    async def story(browser: Browser) -> None:
        session = await browser.start()
        tab = await browser.open(session)
        for number in range(6):
            await browser.act(session, "input", text=f"task {number}")
            await tab.until(f"answer {number}")
        late = await browser.open(session)
        assert late.entries == tab.entries
        assert late.last == tab.last

    play(tester, story)


def test_session_that_loses_its_log_ends_alone(tester: Project) -> None:
    script(tester, "Hello {task}")

    async def story(browser: Browser) -> None:
        lost, sound = await browser.start(), await browser.start()
        tab, other = await browser.open(lost), await browser.open(sound)
        next(path for path in session_files() if path.stem == lost).unlink()
        refused = await browser.act(lost, "input", 400, text="one")
        assert "removed" in refused["error"]
        await browser.act(sound, "input", text="two")
        await other.until("Hello two")
        await tab.wait(lambda tab: tab.status == "ended")
        assert "removed" in tab.states["status"]["detail"]
        assert list(browser.serving.sessions.live) == [sound]

    play(tester, story)


def test_worker_of_the_command_line_is_available_at_once(tester: Project) -> None:
    async def story(browser: Browser) -> None:
        state = await browser.get("/api/state")
        tab = await browser.open(state["session"])
        assert tab.states["session"]["worker"] == "tester"
        assert Path(tab.states["session"]["folder"]) == tester.folder

    play(tester, story, "worker.yaml")


def test_sessions_are_listed_as_on_the_command_line(tester: Project, tmp_path: Path) -> None:
    """Those of this folder first, each with its folder, and the items of a batch as one row."""
    script(tester, "Done.")
    other = tmp_path / "other"
    other.mkdir()
    for folder in (other, tester.folder):
        assert (
            tester.forge("run", "worker.yaml", f"in {folder.name}", "-C", str(folder)).returncode
            == 0
        )
    tester.write("inputs.jsonl", '{"task": "one"}\n{"task": "two"}\n{"task": "three"}\n')
    assert tester.forge("batch", "worker.yaml", "inputs.jsonl").returncode == 0
    assert tester.forge("run", "worker.yaml", "in other again", "-C", str(other)).returncode == 0

    async def story(browser: Browser) -> tuple[Any, Any]:
        return await browser.get("/api/sessions"), await browser.get(
            "/api/sessions", params={"search": "two"}
        )

    rows, found = play(tester, story)
    assert [(row["title"], row["folder"]) for row in rows] == [
        ("batch inputs.results.jsonl: 3 items", str(tester.folder)),
        (f"in {tester.folder.name}", str(tester.folder)),
        ("in other again", str(other)),
        ("in other", str(other)),
    ]
    assert [row["title"] for row in found] == ["two"]
