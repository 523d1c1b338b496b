"""Who may use the page: every other page, name and neighbour gets 403, and reaches nothing.

Covers forge_cli.apps.web.access and forge_cli.ui.http.
"""

from typing import Any

import httpx2
import pytest

from forge_cli.apps.web.access import BODY_MAX, PageAccess, RefusedRequest
from forge_cli.testing import Project

from ...rows import each_row
from .pages import Browser, play

SECRET = "s" * 43


def headers(**more: str | list[str]) -> dict[str, list[str]]:
    given = {"host": "127.0.0.1:8000", "cookie": f"forge-8000={SECRET}", **more}
    found = {name.replace("_", "-"): [value] if isinstance(value, str) else value for name, value in given.items()}
    return {name: values for name, values in found.items() if values}


def refused(method: str = "GET", host: str = "127.0.0.1", **more: str | list[str]) -> RefusedRequest | None:
    return PageAccess(8000, host, SECRET).refuse(method, headers(**more))


def test_the_page_itself_gets_through() -> None:
    assert refused() is None
    for host in ("127.0.0.1:8000", "localhost:8000", "[::1]:8000"):
        assert PageAccess(8000, secret=SECRET).refuse("GET", headers(host=host, origin=f"http://{host}")) is None
    assert refused(cookie=f"other=1; forge-8000={SECRET}; more=2") is None
    assert refused(cookie=[], authorization=f"Bearer {SECRET}") is None
    assert refused("POST", content_type="application/json; charset=utf-8", sec_fetch_site="same-origin") is None
    assert refused(sec_fetch_site="none") is None


@each_row(
    "given",
    [
        {"host": "127.0.0.1"},
        {"host": "127.0.0.1:8001"},
        {"host": "evil.example:8000"},
        {"host": "127.0.0.1.evil.example:8000"},
        {"host": "192.168.1.5:8000"},
        {"host": "127.0.0.1:8000:8000"},
        {"host": ["127.0.0.1:8000", "evil.example:8000"]},
        {"host": []},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://localhost:8000"},
        {"origin": "https://127.0.0.1:8000"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"cookie": []},
        {"cookie": "forge-8000="},
        {"cookie": f"forge-8000={SECRET}x"},
        {"cookie": f"forge-8001={SECRET}"},
        {"cookie": "forge-8000=\u00fc\u00ff"},
        {"cookie": [], "authorization": SECRET},
        {"cookie": [], "authorization": f"Basic {SECRET}"},
        {"cookie": [], "authorization": "Bearer "},
    ],
)
def test_whatever_is_not_the_page_is_refused(given: dict[str, Any]) -> None:
    found = PageAccess(8000, secret=SECRET).refuse("GET", headers(**given))
    assert found
    assert found.status == 403


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", [[], "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; a=b"])
def test_forms_of_other_pages_are_refused(kind: str | list[str]) -> None:
    found = refused("POST", content_type=kind)
    assert found
    assert found.status == 403


@each_row("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"])
def test_other_methods_are_refused(method: str) -> None:
    found = refused(method, content_type="application/json")
    assert found
    assert found.status == 403


def test_a_body_is_bounded_by_what_it_says() -> None:
    for size in (str(BODY_MAX + 1), "-1", "x", ""):
        found = refused("POST", content_type="application/json", content_length=size)
        assert found
        assert found.status == 413
    assert refused("POST", content_type="application/json", content_length=str(BODY_MAX)) is None


def test_another_address_is_reached_by_its_own_name_only() -> None:
    away = PageAccess(8000, "192.168.1.5", SECRET)
    assert away.refuse("GET", headers(host="192.168.1.5:8000")) is None
    assert away.refuse("GET", headers(host="192.168.1.6:8000"))
    assert "http://192.168.1.5:8000/?secret=" in away.url
    everywhere = PageAccess(8000, "0.0.0.0", SECRET)
    assert everywhere.refuse("GET", headers(host="192.168.1.6:8000")) is None
    assert everywhere.refuse("GET", headers(host="[fe80::1]:8000")) is None
    assert everywhere.refuse("GET", headers(host="evil.example:8000"))
    assert "http://127.0.0.1:8000/?secret=" in everywhere.url
    assert "http://[::1]:8000/?secret=" in PageAccess(8000, "::1", SECRET).url


def test_secrets_differ() -> None:
    assert PageAccess(1).secret != PageAccess(1).secret
    assert len(PageAccess(1).secret) >= 43


