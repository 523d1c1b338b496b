"""Who may use the page: every other page, name and neighbour gets 403, and reaches nothing.

Covers forge_cli.apps.web.access and forge_cli.ui.http.
"""

from typing import Any

import httpx2
import pytest

from forge_cli.apps.web.access import MAX_BODY, PageAccess, RefusedRequest
from forge_cli.testing import Project

from .pages import TOKEN, Browser, play

SECRET = "s" * 43


def headers(**more: str | list[str]) -> dict[str, list[str]]:
    given = {"host": "127.0.0.1:8000", "authorization": f"Bearer {SECRET}", **more}
    found = {
        name.replace("_", "-"): [value] if isinstance(value, str) else value
        for name, value in given.items()
    }
    return {name: values for name, values in found.items() if values}


def refused(
    method: str = "GET", host: str = "127.0.0.1", path: str = "/api/state", **more: str | list[str]
) -> RefusedRequest | None:
    return PageAccess(8000, host, SECRET).refuse(method, path, headers(**more))


def test_requests_of_the_page_are_accepted() -> None:
    assert refused() is None
    for host in ("127.0.0.1:8000", "localhost:8000", "[::1]:8000"):
        access = PageAccess(8000, secret=SECRET)
        assert (
            access.refuse("GET", "/api/state", headers(host=host, origin=f"http://{host}")) is None
        )
    assert refused(authorization=f"bearer  {SECRET} ") is None
    assert (
        refused(
            "POST", content_type="application/json; charset=utf-8", sec_fetch_site="same-origin"
        )
        is None
    )
    assert refused(sec_fetch_site="none") is None


@pytest.mark.parametrize(
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
        {"authorization": []},
        {"authorization": [], "cookie": f"forge-8000={SECRET}"},
        {"authorization": SECRET},
        {"authorization": f"Basic {SECRET}"},
        {"authorization": "Bearer "},
        {"authorization": f"Bearer {SECRET}x"},
        {"authorization": "Bearer \u00fc\u00ff"},
    ],
)
def test_request_from_elsewhere_is_refused(given: dict[str, Any]) -> None:
    for path in ("/api/state", "/api/sessions/x/events"):
        found = PageAccess(8000, secret=SECRET).refuse("GET", path, headers(**given))
        assert found
        assert found.status == 403


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/nowhere"])
def test_static_files_need_the_host_name_but_no_token(path: str) -> None:
    assert refused(path=path, authorization=[]) is None
    for given in (
        {"host": "evil.example:8000"},
        {"origin": "http://evil.example"},
        {"sec_fetch_site": "same-site"},
    ):
        assert PageAccess(8000).refuse("GET", path, headers(authorization=[], **given))


def ask(access: PageAccess, secret: str) -> RefusedRequest | None:
    return access.refuse("GET", "/api/state", headers(authorization=f"Bearer {secret}"))


def test_secret_is_exchanged_once_and_is_not_a_token() -> None:
    access = PageAccess(8000, secret=SECRET)
    for wrong in ("", SECRET[1:], f"{SECRET}x", "\u00fc"):
        assert access.exchange(wrong) is None
    token = access.exchange(SECRET)
    assert token
    assert SECRET not in (token, access.secret)
    assert SECRET not in access.url
    assert ask(access, token) is None
    assert access.exchange(SECRET) is access.exchange(token) is None
    found = ask(access, SECRET)
    assert found
    assert "already used" in found.sentence
    assert access.exchange(access.secret)
    assert ask(access, token) is None


def test_program_that_uses_a_secret_keeps_it() -> None:
    access = PageAccess(8000, secret=SECRET)
    assert ask(access, SECRET) is None
    assert access.exchange(SECRET) is None
    assert ask(access, SECRET) is None


ADDRESSES = [
    "/?secret={s}&secret=x",
    "/?secret=",
    "/?secret=x",
    "/?Secret={s}",
    "/index.html?secret={s}",
    "/x?secret={s}",
]


