"""The parts of a runtime: the ID of its session, and the schema of a resumed task."""

import pytest

from forge_cli.core.events import SessionStart
from forge_cli.engine.turns.output import OutputSchema
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Project, call, calls

NUMBER, TEXT = OutputSchema({"type": "number"}), OutputSchema({"type": "string"})


def test_resumed_session_keeps_its_id(project: Project) -> None:
    project.write("worker.yaml", "name: w\n")
    seen = project.run("hi")
    lines = seen.record
    again = project.run("hi again", resume=Resumed(read_past(lines), lines[-1]))
    assert again.result.session_id == seen.result.session_id
    assert {line["session"] for line in again.lines} == {seen.result.session_id}
    assert project.run("hi").result.session_id != seen.result.session_id


@pytest.mark.parametrize(
    ("given", "unfinished", "output"),
    [(None, True, 7), (None, False, None), (TEXT, True, "7")],
    ids=["the earlier one", "no earlier one for a new task", "the one that is given"],
)
def test_unfinished_task_resumes_with_its_own_schema(
    project: Project, given: OutputSchema | None, unfinished: bool, output: object
) -> None:
    project.write("worker.yaml", "name: w\n")
    seen = project.run(calls(), "done")
    lines = seen.record
    kept = lines[:2] if unfinished else lines
    resume = Resumed(read_past(kept), kept[-1], output_schema=NUMBER.json_schema)
    answer = '"7"' if given else "7"
    again = project.run(answer, task="" if unfinished else "go", resume=resume, output_schema=given)
    assert (again.result.status, again.result.output) == ("completed", output)


def test_names_and_paths_may_be_text(project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {memory: {}}\n")
    asking = calls(call("save_memory", memory_id="a", content="b"))
    seen = project.run(asking, "done", on_ask="fail", workspace=str(project.folder))
    assert (seen.result.status, seen.of(SessionStart)[0].workspace) == (
        "denied",
        str(project.folder),
    )
    with pytest.raises(ValueError, match="'perhaps' is not a valid OnAsk"):
        project.run("done", on_ask="perhaps")
