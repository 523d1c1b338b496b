"""A path of a zone in a text parameter: the error of the call contains the remedy."""

from collections.abc import Callable
from pathlib import Path

from forge_cli.testing import Project, call, calls

WriteTool = Callable[..., Path]
WORKER = """
name: w
instructions: Work.
sandbox: {zones: [{name: scratch, mode: rw}], isolation: off}
toolsets:
  executables: {approval: {default: preApproved}}
"""
CONFIG = "parameters: [{name: config, type: string, description: Path to JSON config file for complex filtering}]"
PROGRAM = 'cat "${1#*=}"\n'
HINT = (
    "cfg: exit code: 1 (hint: the program got the virtual path '/scratch/config.json' as text; "
    "declare 'config' with 'type: path' in tool.yaml to pass the real path)"
)


def test_missing_virtual_path_is_explained(project: Project, write_tool: WriteTool) -> None:
    project.write("worker.yaml", WORKER)
    project.write("scratch/config.json", "{}")
    write_tool("cfg", PROGRAM, CONFIG)
    seen = project.run(calls(call("cfg", config="/scratch/config.json")), "done")
    assert seen.statuses == ["error"]
    assert seen.outcomes[0].error == HINT
    assert HINT.removeprefix("cfg: ") in seen.outcomes[0].value.text()


def test_other_failures_and_texts_are_unchanged(project: Project, write_tool: WriteTool) -> None:
    project.write("worker.yaml", WORKER)
    write_tool("cfg", PROGRAM, CONFIG)
    write_tool("bad", "echo broken; exit 1", CONFIG)
    write_tool("fine", "echo not found", CONFIG)
    virtual = "/scratch/config.json"
    made = calls(
        call("cfg", config="/else/where"), call("bad", config=virtual), call("fine", config=virtual)
    )
    seen = project.run(made, "done")
    assert seen.statuses == ["error", "error", "success"]
    assert [outcome.error for outcome in seen.outcomes] == [
        "cfg: exit code: 1",
        "bad: exit code: 1",
        None,
    ]
