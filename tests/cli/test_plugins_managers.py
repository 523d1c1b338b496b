"""Which program manages an environment: found out by what it left there.

Covers forge_cli.cli.plugins.managers.
"""

import sysconfig
from pathlib import Path

import pytest

from forge_cli.cli.plugins import managers
from forge_cli.cli.plugins.managers import Pip, Pipx, Uv, UvTool, Wanted, find_manager
from forge_cli.core.errors import ForgeError

WEB, FOLDER = (
    Wanted("forge-tools-web>=1", "forge-tools-web"),
    Wanted("/src/mine", "forge-tools-mine", Path("/src/mine")),
)
ADDRESS = Wanted("https://example.org/x.zip")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the PATH, with nothing in it yet."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def add(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch(mode=0o755)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    prefix = tmp_path / "forge-workers"
    prefix.mkdir()
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return prefix


BASE = Path("/usr")


def test_a_venv_with_pip(programs: Path, prefix: Path) -> None:
    add(programs, "uv", "pipx")
    found = find_manager(prefix, BASE, "/env/python")
    assert found == Pip("/env/python")
    pip = ["/env/python", "-m", "pip"]
    quiet = "--disable-pip-version-check"
    assert found.install(WEB, "c") == [*pip, "install", quiet, "--upgrade", "--constraint", "c", "forge-tools-web>=1"]
    assert found.uninstall("x", "c") == [*pip, "uninstall", quiet, "--yes", "x"]


def test_a_venv_of_uv(programs: Path, prefix: Path) -> None:
    add(programs, "uv")
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.1\n")
    found = find_manager(prefix, BASE, "/env/python")
    uv = str(programs / "uv")
    assert found == Uv(uv, "/env/python")
    start, end = [uv, "pip", "install", "--python", "/env/python"], ["--constraint", "c"]
    assert found.install(WEB, "c") == [*start, "--upgrade-package", "forge-tools-web", *end, "forge-tools-web>=1"]
    assert found.install(FOLDER, "c") == [*start, "--reinstall-package", "forge-tools-mine", *end, "/src/mine"]
    assert found.install(ADDRESS, "c") == [*start, *end, "https://example.org/x.zip"]
    assert found.uninstall("x", "c") == [uv, "pip", "uninstall", "--python", "/env/python", "x"]


def test_a_venv_of_uv_without_uv(programs: Path, prefix: Path) -> None:
    (prefix / "pyvenv.cfg").write_text("uv = 0.9.1\n")
    assert find_manager(prefix, BASE, "/env/python") == Pip("/env/python")


def test_a_venv_without_pip(programs: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers, "find_spec", lambda name: None)
    with pytest.raises(ForgeError) as caught:
        find_manager(prefix, BASE, "/env/python")
    assert (caught.value.message, caught.value.hint) == (
        f"there is neither pip nor uv for {prefix}",
        "try '/env/python -m ensurepip'",
    )
    add(programs, "uv")
    assert isinstance(find_manager(prefix, BASE, "/env/python"), Uv)


def test_pipx(programs: Path, prefix: Path) -> None:
    (prefix / "pipx_metadata.json").write_text("{}")
    with pytest.raises(ForgeError, match="this environment is managed by pipx, which is not on the PATH"):
        find_manager(prefix, BASE, "/env/python")
    add(programs, "uv", "pipx")
    found, pipx = find_manager(prefix, BASE, "/env/python"), str(programs / "pipx")
    assert found == Pipx(pipx, "forge-workers")
    told = ["inject", "--force", "--pip-args=--constraint=c", "forge-workers", "forge-tools-web>=1"]
    assert found.install(WEB, "c") == [pipx, *told]
    assert found.uninstall("x", "c") == [pipx, "uninject", "forge-workers", "x"]


RECEIPT = """
[tool]
python = "3.12"
requirements = [
    { name = "forge-workers", extras = ["a", "b"], specifier = ">=0.1" },
    { name = "forge-tools-web" },
    { name = "forge-tools-git", editable = "/src/git" },
    { name = "forge-tools-sky", git = "https://example.org/sky?rev=1" },
    { name = "forge-tools-sea", url = "https://example.org/sea.zip" },
    { name = "forge-tools-mine", directory = "/src/mine" },
]
"""


def test_uv_tool_makes_the_environment_again_from_its_list(programs: Path, prefix: Path) -> None:
    add(programs, "uv")
    (prefix / "uv-receipt.toml").write_text(RECEIPT)
    found, uv = find_manager(prefix, BASE, "/env/python"), str(programs / "uv")
    assert isinstance(found, UvTool)
    start = [uv, "tool", "install", "--python", "3.12", "--constraints", "c"]
    others = [
        *("--with-editable", "/src/git"),
        *("--with", "forge-tools-sky @ git+https://example.org/sky?rev=1"),
        *("--with", "forge-tools-sea @ https://example.org/sea.zip"),
    ]
    mine = ["--with", "/src/mine"]
    forge = "forge-workers[a,b]>=0.1"
    upgraded = ["--upgrade-package", "forge-tools-web"]
    assert found.install(WEB, "c") == [*start, *upgraded, *others, *mine, "--with", "forge-tools-web>=1", forge]
    assert found.uninstall("Forge_Tools_Mine", "c") == [*start, "--with", "forge-tools-web", *others, forge]
    (prefix / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "forge-workers", editable = "/src/forge" }]\n'
    )
    found = find_manager(prefix, BASE, "/env/python")
    assert found.uninstall("x", "c") == [uv, "tool", "install", "--constraints", "c", "--editable", "/src/forge"]


def test_a_python_of_the_operating_system_is_left_alone(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(programs, "uv")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert find_manager(BASE, BASE, "/usr/bin/python3") == Pip("/usr/bin/python3")
    (tmp_path / "EXTERNALLY-MANAGED").write_text("[externally-managed]\n")
    with pytest.raises(ForgeError) as caught:
        find_manager(BASE, BASE, "/usr/bin/python3")
    assert (
        caught.value.message == "this Python (/usr) belongs to the operating system, and nothing is installed into it"
    )
    assert "uv tool install forge-workers" in (caught.value.hint or "")
