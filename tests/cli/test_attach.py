"""``forge run --attach``: attached files, and reports on files that cannot be attached."""

import base64
import json
import sys
from base64 import b64decode

import anyio
import pytest

from forge_cli import WorkerRuntime, load_worker
from forge_cli.core.messages import Attachment, Message, ModelRequest, TextDelta, TurnEnd
from forge_cli.files.attachment import LARGEST
from forge_cli.testing import Project
from tests.models.openai.server import ChatServer, says

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
WORKER = "name: reader\nmodel: script:script.yaml\n"
SCRIPT = 'turns: [{text: "{task}, said."}]\n'


@pytest.fixture
def reader(project: Project) -> Project:
    """A project with a worker that repeats its task, and files of every sort."""
    project.write("worker.yaml", WORKER)
    project.write("script.yaml", SCRIPT)
    project.write("note.txt", "Grüße.")
    project.write("deep/er/other.txt", "Other.")
    (project.folder / "image.png").write_bytes(PNG)
    (project.folder / "paper.pdf").write_bytes(PDF)
    (project.folder / "blob").write_bytes(b"\0\xff")
    return project


def attached(*files: str) -> list[str]:
    return [word for file in files for word in ("--attach", file)]


def test_attachments_are_logged_for_a_resumed_session(cli, reader: Project) -> None:
    files = ["note.txt", "image.png", "deep/er/other.txt"]
    done = cli("run", "worker.yaml", "look", "--json", *attached(*files))
    assert done.code == 0
    lines = [json.loads(line) for line in done.out.splitlines()]
    user = next(line["message"] for line in lines if line["type"] == "message")
    note, image, other = user["attachments"]
    assert (note["name"], note["mediaType"], note["text"]) == (
        "note.txt",
        "text/plain",
        reader.read("note.txt"),
    )
    assert base64.b64decode(image["data"]) == (reader.folder / "image.png").read_bytes()
    assert other["name"] == "other.txt"


def test_scripted_model_ignores_attachments(cli, reader: Project) -> None:
    done = cli("run", "worker.yaml", "look", "-p", *attached("note.txt", "paper.pdf"))
    assert (done.code, done.out, done.err) == (0, "look, said.\n", "")


def test_attachment_without_files_adds_no_names(cli, reader: Project) -> None:
    lines = [
        json.loads(line) for line in cli("run", "worker.yaml", "look", "--json").out.splitlines()
    ]
    assert next(line["message"] for line in lines if line["type"] == "message") == {
        "role": "user",
        "content": "look",
    }


def test_changed_attachment_is_another_request(cli, reader: Project) -> None:
    def digest() -> str:
        lines = cli("run", "worker.yaml", "look", "--json", *attached("note.txt")).out.splitlines()
        (found,) = [
            line["requestDigest"] for line in map(json.loads, lines) if line["type"] == "turnStart"
        ]
        return found

    first = digest()
    assert digest() == first
    reader.write("note.txt", "Other words.")
    assert digest() != first


def test_file_name_that_is_not_text_is_accepted(cli, reader: Project) -> None:
    name = "odd\udcff\x1b[2J.txt"
    (reader.folder / name).write_text("x")
    done = cli("run", "worker.yaml", "look", "--json", *attached(name))
    assert done.code == 0
    (user,) = [
        line["message"]
        for line in map(json.loads, done.out.splitlines())
        if '"user"' in json.dumps(line)
    ]
    assert [file["name"] for file in user["attachments"]] == ["odd\\udcff\x1b[2J.txt"]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("nosuch.txt", "there is no such file"),
        ("deep", "that is not a file"),
        ("note.txt/below", "there is no such file"),
        ("x" * 300, "File name too long"),
        ("blob", "it is neither UTF-8 text, nor an image (PNG, JPEG, GIF, WebP), nor a PDF"),
    ],
)
def test_invalid_attachment_ends_the_run_before_it_starts(
    cli, reader: Project, file: str, problem: str
) -> None:
    reader.write("script.yaml", "turns: []\n")
    done = cli("run", "worker.yaml", "look", *attached("note.txt", file))
    assert (done.code, done.out) == (2, "")
    told, _, hint = done.err.partition("\n")
    assert told == f"forge: --attach {file}: {problem}"
    assert bool(hint) == ("file" in problem)


