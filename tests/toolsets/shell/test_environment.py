"""Doubts about lines that another program runs: its environment, and a folder that git obeys."""

from pathlib import Path

import pytest

from forge_cli.toolsets.shell.environment import (
    BARE_REPOSITORY,
    SHOWS_ENVIRONMENT,
    doubt_elsewhere,
)


@pytest.mark.parametrize(
    "line",
    [
        *("env", "timeout 5 env", "printenv", "printenv HOME API_KEY", "en\\v | sort"),
        *("echo $ANTHROPIC_API_KEY", "jq -n env", "awk 'BEGIN{print ENVIRON[\"X\"]}'"),
    ],
)
def test_line_that_may_print_the_environment_asks(line: str, tmp_path: Path) -> None:
    assert doubt_elsewhere(line, tmp_path) == SHOWS_ENVIRONMENT


@pytest.mark.parametrize("line", ["echo $HOME", "awk '{print $NF}' a", "grep -rn env src"])
def test_line_that_does_not_print_the_environment_does_not_ask(line: str, tmp_path: Path) -> None:
    assert doubt_elsewhere(line, tmp_path) is None


def test_folder_that_git_takes_for_a_repository_asks(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    (tmp_path / "refs").mkdir()
    assert doubt_elsewhere("git status", tmp_path) is None
    assert doubt_elsewhere("echo x > HEAD; git status", tmp_path) == BARE_REPOSITORY
    (tmp_path / "HEAD").write_text("x")
    assert doubt_elsewhere("git status", tmp_path) == BARE_REPOSITORY
