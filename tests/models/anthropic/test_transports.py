"""Both ways to the API send the same: forge's own, which imports no SDK, and the SDK's.

Covers forge_cli.models.anthropic.sdk, forge_cli.models.anthropic.transport.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import WorkerError
from forge_cli.core.messages import Attachment, CallResult, Message, ModelEnv, ModelRequest
from forge_cli.models.anthropic import make
from forge_cli.models.anthropic.encode import kept
from forge_cli.testing import Project

from .server import Api, Received, say, text, thinking, tool_use

MODEL = "claude-haiku-5-5"
HEADERS = ("accept", "anthropic-version", "authorization", "content-type", "host")
ADD = (
    ToolCall("a", "add", {"a": 1, "b": "ü"}),
    ToolCall("b", "add", {"a": 1e22, "c": [None, True, "\u2028"]}),
)
TASK, ASKED = Message("user", "Grüße 👋, «all»."), Message("assistant", "Adding.", ADD)


def results(*texts: str, is_error: bool = False, calls: Sequence[ToolCall] = ADD) -> Message:
    return Message(
        "tool",
        results=tuple(
            CallResult(call.id, "add", text, is_error=is_error)
            for call, text in zip(calls, texts, strict=True)
        ),
    )


def attached(name: str, kind: str, data: bytes) -> list[Message]:
    return [Message("user", "Look.", attachments=(Attachment(name, kind, data),))]


MANY = tuple(ToolCall(f"c{number}", "add", {"a": number}) for number in range(20))
THOUGHTS = [thinking("Hm, «so»."), {"type": "redacted_thinking", "data": "b3Bh"}]
THOUGHT = kept(MODEL, [*THOUGHTS, text("Yes."), tool_use("a", "x")])
HISTORIES: dict[str, list[Message]] = {
    "text": [TASK, Message("assistant", "Hello."), Message("user", "And\n\t\x00 then?")],
    "lone surrogate": [Message("user", "half \ud83d a face")],
    "tools": [TASK, ASKED, results("3", "4")],
    "image": attached("photo.png", "image/png", b"\x89PNG\r\n\x1a\n...."),
    "pdf": attached("paper.pdf", "application/pdf", b"%PDF-1.7 ..."),
    "text file": attached("notes.md", "text/markdown", "Grüße".encode()),
    "thinking": [
        TASK,
        Message("assistant", "Yes.", ADD[:1], native=THOUGHT),
        results("3", calls=ADD[:1]),
    ],
    "parallel calls, one cached end": [
        TASK,
        Message("assistant", "", MANY),
        results(*"x" * 20, calls=MANY),
    ],
    "errors in results": [TASK, ASKED, results("no such file", "", is_error=True)],
    "empty results": [TASK, ASKED, results("", " \n"), Message("user", "Next.")],
}


def sent(
    api: Api, transport: str, history: Sequence[Message], tools: Sequence[Any] = ()
) -> Received:
    """The request that a transport sends for a history."""
    env = ModelEnv(folders=(), notify=lambda level, message: None, options={"transport": transport})

    async def turn() -> None:
        model = make(MODEL, env)
        with anyio.fail_after(60):
            async for _ in model.stream(ModelRequest("Be brief: «ja».", history, tools)):
                pass
            await model.aclose()

    api.rules.thinking.clear()
    api.will(say("Hello."))
    anyio.run(turn)
    return api.received[-1]


@pytest.mark.long
def test_both_transports_send_the_bytes_that_the_sdk_would_encode(api: Api) -> None:
    async def create(parameters: dict[str, Any]) -> None:
        from anthropic import AsyncAnthropic

        async with AsyncAnthropic() as client:
            async for _ in await client.messages.create(**parameters):
                pass

    failures = []
    for name, history in HISTORIES.items():
        own, through_sdk = (sent(api, transport, history) for transport in ("http", "sdk"))
        api.rules.thinking.clear()
        api.will(say("Hello."))
        anyio.run(create, own.data)
        by_sdk = api.received[-1]
        headers = [
            {header: request.headers[header] for header in HEADERS}
            for request in (own, through_sdk, by_sdk)
        ]
        if (own.raw, own.line) != (through_sdk.raw, through_sdk.line) or json.loads(
            own.raw
        ) != json.loads(by_sdk.raw):
            failures.append((name, own.raw))
        if any(each != headers[0] for each in headers) or any(
            each.startswith("x-stainless") for each in own.headers
        ):
            failures.append((name, headers))
    assert failures == []


def test_default_transport_imports_no_sdk(api: Api) -> None:
    code = f"""
import sys, anyio
from forge_cli.core.messages import Message, ModelEnv, ModelRequest
from forge_cli.models.anthropic import make
async def turn():
    model = make({MODEL!r}, ModelEnv(folders=(), notify=print))
    said = [delta async for delta in model.stream(ModelRequest("", [Message("user", "Hi")], ()))]
    await model.aclose()
    print(said[0].text, "anthropic" in sys.modules, "httpx2" in sys.modules)
anyio.run(turn)
"""
    api.will(say("Hello."))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("Hello. False True\n", "")


def test_sdk_transport_is_chosen_in_the_config(api: Api, project: Project) -> None:
    project.write("worker.yaml", f"name: talker\nmodel: anthropic:{MODEL}\n")
    project.home.mkdir()
    (project.home / "config.yaml").write_text(
        f'models: {{"anthropic:{MODEL}": {{transport: sdk}}}}'
    )
    api.will(say("Hello."))
    assert project.run(task="Hi").result.response == "Hello."
    assert api.received[0].headers["x-stainless-lang"] == "python"


def test_unknown_transport_is_an_error(project: Project) -> None:
    project.write("worker.yaml", f"name: talker\nmodel: anthropic:{MODEL}\n")
    project.home.mkdir()
    (project.home / "config.yaml").write_text(
        f'models: {{"anthropic:{MODEL}": {{transport: pigeon}}}}'
    )
    with pytest.raises(WorkerError, match="transport"):
        project.run(task="Hi")
