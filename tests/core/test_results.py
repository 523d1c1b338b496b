"""Results: kinds, encoding, and conversion of every return value of a tool.

Covers forge_cli.core.results, forge_cli.core.tables.
"""

import json
from decimal import Decimal
from typing import Any

import pytest

from forge_cli.core.media import DisplayHints
from forge_cli.core.results import (
    MODEL_LIMIT,
    ORIGINAL_LIMIT,
    VALUE_LIMIT,
    WELL_KNOWN_KINDS,
    Custom,
    Diff,
    FileContent,
    FileList,
    Json,
    ResultValue,
    Table,
    Text,
    as_result,
    bounded,
    for_model,
    from_wire,
    is_misfit,
    is_valid_kind,
    is_well_known_kind,
    read_result,
)
from forge_cli.core.text import cut
from forge_cli.core.wire import Unreadable

WELL_KNOWN = sorted(WELL_KNOWN_KINDS)


@pytest.mark.parametrize(
    "kind", [*WELL_KNOWN, "a", "git.status", "git.status_v2", "executable.run", "a.b.c.d", "x1.y_2"]
)
def test_kind_of_lowercase_words_is_valid(kind: str) -> None:
    assert is_valid_kind(kind)
    assert is_well_known_kind(kind) == (kind in WELL_KNOWN)


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "Bad",
        "git.Status",
        "git-status",
        "git.",
        ".git",
        "git..status",
        "1git",
        "git.1",
        "_x",
        "a b",
        "a\n",
        "é",
        None,
        7,
    ],
)
def test_other_kinds_are_invalid(kind: Any) -> None:
    assert not is_valid_kind(kind)
    assert not is_well_known_kind(kind)


@pytest.mark.parametrize("kind", ["Bad", "git-status", "", "text", "diff", "json"])
def test_custom_result_refuses_a_reserved_kind(kind: str) -> None:
    with pytest.raises(ValueError, match="is not a kind for a custom result") as caught:
        Custom(kind=kind, data={})
    assert str(caught.value) == (
        f"{kind!r} is not a kind for a custom result: use lowercase words joined by dots, such as 'git.status', "
        "and none of the well-known kinds"
    )


HINTS = DisplayHints(preferred_view="code", language="python", collapsed=False, max_height=20)

