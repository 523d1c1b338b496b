"""The toolset ``workers``: found workers, their tools, and attachments of a task."""

from pathlib import Path

import pytest

from forge_cli import Tool, WorkerRuntime, load_worker
from forge_cli.errors import WorkerError
from forge_cli.events import ToolCall
from forge_cli.files.attachment import LARGEST
from forge_cli.hooks import ModelRequest, TextDelta, TurnEnd
from forge_cli.process.signals import in_loop
from forge_cli.testing import Project, Seen, call, calls, scripted_model

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def boss(
    project: Project,
    allowed: str,
    more: str = "approval: {default: preApproved}",
    sandbox: str = "",
) -> None:
    project.write(
        "boss.yaml",
        f"name: boss\n{sandbox}\ntoolsets:\n  workers: {{allowed: {allowed}, {more}}}\n",
    )


def offered(project: Project) -> dict[str, Tool]:
    async def look() -> dict[str, Tool]:
        worker = load_worker(project.folder / "boss.yaml")
        async with WorkerRuntime(
            worker=worker, model=scripted_model(), workspace=project.folder
        ) as runtime:
            return {tool.name: tool for tool in runtime.tools}

    return in_loop(look)


def refused(project: Project) -> str:
    with pytest.raises(WorkerError) as caught:
        offered(project)
    return str(caught.value).replace(f"{project.folder}/", "")


class Reader:
    """A model that repeats its input."""

    name = "reader"
    context_window = None

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest):
        self.asked.append(request)
        files = [
            f"{file.name} {file.media_type} {len(file.data)}"
            for file in request.messages[0].attachments
        ]
        yield TextDelta(", ".join(files) or "nothing")
        yield TurnEnd("end")

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("entry", "file"),
    [
        ("helper", "helper.yaml"),
        ("helper", "helper.md"),
        ("helper", "helper/worker.yaml"),
        ("helper", "workers/helper.yaml"),
        ("helper", "workers/helper.md"),
        ("helper", "workers/helper/worker.yaml"),
        ("./deep/other.yaml", "deep/other.yaml"),
        ("deep/other.worker", "deep/other.worker"),
        ("./deep", "deep/worker.yaml"),
        ("other.yml", "other.yml"),
        ("../sibling/w.yaml", "../sibling/w.yaml"),
    ],
)
def test_worker_is_found_in_its_places(project: Project, entry: str, file: str) -> None:
    text = "name: helper\ndescription: Helps out"
    project.write(
        file, text if file.endswith(("yaml", "yml")) else f"---\n{text}\n---\nYou help.\n"
    )
    boss(project, f"[{entry}]")
    assert {name: tool.description for name, tool in offered(project).items()} == {
        "helper": "Helps out"
    }


def test_nearest_place_takes_precedence(project: Project) -> None:
    files = [
        "helper.yaml",
        "helper.md",
        "helper/worker.yaml",
        "workers/helper.yaml",
        "workers/helper.md",
    ]
    for file in files:
        text = f"name: helper\ndescription: from {file}"
        project.write(file, f"---\n{text}\n---\n" if file.endswith("md") else text)
    boss(project, "[helper]")
    for file in files:
        assert offered(project)["helper"].description == f"from {file}"
        (project.folder / file).unlink()
    assert "there is no worker 'helper'" in refused(project)


def test_worker_may_be_an_absolute_path_or_a_link(project: Project, tmp_path: Path) -> None:
    (tmp_path / "far.yaml").write_text("name: far\n")
    (project.folder / "near.yaml").symlink_to(tmp_path / "far.yaml")
    for entry in (str(tmp_path / "far.yaml"), "near", "./near.yaml"):
        boss(project, f"[{entry}]")
        assert list(offered(project)) == ["far"]


def test_child_worker_tool_has_its_schema(project: Project) -> None:
    project.write("helper.yaml", "name: helper\n")
    boss(project, "[helper]", "prefix: ask")
    (tool,) = offered(project).values()
    assert (tool.name, tool.description) == ("ask_helper", "Gives a task to the worker 'helper'.")
    schema = tool.schema.json_schema
    assert list(schema["properties"]) == ["input", "instructions", "attachments"]
    assert schema["required"] == ["input"]
    assert schema["properties"]["attachments"]["items"]["format"] == "path"
    assert (tool.risk, tool.read_only, tool.needs_approval) == ("high", False, None)


