"""A toolset that makes its folder when it is opened can be looked at, or the sentence says that it was a look."""

from pathlib import Path

import pytest

from forge_cli.testing import Project

PLUGIN = '''
from pathlib import Path
from typing import Self
from forge_cli import Toolset, ToolsetConfig, Zone, hookimpl, tool
from forge_cli.hooks import ZoneMode

class KeeperConfig(ToolsetConfig):
    place: str = "kept"
    "The folder."
    declares: bool = True
    "Whether it is a zone."

class Keeper(Toolset[KeeperConfig]):
    name = "keeper"

    @classmethod
    def zones_for(cls, config, places):
        folder = places.workspace / Path(config.place).expanduser()
        return [Zone("kept", folder, ZoneMode.RW)] if config.declares else []

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        folder = self.env.workspace / Path(self.config.place).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        self.env.data.joinpath("log").write_text("opened")
        self.found = sorted(each.name for each in folder.iterdir())
        return self

    async def tools(self):
        return [each for each in await super().tools() if self.found == [] or each.name != "keep"]

    @tool
    def keep(self, text: str) -> str:
        """Keep a text.

        Args:
            text: what to keep
        """
        return text

    @tool
    def take(self) -> str:
        "Take a text."
        return ""

@hookimpl
def forge_toolsets():
    return [Keeper]
'''
pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture
def keeper(install, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.syspath_prepend(
        str(install("forge-tools-keeper", "keeper_module", PLUGIN, "keeper = keeper_module"))
    )
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-tools-keeper")
    home = tmp_path / "person"
    home.joinpath(".forge").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FORGE_HOME", str(home / ".forge"))
    project.write("worker.yaml", "name: w\ntoolsets: {keeper: {}}\n")
    return project


LOOKS = [
    ["worker", "check", "worker.yaml"],
    ["worker", "show", "worker.yaml"],
    ["tools", "list", "worker.yaml"],
    ["tools", "show", "keep", "--worker", "worker.yaml"],
    ["approve", "worker.yaml", "keep", "text=x"],
    ["tools", "list"],
    ["plugins", "check", "forge-tools-keeper"],
]


@pytest.mark.long
@pytest.mark.parametrize("words", LOOKS, ids=lambda words: " ".join(words[:2]))
def test_inspection_works_before_the_first_run(cli, keeper: Project, words: list[str]) -> None:
    done = cli(*words)
    assert (done.code, done.err) == (0, ""), done.out
    assert "Read-only" not in done.out


@pytest.mark.long
@pytest.mark.parametrize("place", ["kept", "a/b/kept", "~/kept", "~/.forge/kept"])
def test_zone_folder_is_created_before_inspection_and_its_files_are_visible(
    cli, keeper: Project, place: str
) -> None:
    keeper.write("worker.yaml", f"name: w\ntoolsets: {{keeper: {{place: {place}}}}}\n")
    folder = keeper.folder / Path(place).expanduser()
    done = cli("worker", "check", "worker.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("worker.yaml: ok (worker 'w', toolsets: 1, tools: 2)")
    assert list(folder.iterdir()) == []
    folder.joinpath("text").write_text("x")
    assert cli("worker", "check", "worker.yaml").out.startswith(
        "worker.yaml: ok (worker 'w', toolsets: 1, tools: 1)"
    )
    assert not Path("~/.forge/data").expanduser().exists()


def test_zone_of_the_worker_file_is_sufficient(cli, keeper: Project) -> None:
    zones = "sandbox: {zones: [{name: kept, mode: rw}]}\n"
    keeper.write("worker.yaml", f"name: w\n{zones}toolsets: {{keeper: {{declares: false}}}}\n")
    assert cli("worker", "check", "worker.yaml").code == 0
    assert keeper.folder.joinpath("kept").is_dir()


@pytest.mark.long
def test_write_without_a_zone_is_explained_as_read_only_inspection(cli, keeper: Project) -> None:
    keeper.write("worker.yaml", "name: w\ntoolsets: {keeper: {declares: false}}\n")
    for words in LOOKS[:5]:
        done = cli(*words)
        assert done.code == 3
        assert "toolsets.keeper (forge-tools-keeper 1.2): it cannot start: OSError: " in done.err
        assert done.err.endswith(
            "(an inspection is read-only, without network and with little of the home: do this when a tool is first called)\n"
        )
    assert not keeper.folder.joinpath("kept").exists()


def test_zones_are_unchanged_if_all_toolsets_are_built_in(cli, project: Project) -> None:
    project.write("tools.py", "def hi() -> str:\n    'Hi.'\n    return ''\n")
    zones = "sandbox: {zones: [{name: kept, mode: rw}]}\n"
    project.write(
        "worker.yaml",
        f"name: w\n{zones}toolsets: {{custom: {{module: ./tools.py, tools: [hi]}}}}\n",
    )
    assert cli("worker", "check", "worker.yaml").code == 0
    assert not project.folder.joinpath("kept").exists()
