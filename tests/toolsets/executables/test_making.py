"""New tools: the question, the files, and immediate use.

Covers forge_cli.toolsets.executables.scaffold.
"""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.errors import ToolError
from forge_cli.core.results import Custom, Text
from forge_cli.testing import Project, call, calls
from forge_cli.toolsets.executables.manifest import Parameter, read_manifest
from forge_cli.toolsets.executables.scaffold import scaffold

PARAMETERS = [
    {"name": "who", "required": True, "description": 'Somebody\'s "name" `x` ${y} %s'},
    {"name": "a-b", "type": "integer", "default": 2},
    {"name": "a_b", "type": "number", "default": 1e20},
    {"name": "loud", "type": "boolean", "default": True},
    {"name": "mode", "enum": ["it's", '"quoted"', "$HOME"], "default": "it's"},
    {"name": "type"},
    {"name": "where", "type": "path"},
]


@pytest.fixture(params=["sh", "py", "go"])
def language(request: pytest.FixtureRequest) -> str:
    if request.param == "go":
        request.getfixturevalue("go")
    return str(request.param)


@pytest.mark.few(1)
def test_new_tool_works_at_once(worker: Project, language: str) -> None:
    made = call(
        "create_custom_tool", name="greet", description="Says\n'hello' \"to\"", language=language
    )
    made["input"]["parameters"] = PARAMETERS
    worker.write("f.txt", "")
    seen = worker.run(
        calls(made), calls(call("greet", who="it's $me", where="f.txt")), "done", answers=[True]
    )
    assert seen.statuses == ["success", "success"], [outcome.error for outcome in seen.outcomes]
    result = seen.outcomes[1].value
    assert isinstance(result, Custom)
    lines = dict(line.split(": ", 1) for line in result.data["stdout"].splitlines())
    assert (lines["who"], lines["a-b"], lines["mode"]) == ("it's $me", "2", "it's")
    assert float(lines["a_b"]) == 1e20
    assert lines["loud"].lower() == "true"
    assert lines["where"] == str(worker.folder / "f.txt")


@pytest.mark.few(1)
def test_new_tool_without_parameters_has_an_example_flag(worker: Project, language: str) -> None:
    made = call("create_custom_tool", name="greet", description="d", language=language)
    seen = worker.run(
        calls(made), calls(call("greet"), call("greet", example="a b")), "done", answers=[True]
    )
    assert seen.statuses == ["success"] * 3, [outcome.error for outcome in seen.outcomes]
    assert [outcome.value.data["stdout"] for outcome in seen.outcomes[1:]] == [
        "example: \n",
        "example: a b\n",
    ]
    folder = worker.home / "tools" / "greet"
    [parameter] = read_manifest(folder).parameters
    assert (parameter.name, parameter.type, parameter.required) == ("example", "string", False)
    source = folder / f"greet.{language}"
    assert "FORGE_WORKSPACE" in source.read_text()
    name = {"sh": "$workspace", "py": "WORKSPACE", "go": "workspace"}[language]
    line = {
        "sh": f'echo "{name}"',
        "py": f"print({name})",
        "go": f"func init() {{ fmt.Println({name}) }}",
    }[language]
    text = source.read_text()
    source.write_text(
        text.replace("\n\n\ndef", f"\n{line}\n\n\ndef") if language == "py" else f"{text}{line}\n"
    )
    seen = worker.run(calls(call("greet")), "done")
    assert str(worker.folder) in seen.outcomes[0].value.data["stdout"].splitlines()


def test_generated_example_passes(worker: Project, language: str) -> None:
    made = call("create_custom_tool", name="greet", description="d", language=language)
    made["input"]["parameters"] = [part for part in PARAMETERS if part["name"] != "where"]
    seen = worker.run(calls(made), "done", answers=[True])
    [example] = read_manifest(worker.home / "tools" / "greet").examples
    seen = worker.run(calls(call("greet", **example.arguments)), "done")
    assert seen.statuses == ["success"]
    assert example.expect.exit == 0


def test_creation_always_asks_and_shows_every_file(project: Project) -> None:
    options = "{approval: {default: preApproved, tools: {create_custom_tool: ask}}}"
    project.write("worker.yaml", f"name: w\ninstructions: x\ntoolsets:\n  executables: {options}\n")
    made = calls(call("create_custom_tool", name="t", description="d", language="sh"))
    seen = project.run(made, made, "done", answers=[False, True])
    folder = project.home / "tools" / "t"
    assert seen.statuses == ["denied", "success"]
    assert sorted(path.name for path in folder.iterdir()) == ["t.sh", "tool.yaml"]
    shown = seen.asked[1].preview
    assert isinstance(shown, Text)
    for path in folder.iterdir():
        assert str(path) in shown.content
        assert all(line in shown.content for line in path.read_text().splitlines())
    told = seen.outcomes[1].value
    assert isinstance(told, Text)
    assert "/tools/t/t.sh" in told.content


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"name": "taken"}, "already"),
        ({"name": "../x"}, "is not a valid tool name"),
        ({"name": "Big"}, "is not a valid tool name"),
        ({"name": "run_custom_tool"}, "choose another name"),
        ({"name": "t", "parameters": [{"name": "a"}, {"name": "a"}]}, "duplicate parameter"),
        ({"name": "t", "parameters": [{"name": "a b"}]}, "is not a valid parameter name"),
        (
            {"name": "t", "parameters": [{"name": "a", "type": "integer", "default": "x"}]},
            "'x' is not of type integer",
        ),
        ({"name": "t", "description": "bell \x07"}, "U+0007"),
    ],
)
def test_impossible_creation_is_refused_without_a_question(
    worker: Project, args: dict[str, object], problem: str
) -> None:
    taken = worker.home / "tools" / "taken"
    taken.mkdir(parents=True)
    (taken / "mine").write_text("mine")
    made = call("create_custom_tool", **{"description": "d", "language": "sh", **args})
    seen = worker.run(calls(made), "done", answers=[])
    assert seen.statuses == ["error"]
    assert problem in (seen.outcomes[0].error or "")
    assert [path.name for path in taken.parent.glob("[!.]*")] == ["taken"]
    assert (taken / "mine").read_text() == "mine"


def test_default_language_is_go_if_go_is_installed(worker: Project) -> None:
    seen = worker.run(
        calls(call("create_custom_tool", name="t", description="d")), "done", answers=[True]
    )
    assert seen.statuses == ["success"]
    suffix = "go" if shutil.which("go") else "py"
    assert (worker.home / "tools" / "t" / f"t.{suffix}").exists()


@given(
    description=st.text(min_size=1), default=st.text(), language=st.sampled_from(["sh", "py", "go"])
)
def test_any_description_survives_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, description: str, default: str, language: str
) -> None:
    root = tmp_path_factory.mktemp("tools")
    try:
        parameter = Parameter.model_validate({"name": "x", "default": default})
        made = scaffold("t", description, language, [parameter])
    except (ToolError, ValueError):
        return
    made.write(root)
    manifest = read_manifest(Path(root, "t"))
    assert manifest.description == description
    assert manifest.parameters[0].default == default
    if language == "py":
        compile((root / "t" / "t.py").read_bytes(), "t.py", "exec")
