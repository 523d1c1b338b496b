"""Missing requirements of a machine: skipped with one line that names the package, or a failure if ``CI`` is set."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STORIES = """
import pytest

@pytest.mark.needs("go")
def test_a(): assert False, "it ran"

@pytest.mark.parametrize("engine", [pytest.param("rg", marks=pytest.mark.needs("rg")), "own"])
def test_b(engine): assert engine == "own"

@pytest.fixture
def go(need): need("go")

def test_c(go): assert False, "it ran"

@pytest.mark.needs("user")
def test_d(): pass

def test_e(unconfined): assert unconfined.startswith("warning: commands: ")
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run the stories on a machine on which nothing is installed; returns the exit code and the last lines."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_stories.py").write_text(STORIES)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers = needs\naddopts = -ra -p no:cacheprovider\n"
    )

    def run(**env: str) -> tuple[int, list[str]]:
        command = [sys.executable, "-m", "pytest", "-q", "--no-header"]
        given = {**os.environ, "PATH": str(tmp_path / "nothing"), **env}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=given,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout.partition("short test summary info")[2].splitlines()[1:]

    return run


@pytest.mark.long
def test_each_package_is_one_line_followed_by_a_summary(run) -> None:
    code, lines = run()
    assert (code, [line for line in lines if "needs user" not in line][:-1]) == (
        0,
        [
            "SKIPPED [2] conftest.py:1: needs go: install golang-go",
            "SKIPPED [1] conftest.py:1: needs rg: install ripgrep",
            "skipped 3 tests: install golang-go, ripgrep to run them all",
        ],
    )


@pytest.mark.long
def test_ci_fails_for_missing_packages_that_can_be_installed(run) -> None:
    code, lines = run(CI="true")
    assert code == 1
    assert [line.partition(" - ")[2] for line in lines if line.startswith("ERROR")] == [
        "Failed: needs go: install golang-go (CI is set)",
        "Failed: needs rg: install ripgrep (CI is set)",
        "Failed: needs go: install golang-go (CI is set)",
    ]
    assert [line for line in lines if line.startswith("SKIPPED") and "needs user" not in line] == []
