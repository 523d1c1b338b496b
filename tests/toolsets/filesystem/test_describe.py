"""Descriptions of the file tools: zones by name, defaults, and the form of a patch."""

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import Zone
from forge_cli.embedding import FilesystemToolset, Sandbox
from forge_cli.sandbox.patches.parse import parse_patch
from forge_cli.testing import Project, call, calls
from forge_cli.toolsets.filesystem.toolset import PATCH

HERE = [Zone("workspace", Path("."), "rw")]
AROUND = [*HERE, Zone("docs", Path("../docs")), Zone("out", Path("../out"), "rw")]
APART = [Zone("src", Path("src")), Zone("out", Path("out"), "rw"), Zone("new", Path("new"), "rw")]
READ_ONLY = [Zone("workspace", Path("."))]
RELATIVE, ALL = "Relative to the working directory", "/new/..., /out/... or /src/..."


def schemas(folder: Path, zones: list[Zone]) -> dict[str, Any]:
    for zone in zones:
        (folder / "here" / zone.path).mkdir(parents=True, exist_ok=True)
    toolset = FilesystemToolset(Sandbox.of(zones, workspace=folder / "here"))
    return {tool.name: tool.schema.json_schema["properties"] for tool in anyio.run(toolset.tools)}


@pytest.mark.parametrize(
    ("zones", "reading", "writing", "listing"),
    [
        (HERE, RELATIVE, RELATIVE, RELATIVE),
        (
            AROUND,
            f"{RELATIVE}, or /docs/... or /out/...",
            f"{RELATIVE}, or /out/...",
            f"{RELATIVE}, or /docs/... or /out/...",
        ),
        (
            APART,
            "/new/..., /out/... or /src/...",
            "/new/... or /out/...",
            "/new/..., /out/... or /src/...; / lists these",
        ),
        (
            READ_ONLY,
            "Relative to the working directory",
            "No folder can be changed here",
            "Relative to the working directory",
        ),
    ],
)
def test_path_descriptions_list_the_zones(
    tmp_path: Path, zones: list[Zone], reading: str, writing: str, listing: str
) -> None:
    made = schemas(tmp_path, zones)
    paths = {
        name: fields["path"]["description"] for name, fields in made.items() if "path" in fields
    }
    assert {paths[name] for name in ("read_file", "file_exists", "file_info")} == {reading}
    assert {paths[name] for name in ("write_file", "edit_file", "delete_file")} == {writing}
    assert {paths[name] for name in ("list_files", "list_dir", "grep_files")} == {listing}
    assert "ZONE" not in str(made)


def test_path_description_names_at_most_six_zones(tmp_path: Path) -> None:
    made = schemas(tmp_path, [Zone(f"z{number}", Path(f"z{number}")) for number in range(9)])
    assert (
        made["read_file"]["path"]["description"]
        == "/z0/..., /z1/..., /z2/..., /z3/..., /z4/..., /z5/... or another zone"
    )


def test_unopened_toolset_can_be_described() -> None:
    (read, *_) = anyio.run(FilesystemToolset().tools)
    assert (
        read.schema.json_schema["properties"]["path"]["description"]
        == "Relative to the working directory"
    )


@pytest.mark.parametrize(("zones", "folder"), [(HERE, "."), (APART, "/")], ids=["here", "apart"])
def test_listing_and_searching_start_in_the_working_directory(
    tmp_path: Path, zones: list[Zone], folder: str
) -> None:
    made = schemas(tmp_path, zones)
    assert {made[name]["path"]["default"] for name in ("list_files", "list_dir", "grep_files")} == {
        folder
    }
    assert "default" not in made["read_file"]["path"]


def test_call_without_a_path_lists_the_working_directory(project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {filesystem: {}}\n")
    project.write("src/a.txt", "a\n")
    turn = calls(call("list_files"), call("list_dir"), call("grep_files", pattern="^a$"))
    seen = project.run(turn, "done", answers=[])
    in_order = sorted(seen.outcomes, key=lambda outcome: outcome.tool_call_id)
    listed, below, found = (outcome.value.text() for outcome in in_order)
    assert (listed, below) == ("src/\nworker.yaml", "src/\nsrc/a.txt\nworker.yaml")
    assert found.endswith("src/a.txt:1:a")


def test_example_of_a_patch_is_valid() -> None:
    example = re.search(r"\*\*\* Begin Patch\n.*\*\*\* End Patch\n", PATCH, re.DOTALL)
    assert example is not None
    operations = parse_patch(example[0]).operations
    assert [type(each).__name__ for each in operations] == ["Update", "Add", "Delete"]
    assert len(PATCH.splitlines()) <= 14
