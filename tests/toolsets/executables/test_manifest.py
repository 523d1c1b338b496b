"""tool.yaml: valid contents, and errors with their place.

Covers forge_cli.toolsets.executables.manifest.
"""

from pathlib import Path

import pytest

from forge_cli.core.errors import InvalidInput, WorkerError
from forge_cli.toolsets.executables.manifest import ITEM_LIMIT, Arguments, Parameter, read_manifest
from tests.support.rows import each_row

HEAD = "name: t\ndescription: Does it\nentrypoint: t.sh\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "t"
    made.mkdir()
    return made


def test_manifest_becomes_a_schema(folder: Path) -> None:
    (folder / "tool.yaml").write_text(
        HEAD
        + "usage: |\n  Call it often.\nparameters:\n"
        + "  - {name: since, required: true, description: Start date}\n"
        + "  - {name: count, type: integer, default: 3}\n"
        + "  - {name: how, enum: [fast, 7]}\n"
        + "  - {name: file, type: path}\n"
    )
    manifest = read_manifest(folder)
    assert (manifest.version, manifest.timeout, manifest.text()) == (
        "1.0.0",
        30,
        "Does it\n\nCall it often.",
    )
    assert manifest.input_schema() == {
        "type": "object",
        "properties": {
            "since": {"type": "string", "description": "Start date"},
            "count": {"type": "integer", "default": 3},
            "how": {"type": "string", "enum": ["fast", "7"]},
            "file": {"type": "string", "format": "path", "x-forge-access": "read"},
        },
        "required": ["since"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("written", "read"), [("1.0", "1.0"), ("2", "2"), ("1.2.3", "1.2.3"), ("'1.0'", "1.0")]
)
def test_version_needs_no_quotes(folder: Path, written: str, read: str) -> None:
    (folder / "tool.yaml").write_text(f"{HEAD}version: {written}\n")
    assert read_manifest(folder).version == read


@pytest.mark.parametrize(
    "version", ["0.1.0", "1.0.0-alpha.1+build.5", "1.0.0-x-y", "2.0rc1", "1!1.0.post2.dev3", "v1.2"]
)
def test_semver_and_python_versions_are_accepted(folder: Path, version: str) -> None:
    (folder / "tool.yaml").write_text(f"{HEAD}version: '{version}'\n")
    assert read_manifest(folder).version == version


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        (HEAD.replace("t\n", "other\n", 1), "1:7", "must be 't' like its folder"),
        (
            HEAD + "version: latest\n",
            "4:10",
            "'latest' is not a valid version; write one such as 1.0.0",
        ),
        (HEAD + "version: 1.0.0-\n", "4:10", "is not a valid version"),
        (HEAD + "version: 1.0.0-a..b\n", "4:10", "is not a valid version"),
        (HEAD + "version: ''\n", "4:10", "is not a valid version"),
        (HEAD + 'version: "1.0.0\\n"\n', "4:10", "is not a valid version"),
        (HEAD + "parametres: []\n", "4:1", "did you mean 'parameters'?"),
        (HEAD + "parameters:\n  - {name: a, type: text}\n", "5:21", "'string', 'number'"),
        (HEAD + "parameters:\n  - {name: a}\n  - {name: a}\n", "6:12", "duplicate parameter 'a'"),
        (HEAD + "parameters:\n  - {name: a b}\n", "5:12", "is not a valid parameter name"),
        (
            HEAD + "parameters:\n  - {name: a, type: integer, default: x}\n",
            "5:5",
            "'a': 'x' is not of type integer",
        ),
        (
            HEAD + "parameters:\n  - {name: a, type: integer, enum: [1, x]}\n",
            "5:5",
            "'x' is not of type integer",
        ),
        (
            HEAD + "parameters:\n  - {name: a, enum: [x], default: y}\n",
            "5:5",
            "is not listed under enum",
        ),
        (
            HEAD + "parameters:\n  - {name: a, required: true, default: y}\n",
            "5:5",
            "required and has a default",
        ),
        (HEAD + "timeout: 0\n", "4:10", "greater than 0"),
        (HEAD + "examples: [{arguments: {b: 1}}]\n", "4:13", "unknown field 'b'"),
        (HEAD.replace("entrypoint: t.sh\n", ""), "1:1", "entrypoint: this key is required"),
        ("name: [\n", "1:8", ""),
        (HEAD + "needsApproval: false\n", "4:16", "a tool cannot approve itself; name it under"),
        (
            HEAD + "needs_approval: preApproved\n",
            "4:17",
            "a tool cannot approve itself; name it under",
        ),
        (
            HEAD + "needsApproval: sometimes\n",
            "4:16",
            "must be 'ask' or 'blocked', not 'sometimes'",
        ),
        (
            HEAD + "manualExecution: {mode: people}\n",
            "4:25",
            "must be 'llm', 'manual' or 'both', not 'people'",
        ),
        (
            HEAD + "manualExecution: people\n",
            "4:18",
            "must be 'llm', 'manual' or 'both', not 'people'",
        ),
        (
            HEAD + "manualExecution: {labl: x}\n",
            "4:19",
            "unknown key 'labl'; did you mean 'label'?",
        ),
    ],
)
def test_invalid_manifest_is_reported_with_its_place(
    folder: Path, text: str, place: str, problem: str
) -> None:
    (folder / "tool.yaml").write_text(text)
    with pytest.raises(WorkerError) as caught:
        read_manifest(folder)
    assert str(caught.value).startswith(f"{folder}/tool.yaml:{place}: ")
    assert problem in str(caught.value)


def schema(kind: str) -> Arguments:
    parameter = Parameter.model_validate({"name": "x", "type": kind})
    found = Arguments.of({"type": "object", "properties": {"x": parameter.field()}})
    assert isinstance(found, Arguments)
    return found


@pytest.mark.parametrize(
    ("kind", "given", "word"),
    [
        ("string", "007", "--x=007"),
        ("string", 7, "--x=7"),
        ("string", True, "--x=true"),
        ("string", "", "--x="),
        ("string", "-rf $(id) ;", "--x=-rf $(id) ;"),
        ("integer", "10", "--x=10"),
        ("integer", 3.0, "--x=3"),
        ("number", "1.5", "--x=1.5"),
        ("number", 2, "--x=2"),
        ("boolean", "false", "--x=false"),
        ("boolean", True, "--x=true"),
    ],
)
def test_values_become_arguments(kind: str, given: object, word: str) -> None:
    parameter = Parameter.model_validate({"name": "x", "type": kind})
    assert parameter.argv_item(schema(kind).validate({"x": given})["x"]) == word


@each_row(
    ("kind", "given", "problem"),
    [
        ("integer", "007", "must be an integer"),
        ("boolean", "t", "must be true or false"),
        ("string", None, "must be a string"),
        ("string", ["a"], "must be a string"),
        ("string", "a\0b", "NUL"),
        ("path", "a\0b", "NUL"),
        ("string", "\ud800", "surrogate"),
        ("string", "x" * ITEM_LIMIT, "at most 131071"),
    ],
)
def test_values_that_cannot_be_arguments_are_refused(
    kind: str, given: object, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        schema(kind).validate({"x": given})
