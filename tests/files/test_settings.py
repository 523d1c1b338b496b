"""The user's own settings: what an empty file means."""

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
