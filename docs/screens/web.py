"""The pictures of the page: ``python docs/screens/web.py`` writes them anew, with Chromium and playwright installed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

SCREENS = Path(__file__).parent
WORKER = """
name: notes
description: Keeps the notes of a shop.
model: script:script.yaml
sandbox: {zones: [{name: notes, path: notes, mode: rw}]}
toolsets:
  filesystem: {}
  custom: {module: ./tools.py, tools: [refund]}
"""
TOOLS = '''
from forge_cli import tool


@tool(manual="both", label="Refund", category="Money")
def refund(customer: str, amount: float) -> str:
    """Pay money back to a customer."""
    return f"{amount:.2f} paid back to {customer}"
'''
LIST = "Saturday\n\n1 bread\n1 butter\n2 lamps\n"
ANSWER = """I changed `notes/list.md`: butter is **unsalted** now, as Ana asked.

| what | how many |
|---|---|
| bread | 1 |
| lamps | 2 |
"""


def prepare(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes/list.md").write_text(LIST)
    (folder / "worker.yaml").write_text(WORKER)
    (folder / "tools.py").write_text(TOOLS)
    path = "/notes/list.md"
    change = {"path": path, "content": LIST.replace("butter", "butter, unsalted")}
    turns = [
        {"text": "I look at the list first.", "calls": [{"tool": "read_file", "input": {"path": path}}]},
        {"calls": [{"tool": "write_file", "input": change}]},
        {"text": ANSWER},
    ]
    (folder / "script.yaml").write_text(json.dumps({"turns": turns, "title": "A shopping list"}))


def shoot(page: Page, name: str) -> None:
    page.screenshot(path=SCREENS / f"web-{name}.png")


def take(page: Page) -> None:
    """The dialog, then the answer."""
    expect(page.locator("#log[data-ready]")).to_be_attached()
    page.locator("#message").fill("Ana wants unsalted butter: change the list.")
    page.keyboard.press("Enter")
    expect(page.locator("#approval[open]")).to_be_visible()
    shoot(page, "approval")
    page.locator("[data-choice=once]").click()
    expect(page.locator(".entry.answer table")).to_be_visible()
    page.locator("details.call > summary").last.click()
    page.locator("#message").focus()
    expect(page.locator("#status-text")).to_have_text("Ready")
    shoot(page, "talk")


def main() -> None:
    folder = Path(tempfile.gettempdir()) / "shop"  # it is seen in the pictures
    folder.mkdir()
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        prepare(folder)
        command = [sys.executable, "-m", "forge_cli", "web", "worker.yaml", "--no-open", "--port", "0"]
        env = {**os.environ, "FORGE_HOME": f"{place}/home"}
        server = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
        try:
            address = next(found[0] for line in server.stderr or () if (found := re.search(r"http://\S+", line)))
            flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
            page = browser.new_page(viewport={"width": 1000, "height": 720}, reduced_motion="reduce")
            page.goto(address)
            take(page)
            page.emulate_media(color_scheme="dark")
            shoot(page, "dark")
            page.set_viewport_size({"width": 360, "height": 720})
            page.emulate_media(color_scheme="light")
            shoot(page, "narrow")
            browser.close()
        finally:
            server.terminate()
            server.wait(10)
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