def test_a_real_server_refuses_and_reaches_nothing(project: Project) -> None:
    project.write("worker.yaml", "name: w\ninstructions: x\nmodel: script:s.yaml\n")
    project.write("s.yaml", "turns: [{text: hello}]")
    own = {"Content-Type": "application/json"}

    async def story(browser: Browser) -> None:
        port = browser.access.port
        stranger = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False)
        bearer = {"Authorization": f"Bearer {browser.access.secret}"}
        async with stranger:
            tries: list[tuple[str, str, dict[str, str]]] = [
                ("GET", "/", {}),
                ("GET", "/static/app.js", {}),
                ("GET", "/?secret=wrong", {}),
                ("GET", "/?secret=", {}),
                ("GET", f"/?secret={browser.access.secret}&secret=x", {}),
                ("GET", f"/?secret={browser.access.secret}", {"Host": f"evil.example:{port}"}),
                ("GET", f"/?secret={browser.access.secret}", {"Sec-Fetch-Site": "cross-site"}),
                ("GET", "/api/state", {}),
                ("GET", "/api/state", {**bearer, "Host": f"evil.example:{port}"}),
                ("GET", "/api/state", {**bearer, "Origin": "http://evil.example"}),
                ("POST", "/api/sessions", own),
                ("POST", "/api/sessions", {**bearer, "Content-Type": "text/plain"}),
                ("POST", "/api/sessions", {**bearer, **own, "Origin": f"http://127.0.0.1:{port + 1}"}),
                ("OPTIONS", "/api/sessions", {**bearer, "Origin": "http://evil.example"}),
                ("DELETE", "/api/sessions/x", bearer),
            ]
            for method, path, more in tries:
                answer = await stranger.request(method, path, headers=more, content=b"{}" if method == "POST" else b"")
                assert (answer.status_code, method, path) == (403, method, path)
                assert answer.json()["error"]
                assert "set-cookie" not in answer.headers
            assert (await stranger.get("/api/state", headers=bearer)).status_code == 200
        assert browser.serving.sessions.live == {}

    play(project, story)


STRANGERS = [
    ("/", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
    ("/", "TEXT/HTML", True),
    ("/?secret=wrong", "text/html", True),
    ("/?secret=", "application/xml, text/html;q=0.5", True),
    ("/static/app.js", "text/html", True),
    ("/sessions/x", "text/html", True),
    ("/", "*/*", False),
    ("/", "application/json", False),
    ("/static/app.js", "*/*", False),
    ("/api/state", "text/html", False),
    ("/api/sessions/x/events", "text/event-stream", False),
]
"""A path, what the client takes, and whether it is shown a page."""


def test_a_browser_without_the_secret_is_told_what_to_do(project: Project) -> None:
    async def story(browser: Browser) -> None:
        async with httpx2.AsyncClient(base_url=browser.client.base_url, trust_env=False) as stranger:
            for path, accept, is_page in STRANGERS:
                answer = await stranger.get(path, headers={"Accept": accept})
                assert (answer.status_code, browser.access.secret in answer.text) == (403, False)
                assert "default-src 'self'" in answer.headers["content-security-policy"]
                shown = answer.headers["content-type"], answer.text[:15]
                assert (shown == ("text/html; charset=utf-8", "<!doctype html>")) is is_page, (path, accept)
                told = (
                    "terminal where <code>forge web</code> runs"
                    if is_page
                    else "the address that forge web has printed"
                )
                assert told in answer.text, (path, accept)

    play(project, story)


def test_markup_in_a_request_is_text_on_the_page(project: Project) -> None:
    async def story(browser: Browser) -> None:
        answer = await browser.client.request("'X&", "/", headers={"Accept": "text/html"})
        assert (answer.status_code, "&#x27;X&amp; is not used here" in answer.text) == (403, True)

    play(project, story)


MISSING = [
    "nothing",
    "no.js",
    "app.js.map",
    "App.js",
    "%2e%2e",
    "..%2faccess.py",
    "index.html%00",
    "a%20b",
    "%c3%bc",
    "",
]


def test_a_file_that_is_not_there_is_not_found(project: Project) -> None:
    async def story(browser: Browser) -> None:
        for name in MISSING:
            answer = await browser.client.get(f"/static/{name}")
            assert (name, answer.status_code, answer.json()) == (name, 404, {"error": "there is nothing here"})

    play(project, story)


def test_every_response_forbids_what_the_page_does_not_need(project: Project) -> None:
    async def story(browser: Browser) -> None:
        for path in (
            "/",
            "/static/pygments.css",
            "/api/state",
            "/nowhere",
            "/static/nothing",
            "/api/sessions/x/verify",
        ):
            answer = await browser.client.get(path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cache-control"] == "no-store"
            assert "server" not in answer.headers
        assert (await browser.client.get("/nowhere")).status_code == 404
        assert (await browser.client.post("/api/state", json={})).status_code == 405
        welcome = await browser.client.get(browser.access.url)
        assert welcome.headers["location"] == "/"
        cookie = welcome.headers["set-cookie"]
        assert all(
            part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/", f"forge-{browser.access.port}=")
        )

    play(project, story)


def test_bodies_are_bounded_and_have_to_be_json(project: Project) -> None:
    async def story(browser: Browser) -> None:
        own = {"Content-Type": "application/json"}

        async def endless() -> Any:
            for _ in range(BODY_MAX // 1_000_000 + 2):
                yield b" " * 1_000_000

        answer = await browser.client.post("/api/sessions", content=endless(), headers=own)
        assert answer.status_code == 413
        for body in (b"{", b"[]", b"[" * 100_000, b"\xff"):
            answer = await browser.client.post("/api/sessions", content=body, headers=own)
            assert (answer.status_code, "JSON" in answer.json()["error"]) == (400, True)
        answer = await browser.client.post("/api/sessions/x/input", json={"text": 5})
        assert answer.status_code == 400

    play(project, story)