@pytest.mark.parametrize(
    ("allowed", "problem"),
    [
        ("[helpr]", "boss.yaml:4:23: there is no worker 'helpr'\n  did you mean 'helper'?"),
        (
            "[zzz]",
            "boss.yaml:4:23: there is no worker 'zzz'\n"
            "  looked for zzz.yaml, .yml, .md, .worker, zzz/worker.yaml and zzz/main.worker in",
        ),
        (
            "[./helpr.yaml]",
            "boss.yaml:4:23: there is no worker './helpr.yaml'\n  did you mean './helper.yaml'?",
        ),
        ("[./broken.yaml]", "broken.yaml:2:1: unknown key 'toolset'; did you mean 'toolsets'?"),
        ("[./notes.txt]", "notes.txt:1:1: a worker file ends in"),
        ("[./empty]", "empty: this folder has no worker.yaml"),
        (
            "[helper, ./copy.yaml]",
            "boss.yaml:4:31: toolsets.workers: duplicate worker 'helper': 'helper' and './copy.yaml'",
        ),
        (
            "[helper, helper]",
            "boss.yaml:4:31: toolsets.workers: duplicate worker 'helper': 'helper' and 'helper'",
        ),
        ("[]", "boss.yaml:4:13: toolsets.workers.allowed: must not be empty"),
        ("helper", "boss.yaml:4:22: toolsets.workers.allowed: must be a list"),
        ("[3]", "boss.yaml:4:23: toolsets.workers.allowed[0]: must be"),
    ],
)
def test_problem_of_an_allowed_worker_is_reported_with_its_place(
    project: Project, allowed: str, problem: str
) -> None:
    project.write("helper.yaml", "name: helper\n")
    project.write("copy.yaml", "name: helper\n")
    project.write("broken.yaml", "name: broken\ntoolset: {}\n")
    project.write("notes.txt", "")
    (project.folder / "empty").mkdir()
    boss(project, allowed)
    assert problem in refused(project)


def test_broken_worker_names_the_worker_that_allows_it(project: Project) -> None:
    project.write("broken.yaml", "nam: broken\n")
    boss(project, "[broken]")
    assert "'broken' is allowed in boss.yaml:4:23" in refused(project)


def test_worker_named_like_another_tool_is_a_conflict(project: Project) -> None:
    project.write("shell.yaml", "name: shell\n")
    project.write(
        "boss.yaml", "name: boss\ntoolsets:\n  shell: {}\n  workers: {allowed: [shell]}\n"
    )
    assert "two toolsets offer a tool called 'shell'" in refused(project)


# Attachments


def ask(project: Project, *attachments: str, **more: str) -> tuple[Seen, Reader]:
    """Let the boss give a task with files; the helper repeats its input."""
    model = Reader()
    project.write("helper.yaml", "name: helper\n")
    asked = {"input": "look", "attachments": list(attachments)}

    class Boss(Reader):
        async def stream(self, request: ModelRequest):
            if request.tools and len(request.messages) == 1:
                yield ToolCall("c1", "helper", asked)
                yield TurnEnd("tool_use")
                return
            source = model.stream(request) if not request.tools else _said("done")
            async for delta in source:
                yield delta

    boss(project, "[helper]", **more)
    return project.run(worker="boss.yaml", model=Boss()), model


async def _said(text: str):
    yield TextDelta(text)
    yield TurnEnd("end")


def test_attachments_are_sent_with_a_task(project: Project) -> None:
    project.write("a.txt", "hello")
    (project.folder / "b.png").write_bytes(PNG)
    (project.folder / "link.txt").symlink_to("a.txt")
    seen, model = ask(project, "a.txt", "/workspace/b.png", "link.txt")
    assert (
        seen.outcomes[-1].value.text()
        == "a.txt text/plain 5, b.png image/png 16, a.txt text/plain 5"
    )
    assert [file.data for file in model.asked[0].messages[0].attachments] == [
        b"hello",
        PNG,
        b"hello",
    ]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("gone.txt", "does not exist"),
        ("/etc/passwd", "is in no zone"),
        ("../outside.txt", "is in no zone"),
        ("out.txt", "outside"),
        (".", "is a folder"),
        ("", "the path is empty"),
        ("big.bin", "is too large to attach"),
    ],
)
def test_attachments_are_read_with_the_permissions_of_the_caller(
    project: Project, path: str, problem: str
) -> None:
    project.write(".env", "KEY=1")
    (project.folder.parent / "outside.txt").write_text("x")
    (project.folder / "out.txt").symlink_to(project.folder.parent / "outside.txt")
    (project.folder / "secret.txt").symlink_to(".env")
    with open(project.folder / "big.bin", "wb") as file:
        file.truncate(LARGEST + 1)
    seen, model = ask(project, path)
    assert seen.statuses == ["error"]
    assert problem in seen.outcomes[0].value.text()
    assert model.asked == []


def test_zones_of_the_caller_apply_instead_of_the_worker_zones(project: Project) -> None:
    project.write("data/a.txt", "hello")
    project.write("free/b.txt", "hello")
    zones = "sandbox: {zones: [{name: free, mode: ro}]}"
    seen, _ = ask(project, "/data/a.txt", sandbox=zones)
    assert "is in no zone" in seen.outcomes[0].value.text()
    seen, _ = ask(project, "/free/b.txt", sandbox=zones)
    assert seen.outcomes[-1].value.text() == "b.txt text/plain 5"


def test_too_many_attachments_are_invalid_input(project: Project) -> None:
    project.write("a.txt", "hello")
    seen, _ = ask(project, *["a.txt"] * 21)
    assert seen.statuses == ["invalid"]


def test_empty_task_is_refused(project: Project) -> None:
    project.write("helper.yaml", "name: helper\n")
    boss(project, "[helper]")
    turn = calls(
        call("helper", input=""), call("helper", input=" \n"), call("helper", input="x", more=1)
    )
    seen = project.run(turn, "done", worker="boss.yaml")
    assert seen.statuses == ["invalid", "error", "invalid"]
    assert "the input is empty; describe the task" in seen.outcomes[1].value.text()
