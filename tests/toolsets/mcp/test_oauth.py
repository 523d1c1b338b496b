"""Logging in to servers elsewhere, against an authorisation server of our own.

Covers forge_cli.toolsets.mcp.oauth and forge_cli.cli.mcp.login.
"""

import json
import os
import pty
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from forge_cli import EventBus, WorkerRuntime, load_worker
from forge_cli.events import StatusEvent
from forge_cli.testing import Project, scripted_model

from .authority import Authority, authority
from .test_http import make_app, served

BROWSER = """\
#!{python}
import sys
import urllib.request
from urllib.parse import parse_qs, urlsplit
back = parse_qs(urlsplit(sys.argv[1]).query)["redirect_uri"][0]
for odd in (back + "?code=evil&state=wrong", back + "?code=evil", back):
    urllib.request.urlopen(odd, timeout=20).read()
page = urllib.request.urlopen(sys.argv[1], timeout=20)
assert b"You can close this page" in page.read()
"""
NO_DISPLAY = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}


@pytest.fixture
def guarded() -> Iterator[Authority]:
    with authority() as found:
        yield found


@pytest.fixture
def browser(project: Project) -> dict[str, str]:
    """The environment of a user whose browser agrees to everything."""
    script = project.write("browser", BROWSER.format(python=sys.executable))
    script.chmod(0o755)
    return {**NO_DISPLAY, "BROWSER": str(script)}


def use(project: Project, url: str, more: str = "") -> None:
    project.home.mkdir(exist_ok=True)
    (project.home / "config.yaml").write_text(
        f"mcp: {{servers: {{docs: {{url: '{url}/mcp'{more}}}}}}}\n"
    )
    project.write(
        "worker.yaml",
        "name: w\ntoolsets: {mcp: {servers: [docs], approval: {default: preApproved}}}\n",
    )
    turns = (
        'turns: [{calls: [{tool: docs__count_words, input: {text: one two}}]}, {text: "{result}"}]'
    )
    project.write("script.yaml", turns)


def run(project: Project) -> tuple[int, str, str]:
    done = project.forge("run", "worker.yaml", "go", "-m", "script:script.yaml", "-p")
    return done.returncode, done.stdout, done.stderr


def kept(project: Project) -> dict[str, dict[str, object]]:
    return json.loads((project.home / "mcp-tokens.json").read_text())


def test_logged_in_user_can_use_the_server_until_logout(
    project: Project, guarded: Authority, browser: dict[str, str]
) -> None:
    use(project, guarded.base)
    code, out, err = run(project)
    assert (code, out) == (7, "")
    assert "MCP server docs wants you to log in\n  forge mcp login docs\n" in err
    tried = project.forge("mcp", "test", "docs", "--json")
    assert (tried.returncode, "forge mcp login docs" in tried.stdout) == (1, True)
    done = project.forge("mcp", "login", "docs", env=browser)
    assert (done.returncode, done.stdout[:18]) == (0, "logged in to docs;"), done.stderr
    file = project.home / "mcp-tokens.json"
    assert (file.stat().st_mode & 0o777, list(kept(project))) == (0o600, [f"{guarded.base}/mcp"])
    assert run(project)[:2] == (0, '{"result": 2}\n')
    assert project.forge("mcp", "logout", "docs").stdout == "logged out of docs\n"
    assert (kept(project), run(project)[0]) == ({}, 7)
    assert project.forge("mcp", "logout", "docs").stdout == "not logged in to docs\n"
    assert guarded.grants == ["authorization_code"]


REGISTERED = ", oauth: {{client_id: me, client_secret: '${{THE_SECRET}}', scopes: [words]{more}}}"


