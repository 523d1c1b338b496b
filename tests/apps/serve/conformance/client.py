"""The client that the conformance suite tests: forge itself, with a person in it who agrees to everything.

The suite gives the URL of a server; it logs in there where forge says so, and calls every tool that there is.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from forge_cli import ApprovalDecision, Event, EventBus, WorkerRuntime, load_worker
from forge_cli.events import ApprovalRequired, InputPrompt, StatusEvent
from forge_cli.testing import scripted_model

LOGINS_MAX = 5
"""More than the suite lets any client try."""
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The document about its client that the suite makes up."""
BROWSER = """\
#!{python}
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=20).read()
"""
NUMBERS = {"a": 2, "b": 3}


def oauth_settings() -> dict[str, Any]:
    """The client that the scenario has registered by hand, as a person would write it down."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    found = {key: given[key] for key in ("client_id", "client_secret") if key in given}
    if "client-credentials" in scenario:
        found["grant"] = "client_credentials"
    if scenario == "auth/basic-cimd":
        found["client_id"] = DOCUMENT
    return found


def prepare(folder: Path, url: str) -> None:
    server: dict[str, Any] = {"url": url, "elicitation": True}
    if oauth := oauth_settings():
        server["oauth"] = oauth
    (folder / "config.yaml").write_text(json.dumps({"mcp": {"servers": {"t": server}}}))
    worker = {
        "name": "w",
        "toolsets": {"mcp": {"servers": ["t"], "approval": {"default": "preApproved"}}},
    }
    (folder / "worker.yaml").write_text(json.dumps(worker))
    browser = folder / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    os.environ["BROWSER"] = str(browser)
    os.environ["FORGE_HOME"] = str(folder)


def log_in() -> bool:
    words = [sys.executable, "-m", "forge_cli", "mcp", "login", "t"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    sys.stderr.write(f"{done.stdout}{done.stderr}\n")
    return done.returncode == 0


async def call_tools(folder: Path) -> list[str]:
    """Call every tool of the server; return the texts for the person and the model."""
    bus, told = EventBus(), list[str]()

    def agree(event: Event) -> None:
        if isinstance(event, ApprovalRequired):
            bus.answer(event.request.request_id, ApprovalDecision(True))
        if isinstance(event, InputPrompt):
            bus.answer_input(event.request_id, "")
        if isinstance(event, StatusEvent):
            told.append(event.message)

    bus.subscribe(agree, answers=True)
    worker = load_worker(folder / "worker.yaml")
    async with WorkerRuntime(
        worker=worker, bus=bus, workspace=folder, model=scripted_model("done")
    ) as runtime:
        for tool in runtime.tools:
            outcome = await runtime.call(tool.name, arguments(tool.input_schema))
            told.append(f"{tool.name}: {outcome.value.text()}")
    return told


def arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: NUMBERS[name] for name in schema.get("properties", {}) if name in NUMBERS}


def main(url: str) -> int:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        prepare(folder, url)
        for _ in range(LOGINS_MAX):
            told = "\n".join(anyio.run(call_tools, folder))
            sys.stderr.write(f"{told}\n")
            if "forge mcp login t" not in told:
                return 0
            if not log_in():
                break
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
