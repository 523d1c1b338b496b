"""What was last approved: kept once a change, read again whatever happened to it, and gone with its tool."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.testing import Project
from forge_cli.toolsets.executables.approved import TEXT_LIMIT, Approved, read_files
from forge_cli.toolsets.executables.registry import Program, Registry

WriteTool = Callable[..., Path]


def look(project: Project, name: str = "greet") -> Program:
    found = Registry(project.home / "tools").look(name)
    assert found is not None
    return found


def text(approved: Approved, file: str = "greet.sh") -> str | None:
    last = approved.last("greet")
    assert last is not None
    return last.files[file].text


def test_the_last_one_counts(project: Project, write_tool: WriteTool) -> None:
    approved = Approved(project.home)
    assert approved.last("greet") is None
    for source in ("echo one", "echo two", "echo one"):
        write_tool("greet", source)
        approved.keep(look(project))
        assert text(approved) == source
        assert len(list((project.home / "approved" / "greet").iterdir())) == 1
    approved.forget("greet")
    assert approved.last("greet") is None
    approved.forget("greet")


def test_what_did_not_change_is_not_written_again(project: Project, write_tool: WriteTool) -> None:
    approved = Approved(project.home)
    write_tool("greet", "echo one")
    approved.keep(look(project))
    [file] = (project.home / "approved" / "greet").iterdir()
    os.utime(file, (0, 0))
    before, inode = approved.last("greet"), file.stat().st_ino
    approved.keep(look(project))
    after = approved.last("greet")
    assert file.stat().st_ino == inode
    assert before is not None
    assert after is not None
    assert before.files == after.files
    assert before.at.year == 1970 or before.at.year == 1969
    assert after.at.year > 2000


def test_what_changed_after_it_was_judged_is_not_kept(project: Project, write_tool: WriteTool) -> None:
    approved = Approved(project.home)
    write_tool("greet", "echo one")
    judged = look(project)
    write_tool("greet", "echo two")
    approved.keep(judged)
    assert approved.last("greet") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": 1}', b'{"a": {}}', b"\xff"])
def test_a_file_that_nobody_can_read_is_as_good_as_none(
    project: Project, write_tool: WriteTool, content: bytes
) -> None:
    approved = Approved(project.home)
    write_tool("greet", "echo one")
    approved.keep(look(project))
    [file] = (project.home / "approved" / "greet").iterdir()
    file.write_bytes(content)
    assert approved.last("greet") is None


def test_a_home_that_cannot_be_written_is_no_failure(project: Project, write_tool: WriteTool) -> None:
    write_tool("greet", "echo one")
    (project.home / "approved").write_text("in the way")
    approved = Approved(project.home)
    approved.keep(look(project))
    assert approved.last("greet") is None


def test_of_what_is_long_or_no_text_the_hash_is_kept(project: Project, write_tool: WriteTool) -> None:
    folder = write_tool("greet", "echo one")
    (folder / "a-long.txt").write_text("x" * (TEXT_LIMIT + 1))
    (folder / "b-binary").write_bytes(b"\xff\xfe")
    (folder / "c-zero").write_bytes(b"a\0b")
    files = read_files(folder, ["a-long.txt", "b-binary", "c-zero", "greet.sh"])
    assert {name: file.text for name, file in files.items()} == {
        "a-long.txt": None,
        "b-binary": None,
        "c-zero": None,
        "greet.sh": "echo one",
    }
    assert [file.size for file in files.values()] == [TEXT_LIMIT + 1, 2, 3, 8]
    assert len({file.hash for file in files.values()}) == 4
