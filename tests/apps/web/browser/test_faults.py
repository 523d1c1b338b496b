"""Faults around the page: a server that is gone, and a session with ten thousand events."""

import os

import pytest
from playwright.sync_api import expect

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.calls import ToolCall
from forge_cli.core.events import (
    ApprovalDecided,
    Event,
    MessageEvent,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
    TurnStart,
)
from forge_cli.core.messages import Message, Usage
from forge_cli.core.results import Text
from forge_cli.record.recorder import Recorder
from forge_cli.sandbox.secrets import Redactor
from forge_cli.testing import call, calls

from .conftest import Start
from .site import Site, say


@pytest.mark.long
def test_page_reconnects_to_a_restarted_server(start: Start) -> None:
    site = start("One.", "Two.")
    context = site.context()
    page = site.talk(context)
    say(page, "First")
    expect(page.locator(".entry.answer .words")).to_have_text("One.")
    site.kill()
    expect(page.locator("#gone")).to_contain_text("cannot be reached")
    page.locator("#message").fill("Second")
    page.keyboard.press("Enter")
    expect(page.locator("#composer-error")).to_contain_text("Nothing was sent")
    expect(page.locator("#message")).to_have_value("Second")

    site.start()
    expect(page.locator("#gone")).to_contain_text("Open the address")
    site.open(context).close()
    expect(page.locator("#gone")).to_be_hidden()
    page.locator("#reading").get_by_role("button", name="Resume").click()
    expect(page.locator(".entry.answer .words")).to_have_text(["One."])
    expect(page.locator("#composer")).to_be_visible()
    expect(page.locator("#message")).to_have_value("Second")
    page.locator("#message").press("Enter")
    expect(page.locator(".entry.answer .words")).to_have_text(["One.", "Two."])
    expect(page.locator(".entry.user .words")).to_have_text(["First", "Second"])


@pytest.mark.long
def test_call_of_a_killed_server_ends(start: Start) -> None:
    site = start(calls(call("hold")), "Two.")
    context = site.context()
    page = site.talk(context)
    say(page, "First")
    state = page.locator(".entry.call .state")
    expect(state).to_have_text("running")
    site.kill()
    expect(page.locator("#gone")).to_contain_text("cannot be reached")
    site.start()
    site.open(context).close()
    expect(page.locator("#reading")).to_be_visible()
    expect(state).to_have_text("unfinished")
    page.locator("#reading").get_by_role("button", name="Resume").click()
    expect(page.locator("#status-text")).to_have_text("Ready")
    expect(state).to_have_text("unfinished")
    say(page, "Second")
    expect(page.locator(".entry.answer .words")).to_have_text("Two.")
    expect(state).to_have_text("interrupted")


def many_events(count: int) -> list[Event]:
    found: list[Event] = [MessageEvent(Message("user", "go"))]
    turn = 0
    while len(found) < count:
        turn += 1
        call, args = f"call_{turn}", {"path": f"/notes/file_{turn}.txt"}
        yes = ApprovalDecision(True)
        found += [
            TurnStart(turn, "0" * 64, ("read_file",)),
            MessageEvent(
                Message("assistant", f"Turn {turn}.", calls=(ToolCall(call, "read_file", args),))
            ),
            TurnEndEvent(turn, "tool_use", Usage(1_000, 50)),
            ToolStarted(call, "read_file", args),
            ApprovalDecided(
                call, "ask", yes.approved, yes.by, None, None, "a zone asks", cached=False
            ),
            ToolResult(call, "read_file", "success", Text("Bread. " * 20), 3),
        ]
    return found[:count]


def write_session(site: Site, session: str, count: int) -> None:
    """The lines of a log, without waiting for the disk after each."""
    lines: list[str] = []
    recorder = Recorder(
        lambda line: lines.append(line.text()),
        session=session,
        worker="clerk",
        redactor=Redactor(os.environ),
    )
    for event in many_events(count):
        recorder(event)
    path = site.project.home / "sessions" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text("".join(lines))
    path.chmod(0o600)


@pytest.mark.long
def test_ten_thousand_events_are_loaded_in_parts_and_the_page_stays_usable(site: Site) -> None:
    session = "20260101-000000-aaaaaa"
    write_session(site, session, 10_000)
    site.start()
    page = site.open()
    page.evaluate(
        """() => {
            window.pieces = [];
            const drawn = (changes) => changes.reduce((sum, each) => sum + each.addedNodes.length, 0);
            new MutationObserver((changes) => { window.pieces.push(drawn(changes)); })
                .observe(document.getElementById("log"), { childList: true, subtree: true });
        }"""
    )
    page.evaluate(f"location.hash = '#/session/{session}'")
    expect(page.locator("#log[data-ready]")).to_be_attached(timeout=60_000)
    expect(page.locator(".entry").last).to_be_in_viewport()
    assert page.locator("#log .entry.call").count() == 1667
    pieces = page.evaluate("window.pieces")
    assert 0 < max(pieces) < sum(pieces) / 3
    page.keyboard.press("Control+Home")
    expect(page.locator(".entry").first).to_be_in_viewport()


@pytest.mark.long
def test_many_tabs_leave_connections_for_the_active_one(start: Start) -> None:
    site = start("Hello.")
    context = site.context()
    first = site.talk(context)
    hidden = "Object.defineProperty(document, 'hidden', { get: () => window.isHidden })"
    for _ in range(7):
        page = context.new_page()
        page.add_init_script(f"window.isHidden = true; {hidden}")
        page.goto(first.url)
    say(first, "Hi")
    expect(first.locator(".entry.answer .words")).to_have_text("Hello.")
    page.evaluate("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator(".entry.answer .words")).to_have_text("Hello.")
