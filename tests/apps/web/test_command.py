"""``forge web`` as a process: its output, its end and its leftovers.

Covers forge_cli.apps.web.command and forge_cli.cli.run_options.
"""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from forge_cli.testing import Project
from tests.support.command_line import Done, Started
from tests.support.deadline import deadline

SLOW = """
turns:
  - calls: [{tool: hold, input: {}}]
  - text: over
"""
STUBBORN = '''
"""A tool that heeds nobody."""

import time


async def stay() -> str:
    """Hold everything up."""
    print("staying", flush=True)
    while True:
        try:
            while True:
                time.sleep(0.1)
        except BaseException:
            pass
'''
STUBBORN_WORKER = """
name: w
model: script:script.yaml
toolsets: {custom: {module: ./tools.py, tools: [stay], approval: {default: preApproved}}}
"""


class Page:
    """A server, and a user who has read its address."""

    def __init__(self, started: Started) -> None:
        self.started = started
        self.seen = ""
        assert started.process.stderr
        with deadline():
            for line in started.process.stderr:
                self.seen += line
                if found := re.search(r"forge: (http://127\.0\.0\.1:(\d+))/\?secret=(\S+)", line):
                    self.base, self.port, self.secret = found[1], int(found[2]), found[3]
                    return
        raise AssertionError(f"no address: {self.seen}")

    def ask(self, path: str, body: Any = None) -> Any:
        with urllib.request.urlopen(self.request(path, body), timeout=30) as answer:
            return json.loads(answer.read())

    def request(self, path: str, body: Any = None) -> urllib.request.Request:
        headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.Request(f"{self.base}{path}", data, headers)


@pytest.fixture
def web(start: Callable[..., Started]) -> Callable[..., Page]:
    return lambda *words, **env: Page(start("web", *words, "--no-open", **env))


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_the_server_and_saves_the_session(
    web: Callable[..., Page], tester: Project, number: signal.Signals, code: int
) -> None:
    tester.write(
        "script.yaml",
        SLOW.replace("hold", "write_file").replace("{}", "{path: /output/x, content: x}"),
    )
    page = web("worker.yaml", CI="1")
    session = page.ask("/api/state")["session"]
    page.ask(f"/api/sessions/{session}/input", {"text": "go"})
    page.started.wait_for(session)
    page.started.signal(number)
    done = page.started.end()
    assert (done.code, done.out) == (code, "")
    assert "Traceback" not in done.err
    shown = tester.forge("sessions", "list", "--json")
    (row,) = json.loads(shown.stdout)
    assert (row["session"], row["status"], row["pid"]) == (session, "interrupted", None)
    assert "ok" in tester.forge("sessions", "verify", session).stdout


@pytest.mark.long
def test_tool_that_does_not_end_is_abandoned(web: Callable[..., Page], tester: Project) -> None:
    tester.write("tools.py", STUBBORN)
    tester.write("worker.yaml", STUBBORN_WORKER)
    tester.write("script.yaml", SLOW.replace("hold", "stay"))
    page = web("worker.yaml")
    session = page.ask("/api/state")["session"]
    tab = urllib.request.urlopen(page.request(f"/api/sessions/{session}/events"), timeout=30)
    assert tab.readline().startswith(b"id: ")
    page.ask(f"/api/sessions/{session}/input", {"text": "go"})
    page.started.wait_for("staying")
    page.started.signal(signal.SIGTERM)
    done = page.started.end()
    tab.close()
    assert done.code == 143
    assert "did not end, and was abandoned" in done.err
    assert "-- interrupted" in tester.forge("sessions", "show", session).stdout


def test_web_command_prints_one_line_for_each_session(
    web: Callable[..., Page], tester: Project
) -> None:
    page = web(CI="1")
    assert page.ask("/api/state")["session"] is None
    session = page.ask("/api/sessions", {"worker": "tester"})["id"]
    page.started.signal(signal.SIGINT)
    done = page.started.end()
    assert (done.code, done.out) == (130, "")
    assert done.err.removeprefix("  Ctrl+C ends it\n") == f"  tester  {session}\n"


def test_port_in_use_is_reported(
    web: Callable[..., Page], cli: Callable[..., Done], tester: Project
) -> None:
    page = web()
    done = cli("web", "--no-open", "--port", str(page.port))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"forge: --port {page.port} on 127.0.0.1: Address already in use")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--host", "0.0.0.0"], 2, "add --allow-remote"),
        (["nobody"], 3, "there is no worker 'nobody'"),
        (["worker.yaml", "-m", "none:x"], 3, "none"),
        (["worker.yaml", "-y", "--approval-mode", "auto_deny"], 2, "contradict"),
        (["-C", "nowhere"], 2, "there is no such folder"),
    ],
)
def test_impossible_start_is_one_message(
    cli: Callable[..., Done], tester: Project, words: list[str], code: int, sentence: str
) -> None:
    done = cli("web", *words, "--no-open")
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert "Traceback" not in done.err


def test_remote_connections_need_allow_remote(
    start: Callable[..., Started], tester: Project
) -> None:
    started = start("web", "--host", "0.0.0.0", "--allow-remote", "--no-open")
    page = Page(started)
    assert "everybody who can reach 0.0.0.0" in page.seen
    assert page.ask("/api/state")["folder"] == str(tester.folder)


def test_page_needs_no_engine_before_a_session_starts(tester: Project) -> None:
    code = """
import sys
import forge_cli.apps.web.command
heavy = ("forge_cli.engine.runtime", "forge_cli.engine.gate", "anthropic", "mcp", "rich", "pygments")
asked = {"forge_cli.engine.runtime", "forge_cli.engine.runtime.options"}  # what was asked, and a package that is lazy
print(sorted(name for name in sys.modules if name.startswith(heavy) and name not in asked))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("words", [("web", "--no-open", "--port"), ("serve", "mcp", "--http")])
def test_invalid_port_is_an_error(cli, words: tuple[str, ...]) -> None:
    done = cli(*words, "65536")
    assert (done.code, done.err) == (
        2,
        f"forge: {words[-1]} 65536: a port must be a number from 0 to 65535\n",
    )
