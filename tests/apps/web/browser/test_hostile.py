"""Hostile pages and names: they reach nothing, and their markup is shown as text."""

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from forge_cli.testing import call, calls

from .conftest import Start
from .site import SECONDS, Site, say

HARM = '<img src=x onerror=alert(1)><script>alert(2)</script><b id="harm">x</b>"\'`'

EVIL = """<!doctype html>
<title>evil</title>
<iframe src="{origin}/"></iframe>
<form method=post action="{origin}/api/sessions/{session}/input" enctype="text/plain">
  <input name='{{"text":"harm","x":"' value='"}}'>
</form>
<a href="{origin}/api/sessions/{session}/export?format=jsonl">link</a>
"""

REACH = """async ([origin, session]) => {
    const tries = {
        read: () => fetch(`${origin}/api/state`, { credentials: "include" }),
        blind: () => fetch(`${origin}/api/state`, { credentials: "include", mode: "no-cors" }),
        post: () => fetch(`${origin}/api/sessions/${session}/input`, {
            method: "POST", credentials: "include", headers: { "Content-Type": "application/json" },
            body: JSON.stringify({ text: "harm" }) }),
        plain: () => fetch(`${origin}/api/sessions/${session}/input`, {
            method: "POST", credentials: "include", mode: "no-cors", headers: { "Content-Type": "text/plain" },
            body: JSON.stringify({ text: "harm" }) }),
        script: () => import(`${origin}/static/app.js`),
    };
    const got = {};
    for (const [name, attempt] of Object.entries(tries)) {
        try {
            await attempt();
            got[name] = "reached";
        } catch { got[name] = "refused"; }
    }
    got.events = await new Promise((resolve) => {
        const source = new EventSource(`${origin}/api/sessions/${session}/events`, { withCredentials: true });
        source.onmessage = () => resolve("reached");
        source.onerror = () => { source.close(); resolve("refused"); };
    });
    return got;
}"""


