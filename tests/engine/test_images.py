"""A tool that returns an image: for the model, in the session, and for people."""

import base64
import json
import struct

import anyio
import mcp_types
import pytest

from forge_cli import Image, Text, WorkerRuntime, load_worker
from forge_cli.apps.serve.protocol import call_result
from forge_cli.core.events import ToolResult
from forge_cli.embedding import open_session
from forge_cli.engine.replay.drift import Drift
from forge_cli.engine.runtime.repeat import replay
from forge_cli.events import ToolCall, ToolOutcome
from forge_cli.results import Blob
from forge_cli.sandbox.secrets import Redactor
from forge_cli.testing import Project, call, calls
from tests.support.listener import Listener

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
TOOLS = f"""
from forge_cli import Image, tool
from forge_cli.results import Blob

PNG = {PNG!r}

@tool(read_only=True, needs_approval=False)
def shot() -> Image:
    \"\"\"Take a picture.\"\"\"
    return Image(PNG, "image/png", "A cat")

@tool(read_only=True, needs_approval=False)
def pair() -> list[Image]:
    \"\"\"Take two pictures.\"\"\"
    return [Image(PNG, "image/png", "One"), Image(PNG, "image/png", "Two")]

@tool(read_only=True, needs_approval=False)
def table() -> Blob:
    \"\"\"Make a table.\"\"\"
    return Blob(b"a,b\\n1,2\\n", "text/csv", "a.csv")
"""
WORKER = """
name: painter
model: script:script.yaml
toolsets: {custom: {module: ./tools.py, tools: [shot, pair, table]}}
"""
SCRIPT = "turns: [{calls: [{tool: shot}]}, {text: '{result}'}, {text: Again.}]"


@pytest.fixture
def painter(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    project.write("script.yaml", SCRIPT)
    return project


def test_model_gets_the_image_and_its_description(painter: Project) -> None:
    seen = painter.run(calls(call("shot")), "{result}")
    assert seen.outcomes[0].value == Image(PNG, "image/png", "A cat")
    assert seen.result.response == "A cat\n[image: image/png, 640x480, 24 bytes]"
    (line,) = [line for line in seen.record if line.type == "toolResult"]
    assert base64.b64decode(line.data["value"]["data"]) == PNG
    assert isinstance(line.event, ToolResult)
    assert line.event.value == seen.outcomes[0].value


def test_image_survives_a_resume(painter: Project) -> None:
    watcher = Listener()

    async def work() -> None:
        worker = load_worker(painter.folder / "worker.yaml")
        with open_session(worker, workspace=painter.folder) as session:
            async with WorkerRuntime(
                worker=worker, workspace=painter.folder, session=session
            ) as runtime:
                await runtime.run("Paint.")
        with open_session(
            worker, resume=session.id, workspace=painter.folder, task="More."
        ) as session:
            async with WorkerRuntime(
                worker=worker, workspace=painter.folder, session=session, model=watcher
            ) as runtime:
                await runtime.run("More.")

    with painter.environment():
        anyio.run(work)
    (request,) = watcher.requests
    (result,) = [result for message in request.messages for result in message.results]
    assert result.files == (Image(PNG, "image/png", "A cat"),)


@pytest.mark.parametrize("tool", ["shot", "pair"])
def test_changed_image_is_drift(painter: Project, tool: str) -> None:
    painter.write("script.yaml", SCRIPT.replace("shot", tool))
    with painter.environment():
        done = painter.forge("run", "worker.yaml", "Paint.", "-p")
        assert done.returncode == 0
        anyio.run(lambda: replay("last", workspace=painter.folder))
        painter.write("tools.py", TOOLS.replace("IHDR", "ihdr"))
        with pytest.raises(Drift, match=tool):
            anyio.run(lambda: replay("last", workspace=painter.folder))


def test_image_is_described_to_people(painter: Project) -> None:
    drawn = painter.forge("tools", "call", "shot", "--worker", "worker.yaml")
    assert drawn.stdout == "A cat\n[image: image/png, 640x480, 24 bytes]\n"
    drawn = painter.forge("tools", "call", "table", "--worker", "worker.yaml")
    assert [line.split() for line in drawn.stdout.splitlines()] == [
        ["a.csv,", "text/csv,", "8", "bytes"],
        ["a", "b"],
        ["1", "2"],
    ]
    as_json = painter.forge("tools", "call", "shot", "--worker", "worker.yaml", "--json")
    assert json.loads(as_json.stdout)["kind"] == "image"


def test_mcp_clients_get_images_and_files() -> None:
    def served(value: Image | Blob | Text) -> list[mcp_types.ContentBlock]:
        return call_result(
            ToolOutcome(ToolCall("c", "shot", {}), "success", value), Redactor({})
        ).content

    text, image = served(Image(PNG, "image/png", "A cat"))
    assert (text.text, image.mime_type) == (
        "A cat\n[image: image/png, 640x480, 24 bytes]",
        "image/png",
    )
    assert base64.b64decode(image.data) == PNG
    _, file = served(Blob(b"\xff", "application/zip", "a b.zip"))
    assert (str(file.resource.uri), file.resource.blob) == ("forge:///a%20b.zip", "/w==")
    assert len(served(Blob(b"a,b", "text/csv"))) == 1
    two = Text("Two.", files=(Image(PNG, "image/png"), Image(PNG, "image/png")))
    assert [part.type for part in served(two)] == ["text", "image", "image"]
