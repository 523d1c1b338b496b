"""The user's own settings: what an empty file means."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forge_cli.core.errors import WorkerError
from forge_cli.files.settings import Settings, load_settings


@pytest.mark.parametrize("text", ["", "\n", "  \n\n", "# nothing yet\n", "---\n# nothing\n...\n", "\ufeff", "#"])
def test_an_empty_file_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert load_settings(tmp_path) == Settings()


@pytest.mark.parametrize("text", ["[]", "# x\n- a\n", "text"])
def test_one_that_holds_something_else_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(WorkerError, match="the file must hold keys and values"):
        load_settings(tmp_path)


def test_one_that_may_not_be_read_is_not_passed_over(tmp_path: Path, another_user: None) -> None:
    with pytest.raises(WorkerError) as caught:
        load_settings(tmp_path / "locked")
    assert str(caught.value) == (
        f"{tmp_path}/locked/config.yaml:1:1: cannot be read: Permission denied\n"
        "  make it readable for you, or let FORGE_HOME name another folder"
    )


@pytest.fixture
def another_user(tmp_path: Path) -> Iterator[None]:
    """A folder that may not be entered, by somebody for whom that holds."""
    (tmp_path / "locked").mkdir(mode=0)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)