WIRE: list[tuple[ResultValue, dict[str, Any], str]] = [
    (Text("hello"), {"kind": "text", "content": "hello"}, "hello"),
    (
        Text("x = 1", display=HINTS),
        {
            "kind": "text",
            "content": "x = 1",
            "display": {
                "preferredView": "code",
                "language": "python",
                "collapsed": False,
                "maxHeight": 20,
            },
        },
        "x = 1",
    ),
    (
        Diff.of("/out/a", "old", "né"),
        {
            "kind": "diff",
            "path": "/out/a",
            "original": "old",
            "modified": "né",
            "isNew": False,
            "bytesWritten": 3,
        },
        "Changed /out/a (3 bytes).",
    ),
    (
        Diff.of("/out/a", None, "new"),
        {
            "kind": "diff",
            "path": "/out/a",
            "original": None,
            "modified": "new",
            "isNew": True,
            "bytesWritten": 3,
        },
        "Created /out/a (3 bytes).",
    ),
    (
        FileContent("/in/a", "text", size=400),
        {"kind": "file_content", "path": "/in/a", "content": "text", "size": 400},
        "text",
    ),
    (
        FileContent("/in/a", "three\r\nfour\n", 24, first_line=3, total_lines=9, numbered=True),
        {
            "kind": "file_content",
            "path": "/in/a",
            "content": "three\r\nfour\n",
            "size": 24,
            "firstLine": 3,
            "totalLines": 9,
            "numbered": True,
        },
        "[/in/a, lines 3-4 of 9, next offset 5]\n3: three\n4: four",
    ),
    (
        Diff("/out/a", "same", "same", False, 4),
        {
            "kind": "diff",
            "path": "/out/a",
            "original": "same",
            "modified": "same",
            "isNew": False,
            "bytesWritten": 4,
        },
        "/out/a: no change",
    ),
    (
        Diff("/out/a", "", "a", False, 1, model_text="Changed."),
        {
            "kind": "diff",
            "path": "/out/a",
            "original": "",
            "modified": "a",
            "isNew": False,
            "bytesWritten": 1,
            "modelText": "Changed.",
        },
        "Changed.",
    ),
    (Json(True, model_text="Yes."), {"kind": "json", "data": True, "modelText": "Yes."}, "Yes."),
    (
        FileList.of("/in", ("a.txt", "folder/")),
        {"kind": "file_list", "path": "/in", "files": ["a.txt", "folder/"], "count": 2},
        "a.txt\nfolder/",
    ),
    (
        FileList.of("/in", ()),
        {"kind": "file_list", "path": "/in", "files": [], "count": 0},
        "/in is empty.",
    ),
    (
        FileList("/in", ("a",), count=3),
        {"kind": "file_list", "path": "/in", "files": ["a"], "count": 3},
        "a\n[2 more]",
    ),
    (
        Json({"n": [1, None, "é"]}),
        {"kind": "json", "data": {"n": [1, None, "é"]}},
        '{"n": [1, null, "é"]}',
    ),
    (Json(None), {"kind": "json", "data": None}, "null"),
    (
        Table.of(["id", "name"], [[1, "Ada"], [2, None]]),
        {"kind": "table", "columns": ["id", "name"], "rows": [[1, "Ada"], [2, None]]},
        "id,name\n1,Ada\n2,",
    ),
    (
        Table.of(["id"], [[1], [2]], limit=1, summary="the first row"),
        {
            "kind": "table",
            "columns": ["id"],
            "rows": [[1]],
            "more": True,
            "summary": "the first row",
        },
        "the first row\nid\n1\n[more rows]",
    ),
    (
        Table(("id",), ((1,),), count=3, model_text="three rows"),
        {
            "kind": "table",
            "columns": ["id"],
            "rows": [[1]],
            "count": 3,
            "modelText": "three rows",
        },
        "three rows",
    ),
    (
        Custom("git.status", {"clean": True}),
        {"kind": "git.status", "data": {"clean": True}},
        '{"clean": true}',
    ),
    (
        Custom(
            "git.log",
            "a\nb",
            summary="2 commits",
            mime_type="text/plain",
            display=DisplayHints(collapsed=True),
        ),
        {
            "kind": "git.log",
            "data": "a\nb",
            "summary": "2 commits",
            "mimeType": "text/plain",
            "display": {"collapsed": True},
        },
        "2 commits\na\nb",
    ),
]


@pytest.mark.parametrize(("value", "on_the_wire", "for_the_model"), WIRE)
def test_each_kind_is_encoded_in_logs_and_for_the_model(
    value: ResultValue, on_the_wire: dict[str, Any], for_the_model: str
) -> None:
    assert value.wire() == on_the_wire
    assert for_model(value) == for_the_model
    assert as_result(value) is value


