"""A conversation on the page: writing, reading, stopping, and everything still there after a reload."""

import base64
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from forge_cli.testing import call, calls
from tests.models.openai.server import DONE, ChatServer, Reply, chunk, says, usage

from .conftest import Start
from .site import SECONDS, Site, say

HOLD = calls(call("hold"))
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_task_is_sent_with_enter_and_its_answer_is_drawn(start: Start) -> None:
    page = start(calls(call("look_up", customer="Ana")), "Ana is **good**, see `a.md`.").talk()
    page.locator("#message").fill("Who is")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("Ana?")
    page.keyboard.press("Enter")
    expect(page.locator(".entry.user .words")).to_have_text("Who is\nAna?", use_inner_text=True)
    expect(page.locator(".entry.answer strong")).to_have_text("good")
    expect(page.locator("#message")).to_have_value("")
    expect(page.locator("#status-text")).to_have_text("Ready")
    expect(page.locator("#announce")).to_contain_text("Ana is good")
    line = page.locator(".entry.call summary").first
    expect(line).to_contain_text("look_up")
    line.click()
    expect(page.locator(".entry.call")).to_contain_text("Ana is a good customer")
    assert page.url == f"{page.url.split('#')[0]}#/session/{page.url.rsplit('/', 1)[1]}"
    assert "secret" not in page.url


def test_printed_address_admits_one_browser_with_all_its_tabs(start: Start) -> None:
    site = start("Hello.", "Again.")
    context = site.context()
    page = site.talk(context)
    say(page, "Hi")
    expect(page.locator(".entry.answer .words")).to_have_text("Hello.")
    page.reload()
    expect(page.locator(".entry.answer .words")).to_have_text("Hello.")
    ways = (site.secret_url, page.url, f"{site.origin}/")
    for way in ways:
        other = context.new_page()
        other.goto(way)
        expect(other.locator(".entry.answer .words")).to_have_text("Hello.")
        assert "secret" not in other.url
    with context.expect_page() as opened:
        page.get_by_role("link", name="Sessions", exact=True).click(modifiers=["ControlOrMeta"])
    expect(opened.value.locator("#session-list li")).to_have_count(1)
    say(other, "Once more")
    expect(page.locator(".entry.answer .words").last).to_have_text("Again.")

    elsewhere = site.context().new_page()
    elsewhere.goto(site.secret_url)
    expect(elsewhere.locator("#locked-why")).to_contain_text("This address was already used")
    site.wait_for_address()
    elsewhere.goto(site.secret_url)
    expect(elsewhere.locator(".entry.answer .words").last).to_have_text("Again.")


@pytest.mark.long
def test_page_opened_too_early_continues_after_another_tab_is_admitted(start: Start) -> None:
    site = start("Hello.")
    context = site.context()
    early = context.new_page()
    early.goto(f"{site.origin}/#/sessions")
    expect(early.locator("#locked")).to_be_visible()
    site.talk(context)
    expect(early.locator("#session-list li")).to_have_count(1)
    expect(early.locator("#locked")).to_be_hidden()


@pytest.mark.long
def test_session_is_complete_after_a_reload(start: Start) -> None:
    site = start(HOLD, "It is open.")
    page = site.talk()
    say(page, "Open the gate.")
    expect(page.locator("#status-text")).to_contain_text("Running")
    expect(page.locator("#elapsed")).to_have_text("1 s")
    page.reload()
    expect(page.locator(".entry.user .words")).to_have_text("Open the gate.")
    expect(page.locator("#status-text")).to_contain_text("Running")
    site.project.write("gate", "")
    expect(page.locator(".entry.answer .words")).to_have_text("It is open.")
    expect(page.locator(".entry.call")).to_have_count(1)


@pytest.mark.long
def test_stop_and_escape_interrupt_and_the_next_message_is_accepted(start: Start) -> None:
    page = start(HOLD, HOLD, "Here I am.").talk()
    for stop in (lambda: page.locator("#stop").click(), lambda: page.keyboard.press("Escape")):
        say(page, "Wait.")
        expect(page.locator("#status-text")).to_contain_text("Running")
        say(page, "And then?")
        expect(page.locator("#queued li")).to_have_text(["And then?"])
        page.locator("#message").fill("Hm")
        stop()
        expect(page.locator("#status-text")).to_have_text("Ready")
        expect(page.locator("#message")).to_have_value("And then?\nHm")
        expect(page.locator("#stop")).to_be_hidden()
    say(page, "Are you there?")
    expect(page.locator(".entry.answer .words").last).to_have_text("Here I am.")


