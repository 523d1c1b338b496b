"""``forge plugins install`` and ``uninstall`` if ``uv tool`` or ``pipx`` installed forge, with the real tools.

Covers forge_cli.cli.plugins.install.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from forge_cli import __version__

REPOSITORY = Path(__file__).parents[3]
TOOLSETS = "forge-tools-words  0.1.0    toolset words\n"


@dataclass(frozen=True)
class Managed:
    """A forge that a manager has installed; the folders of the manager are not in its environment."""

    folder: Path
    env: Mapping[str, str]

    def forge(self, *argv: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.folder / "bin" / "forge"), *argv]
        return subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=600
        )


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with uv and pipx, fresh from the index."""
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "-q", "uv", "pipx"], check=True, timeout=600)
    return folder / "bin"


def run(env: Mapping[str, str], *argv: str) -> None:
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=["uv tool", "pipx"])
def managed(request: pytest.FixtureRequest, programs: Path, tmp_path: Path) -> Managed:
    outer = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("UV_", "PIPX_", "PYTHON", "FORGE_"))
    }
    outer |= {"PATH": f"{programs}:{outer['PATH']}", "FORGE_HOME": str(tmp_path / "home")}
    folders = {
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
    }
    run(outer | folders, *request.param.split(), "install", str(REPOSITORY))
    return Managed(tmp_path, outer)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_plugin_can_be_installed_and_uninstalled(managed: Managed) -> None:
    assert managed.forge("plugins", "new", "words").returncode == 0
    for _ in range(2):  # the second time it is brought up to date
        done = managed.forge("plugins", "install", "./forge-tools-words")
        assert (done.returncode, done.stdout) == (
            0,
            "installed forge-tools-words 0.1.0: toolset words\n",
        ), done.stderr
        assert "manages this environment, and undoes this" in done.stderr
        assert managed.forge("plugins", "list").stdout.endswith(TOOLSETS)
    assert managed.forge("plugins", "check", "forge-tools-words").returncode == 0
    pyproject = managed.folder / "forge-tools-words" / "pyproject.toml"
    pyproject.write_text(
        pyproject.read_text().replace(f"forge-workers>={__version__}", "forge-workers>=9")
    )
    refused = managed.forge("plugins", "install", "./forge-tools-words")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "forge: installing failed with exit code 1; the reason is above" in refused.stderr
    assert managed.forge("plugins", "list").stdout.endswith(TOOLSETS)
    assert managed.forge("plugins", "install", "forge-workers").returncode == 2
    done = managed.forge("plugins", "uninstall", "forge-tools-words")
    assert (done.returncode, done.stdout) == (0, "uninstalled forge-tools-words\n"), done.stderr
    assert "forge-tools-words" not in managed.forge("plugins", "list").stdout