def test_large_original_is_omitted_without_marking_the_file_as_new() -> None:
    diff = Diff.of("/out/a", "x" * (ORIGINAL_LIMIT + 1), "y")
    assert diff == Diff("/out/a", None, "y", is_new=False, bytes_written=1)
    assert diff.text() == "Changed /out/a (1 bytes)."


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, Text("The tool returned nothing.")),
        ("", Text("")),
        ("text", Text("text")),
        ("lone \ud800", Text("lone \\ud800")),
        (b"bytes", Text("bytes")),
        (bytearray(b"bytes"), Text("bytes")),
        (b"\xff\xfe\x00", Text("[3 bytes that are not UTF-8 text]")),
        (42, Json(42)),
        (True, Json(True)),
        (float("nan"), Json("nan")),
        ([1.5, float("-inf")], Json([1.5, "-inf"])),
        ({"b", "a"}, Json(["a", "b"])),
        ((1, 2), Json([1, 2])),
        ({1: "a", None: "b"}, Json({"1": "a", "None": "b"})),
        ({"kind": "git.status", "data": {"clean": True}}, Custom("git.status", {"clean": True})),
        (
            {
                "kind": "git.log",
                "data": [b"x"],
                "summary": "one",
                "mimeType": "text/plain",
                "display": {"preferredView": "table", "maxHeight": 9, "colour": "red"},
            },
            Custom(
                "git.log",
                ["x"],
                "one",
                "text/plain",
                DisplayHints(preferred_view="table", max_height=9),
            ),
        ),
        ({"kind": "Bad", "data": 1}, Json({"kind": "Bad", "data": 1})),
        ({"kind": "text", "data": 1}, Json({"kind": "text", "data": 1})),
        ({"kind": "git.status"}, Json({"kind": "git.status"})),
        ({"data": 1}, Json({"data": 1})),
    ],
)
def test_every_return_value_becomes_a_result(returned: Any, result: ResultValue) -> None:
    assert as_result(returned) == result
    json.dumps(result.wire(), allow_nan=False).encode()


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ({"kind": "text", "content": "hi"}, Text("hi")),
        (
            {"kind": "text", "content": "# hi", "display": {"preferred_view": "markdown"}},
            Text("# hi", DisplayHints("markdown")),
        ),
        ({"kind": "json", "data": (1, 2)}, Json([1, 2])),
        ({"kind": "json", "data": {"kind": "text"}}, Json({"kind": "text"})),
        (Json({"kind": "diff"}), Json({"kind": "diff"})),
        (
            {"kind": "diff", "path": "/a", "original": None, "modified": "y"},
            Diff.of("/a", None, "y"),
        ),
        ({"kind": "diff", "path": "/a", "modified": "y"}, Diff.of("/a", None, "y")),
        (
            {"kind": "file_content", "path": "/a", "content": "é", "size": 99},
            FileContent("/a", "é", 2),
        ),
        ({"kind": "file_list", "path": "/a", "files": ("b", "c/")}, FileList.of("/a", ("b", "c/"))),
        (
            {"kind": "table", "columns": ("a",), "rows": [(1,), (None,)]},
            Table.of("a", [[1], [None]]),
        ),
        (Table.of("a", [[Decimal("1.50")]]), Table(("a",), (("1.50",),))),
    ],
)
def test_mapping_of_a_well_known_kind_becomes_that_result(said: Any, result: ResultValue) -> None:
    assert as_result(said) == result
    assert not is_misfit(said, as_result(said))


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "text"},
        {"kind": "text", "content": 1},
        {"kind": "json"},
        {"kind": "diff", "path": "/a", "original": 1, "modified": "y"},
        {"kind": "file_list", "path": "/a", "files": [1]},
        {"kind": "table", "columns": ["a"], "rows": [[1, 2]]},
        {"kind": "table", "rows": []},
    ],
)
def test_mapping_without_the_fields_of_its_kind_is_json(said: Any) -> None:
    assert as_result(said) == Json(said)
    assert is_misfit(said, as_result(said))


HUGE = "x" * (2 * VALUE_LIMIT)
CUT = cut(HUGE, VALUE_LIMIT)