def test_manually_registered_client_can_log_in(
    project: Project, guarded: Authority, browser: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.registers, guarded.known = False, {"me": "s3cret-value"}
    use(project, guarded.base)
    failed = project.forge("mcp", "login", "docs", env=browser)
    assert (failed.returncode, "does not register clients (HTTP 404)" in failed.stderr) == (
        7,
        True,
    ), failed.stderr
    assert ("oauth: {client_id" in failed.stderr, "DOCTYPE" in failed.stderr) == (True, False)
    use(project, guarded.base, REGISTERED.format(more=""))
    code, _, err = run(project)
    assert (code, "THE_SECRET" in err) == (3, True), err
    monkeypatch.setenv("THE_SECRET", "s3cret-value")
    assert "forge mcp login docs" in run(project)[2]
    done = project.forge("mcp", "login", "docs", env=browser)
    assert done.returncode == 0, done.stderr
    assert run(project)[:2] == (0, '{"result": 2}\n')
    assert "s3cret-value" not in (project.home / "mcp-tokens.json").read_text()
    assert guarded.asked_scopes == {"words"}


def test_client_credentials_need_no_person(
    project: Project, guarded: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.registers, guarded.known = False, {"me": "s3cret-value"}
    monkeypatch.setenv("THE_SECRET", "s3cret-value")
    use(project, guarded.base, REGISTERED.format(more=", grant: client_credentials"))
    assert run(project)[:2] == (0, '{"result": 2}\n')
    assert (guarded.grants, guarded.asked_scopes) == (["client_credentials"], {"words"})
    needless = project.forge("mcp", "login", "docs")
    assert (needless.returncode, "needs no login" in needless.stderr) == (2, True)


@pytest.mark.parametrize(
    ("oauth", "says"),
    [
        ("{grant: client_credentials}", "needs a client_id and a client_secret"),
        ("{client_secret: x}", "belongs to a client_id"),
        ("{grant: password}", "authorization_code"),
        ("{scopes: ['a b']}", "scopes"),
    ],
)
def test_invalid_oauth_settings_are_errors(project: Project, oauth: str, says: str) -> None:
    use(project, "http://127.0.0.1:9", f", oauth: {oauth}")
    code, _, err = run(project)
    assert (code, says in err) == (3, True), err


def test_missing_scopes_are_named_and_requested_at_the_next_login(
    project: Project, guarded: Authority, browser: dict[str, str]
) -> None:
    use(project, guarded.base)
    assert project.forge("mcp", "login", "docs", env=browser).returncode == 0
    guarded.call_scope = "words:count"
    code, out, _ = run(project)
    assert code == 0
    assert (
        "refused the call: it wants more rights: the scope words:count; forge mcp login docs" in out
    )
    assert project.forge("mcp", "login", "docs", env=browser).returncode == 0
    assert run(project)[:2] == (0, '{"result": 2}\n')


def test_scopes_that_a_login_did_not_grant_are_not_requested_again(
    project: Project, guarded: Authority, browser: dict[str, str]
) -> None:
    guarded.call_scope, guarded.is_generous = "words:count", False
    use(project, guarded.base)
    assert project.forge("mcp", "login", "docs", env=browser).returncode == 0
    assert "forge mcp login docs" in run(project)[1]
    assert project.forge("mcp", "login", "docs", env=browser).returncode == 0
    code, out, _ = run(project)
    assert code == 0
    assert "the scope words:count, which the last login did not grant" in out
    assert "forge mcp login" not in out


def test_scopes_unavailable_to_client_credentials_are_reported(
    project: Project, guarded: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.registers, guarded.known = False, {"me": "s3cret-value"}
    guarded.call_scope, guarded.is_generous = "words:count", False
    monkeypatch.setenv("THE_SECRET", "s3cret-value")
    use(project, guarded.base, REGISTERED.format(more=", grant: client_credentials"))
    code, out, _ = run(project)
    assert code == 0
    assert "the scope words:count, which the last login did not grant" in out
    assert {"words", "words:count"} <= guarded.asked_scopes


@pytest.mark.long
def test_expired_tokens_are_renewed_and_stored(
    project: Project, guarded: Authority, browser: dict[str, str]
) -> None:
    use(project, guarded.base)
    assert project.forge("mcp", "login", "docs", env=browser).returncode == 0
    first = kept(project)
    for entry in first.values():
        entry["expires"] = 1
    (project.home / "mcp-tokens.json").write_text(json.dumps(first))
    guarded.access.clear()
    assert [run(project)[0] for _ in range(2)] == [0, 0]
    assert guarded.grants == ["authorization_code", "refresh_token"]
    assert (project.home / "mcp-tokens.json").stat().st_mode & 0o777 == 0o600
    for entry in (changed := kept(project)).values():
        entry["expires"] = 1
    assert changed != first
    (project.home / "mcp-tokens.json").write_text(json.dumps(changed))
    guarded.access.clear()
    guarded.refresh.clear()
    code, _, err = run(project)
    assert (code, "forge mcp login docs" in err, "Traceback" in err) == (7, True, False)


def test_login_required_is_reported_and_the_session_starts(
    project: Project, guarded: Authority
) -> None:
    use(project, guarded.base)
    bus, told = EventBus(), list[str]()
    bus.subscribe(lambda event: None, answers=True)
    bus.subscribe(
        lambda event: told.append(event.message) if isinstance(event, StatusEvent) else None
    )

    async def main() -> None:
        worker = load_worker(project.folder / "worker.yaml")
        with anyio.fail_after(40):
            async with WorkerRuntime(
                worker=worker, bus=bus, model=scripted_model("hi"), workspace=project.folder
            ):
                pass

    with project.environment():
        anyio.run(main)
    assert [each for each in told if "forge mcp login docs" in each] != []


@pytest.mark.long
def test_server_defined_by_a_worker_can_be_used(
    project: Project, guarded: Authority, browser: dict[str, str]
) -> None:
    use(project, guarded.base)
    (project.home / "config.yaml").unlink()
    server = f"{{docs: {{url: '{guarded.base}/mcp'}}}}"
    project.write(
        "worker.yaml",
        f"name: w\ntoolsets: {{mcp: {{servers: {server}, approval: {{default: preApproved}}}}}}\n",
    )
    assert "forge mcp login docs --worker worker.yaml" in run(project)[2]
    assert (
        project.forge("mcp", "login", "docs", "--worker", "worker.yaml", env=browser).returncode
        == 0
    )
    assert run(project)[0] == 0


@pytest.mark.long
def test_denied_login_is_reported(
    project: Project, guarded: Authority, browser: dict[str, str]
) -> None:
    use(project, guarded.base)
    guarded.denies = True
    done = project.forge("mcp", "login", "docs", env=browser)
    assert (done.returncode, "the server refused: not today" in done.stderr) == (7, True)
    assert not (project.home / "mcp-tokens.json").exists()


@pytest.mark.long
def test_impossible_login_is_reported(project: Project, guarded: Authority) -> None:
    use(project, guarded.base)
    alone = project.forge("mcp", "login", "docs", env=NO_DISPLAY)
    assert (alone.returncode, "neither a browser nor a terminal is available" in alone.stderr) == (
        7,
        True,
    )
    assert not (project.home / "mcp-tokens.json").exists()
    unknown = project.forge("mcp", "login", "dcs")
    assert (unknown.returncode, "did you mean 'docs'?" in unknown.stderr) == (2, True)
    (project.home / "config.yaml").write_text(
        "mcp: {servers: {own: {command: x}, gone: {url: 'http://127.0.0.1:9/'}}}\n"
    )
    local = project.forge("mcp", "login", "own")
    assert (local.returncode, "is started by a command" in local.stderr) == (2, True)
    down = project.forge("mcp", "login", "gone")
    assert (down.returncode, "the login failed: " in down.stderr, "Traceback" in down.stderr) == (
        7,
        True,
        False,
    )


def test_server_without_login_says_so(project: Project) -> None:
    with served(make_app()) as url:
        use(project, url.removesuffix("/mcp"))
        assert (
            project.forge("mcp", "login", "docs").stdout
            == "docs accepts requests without a login\n"
        )


def whole_address(address: str) -> str:
    return address


def code_alone(address: str) -> str:
    return re.findall(r"[?&]code=(\w+)", address)[0]


@pytest.mark.long
@pytest.mark.parametrize("paste", [whole_address, code_alone])
def test_final_address_is_pasted_without_a_browser(
    project: Project, guarded: Authority, paste: Callable[[str], str]
) -> None:
    use(project, guarded.base)
    parent, child = pty.openpty()
    env = {**os.environ, **NO_DISPLAY, "FORGE_HOME": str(project.home), "COLUMNS": "2000"}
    env.pop("CI", None)
    argv = [sys.executable, "-m", "forge_cli", "mcp", "login", "docs"]
    with subprocess.Popen(
        argv,
        cwd=project.folder,
        env=env,
        stdin=child,
        stderr=child,
        stdout=subprocess.PIPE,
        text=True,
    ) as login:
        os.close(child)
        try:
            said = ""
            while "paste the address" not in said:
                said += os.read(parent, 65536).decode()
            page = re.findall(r"http://\S+/as/authorize\S+", said)[0]
            os.write(parent, f"\nnonsense=1\n{paste(redirected(page))}\n".encode())
            out, _ = login.communicate(timeout=40)
        finally:
            login.kill()
            os.close(parent)
    assert (login.returncode, out[:18]) == (0, "logged in to docs;")
    assert run(project)[0] == 0


def redirected(page: str) -> str:
    """The target of a redirect that is not followed."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: object) -> None:
            return None

    try:
        urllib.request.build_opener(Stay).open(page, timeout=20)
    except urllib.error.HTTPError as answer:
        return str(answer.headers["location"])
    raise AssertionError("it sends nowhere")


@pytest.mark.parametrize("content", ["{", "[]", '{"x": 7}'])
def test_unreadable_token_file_is_never_overwritten(project: Project, content: str) -> None:
    use(project, "http://127.0.0.1:9")
    file = Path(project.home / "mcp-tokens.json")
    file.write_text(content)
    done = project.forge("mcp", "logout", "docs")
    assert (done.returncode, "log in again: forge mcp login" in done.stderr) == (3, True)
    assert file.read_text() == content
