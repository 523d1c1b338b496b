"""Options of several commands: their meaning, and refused values.

Covers forge_cli.files.places.
"""

import json
from pathlib import Path

import pytest

from forge_cli.core.errors import UsageError
from forge_cli.testing import Project
from forge_cli.ui.terminal.slash import json_object
from tests.support.rows import each_row


@each_row(
    ("text", "problem"),
    [("[1]", "must be a JSON object"), ("{a", "is not JSON"), ("[" * 10**5, "is not JSON")],
)
def test_json_input_must_be_an_object(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        json_object(text)


@pytest.fixture
def adding(tester: Project, tmp_path: Path) -> Path:
    """A folder outside of the project, and a worker that reads and writes in it."""
    folder = tmp_path / "Other Docs"
    folder.mkdir()
    (folder / "a.txt").write_text("from outside\n")
    tester.write("plain.yaml", "name: plain\nmodel: script:s.yaml\ntoolsets: {filesystem: {}}\n")
    tester.write(
        "s.yaml",
        "turns:\n"
        "  - calls: [{tool: read_file, input: {path: /other-docs/a.txt}}, "
        "{tool: read_file, input: {path: script.yaml}}, "
        "{tool: write_file, input: {path: /other-docs/b.txt, content: x}}]\n"
        "  - text: '{results[0]}|{results[2]}'\n",
    )
    return folder


def test_folder_can_be_added_as_a_zone(cli, tester: Project, adding: Path) -> None:
    done = cli(
        "run", "plain.yaml", "Go.", "-p", "-y", "--add-dir", str(adding), "--output-format", "json"
    )
    assert done.code == 0
    found = json.loads(done.out)
    assert "from outside" in found["response"]
    assert found["denials"] == []
    assert (adding / "b.txt").read_text() == "x"


def test_writing_asks_in_an_added_folder(cli, adding: Path) -> None:
    done = cli(
        "run", "plain.yaml", "Go.", "-p", "--add-dir", str(adding), "--output-format", "json"
    )
    assert [denial["tool"] for denial in json.loads(done.out)["denials"]] == ["write_file"]
    assert not (adding / "b.txt").exists()


def test_folder_can_be_added_read_only(cli, adding: Path) -> None:
    done = cli("run", "plain.yaml", "Go.", "-p", "-y", "--add-dir", f"{adding}:ro")
    assert "from outside" in done.out
    assert "read-only" in done.out
    assert not (adding / "b.txt").exists()


def test_folder_without_add_dir_is_out_of_reach(cli, adding: Path) -> None:
    assert "from outside" not in cli("run", "plain.yaml", "Go.", "-p", "-y").out


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing", "there is no such folder"),
        ("elsewhere/notes", "zone 'notes' is declared twice"),
        ("src", "are the same folder"),
        ("123", "not a valid name for a zone"),
        ("/", "not a valid name for a zone"),
    ],
)
def test_invalid_folder_to_add_is_a_usage_error(
    cli, tester: Project, name: str, problem: str
) -> None:
    for folder in ("elsewhere/notes", "123", "other"):
        (tester.folder / folder).mkdir(parents=True)
    if name == "src":
        (tester.folder / "source").symlink_to(tester.folder / "src")
        name = "source"
        tester.write(
            "worker.yaml",
            (tester.folder / "worker.yaml")
            .read_text()
            .replace("name: src", "name: srx, path: ./src"),
        )
    done = cli("run", "worker.yaml", "Go.", "-p", "--add-dir", name)
    assert done.code == 2
    assert problem in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["undo", ""],
        ["trust", "", "--revoke"],
        ["config", "show", "-C", ""],
        ["run", "worker.yaml", "x", "-C", ""],
        ["run", "worker.yaml", "x", "--add-dir", "src", "--add-dir="],
        ["run", "worker.yaml", "x", "-r", ""],
        ["test", ""],
        ["tools", "show", "read_file", "--worker", ""],
        ["worker", "new", "tidy", "--toolsets", ""],
        ["sessions", "search", ""],
        ["approvals", "suggest", "--since", ""],
    ],
)
def test_empty_option_value_is_a_usage_error(cli, tester: Project, words: list[str]) -> None:
    """A variable of a script that is not set must not turn `forge undo "$SESSION"` into another command."""
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert "forge: Invalid value for " in done.err
    assert done.err.endswith(": it is empty\n")


def test_empty_value_of_a_called_tool_is_a_usage_error(cli, tester: Project) -> None:
    for words in (
        ["-C", ""],
        ["--cd="],
        ["--worker", ""],
        ["--json-input", ""],
        ["--approval-mode="],
    ):
        done = cli("tools", "call", "list_files", *words)
        option = words[0].rstrip("=")
        assert (done.code, done.out, done.err) == (2, "", f"forge: {option} needs a value\n")