@pytest.mark.long
def test_messages_sent_on_a_slow_connection_keep_their_order(start: Start) -> None:
    page = start("One.", "Two.").talk()
    held: list[Route] = []
    page.route("**/input", lambda route: held.append(route), times=1)
    page.locator("#attach").set_input_files(
        {"name": "a.txt", "mimeType": "text/plain", "buffer": b"A"}
    )
    for text in ("First", "Second"):
        say(page, text)
        expect(page.locator("#message")).to_have_value("")
    page.locator("#message").fill("Third")
    held[0].continue_()
    expect(page.locator(".entry.answer .words")).to_have_text(["One.", "Two."])
    expect(page.locator(".entry.user .words")).to_have_text(["First", "Second"])
    expect(page.locator("#message")).to_have_value("Third")


@pytest.mark.long
def test_stop_returns_unsent_messages(start: Start) -> None:
    page = start(HOLD, "One.").talk()
    say(page, "Wait.")
    expect(page.locator("#status-text")).to_contain_text("Running")
    held: list[Route] = []
    page.route("**/input", lambda route: held.append(route), times=1)
    for text in ("First", "Second"):
        say(page, text)
        expect(page.locator("#message")).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator("#message")).to_have_value("Second")
    expect(page.locator("#status-text")).to_have_text("Ready")
    held[0].continue_()
    expect(page.locator(".entry.user .words")).to_have_text(["Wait.", "First"])
    expect(page.locator("#message")).to_have_value("Second")


@pytest.mark.long
def test_mode_is_chosen_beside_the_message(start: Start) -> None:
    page = start("never said").talk()
    mode = page.locator("#mode")
    expect(mode).to_have_value("ask")
    mode.focus()
    mode.select_option("read only")
    expect(page.locator(".entry.note")).to_contain_text("the mode is read only from here on")
    expect(mode).to_have_value("readOnly")
    expect(mode).to_be_focused()


@pytest.mark.long
def test_messages_wait_while_the_worker_works(start: Start) -> None:
    site = start(HOLD, "First.", "Second.")
    page = site.talk()
    say(page, "One")
    expect(page.locator("#status-text")).to_contain_text("Running")
    say(page, "Two")
    expect(page.locator("#queued li")).to_have_text(["Two"])
    site.project.write("gate", "")
    expect(page.locator(".entry.answer .words").last).to_have_text("Second.")
    expect(page.locator(".entry.user .words")).to_have_text(["One", "Two"])
    expect(page.locator("#queued")).to_be_hidden()


@pytest.mark.long
def test_files_are_attached_by_choice_paste_and_drop(start: Start) -> None:
    page = start("I see three.").talk()
    page.locator("#attach").set_input_files(
        {"name": "a.png", "mimeType": "image/png", "buffer": PIXEL}
    )
    for event in ("paste", "drop"):
        page.evaluate(
            """([event, bytes]) => {
                const files = new DataTransfer();
                files.items.add(new File([new Uint8Array(bytes)], `${event}.png`, { type: "image/png" }));
                const init = { bubbles: true, cancelable: true };
                const made = event === "paste"
                    ? new ClipboardEvent("paste", { ...init, clipboardData: files })
                    : new DragEvent("drop", { ...init, dataTransfer: files });
                document.getElementById("message").dispatchEvent(made);
            }""",
            [event, list(PIXEL)],
        )
    expect(page.locator("#attached li .path")).to_have_text(["a.png", "paste.png", "drop.png"])
    page.get_by_role("button", name="Remove a.png").click()
    say(page, "What is this?")
    expect(page.locator(".entry.answer .words")).to_have_text("I see three.")
    expect(page.locator(".entry.user")).to_contain_text("drop.png")
    expect(page.locator("#attached")).to_be_hidden()


@pytest.fixture
def model() -> Iterator[ChatServer]:
    with ChatServer() as model:
        yield model


class Slow:
    """An answer of lines that come when they are let through."""

    def __init__(self) -> None:
        self.through = threading.Semaphore(0)

    def reply(self, lines: int) -> Reply:
        return Reply(self._pieces(lines))  # type: ignore[arg-type]

    def _pieces(self, lines: int) -> Iterator[bytes]:
        yield chunk(role="assistant", content="| *a* | b |\n|---|---|\n| 1 | **two")
        assert self.through.acquire(timeout=SECONDS)
        yield chunk(content="** |\n\n")
        for number in range(lines):
            assert self.through.acquire(timeout=SECONDS)
            yield chunk(content=f"line {number}\n\n")
        yield from (chunk("stop"), usage(11, 7), DONE)

    def let(self, lines: int) -> None:
        self.through.release(lines)


