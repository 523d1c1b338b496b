"""The file in which the life of tools is kept: shared, and never in the way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli.testing import Project, call, calls
from forge_cli.toolsets.executables.registry import Registry
from forge_cli.toolsets.executables.stats import FILE, Stats

BOTH = "name: w\ninstructions: x\ntoolsets: {filesystem: {}, executables: {approval: {default: preApproved}}}\n"


WRITE = """
import sys
from pathlib import Path
from forge_cli.toolsets.executables import stats
kept = stats.Stats(Path(sys.argv[1]))
for _ in range(200):
    kept.called("a", ok=True, duration_ms=1)
"""


def test_concurrent_processes_share_statistics_without_loss(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    started = [subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in started] == [0, 0, 0]
    assert Stats(tmp_path).read()["a"].calls == 600


@pytest.mark.parametrize("place", ["missing", "a folder", "a fifo", "a link"])
def test_unusable_statistics_file_is_not_a_failure(tmp_path: Path, place: str) -> None:
    root, outside = tmp_path / "tools", tmp_path / "outside"
    outside.write_text("mine")
    if place != "missing":
        root.mkdir()
    match place:
        case "a folder":
            (root / FILE).mkdir()
        case "a fifo":
            os.mkfifo(root / FILE)
        case "a link":
            (root / FILE).symlink_to(outside)
    kept = Stats(root)
    kept.created("a")
    kept.called("a", ok=True)
    assert kept.read() == {}
    assert outside.read_text() == "mine"


def test_compile_error_counts_as_a_failure_and_a_denial_does_not(
    worker: Project, write_tool, monkeypatch
) -> None:
    write_tool("broken", "package main\n\nfunc main() { undefined() }\n", suffix=".go")
    write_tool("show", "echo 1", "parameters: [{name: file, type: path}]")
    seen = worker.run(
        calls(call("broken"), call("show", file="/etc/passwd"), call("show", nonsense=1)), "done"
    )
    assert seen.statuses == ["error", "error", "invalid"]
    found = Stats(worker.home / "tools").read()
    assert {
        name: (usage.calls, usage.failures, usage.mean_ms) for name, usage in found.items()
    } == {"broken": (1, 1, None)}


def test_statistics_file_is_not_a_tool_and_is_protected(project: Project, write_tool) -> None:
    project.write("worker.yaml", BOTH)
    write_tool("say", "echo hi")
    project.run(calls(call("say")), "done")
    root = project.home / "tools"
    before = (root / FILE).read_text()
    forged = call("write_file", path=f"/tools/{FILE}", content='{"tool": "say"}')
    gone = call("delete_file", path=f"/tools/{FILE}")
    seen = project.run(calls(forged, gone), "done", answers=[False, False])
    assert seen.statuses == ["denied", "denied"]
    assert (root / FILE).read_text() == before
    registry = Registry(root)
    assert [program.name for program in registry.scan()] == ["say"]
    assert registry.problems == {}


@pytest.mark.needs("bwrap")
def test_program_cannot_reach_the_statistics(worker: Project, write_tool) -> None:
    write_tool("forge", 'echo forged >> "$FORGE_TOOL_DIR/../.stats.jsonl" || echo refused; exit 0')
    seen = worker.run(calls(call("forge")), "done")
    assert seen.statuses == ["success"]
    assert "refused" in seen.outcomes[0].value.text()
    assert "forged" not in (worker.home / "tools" / FILE).read_text()
