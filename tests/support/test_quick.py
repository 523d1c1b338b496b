"""The choice of tests for a change: tests that cover, surround or import it, if they are few."""

import subprocess
from pathlib import Path

import pytest

from tests.support.quick import (
    ALWAYS,
    DOCUMENT,
    MANY_IMPORTERS,
    MANY_IN_FOLDER,
    Quick,
    changed_files,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Return a small repository with the folders of this one."""
    files = {
        "forge_cli/core/text.py": "",
        "forge_cli/record/log.py": "",
        "forge_cli/shell/rules.py": "",
        "forge_cli/shell/data/git.yaml": "",
        "plugins/forge-tools-x/src/x.py": "",
        "plugins/forge-tools-x/tests/test_x.py": "",
        "tests/core/test_text.py": "",
        "tests/core/test_bus.py": "from forge_cli.record import log",
        "tests/record/test_log.py": "from forge_cli.core.text import cut\nfrom tests.support.rows import each_row",
        "tests/cli/test_show.py": '"""Covers forge_cli.record.log."""\nfrom .helper import x',
        "tests/cli/helper.py": "",
        "tests/shell/test_git.py": '"""Covers forge_cli.shell.rules."""',
        "tests/support/rows.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


CHOICES = {
    "forge_cli/core/text.py": [
        "tests/core/test_bus.py",
        "tests/core/test_text.py",
        "tests/record/test_log.py",
    ],
    "forge_cli/record/log.py": [
        "tests/cli/test_show.py",
        "tests/core/test_bus.py",
        "tests/record/test_log.py",
    ],
    "forge_cli/core/gone.py": ["tests/core/test_bus.py", "tests/core/test_text.py"],
    "forge_cli/new/room.py": [],
    "forge_cli/__init__.py": [],
    "forge_cli/shell/data/git.yaml": ["tests/shell/test_git.py"],
    "tests/core/test_bus.py": ["tests/core/test_bus.py"],
    "tests/core/test_gone.py": [],
    "tests/core/conftest.py": ["tests/core/test_bus.py", "tests/core/test_text.py"],
    "tests/support/rows.py": ["tests/record/test_log.py"],
    "tests/cli/helper.py": ["tests/cli/test_show.py"],
    "plugins/forge-tools-x/src/x.py": ["plugins/forge-tools-x/tests"],
    "docs/tools.md": [f"{DOCUMENT}[docs/tools.md]"],
    "docs/screens/make.py": [],
    "pyproject.toml": ["tests/test_dependencies.py"],
    "LICENSE": [],
}


@pytest.mark.parametrize("changed", CHOICES)
def test_change_selects_its_tests(house: Path, changed: str) -> None:
    choice = Quick(house).choose([changed])
    assert choice.tests == (*ALWAYS, *CHOICES[changed])
    assert choice.left_out == ()


def test_many_changes_select_all_their_tests_once(house: Path) -> None:
    choice = Quick(house).choose(
        ["forge_cli/core/text.py", "forge_cli/record/log.py", "tests/core/test_bus.py"]
    )
    both = {*CHOICES["forge_cli/core/text.py"], *CHOICES["forge_cli/record/log.py"]}
    assert choice.tests == (*ALWAYS, *sorted(both))


def test_folder_with_many_files_is_left_out_and_named(house: Path) -> None:
    for number in range(MANY_IN_FOLDER):
        (house / f"tests/record/test_{number}.py").write_text("")
    choice = Quick(house).choose(["forge_cli/record/log.py"])
    assert choice.tests == (*ALWAYS, *CHOICES["forge_cli/record/log.py"])
    assert choice.left_out == ("tests/record",)


def test_module_that_many_files_import_does_not_run_them_all(house: Path) -> None:
    for number in range(MANY_IMPORTERS):
        (house / f"tests/cli/test_{number}.py").write_text("from forge_cli.core import text")
    choice = Quick(house).choose(["forge_cli/core/text.py"])
    assert choice.tests == (*ALWAYS, *CHOICES["forge_cli/core/gone.py"])
    assert choice.left_out == (f"{MANY_IMPORTERS + 1} files that import forge_cli.core.text",)


def test_files_that_differ_from_main_are_changed(house: Path) -> None:
    def git(*words: str) -> None:
        named = [
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "commit.gpgsign=false",
        ]
        subprocess.run(
            ["git", *named, *words], cwd=house, check=True, capture_output=True, timeout=60
        )

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "Begin")
    assert changed_files(house) == []
    (house / "tests/core/test_new.py").write_text("")
    assert changed_files(house) == ["tests/core/test_new.py"]
    git("switch", "-q", "-c", "branch")
    (house / "forge_cli/core/text.py").write_text("x = 1")
    git("commit", "-q", "-a", "-m", "Change")
    git("mv", "forge_cli/record/log.py", "forge_cli/record/logs.py")
    moved = ["forge_cli/record/log.py", "forge_cli/record/logs.py"]
    assert changed_files(house) == ["forge_cli/core/text.py", *moved, "tests/core/test_new.py"]
    assert changed_files(house, "branch") == [*moved, "tests/core/test_new.py"]
    git("branch", "-D", "main")
    assert changed_files(house) == [*moved, "tests/core/test_new.py"]


def test_rules_that_always_run_exist() -> None:
    assert [each for each in ALWAYS if not (ROOT / each.partition("::")[0]).is_file()] == []
    name = ALWAYS[-1].partition("::")[2]
    assert f"def {name}(" in (ROOT / "tests/test_startup.py").read_text()
    assert f"def {DOCUMENT.partition('::')[2]}(" in (ROOT / "tests/test_docs.py").read_text()