def text_of(page: Page) -> str:
    return page.locator(".entry.answer .words").inner_text()


@pytest.mark.long
def test_growing_answer_does_not_scroll_a_reader_who_is_elsewhere(
    site: Site, model: ChatServer
) -> None:
    slow = Slow()
    model.will(slow.reply(120))
    site.start("worker.yaml", "-m", "openai:tiny", OPENAI_BASE_URL=model.url)
    page = site.talk()
    say(page, "Count.")
    expect(page.locator(".entry.answer.busy td strong")).to_have_text(
        "two"
    )  # Markdown from its first word on
    slow.let(61)
    expect(page.locator(".entry.answer .words")).to_contain_text("line 59")
    at_end = "() => document.scrollingElement.scrollHeight - innerHeight - scrollY < 2"
    page.wait_for_function(at_end)
    page.mouse.wheel(0, -700)
    page.wait_for_function(f"() => !({at_end})()")
    page.wait_for_timeout(100)
    before = page.evaluate("scrollY")
    slow.let(30)
    expect(page.locator(".entry.answer .words")).to_contain_text("line 89")
    assert page.evaluate("scrollY") == before
    page.locator("#newer").click()
    page.wait_for_function(at_end)
    page.reload()
    expect(page.locator(".entry.answer .words")).to_contain_text("line 0")
    expect(page.locator(".entry.answer .words")).to_contain_text("line 89")
    slow.let(30)
    expect(page.locator("#status-text")).to_have_text("Ready")
    lines = text_of(page).split("\n")
    assert [line for line in lines if line.startswith("line")] == [
        f"line {number}" for number in range(120)
    ]


@pytest.mark.long
def test_session_is_found_read_verified_forked_resumed_and_exported(start: Start) -> None:
    site = start("It costs ten.", "It costs twenty.")
    page = site.talk()
    say(page, "What does a lamp cost?")
    expect(page.locator(".entry.answer .words")).to_have_text("It costs ten.")
    page.get_by_role("button", name="End session").click()
    expect(page.locator("#reading")).to_be_visible()
    expect(page.locator("#composer")).to_be_hidden()

    page.get_by_role("link", name="Sessions", exact=True).click()
    page.get_by_label("Search in sessions").fill("lamp")
    expect(page.locator("#found")).to_have_text("1 session found")
    expect(page.locator("#session-list mark")).to_have_text("lamp")
    page.locator("#session-list a").click()
    expect(page.locator("#reading")).to_be_visible()
    page.go_back()
    expect(page.locator("#found")).to_have_text("1 session found")
    page.get_by_label("Search in sessions").fill("sofa")
    expect(page.locator("#found")).to_have_text("0 sessions found")
    page.get_by_label("Search in sessions").fill("")
    page.locator("#session-list a").click()
    expect(page.locator(".entry.answer .words")).to_have_text("It costs ten.")

    page.get_by_role("button", name="Check the log").click()
    expect(page.locator("#session-said")).not_to_be_empty()
    with page.expect_download() as download:
        page.get_by_role("link", name="markdown").click()
    assert "It costs ten." in download.value.path().read_text()

    first = page.url
    page.locator("#reading").get_by_role("button", name="Fork").click()
    expect(page.locator("#composer")).to_be_visible()
    assert page.url != first
    expect(page.locator(".entry.answer .words")).to_have_text("It costs ten.")
    page.goto(first)
    page.locator("#reading").get_by_role("button", name="Resume").click()
    say(page, "And two?")
    expect(page.locator(".entry.answer .words")).to_have_text(["It costs ten.", "It costs twenty."])


