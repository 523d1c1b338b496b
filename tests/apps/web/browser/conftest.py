"""One browser for the tests of this folder, and a site of its own for each."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from forge_cli.testing import Project
from tests.support.warm import Warm

from .site import SECONDS, TOOLS, WORKER, Site

Start = Callable[..., Site]


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Closed with the folder: as long as playwright is there, its event loop runs, and other tests can have none."""
    expect.set_options(timeout=SECONDS * 1000)
    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def site(project: Project, browser: Browser, warm: Warm) -> Iterator[Site]:
    """A project with a clerk in it; ``site.start("worker.yaml")`` serves it."""
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    site = Site(project, browser, warm.forge)
    try:
        yield site
    finally:
        site.close()
    assert site.faults == []


@pytest.fixture
def start(site: Site) -> Start:
    """Serve the clerk with these turns of its model; a plain string is a turn of text."""

    def start(*turns: Any, argv: tuple[str, ...] = ()) -> Site:
        spoken = [{"text": turn} if isinstance(turn, str) else turn for turn in turns]
        site.project.write("script.yaml", json.dumps({"turns": spoken, "title": "Invoices"}))
        return site.start("worker.yaml", *argv)

    return start
