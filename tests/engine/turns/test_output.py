"""The output schema: loaded with all its errors, sent to the model, and used to check the answer."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.errors import ExitCode, Mark, WorkerError
from forge_cli.engine.turns.output import Misfit, OutputSchema
from forge_cli.files.document import parse_document
from tests.support.rows import each_row

HERE = Mark("worker.yaml", 3, 16)
NOWHERE = Path("/nonexistent")
REPORT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "pages": {"type": "array", "items": {"$ref": "#/$defs/page"}},
    },
    "required": ["title"],
    "additionalProperties": False,
    "$defs": {"page": {"type": "integer", "minimum": 1}},
}


def schema(given: Any = REPORT) -> OutputSchema:
    return OutputSchema.load(given, where=HERE, folder=NOWHERE)


def refused(given: Any, folder: Path = NOWHERE) -> WorkerError:
    with pytest.raises(WorkerError) as caught:
        OutputSchema.load(given, where=HERE, folder=folder)
    assert caught.value.exit_code is ExitCode.INVALID
    return caught.value


def misfit(answer: str, given: Any = REPORT) -> str:
    with pytest.raises(Misfit) as caught:
        schema(given).read(answer)
    return str(caught.value)


# --- loading


def test_schema_path_is_relative_to_the_folder(tmp_path: Path) -> None:
    (tmp_path / "report.schema.json").write_text("\ufeff" + json.dumps(REPORT))
    for name in [
        "report.schema.json",
        "./report.schema.json",
        str(tmp_path / "report.schema.json"),
    ]:
        assert OutputSchema.load(name, where=HERE, folder=tmp_path).json_schema == REPORT


def test_inline_schema_is_copied() -> None:
    given = {"type": "object", "properties": {}}
    loaded = schema(given)
    given["type"] = "nonsense"
    assert loaded.read("{}") == {}


def test_unreadable_schema_file_is_an_error_where_it_is_named(tmp_path: Path) -> None:
    for name, why in (("missing", "there is no such file"), (".", "it is not a file")):
        error = refused(name, tmp_path)
        assert (error.where, error.message) == (
            HERE,
            f"output schema {tmp_path / name} cannot be read: {why}",
        )
        assert error.hint


@each_row(
    ("text", "place", "words"),
    [
        ('{\n  "type": object\n}', "2:11", "not JSON: Expecting value"),
        ("", "1:1", "not JSON: Expecting value"),
        ('{\n"title": "\udce9"}', "2:11", "byte 0xe9 at offset 12 is not UTF-8"),
        ('{"minimum": NaN}', "1:1", "output schema: it is not plain JSON"),
        ("[" * 100_000, "1:1", "not JSON: it is nested too deeply"),
        ("[1]", "1:1", "must be a JSON object"),
        (
            '{\n  "properties": {\n    "a": {"type": "strin"}\n  }\n}',
            "3:19",
            "$.properties.a.type is not valid JSON",
        ),
        ('{"type": 6,\n"type": 5}', "1:1", "$.type is not valid JSON Schema: 5 is not valid"),
        ('{"pattern": "("}', "1:13", "$.pattern is not valid JSON Schema"),
    ],
)
def test_invalid_schema_file_is_an_error_at_its_place(
    tmp_path: Path, text: str, place: str, words: str
) -> None:
    file = tmp_path / "s.json"
    file.write_text(text, errors="surrogateescape")
    error = refused("s.json", tmp_path)
    assert str(error.where) == f"{file}:{place}"
    assert words in error.message


def test_invalid_inline_schema_is_an_error_at_its_place_in_the_worker() -> None:
    text = "name: w\noutput_schema:\n  properties:\n    a: {type: strin}\n"
    error = refused(parse_document(text, "w.yaml")["output_schema"])
    assert str(error.where) == "w.yaml:4:15"
    assert refused({"type": "strin"}).where == HERE


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"$ref": "https://example.com/a.json"}, "is remote and never fetched"),
        ({"properties": {"a": {"$ref": "other.json#/x"}}}, "is remote and never fetched"),
        ({"$dynamicRef": "https://example.com/a"}, "is remote and never fetched"),
        ({"$ref": "#/$defs/a"}, "does not exist"),
        ({"$ref": "#"}, "is circular"),
        ({"$schema": []}, "cannot be checked"),
        ({"default": math.inf}, "is not plain JSON"),
        ({"default": {1, 2}}, "is not plain JSON"),
        ({"default": "\ud800"}, "lone surrogate"),
        ({"default": json.loads("[" * 200 + "]" * 200)}, "nested too deeply"),
    ],
)
def test_schema_that_cannot_be_checked_offline_is_refused(given: Any, words: str) -> None:
    assert words in refused(given).message


# --- reading


@pytest.mark.parametrize(
    "answer",
    [
        '{"title": "a"}',
        ' \n{"title":\n"a"}\n ',
        '```json\n{"title": "a"}\n```',
        '```\n{"title": "a"}\n```\n',
        '```JSON {"title": "a"} ```',
        '{"title": "b", "title": "a"}',
    ],
)
def test_json_is_read_alone_or_in_one_fence(answer: str) -> None:
    assert schema().read(answer) == {"title": "a"}


@each_row(
    ("answer", "words"),
    [
        ("", "the answer is empty"),
        ("Done.", "the answer is not JSON: Expecting value at line 1 column 1"),
        ('Here: {"title": "a"}', "leave out the text around the JSON"),
        ('```json\n{"title": "a"}\n```\nThere you go.', "leave out the text around the JSON"),
        ('{"title": "a"} {"title": "b"}', "not JSON: Extra data"),
        ('```json\n{"title": "a"}\n```\n```json\n{"title": "b"}\n```', "not JSON"),
        ('```yaml\n{"title": "a"}\n```', "not JSON"),
        ('{"title": NaN}', "not plain JSON"),
        ("[-Infinity]", "not plain JSON"),
        ("1e999", "not plain JSON"),
        ("9" * 5000, "not JSON"),
        ('{"title": "\\ud800"}', "lone surrogate"),
        ("[" * 200 + "]" * 200, "nested too deeply"),
        ("[" * 500_000, "nested too deeply"),
    ],
)
def test_answer_without_json_does_not_match(answer: str, words: str) -> None:
    assert words in misfit(answer)


def test_mismatch_names_each_problem_with_its_path() -> None:
    assert misfit('{"pages": [1, 0, "x"], "titel": 1}') == (
        "$.pages[1]: 0 is less than the minimum of 1; $.pages[2]: 'x' is not of type 'integer'; "
        "$: 'title' is a required property; $: Additional properties are not allowed ('titel' was unexpected)"
    )


def test_mismatch_lists_at_most_five_problems() -> None:
    sentence = misfit(json.dumps({"title": "a", "pages": ["x"] * 50}))
    assert sentence.count("is not of type") == 5
    assert sentence.endswith("; and more")


def test_circular_schema_does_not_crash() -> None:
    circular = {"allOf": [{"$ref": "#"}, {"type": "object"}]}
    assert "cannot be checked" in misfit("{}", circular)


def test_recursive_schema_accepts_the_maximum_depth() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}}, "additionalProperties": False}
    text = '{"left": ' * 99 + "{}" + "}" * 99
    assert schema(tree).read(text) == json.loads(text)


# --- what the model is told


def test_instructions_contain_the_schema_and_are_deterministic() -> None:
    told = schema().instructions()
    assert json.loads(told.partition("\n\n")[2]) == REPORT
    assert told == schema(json.loads(json.dumps(REPORT))).instructions()


# --- whatever a model says

texts = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)


@given(
    values, st.sampled_from(["{}", " {}\n", "```json\n{}\n```", "\n```\n{}\n```  "]), st.booleans()
)
def test_json_values_are_read_back_unchanged(value: Any, around: str, ascii: bool) -> None:
    answer = around.replace("{}", json.dumps(value, ensure_ascii=ascii))
    assert schema({}).read(answer) == value
