"""The toolset ``llm`` with plugins of llm, registered as llm itself does it."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import llm
import pytest
from llm.plugins import load_plugins, pm

from forge_cli.errors import WorkerError
from forge_cli.testing import Project, Seen, call, calls


def shout(text: str, times: int = 1) -> str:
    """
    Say it loudly.
        Indented.
    """
    return text.upper() * times


async def wait(text: str) -> dict[str, str]:
    """Wait for nothing."""
    return {"waited": text}


def fail(text: str) -> str:
    "Fail."
    raise ValueError(f"no {text}")


def described(text: str) -> Any:
    "Answer with more than text."
    return llm.ToolOutput(output={"text": text})


class Counter(llm.Toolbox):
    """Counts, in the thread that it was made in."""

    def __init__(self, start: int = 0) -> None:
        self.count, self._thread = start, threading.get_ident()

    def prepare(self) -> None:
        self.count += 100
        self.add_tool(self._late)

    async def prepare_async(self) -> None:
        self.count += 1000

    def add(self, by: int) -> str:
        "Count further."
        assert threading.get_ident() == self._thread
        self.count += by
        return str(self.count)

    def _late(self) -> str:
        "Added late."
        return "late"


class Keyed(llm.Toolbox):
    def __init__(self, key: str, region: str = "eu") -> None:
        if key == "wrong":
            raise ValueError("the key is wrong")
        self._key = key

    def unlock(self) -> str:
        "Use the key."
        return self._key


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    monkeypatch.chdir(folder)
    load_plugins()
    plugin = ModuleType("llm_tools_mine")

    @llm.hookimpl
    def register_tools(register: Any) -> None:
        for thing in (shout, wait, fail, described, Counter, Keyed):
            register(thing)

    plugin.register_tools = register_tools  # type: ignore[attr-defined]
    pm.register(plugin, name="llm-tools-mine")
    yield Project(folder)
    pm.unregister(plugin)


def run(project: Project, section: str, *made: Any, **options: Any) -> Seen:
    project.write("worker.yaml", f"name: w\ntoolsets:\n  llm: {section}\n")
    return project.run(calls(*made), "done", **options)


ALLOWED = "{approval: {default: preApproved}}"


def test_tools_and_toolboxes_work(project: Project) -> None:
    made = [
        call("shout", text="ho", times=2),
        call("wait", text="x"),
        call("fail", text="luck"),
        call("described", text="d"),
        call("Counter_add", by=1),
        call("Counter_add", by=2),
        call("_late"),
        call("llm_version"),
    ]
    seen = run(project, ALLOWED, *made)
    assert seen.statuses == ["success", "success", "error", *["success"] * 5]
    texts = [outcome.value.text() for outcome in seen.outcomes]
    assert texts[0] == "HOHO"
    assert texts[2].startswith("ValueError: no luck")
    assert '"d"' in texts[3]
    assert texts[4:7] == ["1101", "1103", "late"]


def test_llm_tools_ask_and_name_their_source(project: Project) -> None:
    seen = run(project, "{}", call("shout", text="a"), call("llm_time"), answers=[True, False])
    assert seen.statuses == ["success", "denied"]
    assert all(request.risk == "high" for request in seen.asked)
    assert all(request.reason.endswith("it is not bound to zones") for request in seen.asked)


def test_args_are_validated(project: Project) -> None:
    seen = run(project, ALLOWED, call("shout", text="a", times="often"), call("shout"))
    assert seen.statuses == ["invalid", "invalid"]


def test_toolbox_gets_its_settings(project: Project) -> None:
    section = (
        "{toolboxes: {Keyed: {key: abc}, Counter: {start: 5}}, approval: {default: preApproved}}"
    )
    seen = run(project, section, call("Keyed_unlock"), call("Counter_add", by=0))
    assert [outcome.value.text() for outcome in seen.outcomes] == ["abc", "1105"]


@pytest.mark.long
def test_toolbox_without_required_settings_is_omitted(project: Project) -> None:
    seen = run(project, ALLOWED, call("Keyed_unlock"))
    assert seen.statuses == ["not_found"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("boxes", "problem"),
    [
        ("{Nothing: {}}", ":3:21: toolsets.llm.toolboxes: there is no toolbox 'Nothing'"),
        (
            "{Keyed: {region: us}}",
            ":3:21: toolsets.llm.toolboxes: the toolbox Keyed of llm-tools-mine needs key",
        ),
        ("{Keyed: {key: wrong}}", "Keyed cannot be opened: ValueError: the key is wrong"),
        ("{Counter: {stat: 1}}", "Counter cannot be opened: TypeError: "),
    ],
)
def test_invalid_settings_are_errors(project: Project, boxes: str, problem: str) -> None:
    with pytest.raises(WorkerError) as caught:
        run(project, f"{{toolboxes: {boxes}}}")
    assert problem in str(caught.value)


PLUGIN = """
import llm


def greet(name: str) -> str:
    "Greet somebody."
    return f"Hello, {name}"


@llm.hookimpl
def register_tools(register):
    register(greet)
"""


@pytest.mark.long
def test_source_is_the_installed_plugin_of_llm(project: Project, tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "llm_tools_greet-1.2.dist-info"
    info.mkdir(parents=True)
    (site / "llm_tools_greet.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-tools-greet\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[llm]\ngreet = llm_tools_greet\n")
    project.write("worker.yaml", "name: w\ntoolsets: {llm: {tools: [greet]}}\n")
    env = {"PYTHONPATH": str(site)}
    shown = project.forge("tools", "show", "greet", "--worker", "worker.yaml", env=env)
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"origin: forge-tools-llm \S+ \(llm-tools-greet 1.2\)", shown.stdout)
    called = project.forge(
        "tools", "call", "greet", "--worker", "worker.yaml", "name=Ada", "-y", env=env
    )
    assert (called.returncode, called.stdout) == (0, "Hello, Ada\n"), called.stderr


def test_llm_is_imported_only_when_its_tools_are_used(project: Project) -> None:
    code = "import sys, forge_tools_llm.toolset; sys.exit('llm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