@pytest.mark.long
def test_first_page_starts_a_session_and_a_broken_worker_says_why(start: Start) -> None:
    site = start("Hello.")
    site.project.write("broken.yaml", "name: broken\ntoolsets: {}\ninstructons: x\n")
    site.project.write("late.yaml", "name: late\nmodel: script:script.yaml\ntoolsets: {shel: {}}\n")
    page = site.talk()
    first = page.url
    page.locator("#empty button").first.click()
    expect(page.locator("#message")).to_have_value("What is in this folder? Give me a short tour.")
    page.get_by_role("link", name="New", exact=True).click()
    expect(page.locator("#workers li", has_text="broken")).to_contain_text(
        "did you mean 'instructions'?"
    )
    page.get_by_role("button", name="Start late").click()
    expect(page.locator("#workers li", has_text="late")).to_contain_text("did you mean 'shell'?")
    page.locator("#home .tries button").last.click()
    expect(page.locator("#begin-text")).to_be_focused()
    page.locator("#begin-worker").select_option("clerk")
    page.keyboard.press("Tab")
    page.locator("#begin-text").fill("Hi")
    page.keyboard.press("Enter")
    expect(page.locator(".entry.answer .words")).to_have_text("Hello.")
    expect(page.locator(".entry.user .words")).to_have_text("Hi")
    assert page.url != first
    expect(page.locator("#message")).to_have_value(
        ""
    )  # what was typed belongs to the session before
    second = page.url
    page.evaluate("to => (location.href = to)", first)
    expect(page.locator("#message")).to_have_value("What is in this folder? Give me a short tour.")
    page.locator("#attach").set_input_files(
        {"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"}
    )
    expect(page.locator("#attached li")).to_have_count(1)
    page.evaluate("to => (location.href = to)", second)
    expect(page.locator("#attached li")).to_have_count(0)
    page.go_back()
    expect(page.locator("#attached li")).to_have_count(1)
    page.get_by_role("link", name="forge, start").click()
    expect(page.locator("#recent li")).to_have_count(2)
    for address, words in (
        ("#/session/20990101-000000-deadbeef", "there is no session"),
        ("#/nonsense", "#/nonsense"),
    ):
        page.evaluate("to => (location.hash = to)", address)
        expect(page.locator("#nothing-why")).to_contain_text(words)
        expect(page.locator("#gone")).to_be_hidden()
    page.goto(f"{site.origin}/nowhere")
    expect(page.locator("#nothing-why")).to_contain_text("/nowhere")


@pytest.mark.long
def test_commands_files_and_errors_work_as_in_the_terminal(start: Start) -> None:
    site = start("I **read** it.", "And again.")
    site.project.write("notes.md", "Butter\n")
    page = site.talk()
    page.locator("#message").press_sequentially("/he")
    expect(page.locator("#completions [role=option]")).to_have_count(1)
    page.keyboard.type("l")
    page.keyboard.press("Tab")  # at once: the answer to the last letter is still on its way
    expect(page.locator("#message")).to_have_value("/help ")
    page.keyboard.press("Enter")
    expect(page.locator(".entry.shown")).to_contain_text("list the commands")
    page.locator("#message").press_sequentially("read @not")
    expect(page.locator("#completions [role=option]")).to_have_text(["@notes/", "@notes.md"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_have_value("read @notes.md ")
    page.keyboard.press("Enter")
    expect(page.locator(".entry.user")).to_contain_text("with notes.md")
    expect(page.locator(".entry.answer .words")).to_have_text("I read it.")
    say(page, "/rewind 1")
    expect(page.locator("#message")).to_have_value("read @notes.md")
    say(page, "/model nonsense:x")
    error = page.locator(".entry.error")
    expect(error).to_contain_text("there is no model provider 'nonsense'")
    assert "\\n" not in error.inner_text()
    expect(error.locator(".retry")).to_have_count(0)  # it was a command, and no message
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".entry.answer").hover()
    page.get_by_role("button", name="Copy the answer").click()
    expect(page.locator("#announce")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "I **read** it."


@pytest.mark.long
def test_failed_message_can_be_retried(site: Site, model: ChatServer) -> None:
    refusal = Reply([b'{"error": {"message": "no such key"}}'], status=401)
    cut = Reply([chunk(role="assistant", content="Half of it")], end="cut")
    model.will(refusal, says("Here."), cut, says("All of it."))
    site.start("worker.yaml", "-m", "openai:tiny", OPENAI_BASE_URL=model.url)
    page = site.talk()
    say(page, "Hello?")
    page.locator(".entry.error .retry").click()
    expect(page.locator(".entry.answer .words")).to_have_text("Here.")
    expect(page.locator(".entry.user .words")).to_have_text(["Hello?", "Hello?"])
    expect(page.locator(".retry")).to_have_count(0)
    say(page, "All?")
    expect(page.locator(".entry.answer .words")).to_have_text(["Here.", "All of it."])
    kinds = (
        "() => [...document.querySelectorAll('.entry')].map((each) => each.classList[1]).slice(-3)"
    )
    assert page.evaluate(kinds) == ["user", "note", "answer"]
    page.reload()
    expect(page.locator(".entry.answer .words")).to_have_text(["Here.", "All of it."])
    assert page.evaluate(kinds) == ["user", "note", "answer"]
