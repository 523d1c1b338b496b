"""The folder of tools as it is at any moment."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.testing import Project
from forge_cli.toolsets.executables.registry import Registry

WriteTool = Callable[..., Path]


@pytest.fixture
def registry(project: Project) -> Registry:
    return Registry(project.home / "tools")


def names(registry: Registry) -> list[str]:
    return [program.name for program in registry.scan()]


def long_ago(folder: Path) -> None:
    """Make the file look unchanged for an hour; only its ctime differs."""
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (1e9, 1e9))


def test_registry_follows_added_changed_and_removed_tools(
    registry: Registry, write_tool: WriteTool
) -> None:
    folder = write_tool("b", "echo 1")
    write_tool("a", "echo 2")
    first = registry.scan()
    assert [program.name for program in first] == ["a", "b"]
    (folder / "b.sh").write_text("echo 3")
    second = registry.scan()
    assert second[0] is first[0]
    assert second[1].digest != first[1].digest
    (folder / "tool.yaml").unlink()
    assert names(registry) == ["a"]
    assert "no tool.yaml;" in registry.problems["b"]


def test_edit_that_keeps_size_and_mtime_is_found(registry: Registry, write_tool: WriteTool) -> None:
    folder = write_tool("a", "echo 1")
    long_ago(folder)
    [before] = registry.scan()
    (folder / "a.sh").write_text("echo 2")
    long_ago(folder)
    [after] = registry.scan()
    assert after.digest != before.digest


def test_digest_covers_files_beside_the_source(registry: Registry, write_tool: WriteTool) -> None:
    folder = write_tool("a", ". ./lib/more.sh")
    (folder / "lib").mkdir()
    digests = [registry.scan()[0].digest]
    for content in ("echo 1", "echo 2"):
        (folder / "lib" / "more.sh").write_text(content)
        digests.append(registry.scan()[0].digest)
    assert len(set(digests)) == 3
    (folder / ".build").mkdir()
    (folder / ".build" / "x").write_text("made")
    assert registry.scan()[0].digest == digests[-1]


def test_hidden_folders_and_plain_files_are_not_tools(
    registry: Registry, write_tool: WriteTool
) -> None:
    folder = write_tool("a", "echo 1")
    (folder.parent / ".new-x").mkdir()
    (folder.parent / "README").write_text("mine")
    assert names(registry) == ["a"]
    assert registry.problems == {}


@pytest.mark.parametrize(
    ("entrypoint", "problem"),
    [
        ("../outside.sh", "not inside the folder"),
        ("/bin/sh", "not inside the folder"),
        (".", "not inside the folder"),
        ("link.sh", "not inside the folder"),
        ("missing.sh", "No such file"),
        ("folder", "not a regular file"),
        (".build/x", "is a generated file"),
        ("plain", "chmod"),
    ],
)
def test_entrypoint_must_be_a_file_in_the_folder(
    registry: Registry, write_tool: WriteTool, entrypoint: str, problem: str
) -> None:
    folder = write_tool("a", "echo 1")
    (folder.parent / "outside.sh").write_text("echo no")
    (folder / "link.sh").symlink_to("../outside.sh")
    (folder / "folder").mkdir()
    (folder / ".build").mkdir()
    (folder / ".build" / "x").write_text("")
    (folder / "plain").write_text("no program")
    (folder / "tool.yaml").write_text(f"name: a\ndescription: d\nentrypoint: {entrypoint}\n")
    assert names(registry) == []
    assert f"{folder}/tool.yaml:3:13: entrypoint: " in registry.problems["a"]
    assert problem in registry.problems["a"]


@pytest.mark.parametrize(
    ("place", "mode"),
    [
        ("", 0o775),
        ("", 0o757),
        ("", 0o777),
        ("lib", 0o775),
        ("lib/a.sh", 0o666),
        ("open.sh", 0o757),
    ],
)
def test_tool_writable_by_other_users_is_refused(
    registry: Registry, write_tool: WriteTool, place: str, mode: int
) -> None:
    write_tool("sound", "echo 1")
    folder = write_tool("open", "echo 1")
    (folder / "lib").mkdir()
    (folder / "lib/a.sh").write_text("true")
    assert names(registry) == ["open", "sound"]
    before = (folder / place).stat().st_mode & 0o777
    (folder / place).chmod(mode)
    assert names(registry) == ["sound"]
    assert (
        f"{(folder / place)} is writable by other users; run: chmod go-w"
        in registry.problems["open"]
    )
    (folder / place).chmod(before)
    assert names(registry) == ["open", "sound"]


@pytest.mark.parametrize(("suffix", "broken"), [("", True), (".sh", False)])
def test_carriage_return_after_the_interpreter_is_reported(
    registry: Registry, write_tool, suffix: str, broken: bool
) -> None:
    folder = write_tool("a", "", suffix=suffix, mode=0o755)
    (folder / f"a{suffix}").write_bytes(b"#!/bin/sh\r\necho\n")
    assert names(registry) == ([] if broken else ["a"])
    problem = "the first line ends with a carriage return, so its interpreter is not found"
    said = {"a": f"{folder}/a:1:1: {problem}; save the file with Unix line endings"}
    assert registry.problems == (said if broken else {})