@pytest.mark.parametrize(
    ("huge", "kept"),
    [
        (Text(HUGE), Text(CUT)),
        (FileContent("/a", HUGE, len(HUGE)), FileContent("/a", CUT, len(HUGE))),
        (Diff("/a", None, HUGE, True, len(HUGE)), Diff("/a", None, CUT, True, len(HUGE))),
        (FileList.of("/", ("a",) * 20_001), FileList("/", ("a",) * 20_000, 20_001)),
        (Json([HUGE]), Text(cut(json.dumps([HUGE]), VALUE_LIMIT))),
        (Custom("a.b", [HUGE]), Custom("a.b", cut(json.dumps([HUGE]), VALUE_LIMIT))),
        (Custom("a.b", 1, summary=HUGE), Custom("a.b", 1, summary=CUT)),
        (
            FileContent("/a", HUGE, 1, first_line=7, total_lines=8, numbered=True),
            FileContent("/a", CUT, 1, total_lines=8),
        ),
        (
            Diff("/a", None, "", True, 0, model_text=HUGE),
            Diff("/a", None, "", True, 0, model_text=CUT),
        ),
        (Json(1, model_text=HUGE), Json(1, model_text=CUT)),
        (
            Table.of("a", [["x" * 100_000]] * 20),
            Table(("a",), (("x" * 100_000,),) * 10, count=20),
        ),
        (
            Table.of("a", [["x" * 100_000]] * 20, limit=15),
            Table(("a",), (("x" * 100_000,),) * 10, more=True),
        ),
        (Table.of("a", [[HUGE]]), Table.of("a", [[cut(HUGE, VALUE_LIMIT // 10)]])),
        (Table.of([HUGE], []), Text(cut(HUGE, VALUE_LIMIT))),
    ],
)
def test_huge_value_is_cut_with_a_notice(huge: ResultValue, kept: ResultValue) -> None:
    assert bounded(huge) == kept
    assert bounded(kept, 2 * VALUE_LIMIT) == kept
    assert len(json.dumps(kept.wire())) < VALUE_LIMIT + 1000
    assert len(for_model(kept)) <= MODEL_LIMIT


@pytest.mark.parametrize(
    ("returned", "kept"),
    [
        (
            FileContent("/a", "x", size="3"),
            Json({"kind": "file_content", "path": "/a", "content": "x", "size": "3"}),
        ),  # type: ignore[arg-type]
        (
            Text("x", display=DisplayHints(collapsed=True)),
            Text("x", display=DisplayHints(collapsed=True)),
        ),
        (Text("x", display=DisplayHints(max_height="tall")), Text("x", display=DisplayHints())),  # type: ignore[arg-type]
    ],
)
def test_every_result_is_read_back_from_the_log(returned: ResultValue, kept: ResultValue) -> None:
    assert read_result(json.loads(json.dumps(as_result(returned).wire()))) == kept


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "not an object"),
        ({}, "kind: missing"),
        ({"kind": "text"}, "content: missing"),
        ({"kind": "Bad", "data": 1}, "'Bad' is not a kind for a custom result"),
        ({"kind": 5, "data": 1}, "kind: not a text"),
    ],
)
def test_invalid_result_json_is_unreadable(data: Any, problem: str) -> None:
    with pytest.raises(Unreadable, match=problem):
        read_result(data)
    assert from_wire(data) == Json(data) or data is None


def test_table_as_csv_distinguishes_a_missing_value_from_an_empty_text() -> None:
    table = Table.of(["a", "b,c"], [[None, ""], ['say "hi"', "two\nlines"], [True, 1.5]])
    assert table.csv() == 'a,"b,c"\n,""\n"say ""hi""","two\nlines"\ntrue,1.5\n'


def test_table_of_objects_has_the_columns_of_all() -> None:
    table = Table.of_records([{"a": 1}, {"b": [2]}])
    assert table == Table.of("ab", [[1, None], [None, [2]]])


def test_table_in_markdown_keeps_cells_in_their_columns() -> None:
    table = Table.of(["a|b"], [["x|y\n# z"], [None]])
    assert table.markdown() == "| a\\|b |\n|---|\n| x\\|y\\\\n\\# z |\n| null |\n"


def test_row_with_a_wrong_number_of_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="row 2 of the table has 1 cells, but there are 2 columns"):
        Table.of("ab", [[1, 2], [3]])
