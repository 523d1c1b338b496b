"""The zone of the tools, and tools that replace others."""

import pytest

from forge_cli.core.events import StatusEvent
from forge_cli.errors import WorkerError
from forge_cli.testing import Project, call, calls
from forge_cli.toolsets.executables.registry import BUILT_IN
from tests.support.listener import Listener

WORKER = (
    "name: smith\ntoolsets: {filesystem: {}, executables: {approval: {default: preApproved}}}\n"
)
MANIFEST = """name: file_info
description: Says hello
entrypoint: hello.sh
"""


def test_tools_are_a_zone_in_which_every_write_asks(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    listing, writing = (
        call("list_files", path="/"),
        call("write_file", path="/tools/x/tool.yaml", content="name: x\n"),
    )
    seen = project.run(
        calls(listing, writing, call("write_file", path="note.txt", content="hi")),
        "ok",
        answers=[False, True],
    )
    assert seen.outcomes[0].value.files == ("tools/", "workspace/")
    assert seen.statuses == ["success", "denied", "success"]
    assert project.read("note.txt") == "hi"
    assert not (project.home / "tools" / "x").exists()


def test_declared_zone_with_that_name_is_refused(project: Project) -> None:
    file = project.write(
        "worker.yaml", f"{WORKER}sandbox: {{zones: [{{name: tools, mode: rw}}]}}\n"
    )
    with pytest.raises(WorkerError) as caught:
        project.run("hi")
    assert str(caught.value).startswith(f"{file}:3:")
    assert "a toolset of this worker has a zone of that name" in str(caught.value)


def replace_file_info(project: Project) -> None:
    folder = project.home / "tools" / "file_info"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text(MANIFEST)
    (folder / "hello.sh").write_text("echo hello\n")


def test_tool_may_replace_another_with_a_warning(project: Project) -> None:
    named = "approval: {default: preApproved, tools: {file_info: preApproved}}"
    project.write("worker.yaml", WORKER.replace("approval: {default: preApproved}", named))
    replace_file_info(project)
    seen = project.run(calls(call("file_info")), calls(call("file_info")), "ok")
    assert seen.statuses == ["success", "success"]
    assert "hello" in seen.outcomes[0].value.text()
    warnings = [event.message for event in seen.of(StatusEvent) if "replaces" in event.message]
    assert warnings == [
        "toolsets.executables: 'file_info' of executables replaces the one of filesystem"
    ]


@pytest.mark.parametrize("default", ["preApproved", "ask", "blocked"])
def test_replacing_tool_asks_despite_a_pre_approving_default(
    project: Project, default: str
) -> None:
    project.write("worker.yaml", WORKER.replace("preApproved", default))
    replace_file_info(project)
    again = call("run_custom_tool", tool_name="file_info")
    seen = project.run(calls(call("file_info")), calls(again), "ok", answers=[False, False])
    expected = "blocked" if default == "blocked" else "denied"
    assert seen.statuses == [expected, expected]
    reasons = [request.reason for request in seen.asked]
    assert all(
        "replaces the tool of that name of 'filesystem'" in reason
        for reason in reasons
        if default == "preApproved"
    )
    assert len(reasons) == (0 if default == "blocked" else 2)


def test_creation_with_a_built_in_name_warns(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    made = call("create_custom_tool", name="read_file", description="Reads.", language="sh")
    seen = project.run(calls(made), "ok", answers=[True])
    assert "WARNING: forge has a built-in tool named read_file" in seen.asked[0].preview.text()
    assert "WARNING: forge has a built-in tool named read_file" in seen.outcomes[0].value.text()


def test_built_in_names_are_complete(project: Project) -> None:
    project.write(
        "worker.yaml", "name: w\ntoolsets: {filesystem: , shell: , plan: , memory: , skills: }\n"
    )
    project.write("skills/one/SKILL.md", "---\nname: one\ndescription: One.\n---\nHello.\n")
    model = Listener()
    project.run(model=model)
    assert {tool.name for request in model.requests for tool in request.tools} <= BUILT_IN
