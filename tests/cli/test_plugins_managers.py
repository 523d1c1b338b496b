"""Which program manages an environment: found out by what it left there.

Covers forge_cli.cli.plugins.managers.
"""

import os
import re
import sysconfig
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from forge_cli import __version__
from forge_cli.cli.plugins import managers
from forge_cli.cli.plugins.managers import Pip, Pipx, Uv, UvTool, Wanted, find_manager
from forge_cli.cli.plugins.packages import change
from forge_cli.core.errors import ForgeError

WEB, FOLDER = (
    Wanted("forge-tools-web>=1", "forge-tools-web"),
    Wanted("/src/mine", "forge-tools-mine", Path("/src/mine")),
)
ADDRESS = Wanted("https://example.org/x.zip")
C = Path("c")
"""Where the constraints are."""


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
    upgrade = ["--upgrade", "--constraint", "c/constraints.txt"]
    assert found.install(WEB, C) == [[*pip, "install", quiet, *upgrade, "forge-tools-web>=1"]]
    assert found.uninstall("x", C) == [[*pip, "uninstall", quiet, "--yes", "x"]]


def test_a_venv_of_uv(programs: Path, prefix: Path) -> None:
    add(programs, "uv")
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.1\n")
    found = find_manager(prefix, BASE, "/env/python")
    uv = str(programs / "uv")
    assert found == Uv(uv, "/env/python")
    start, end = [uv, "pip", "install", "--python", "/env/python"], ["--constraint", "c/constraints.txt"]
    assert found.install(WEB, C) == [[*start, "--upgrade-package", "forge-tools-web", *end, "forge-tools-web>=1"]]
    assert found.install(FOLDER, C) == [[*start, "--reinstall-package", "forge-tools-mine", *end, "/src/mine"]]
    assert found.install(ADDRESS, C) == [[*start, *end, "https://example.org/x.zip"]]
    assert found.uninstall("x", C) == [[uv, "pip", "uninstall", "--python", "/env/python", "x"]]


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
    assert found == Pipx(pipx, prefix)
    assert found.install(WEB, C) == [[pipx, "inject", "forge-workers", "forge-tools-web>=1"]]
    assert found.uninstall("x", C) == [[pipx, "uninject", "forge-workers", "x"]]
    constraints = {"PIP_CONSTRAINT": "c/constraints.txt", "UV_CONSTRAINT": "c/constraints.txt"}
    assert found.environment(C) == {"PIPX_HOME": str(prefix.parent.parent), **constraints}


def test_pipx_replaces_what_is_there_only_if_that_can_be(programs: Path, prefix: Path) -> None:
    (prefix / "pipx_metadata.json").write_text('{"injected_packages": {"forge-tools-web": {}, "other": {}}}')
    add(programs, "pipx")
    found, pipx = find_manager(prefix, BASE, "/env/python"), str(programs / "pipx")
    assert found.install(WEB, C) == [
        [pipx, "runpip", "forge-workers", "install", "--dry-run", "forge-tools-web>=1"],
        [pipx, "uninject", "forge-workers", "forge-tools-web"],
        [pipx, "inject", "forge-workers", "forge-tools-web>=1"],
    ]


RECEIPT = """
[tool]
python = "3.12"
requirements = [
    { name = "forge-workers", extras = ["a", "b"], specifier = ">=0.1" },
    { name = "forge-tools-web" },
    { name = "forge-tools-git", editable = "/src/git" },
    { name = "forge-tools-sky", git = "https://example.org/sky?rev=1" },
    { name = "forge-tools-sub", git = "ssh://git@example.org/sub?subdirectory=a%2Fb#abc" },
    { name = "forge-tools-sea", url = "https://example.org/sea.zip" },
    { name = "forge-tools-run", marker = "python_version > '3'" },
    { name = "forge-tools-mine", directory = "/src/mine" },
]
entrypoints = [
    { name = "forge", install-path = "/home/me/bin/forge", from = "forge-workers" },
    { name = "run", install-path = "/home/me/bin/run", from = "forge-tools-run" },
]
"""
SETTINGS = """
[tool]
requirements = [{ name = "forge-workers" }, { name = "b" }]
constraints = [{ name = "six", specifier = "<2" }, { name = "seven", specifier = "==7" }]
overrides = [{ name = "six", specifier = "<2" }]

[tool.options]
prerelease = "allow"

[tool.options.pip]
strict = true
"""
KEEPS_FORGE = ("--constraint", "c/constraints.txt")


