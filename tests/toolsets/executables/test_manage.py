"""The programs of one home, managed without a worker and without a look at anybody's environment."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from forge_cli.core.errors import ForgeError, ToolError, UsageError, WorkerError
from forge_cli.testing import Project
from forge_cli.toolsets.executables.approved import Approved
from forge_cli.toolsets.executables.manage import ExecutableManager, temporary_copy

WriteTool = Callable[..., Path]


@pytest.fixture
def manager(project: Project, monkeypatch: pytest.MonkeyPatch) -> ExecutableManager:
    monkeypatch.setenv("FORGE_HOME", "/nowhere")
    return ExecutableManager(project.home)


def built(manager: ExecutableManager, name: str) -> str:
    async def build() -> str:
        with anyio.fail_after(60):
            return await manager.build(manager.find(name))

    return anyio.run(build)


def test_a_program_is_made_built_and_removed(manager: ExecutableManager) -> None:
    assert manager.names() == []
    folder = manager.make(manager.plan("greet", "Says hello", "sh"))
    assert (folder, manager.names()) == (manager.root / "greet", ["greet"])
    assert manager.find("greet").manifest.description == "Says hello"
    assert built(manager, "greet").startswith("greet.sh is sound for ")
    assert manager.remove("greet") is False
    assert manager.names() == []


def test_what_is_there_is_never_made_again(manager: ExecutableManager) -> None:
    manager.make(manager.plan("greet", language="sh"))
    with pytest.raises(ToolError, match="there is something at .*greet already"):
        manager.plan("greet")
    with pytest.raises(ToolError, match="is not a name for a tool"):
        manager.plan("../greet")


def test_a_broken_program_is_found_with_its_problem(manager: ExecutableManager, write_tool: WriteTool) -> None:
    write_tool("greet", "echo hello")
    (manager.root / "broken").mkdir()
    programs, problems = manager.scan()
    assert ([program.name for program in programs], list(problems)) == (["greet"], ["broken"])
    assert (manager.problem("greet"), manager.problem("nothing")) == (None, None)
    assert manager.problem("broken") == problems["broken"]
    with pytest.raises(WorkerError, match=r"broken: has no tool\.yaml"):
        manager.find("broken")


def test_a_name_that_is_not_there(manager: ExecutableManager, write_tool: WriteTool) -> None:
    with pytest.raises(UsageError) as alone:
        manager.folder("greet")
    write_tool("greet", "echo hello")
    with pytest.raises(UsageError) as near:
        manager.folder("gret")
    with pytest.raises(UsageError) as far:
        manager.folder("..")
    hints = ("forge tools new NAME makes one", "did you mean 'greet'?", "there are: greet")
    assert (alone.value.hint, near.value.hint, far.value.hint) == hints


def test_what_changed_since_it_was_approved(manager: ExecutableManager, write_tool: WriteTool) -> None:
    write_tool("greet", "echo one")
    assert manager.changes("greet") is None
    Approved(manager.home).keep(manager.find("greet"))
    unchanged = manager.changes("greet")
    assert unchanged is not None
    assert list(unchanged.files) == []
    (manager.root / "greet" / "greet.sh").write_text("echo two")
    (manager.root / "greet" / "notes").write_text("new")
    changed = manager.changes("greet")
    assert changed is not None
    texts = [(each.path, each.before and each.before.text, each.after and each.after.text) for each in changed.files]
    assert texts == [("greet.sh", "echo one", "echo two"), ("notes", None, "new")]


def test_a_link_is_removed_and_not_what_it_leads_to(
    manager: ExecutableManager, write_tool: WriteTool, tmp_path: Path
) -> None:
    write_tool("greet", "echo one").rename(tmp_path / "elsewhere")
    (manager.root / "greet").symlink_to(tmp_path / "elsewhere")
    assert manager.remove("greet") is True
    assert (tmp_path / "elsewhere" / "tool.yaml").exists()


def test_a_copy_is_managed_in_a_home_of_its_own(manager: ExecutableManager, write_tool: WriteTool) -> None:
    folder = write_tool("greet", "echo one")
    with temporary_copy(folder) as other:
        assert (other.names(), other.home == manager.home) == (["greet"], False)
        other.remove("greet")
    assert (manager.names(), other.root.exists()) == (["greet"], False)
    with pytest.raises(ForgeError, match="cannot be read"), temporary_copy(folder / "missing"):
        pass