def test_too_large_file_is_an_error(cli, reader: Project) -> None:
    with open(reader.folder / "large", "wb") as large:
        large.truncate(LARGEST + 1)
    done = cli("run", "worker.yaml", "look", *attached("large"))
    assert done.code == 2
    assert done.err == "forge: --attach large: 20971521 bytes are too much; the most is 20971520\n"


def test_files_are_relative_to_the_directory_of_the_caller(cli, reader: Project) -> None:
    assert cli("run", "worker.yaml", "look", "-C", "deep", *attached("note.txt")).code == 0
    assert cli("run", "worker.yaml", "look", "-C", "deep", *attached("er/other.txt")).code == 2


def test_images_texts_and_unsupported_files_are_described(
    cli, reader: Project, server: ChatServer
) -> None:
    server.will(says("Seen."))
    files = attached("image.png", "note.txt", "paper.pdf")
    done = cli("run", "worker.yaml", "look", "-m", "openai:tiny", *files)
    assert (done.code, done.out) == (0, "Seen.\n")
    told = "warning: openai:tiny cannot be shown paper.pdf (application/pdf); it only learns that the file exists\n"
    assert done.err.count(told) == 1
    said, image, text, paper = server.requests[0].messages[-1]["content"]
    assert said == {"type": "text", "text": "look"}
    kind, _, data = image["image_url"]["url"].partition(",")
    assert (kind, b64decode(data)) == ("data:image/png;base64", PNG)
    assert text["text"] == "[The attached file note.txt]\nGrüße."
    assert paper["text"] == (
        f"[The attached file paper.pdf (application/pdf, {len(PDF)} bytes) cannot be shown to this model.]"
    )


def test_program_can_attach_files(reader: Project) -> None:
    heard: list[Message] = []

    class Listening:
        name, context_window = "listening:test", None

        async def stream(self, request: ModelRequest):
            heard.extend(request.messages)
            yield TextDelta("Heard.")
            yield TurnEnd()

        async def aclose(self) -> None: ...

    file = Attachment("note.txt", "text/plain", b"Hi.")

    async def run() -> str:
        worker = load_worker(reader.folder / "worker.yaml")
        async with WorkerRuntime(
            worker=worker, model=Listening(), workspace=reader.folder
        ) as runtime:
            return (await runtime.run("look", [file])).response

    assert anyio.run(run) == "Heard."
    assert heard == [Message("user", "look", attachments=(file,))]


WEATHER = """
from forge_cli import Toolset, hookimpl, tool

class Weather(Toolset):
    name = "weather"

    @tool(needs_approval=False)
    def forecast(self) -> str:
        "Tell the weather."
        return "sun"

@hookimpl
def forge_toolsets():
    return [Weather]
"""


def test_no_plugins_flag_keeps_builtin_tools(cli, reader: Project, install, monkeypatch) -> None:
    site = install("forge-tools-weather", "weather_tools", WEATHER, "weather = weather_tools")
    monkeypatch.syspath_prepend(str(site))
    reader.write("worker.yaml", WORKER + "toolsets: {weather: {}}\n")
    reader.write("script.yaml", 'turns: [{calls: [{tool: forecast}]}, {text: "{result}"}]\n')
    done = cli("run", "worker.yaml", "look")
    assert (done.code, done.out) == (0, "sun\n")
    sys.modules.pop("weather_tools")
    done = cli("run", "worker.yaml", "look", "--no-plugins")
    assert (done.code, done.out) == (3, "")
    assert "worker.yaml:3:12: toolsets.weather: no such toolset; installed are " in done.err
    assert "weather_tools" not in sys.modules