@pytest.fixture
def evil(site: Site) -> Iterator[ThreadingHTTPServer]:
    """Another server on this machine, whose page the same browser shows."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(self.server.page.encode())  # type: ignore[attr-defined]

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join(SECONDS)


def test_other_page_in_the_same_browser_has_no_access(
    start: Start, evil: ThreadingHTTPServer
) -> None:
    site = start("Hello.")
    context = site.context()
    page = site.talk(context)
    session = page.url.rsplit("/", 1)[1]
    evil.page = EVIL.format(origin=site.origin, session=session)  # type: ignore[attr-defined]
    other = context.new_page()
    answers: list[tuple[str, int]] = []
    other.on("response", lambda answer: answers.append((answer.url, answer.status)))
    # Another port of 127.0.0.1 is the same site for a browser, and would get a cookie; localhost is another site.
    for host in ("127.0.0.1", "localhost"):
        for leave in ("document.forms[0].submit()", "document.links[0].click()"):
            other.goto(f"http://{host}:{evil.server_port}/")
            frame = next(each for each in other.frames if each != other.main_frame)
            assert frame.locator("#composer").count() == 0
            got = other.evaluate(REACH, [site.origin, session])
            assert got == dict.fromkeys(
                ["read", "blind", "post", "plain", "script", "events"], "refused"
            )
            with other.expect_navigation():
                other.evaluate(leave)
            assert "error" in other.locator("body").inner_text()
    assert {status for url, status in answers if url.startswith(site.origin)} == {403}
    say(page, "Hi")
    expect(page.locator(".entry.answer .words")).to_have_text("Hello.")
    expect(page.locator(".entry.user .words")).to_have_text(["Hi"])
    # What the browser logs of the page that could not be framed is what was wanted.
    site.faults[:] = [fault for fault in site.faults if "frame-ancestors" not in fault]


def test_other_host_name_for_this_machine_is_refused(start: Start) -> None:
    site = start("Hello.")
    secret = site.secret_url.partition("secret=")[2]
    for host, wanted in ((f"evil.example:{site.port}", 403), (f"127.0.0.1:{site.port}", 200)):
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=SECONDS)
        connection.request(
            "GET", "/api/state", headers={"Host": host, "Authorization": f"Bearer {secret}"}
        )
        assert connection.getresponse().status == wanted
        connection.close()


def test_browser_without_the_secret_sees_only_instructions(start: Start) -> None:
    site = start("Hello.")
    for address in ("/", "/?secret=wrong", "/#/sessions", "/#/inbox"):
        page = site.context().new_page()
        answers: list[tuple[str, int]] = []
        page.on(
            "response", lambda answer, answers=answers: answers.append((answer.url, answer.status))
        )
        page.goto(f"{site.origin}{address}")
        expect(page.locator("#locked")).to_be_visible()
        expect(page.locator("#locked")).to_contain_text(
            "the last line that begins with forge: http://"
        )
        assert [
            view.get_attribute("id") for view in page.locator(".view").all() if view.is_visible()
        ] == ["locked"]
        assert {status for url, status in answers if "/api/" in url} <= {403}
        assert page.url == f"{site.origin}{address}".replace("?secret=wrong", "")


def test_page_sends_nothing_to_other_local_servers(start: Start) -> None:
    """Cookies ignore ports, so the page must not store its secret in one."""
    site = start("Hello.", "Again.")
    secret = site.secret_url.partition("secret=")[2]
    context = site.context()
    page = site.talk(context)
    heard: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(f"{self.requestline}\n{self.headers}")
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(f"<a href='{site.origin}/'>page</a>".encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            say(page, "Hi")
            expect(page.locator(".entry.answer .words")).to_have_text("Hello.")
            token = page.evaluate("sessionStorage.getItem('forge-token')")
            other = context.new_page()
            other.goto(f"http://127.0.0.1:{server.server_port}/typed")
            kept = "[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)]"
            assert other.evaluate(kept) == ["", "{}", "{}"]
        finally:
            server.shutdown()
            thread.join(SECONDS)
    assert "GET /typed" in heard[0]
    assert len(token) >= 43
    assert [
        word for word in (token, secret, "Cookie", "Authorization") if word in "".join(heard)
    ] == []
    assert context.cookies() == []


@pytest.mark.long
def test_markup_in_args_names_and_answers_is_text(start: Start) -> None:
    site = start(
        calls(call("look_up", customer=HARM)),
        calls(call("refund", customer=HARM, amount=1)),
        calls(call("write_file", path=f"/notes/{HARM.replace('/', '_')}.md", content=HARM)),
        f"{HARM} [link](javascript:alert(3)) ![i](http://127.0.0.1:9/x.png)",
    )
    site.project.write("<img src=x onerror=alert(4)>.md", "x")
    site.project.write("odd.yaml", f"name: odd\ndescription: {json.dumps(HARM)}\ntoolsets: {{}}\n")
    page = site.talk()
    page.locator("#message").press_sequentially("@<img")
    expect(page.locator("#completions")).to_contain_text("onerror=alert(4)")
    say(page, "/name <b id=harm>x</b>")
    expect(page.locator("#talk-title")).to_have_text("<b id=harm>x</b>")
    say(page, "/name")
    expect(page.locator(".entry.shown")).to_have_text("<b id=harm>x</b>")
    say(page, HARM)
    for tool in ("refund", "write_file"):
        expect(page.locator(".card h2")).to_have_text(f"clerk wants to call {tool}")
        expect(page.locator(".card")).to_contain_text("onerror")
        page.locator(".card [data-choice=once]").click()
    expect(page.locator(".entry.answer .words").last).to_contain_text("<script>alert(2)</script>")
    for line in page.locator(".entry.call summary").all():
        line.click()
    assert page.locator("#harm").count() == 0
    assert (
        page.locator("main script, dialog script, main [onerror], main a[href^=javascript]").count()
        == 0
    )
    assert page.locator("main img[src='x'], main img[src^=http]").count() == 0
    page.reload()
    expect(page.locator(".entry.user")).to_contain_text("<b id=")
    page.get_by_role("link", name="Sessions", exact=True).click()
    expect(page.locator("#session-list li")).to_have_count(1)
    page.get_by_role("link", name="New", exact=True).click()
    expect(page.locator("#workers")).to_contain_text("<b id=")
    assert page.locator("#harm, main img[src='x']").count() == 0