def test_only_the_printed_address_gives_a_token(project: Project) -> None:
    async def story(browser: Browser) -> None:
        secret = browser.access.secret
        async with httpx2.AsyncClient(
            base_url=browser.client.base_url, trust_env=False
        ) as stranger:
            for address in ADDRESSES:
                assert "forge-token" not in (await stranger.get(address.format(s=secret))).text
            assert (await stranger.head(browser.access.url)).status_code == 200
            got = [TOKEN.search((await stranger.get(f"/?secret={secret}")).text) for _ in range(2)]
            assert got[0]
            assert got[1] is None
            assert secret != browser.access.secret
            bearer = {"Authorization": f"Bearer {got[0][1]}"}
            assert (await stranger.get("/api/state", headers=bearer)).status_code == 200

    play(project, story)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "kind", [[], "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; a=b"]
)
def test_forms_of_other_pages_are_refused(kind: str | list[str]) -> None:
    found = refused("POST", content_type=kind)
    assert found
    assert found.status == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"])
def test_other_methods_are_refused(method: str) -> None:
    found = refused(method, content_type="application/json")
    assert found
    assert found.status == 403


def test_body_is_limited_by_its_declared_length() -> None:
    for size in (str(MAX_BODY + 1), "-1", "x", ""):
        found = refused("POST", content_type="application/json", content_length=size)
        assert found
        assert found.status == 413
    assert refused("POST", content_type="application/json", content_length=str(MAX_BODY)) is None


def test_other_address_is_reachable_only_by_its_own_name() -> None:
    away = PageAccess(8000, "192.168.1.5", SECRET)
    assert away.refuse("GET", "/api/state", headers(host="192.168.1.5:8000")) is None
    assert away.refuse("GET", "/api/state", headers(host="192.168.1.6:8000"))
    assert "http://192.168.1.5:8000/?secret=" in away.url
    everywhere = PageAccess(8000, "0.0.0.0", SECRET)
    assert everywhere.refuse("GET", "/api/state", headers(host="192.168.1.6:8000")) is None
    assert everywhere.refuse("GET", "/api/state", headers(host="[fe80::1]:8000")) is None
    assert everywhere.refuse("GET", "/api/state", headers(host="evil.example:8000"))
    assert "http://127.0.0.1:8000/?secret=" in everywhere.url
    assert "http://[::1]:8000/?secret=" in PageAccess(8000, "::1", SECRET).url


def test_secrets_are_random() -> None:
    assert PageAccess(1).secret != PageAccess(1).secret
    assert len(PageAccess(1).secret) >= 43


def test_running_server_refuses_other_requests(project: Project) -> None:
    project.write("worker.yaml", "name: w\ninstructions: x\nmodel: script:s.yaml\n")
    project.write("s.yaml", "turns: [{text: hello}]")
    own = {"Content-Type": "application/json"}

    async def story(browser: Browser) -> None:
        port = browser.access.port
        stranger = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False)
        bearer = {"Authorization": f"Bearer {browser.access.secret}"}
        async with stranger:
            tries: list[tuple[str, str, dict[str, str]]] = [
                ("GET", f"/?secret={browser.access.secret}", {"Host": f"evil.example:{port}"}),
                ("GET", f"/?secret={browser.access.secret}", {"Sec-Fetch-Site": "cross-site"}),
                ("GET", "/api/state", {}),
                ("GET", f"/api/state?secret={browser.access.secret}", {}),
                ("GET", "/api/state", {"Cookie": f"forge-{port}={browser.access.secret}"}),
                ("GET", "/api/state", {"Authorization": "Bearer wrong"}),
                ("GET", "/api/state", {**bearer, "Host": f"evil.example:{port}"}),
                ("GET", "/api/state", {**bearer, "Origin": "http://evil.example"}),
                ("POST", "/api/sessions", own),
                ("POST", "/api/sessions", {**bearer, "Content-Type": "text/plain"}),
                (
                    "POST",
                    "/api/sessions",
                    {**bearer, **own, "Origin": f"http://127.0.0.1:{port + 1}"},
                ),
                ("OPTIONS", "/api/sessions", {**bearer, "Origin": "http://evil.example"}),
                ("DELETE", "/api/sessions/x", bearer),
            ]
            for method, path, more in tries:
                answer = await stranger.request(
                    method, path, headers=more, content=b"{}" if method == "POST" else b""
                )
                assert (answer.status_code, method, path) == (403, method, path)
                assert answer.json()["error"]
                assert "set-cookie" not in answer.headers
            assert (await stranger.get("/api/state", headers=bearer)).status_code == 200
        assert browser.serving.sessions.live == {}

    play(project, story)


