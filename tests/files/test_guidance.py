"""AGENTS.md: told to the models of workers that want it, after their instructions, and read from nowhere else."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from forge_cli import ModelRequest, ToolCall
from forge_cli.core.errors import ExitCode, WorkerError
from forge_cli.core.messages import Delta
from forge_cli.files.guidance import LARGEST, read_guidance
from forge_cli.files.worker import WorkerConfig
from forge_cli.testing import Project

from ..listener import Listener

WORKER = "name: w\ninstructions: You help.\nagents_md: {wanted}\ntoolsets: {{plan: {{}}}}\n"


def told(project: Project, wanted: str = "true") -> str:
    project.write("workers/worker.yaml", WORKER.format(wanted=wanted))
    model = Listener()
    project.run(model=model, worker="workers/worker.yaml")
    return model.system[0]


def test_it_follows_the_instructions(project: Project) -> None:
    project.write("AGENTS.md", "\n# House rules\n\nUse tabs.\n\n")
    text = "AGENTS.md of the working directory says:\n\n# House rules\n\nUse tabs."
    assert told(project).startswith(f"You help.\n\n{text}\n\nFor work of several steps")


def test_only_a_worker_that_wants_it_gets_it(project: Project) -> None:
    project.write("AGENTS.md", "Use tabs.")
    assert "tabs" not in told(project, "false")
    assert WorkerConfig(name="w").agents_md is False


def test_it_is_that_of_the_working_directory(project: Project) -> None:
    project.write("workers/AGENTS.md", "Use spaces.")
    assert "spaces" not in told(project)


@pytest.mark.parametrize("content", [None, "", " \n\n"])
def test_without_it_nothing_is_added(project: Project, content: str | None) -> None:
    if content is not None:
        project.write("AGENTS.md", content)
    assert told(project).startswith("You help.\n\nFor work of several steps")


def test_it_is_read_once(project: Project) -> None:
    project.write("AGENTS.md", "Use tabs.")
    project.write("worker.yaml", WORKER.format(wanted="true"))

    class Editor(Listener):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            project.write("AGENTS.md", "Use spaces.")
            if not self.system:
                yield ToolCall("a", "update_plan", {"plan": []})
            async for delta in super().stream(request):
                yield delta

    model = Editor()
    project.run(model=model)
    assert ["Use tabs." in system for system in model.system] == [True, True]


def test_a_long_one_is_cut(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("é" * LARGEST)
    text = read_guidance(tmp_path)
    assert text.endswith("éé\n[... only the first 64 KiB of AGENTS.md ...]")
    assert text.count("é") == LARGEST // 2
    (tmp_path / "AGENTS.md").write_text("x" * LARGEST)
    assert read_guidance(tmp_path).endswith("xx")


def test_bytes_that_are_no_text_become_visible(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"a\xffb")
    assert read_guidance(tmp_path).endswith("a\ufffdb")


def test_a_link_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rules.md").write_text("Use tabs.")
    (tmp_path / "AGENTS.md").symlink_to("docs/rules.md")
    assert read_guidance(tmp_path).endswith("Use tabs.")


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("outside", "it leads out of the working directory"),
        ("nowhere", "No such file or directory"),
        ("folder", "it is not a file"),
        ("pipe", "it is not a file"),
        ("itself", "Too many levels of symbolic links"),
    ],
)
def test_what_is_no_file_of_the_working_directory_is_an_error(tmp_path: Path, kind: str, problem: str) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    (tmp_path / "secret").write_text("secret")
    path = workspace / "AGENTS.md"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.symlink_to({"outside": "../secret", "nowhere": "missing", "itself": "AGENTS.md"}[kind])
    with pytest.raises(WorkerError) as caught:
        read_guidance(workspace)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{path}:1:1: ")
    assert caught.value.exit_code is ExitCode.INVALID
