"""What the toolset brings along: the zone of the tools, and tools that take another one's name."""

import pytest

from forge_cli.core.events import StatusEvent
from forge_cli.errors import WorkerError
from forge_cli.testing import Project, call, calls

WORKER = "name: smith\ntoolsets: {filesystem: {}, executables: {approval: {default: preApproved}}}\n"
MANIFEST = """name: file_info
description: Says hello
entrypoint: hello.sh
"""


def test_the_file_tools_see_the_tools_as_a_zone_and_every_write_asks(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    listing, writing = call("list_files", path="/"), call("write_file", path="/tools/x/tool.yaml", content="name: x\n")
    seen = project.run(
        calls(listing, writing, call("write_file", path="note.txt", content="hi")), "ok", answers=[False, True]
    )
    assert seen.outcomes[0].value.files == ("tools/", "workspace/")
    assert seen.statuses == ["success", "denied", "success"]
    assert project.read("note.txt") == "hi"
    assert not (project.home / "tools" / "x").exists()


def test_a_declared_zone_of_that_name_is_refused(project: Project) -> None:
    file = project.write("worker.yaml", f"{WORKER}sandbox: {{zones: [{{name: tools, mode: rw}}]}}\n")
    with pytest.raises(WorkerError) as caught:
        project.run("hi")
    assert str(caught.value).startswith(f"{file}:3:")
    assert "brings a zone of that name" in str(caught.value)


def test_a_tool_may_take_the_name_of_another_with_a_warning(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    folder = project.home / "tools" / "file_info"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text(MANIFEST)
    (folder / "hello.sh").write_text("echo hello\n")
    seen = project.run(calls(call("file_info")), calls(call("file_info")), "ok")
    assert seen.statuses == ["success", "success"]
    assert "hello" in seen.outcomes[0].value.text()
    warnings = [event.message for event in seen.of(StatusEvent) if "replaces" in event.message]
    assert warnings == ["toolsets.executables: 'file_info' of executables replaces the one of filesystem"]
