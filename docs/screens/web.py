"""The pictures of the page: ``python docs/screens/web.py`` writes them again; it needs Chromium and playwright."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

SCREENS = Path(__file__).parent
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
SHOWN = frozenset(
    {"home", "approval", "talk", "talk-dark", "approval-narrow", "approval-narrow-dark"}
)
"""Those that the documentation has."""
WORKER = """
name: coder
description: Reads, changes and tests the code of this folder.
model: script:script.yaml
toolsets:
  filesystem: {}
  shell: {}
"""
CART = '''"""The cart of the shop."""


def total(items: list[dict]) -> float:
    """The price of everything in the cart."""
    result = 0
    for item in items:
        result += item["price"]
    return result
'''
CHANGED = CART.replace(
    """    result = 0
    for item in items:
        result += item["price"]
    return result
""",
    """    return sum(item["price"] * item.get("count", 1) for item in items)
""",
)
ANSWER = """`total` took each item once. It counts them now, and an item without a `count` is one:

```python
total([{"price": 2.5, "count": 4}])  # 10.0
```

| cart | before | now |
|---|---:|---:|
| one lamp | 30.00 | 30.00 |
| four pens | 2.50 | 10.00 |
"""
TASK = "The total is wrong for several pieces of one thing. Fix it."


def prepare(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src/cart.py").write_text(CART)
    (folder / "worker.yaml").write_text(WORKER)
    read = {"tool": "read_file", "input": {"path": "src/cart.py"}}
    turns = [
        {
            "text": "I look at the cart first.",
            "calls": [read, {"tool": "list_files", "input": {"path": "src"}}],
        },
        {
            "text": "The loop adds each price once, whatever the count is.",
            "calls": [{"tool": "write_file", "input": {"path": "src/cart.py", "content": CHANGED}}],
        },
        {"text": ANSWER},
    ]
    (folder / "script.yaml").write_text(
        json.dumps({"turns": turns, "title": "Count what is in the cart"})
    )


def shoot(page: Page, name: str) -> None:
    if name in SHOWN:
        page.screenshot(path=SCREENS / f"web-{name}.png")


def take(browser: Browser, address: str, folder: Path, *, narrow: bool, dark: bool) -> None:
    """A card, the answer, and the first page."""
    end = f"{'-narrow' if narrow else ''}{'-dark' if dark else ''}"
    scheme = "dark" if dark else "light"
    page = browser.new_page(
        viewport=NARROW if narrow else WIDE, reduced_motion="reduce", color_scheme=scheme
    )
    page.goto(address)
    expect(page.locator("#home-models")).to_contain_text("Ready")
    expect(page.locator("#workers li").first).to_be_visible()
    (folder / "src/cart.py").write_text(CART)
    page.locator("#begin-text").fill(TASK)
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_be_focused()
    shoot(page, f"approval{end}")
    page.locator("[data-choice=once]").click()
    expect(page.locator(".entry.answer table")).to_be_visible()
    expect(page.locator("#talk-title")).to_have_text("Count what is in the cart")
    expect(page.locator("#status-text")).to_have_text("Ready")
    page.evaluate("scrollTo(0, 0)")
    shoot(page, f"talk{end}")
    page.get_by_role("link", name="New").click()
    expect(page.locator("#recent li").first).to_be_visible()
    shoot(page, f"home{end}")
    page.close()


def main() -> None:
    folder = Path(tempfile.gettempdir()) / "shop"  # it is seen in the pictures
    folder.mkdir()
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        prepare(folder)
        command = [sys.executable, "-m", "forge_cli", "web", "--no-open", "--port", "0"]
        env = {**os.environ, "FORGE_HOME": home, "ANTHROPIC_API_KEY": "unused"}
        server = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
        try:
            address = next(
                found[0]
                for line in server.stderr or ()
                if (found := re.search(r"http://\S+", line))
            )
            flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=flags
            )
            for narrow in (False, True):
                for dark in (False, True):
                    take(browser, address, folder, narrow=narrow, dark=dark)
            browser.close()
        finally:
            server.terminate()
            server.wait(10)
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
