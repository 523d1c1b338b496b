"""The test kit for authors: direct calls, typed values, and the fixtures that pytest finds.

Covers forge_cli.testing, forge_cli.pytest_plugin.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli import Approval, Json, Text, Tool, ToolContext, Toolset, ToolsetConfig, tool
from forge_cli.results import Blob
from forge_cli.testing import Project, value_of


class TallyConfig(ToolsetConfig):
    step: int = 1


class Tally(Toolset[TallyConfig]):
    name = "tally"
    count = 0

    @tool(needs_approval=True)
    def add(self, times: int = 1, timeout: int = 0, *, context: ToolContext) -> dict[str, int]:
        """Add to the tally."""
        self.count += self.config.step * times + timeout
        context.progress("added")
        return {"count": self.count}

    @tool(needs_approval=Approval.BLOCKED)
    def drop(self) -> str:
        """Forget it."""
        return "dropped"


def fail() -> str:
    """Fail."""
    raise RuntimeError("no luck")


def test_tool_of_a_worker_file_is_called_directly(forge_project: Project) -> None:
    forge_project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [double]}}"
    )
    forge_project.write("tools.py", "def double(number: int) -> int:\n    return 2 * number\n")
    assert value_of(forge_project.call("double", number="21"), Json).data == 42
    assert forge_project.call("double", number="x").status == "invalid"
    assert forge_project.call("triple").status == "not_found"


def test_worker_stays_open_between_calls(forge_worker) -> None:
    worker = forge_worker(Tally({"step": 5}), name="counter")
    assert set(worker.tools) == {"add", "drop"}
    assert isinstance(worker.tools["add"], Tool)
    worker.call("add")
    assert value_of(worker.call("add", times=2, timeout=1), Json).data == {"count": 16}
    assert worker.call("drop").status == "blocked"
    assert [request.tool_name for request in worker.seen.asked] == ["add", "add"]
    assert worker.seen.statuses == ["success", "success", "blocked"]
    assert worker.seen.types.count("toolResult") == 3
    assert {line.worker for line in worker.seen.record} == {"counter"}


def test_answers_are_those_of_a_person(forge_worker) -> None:
    worker = forge_worker(Tally, answers=[False, True])
    assert [worker.call("add").status, worker.call("add").status] == ["denied", "success"]


def test_value_of_another_kind_is_an_assertion_error(forge_worker) -> None:
    worker = forge_worker(fail, Tally)
    with pytest.raises(
        AssertionError, match=r"ended as error: RuntimeError: no luck \(test_testing.py:\d+\)"
    ):
        value_of(worker.call("fail"), Text)
    with pytest.raises(AssertionError, match="which is not of type Blob"):
        value_of(worker.call("add"), Blob)


def test_home_is_separate_from_that_of_the_user(forge_worker, forge_project: Project) -> None:
    def where(context: ToolContext) -> str:
        return str(context.workspace)

    assert value_of(forge_worker(where).call("where"), Text).content == str(forge_project.folder)
    assert forge_project.home.parent == forge_project.folder.parent


def test_pytest_plugin_imports_nothing_of_the_engine(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_it():\n    assert [m for m in sys.modules if m.startswith('forge_cli.')] "
        "== ['forge_cli.pytest_plugin']\n    assert 'pydantic' not in sys.modules\n"
    )
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "forge_cli.pytest_plugin", "test_it.py"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert "1 passed" in done.stdout, done.stdout
