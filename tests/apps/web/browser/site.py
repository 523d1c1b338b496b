"""``forge web`` as a process, and the pages of a real browser that look at it."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, expect

from forge_cli.testing import Project

ADDRESS = re.compile(r"(http://127\.0\.0\.1:(\d+)/)\S*")
SECONDS = 45
"""The deadline of every wait, in a browser on a busy machine."""

TOOLS = '''
import asyncio
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from forge_cli import ToolContext, tool

Amount = Annotated[float, Field(gt=0, description="In euros")]


@tool(manual="both", label="Refund", category="Money")
def refund(customer: str, amount: Amount, speed: Literal["slow", "fast"] = "slow", gift: bool = False) -> str:
    """Pay money back to a customer."""
    return f"{amount:.2f} paid back to {customer}, {speed}"


@tool(needs_approval=False, manual="both", label="Look up", category="Money")
def look_up(customer: str, tags: list[str] | None = None) -> str:
    """Say what is known about a customer."""
    return f"{customer} is a good customer {tags or ''}"


@tool(needs_approval=False, timeout=60)
async def hold(context: ToolContext) -> str:
    """Wait until there is a file named gate."""
    context.show("holding the gate")
    while not Path("gate").exists():
        await asyncio.sleep(0.02)
    return "the gate is open"
'''

WORKER = """
name: clerk
description: Answers questions about invoices.
model: script:script.yaml
sandbox:
  zones: [{name: notes, path: notes, mode: rw}]
toolsets:
  filesystem: {}
  custom: {module: ./tools.py, tools: [refund, look_up, hold]}
"""


@dataclass
class Site:
    """A server and its browser; faults of any page are stored for the end of the test."""

    project: Project
    browser: Browser
    forge: Path
    faults: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None
    secret_url: str = ""
    origin: str = ""
    port: int = 0

    def start(self, *argv: str, **env: str) -> Site:
        """Start ``forge web``; returns once it has printed its address."""
        command = [str(self.forge), "web", *argv, "--no-open", "--port", str(self.port)]
        given = {**os.environ, "FORGE_HOME": str(self.project.home), **env}
        self.process = subprocess.Popen(
            command,
            cwd=self.project.folder,
            env=given,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self._addresses: queue.Queue[re.Match[str] | None] = queue.Queue()
        threading.Thread(
            target=self._read, args=(self.process, self._addresses), daemon=True
        ).start()
        self.wait_for_address()
        return self

    def wait_for_address(self) -> None:
        """Take the next address that the server prints: each is good once."""
        found = self._addresses.get(timeout=SECONDS * 2)
        assert found, f"forge web said {self.said}"
        self.secret_url, self.origin, self.port = found[0], found[1].rstrip("/"), int(found[2])

    def _read(
        self, process: subprocess.Popen[str], addresses: queue.Queue[re.Match[str] | None]
    ) -> None:
        assert process.stderr
        for line in process.stderr:
            self.said.append(line)
            if found := ADDRESS.search(line):
                addresses.put(found)
        addresses.put(None)

    def kill(self) -> None:
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(SECONDS)
            self.process = None

    def context(self, **options: Any) -> BrowserContext:
        options = {
            "viewport": {"width": 1100, "height": 750},
            "reduced_motion": "reduce",
            **options,
        }
        context = self.browser.new_context(**options)
        context.set_default_timeout(SECONDS * 1000)
        context.on("page", self._watch)
        self.contexts.append(context)
        return context

    def _watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on(
            "dialog",
            lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        )
        page.on("console", lambda told: self._hear(told.text))

    def _hear(self, text: str) -> None:
        """Keep breaches of the policy; refusals, which the browser logs as well, are looked at by the tests."""
        if "Content Security Policy" in text:
            self.faults.append(text)

    def open(self, context: BrowserContext | None = None, **options: Any) -> Page:
        """A tab at the address that the server printed."""
        page = (context or self.context(**options)).new_page()
        page.goto(self.secret_url)
        self.wait_for_address()
        return page

    def talk(self, context: BrowserContext | None = None, **options: Any) -> Page:
        """A tab in which the session of the worker on the command line is open."""
        page = self.open(context, **options)
        expect(page.locator("#log[data-ready]")).to_be_attached()
        return page

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        self.kill()


def say(page: Page, text: str) -> None:
    page.locator("#message").fill(text)
    page.locator("#message").press("Enter")