def test_uv_tool_makes_the_environment_again_from_its_receipt(programs: Path, prefix: Path) -> None:
    add(programs, "uv")
    (prefix / "uv-receipt.toml").write_text(RECEIPT)
    found, uv = find_manager(prefix, BASE, "/env/python"), str(programs / "uv")
    assert isinstance(found, UvTool)
    assert found.environment(C) == {"UV_TOOL_DIR": str(prefix.parent), "UV_TOOL_BIN_DIR": "/home/me/bin"}
    start = [uv, "tool", "install", "--python", "3.12"]
    others = [
        *("--with-editable", "/src/git"),
        *("--with", "forge-tools-sky @ git+https://example.org/sky@1"),
        *("--with", "forge-tools-sub @ git+ssh://git@example.org/sub#subdirectory=a/b"),
        *("--with", "forge-tools-sea @ https://example.org/sea.zip"),
        *("--with-executables-from", "forge-tools-run ; python_version > '3'"),
    ]
    mine = ["--with", "/src/mine"]
    forge = "forge-workers[a,b]>=0.1"
    upgraded = ["--upgrade-package", "forge-tools-web"]
    assert found.install(WEB, C) == [
        [uv, "pip", "install", *("--dry-run", "--python", "/env/python"), *KEEPS_FORGE, "forge-tools-web>=1"],
        [*start, *upgraded, *others, *mine, "--with", "forge-tools-web>=1", forge],
    ]
    assert found.uninstall("Forge_Tools_Mine", C) == [[*start, "--with", "forge-tools-web", *others, forge]]
    (prefix / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "forge-workers", editable = "/src/forge" }]\n'
    )
    found = find_manager(prefix, BASE, "/env/python")
    assert found.uninstall("x", C) == [[uv, "tool", "install", "--editable", "/src/forge"]]


def test_uv_tool_keeps_the_settings_of_the_environment(programs: Path, prefix: Path, tmp_path: Path) -> None:
    add(programs, "uv")
    (prefix / "uv-receipt.toml").write_text(SETTINGS)
    found, uv = find_manager(prefix, BASE, "/env/python"), str(programs / "uv")
    settings = ["--config-file", str(tmp_path / "uv.toml")]
    kept = [part for key in ("constraints", "overrides") for part in (f"--{key}", str(tmp_path / f"kept-{key}.txt"))]
    forge = ["--with", "b", "forge-workers"]
    assert found.uninstall("x", tmp_path) == [[uv, "tool", "install", *settings, *kept, *forge]]
    assert (tmp_path / "kept-constraints.txt").read_text() == "six<2\nseven==7\n"
    assert tomllib.loads((tmp_path / "uv.toml").read_text()) == {"prerelease": "allow", "pip": {"strict": True}}


def test_what_is_run_is_said_with_what_it_needs(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAME", "same")
    monkeypatch.setenv("PATH", os.defpath)

    class Shell(Pip):
        def environment(self, scratch: Path) -> Mapping[str, str]:
            return {"SAME": "same", "PLACE": str(scratch)}

    commands = [["sh", "-c", 'cat "$PLACE/constraints.txt"'], ["sh", "-c", "exit 3"], ["sh", "-c", "echo never"]]
    with pytest.raises(ForgeError, match="pip failed with exit code 3; what it says is above"):
        change(Shell("python"), lambda scratch: commands)
    shown = re.sub(r"PLACE=\S+", "PLACE=...", capfd.readouterr().err)
    assert shown == (
        "pip manages this environment: PLACE=... sh -c 'cat \"$PLACE/constraints.txt\"'\n"
        f"forge-workers=={__version__}\n"
        "pip manages this environment: PLACE=... sh -c 'exit 3'\n"
    )


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
