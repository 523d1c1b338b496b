"""Paths in the arguments of a call: declarations of a tool, and paths in valid args.

Covers forge_cli.schema.found_paths.
"""

from typing import Annotated, Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from forge_cli import DeletePath, ReadPath, Tool, WritePath
from forge_cli.hooks import PathUse
from forge_cli.schema.found_paths import declared_paths, with_paths


class Edit(BaseModel):
    file: WritePath
    note: str = ""


def everything(
    source: ReadPath,
    targets: list[WritePath],
    gone: Annotated[DeletePath, Field(description="What goes")] = "x",
    maybe: Optional[ReadPath] = None,  # noqa: UP045
    edits: dict[str, Edit] | None = None,
    text: str = "",
) -> None:
    """Touch files."""


EVERYTHING = Tool.from_function(everything)


def found(**args: Any) -> list[tuple[str, str, tuple[str | int, ...]]]:
    valid = EVERYTHING.schema.validate(args)
    return [(use.path, use.access.value, use.at) for use in EVERYTHING.paths(valid)]


def test_schema_declares_path_arguments_and_their_use() -> None:
    schema = EVERYTHING.schema.json_schema["properties"]
    assert schema["source"] == {"type": "string", "format": "path", "x-forge-access": "read"}
    assert schema["targets"]["items"] == {
        "type": "string",
        "format": "path",
        "x-forge-access": "write",
    }
    gone = {
        "type": "string",
        "format": "path",
        "x-forge-access": "delete",
        "description": "What goes",
        "default": "x",
    }
    assert schema["gone"] == gone


def test_paths_are_found_at_any_depth_including_defaults() -> None:
    assert found(
        source="a",
        targets=["b", "c"],
        edits={"one": {"file": "d", "note": "/etc/passwd"}},
        text="/e",
    ) == [
        ("a", "read", ("source",)),
        ("b", "write", ("targets", 0)),
        ("c", "write", ("targets", 1)),
        ("x", "delete", ("gone",)),
        ("d", "write", ("edits", "one", "file")),
    ]
    assert ("m", "read", ("maybe",)) in found(source="a", targets=[], maybe="m")


def test_plain_path_type_is_not_a_declaration() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string", "format": "path"}}}
    assert declared_paths(schema, {"path": "/etc/passwd"}) == []


@given(st.lists(st.text()), st.dictionaries(st.text(), st.text(), max_size=3))
def test_each_string_of_a_declared_list_is_found_once(
    paths: list[str], other: dict[str, str]
) -> None:
    item = {"type": "string", "x-forge-access": "write"}
    schema = {
        "type": "object",
        "properties": {"paths": {"type": "array", "items": {"anyOf": [item, item]}}},
    }
    uses = declared_paths(schema, {**other, "paths": paths})
    assert [use.path for use in uses] == paths
    replaced = with_paths({**other, "paths": paths}, {use.at: f"/zone/{use.path}" for use in uses})
    assert replaced == {**other, "paths": [f"/zone/{path}" for path in paths]}


def test_path_use_accepts_a_plain_word() -> None:
    assert PathUse("a", "write") == PathUse("a", PathUse("b", "write").access)
    with pytest.raises(ValueError, match="execute"):
        PathUse("a", "execute")