STRANGERS = [
    ("/", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
    ("/", "TEXT/HTML", True),
    ("/?secret=", "application/xml, text/html;q=0.5", True),
    ("/static/app.js", "text/html", True),
    ("/sessions/x", "text/html", True),
    ("/", "*/*", False),
    ("/", "application/json", False),
    ("/static/app.js", "*/*", False),
    ("/api/state", "text/html", False),
    ("/api/sessions/x/events", "text/event-stream", False),
]
"""A path, what a client takes that comes from another site, and whether it is shown a page."""


def test_browser_from_elsewhere_gets_instructions(project: Project) -> None:
    async def story(browser: Browser) -> None:
        async with httpx2.AsyncClient(
            base_url=browser.client.base_url, trust_env=False
        ) as stranger:
            for path, accept, is_page in STRANGERS:
                from_elsewhere = {"Accept": accept, "Sec-Fetch-Site": "cross-site"}
                answer = await stranger.get(path, headers=from_elsewhere)
                assert (answer.status_code, browser.access.secret in answer.text) == (403, False)
                assert "default-src 'self'" in answer.headers["content-security-policy"]
                shown = answer.headers["content-type"], answer.text[:15]
                assert (shown == ("text/html; charset=utf-8", "<!doctype html>")) is is_page, (
                    path,
                    accept,
                )
                assert "other pages must not use this server" in answer.text, (path, accept)
                assert ("terminal where <code>forge web</code> runs" in answer.text) is is_page, (
                    path,
                    accept,
                )

    play(project, story)


def test_markup_in_a_request_is_text_on_the_page(project: Project) -> None:
    async def story(browser: Browser) -> None:
        answer = await browser.client.request("'X&", "/", headers={"Accept": "text/html"})
        assert (answer.status_code, "X&amp; is not supported" in answer.text) == (403, True)

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


def test_missing_file_is_not_found(project: Project) -> None:
    async def story(browser: Browser) -> None:
        for name in MISSING:
            answer = await browser.client.get(f"/static/{name}")
            assert (name, answer.status_code, answer.json()) == (
                name,
                404,
                {"error": "not found"},
            )

    play(project, story)


def test_response_headers_forbid_unneeded_features(project: Project) -> None:
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
            assert "set-cookie" not in answer.headers
        assert (await browser.client.get("/nowhere")).status_code == 404
        assert (await browser.client.post("/api/state", json={})).status_code == 405

    play(project, story)


def test_bodies_are_bounded_and_must_be_json(project: Project) -> None:
    async def story(browser: Browser) -> None:
        own = {"Content-Type": "application/json"}

        async def endless() -> Any:
            for _ in range(MAX_BODY // 1_000_000 + 2):
                yield b" " * 1_000_000

        answer = await browser.client.post("/api/sessions", content=endless(), headers=own)
        assert answer.status_code == 413
        for body in (b"{", b"[]", b"[" * 100_000, b"\xff"):
            answer = await browser.client.post("/api/sessions", content=body, headers=own)
            assert (answer.status_code, "JSON" in answer.json()["error"]) == (400, True)
        answer = await browser.client.post("/api/sessions/x/input", json={"text": 5})
        assert answer.status_code == 400

    play(project, story)
