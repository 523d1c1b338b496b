"""Inspection of a hostile tools.py or plugin: forge survives, changes nothing, and names the culprit.

Covers forge_cli.inspection.child, forge_cli.inspection.child_mounts, forge_cli.inspection.worker_zones,
forge_cli.core.thirdparty, forge_cli.sandbox.processes.inherited.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.sandbox.isolation.isolation import best_mechanism
from forge_cli.testing import Project
from tests.support.command_line import Done
from tests.support.hostile import BEHAVIOURS, SECRET, Behaviour

WORKER = "name: w\ntoolsets:\n  custom: {module: ./tools.py, tools: [Hostile]}\n"
GOOD = """
from forge_cli import Toolset, hookimpl, tool

class Kind(Toolset):
    name = "kind"

    @tool
    def greet(self) -> str:
        "Greet."
        return "hello"

@hookimpl
def forge_toolsets():
    return [Kind]
"""
SOON = ("leaves with 0", "writes beside the worker", "reads keys")
CASES = [
    pytest.param(name, marks=[] if name in SOON else [pytest.mark.long]) for name in BEHAVIOURS
]

pytestmark = [
    pytest.mark.skipif(best_mechanism() is None, reason="nothing here can confine processes"),
]


@pytest.fixture
def home(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a key in it, and a key in the environment."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text(SECRET)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HOSTILE_API_KEY", SECRET)
    return home


def patience(monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour) -> None:
    monkeypatch.setenv("FORGE_IMPORT_TIMEOUT", "10" if behaviour.hangs else "60")


def files(*folders: Path) -> dict[Path, bytes]:
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in found}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_hostile_tool_module_cannot_break_inspection(
    cli: Callable[..., Done], project: Project, home: Path, monkeypatch, name: str
) -> None:
    behaviour = BEHAVIOURS[name]
    patience(monkeypatch, behaviour)
    project.write("worker.yaml", WORKER)
    project.write("tools.py", behaviour.module)
    before = files(project.folder, home)
    done = cli("worker", "check", "worker.yaml")
    assert files(project.folder, home) == before
    _is_sound(done)
    if done.code == 0:
        assert behaviour.fine is not False
        assert done.out.startswith("worker.yaml: ok (worker 'w', toolsets: 1, tools: 1)")
    else:
        assert behaviour.fine is not True, done.err
        assert (done.code, done.out) == (3, "")
        assert "tools.py" in done.err or "toolsets.custom" in done.err


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_hostile_plugin_cannot_break_inspection(
    cli: Callable[..., Done], project: Project, home: Path, install, monkeypatch, name: str
) -> None:
    behaviour = BEHAVIOURS[name]
    patience(monkeypatch, behaviour)
    project.write("worker.yaml", "name: w\n")
    site = install(
        "forge-tools-hostile", "hostile_module", behaviour.module, "hostile = hostile_module"
    )
    install("forge-tools-kind", "kind_module", GOOD, "kind = kind_module")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-tools-hostile,forge-tools-kind")
    before = files(project.folder, home, site)
    done = cli("tools", "list", "--json")
    assert {
        path: text
        for path, text in files(project.folder, home, site).items()
        if path.suffix != ".pyc"
    } == before
    _is_sound(done)
    rows = {row["toolset"]: row for row in json.loads(done.out)}
    assert done.code == 0
    assert rows["kind"]["name"] == "greet"
    assert ("error" in rows["hostile"]) is not behaviour.fine or behaviour.fine is None
    assert "error" not in rows["hostile"] or "hostile" in rows["hostile"]["error"]


def _is_sound(done: Done) -> None:
    said = done.out + done.err
    assert "Traceback" not in said
    assert "internal error" not in said
    assert "\x1b" not in said
    assert "seen" not in said
    assert SECRET not in said
    assert len(said) < 200_000
