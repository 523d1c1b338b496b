"""Requests of MCP servers to a session: roots, sampling and forms; and their prompts for people.

Covers forge_cli.core.requests, forge_cli.engine.runtime.commands, forge_cli.engine.runtime.requests,
forge_cli.toolsets.mcp.request_limits and forge_cli.toolsets.mcp.results.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import ApprovalDecision, EventBus, WorkerRuntime, load_worker
from forge_cli.core.actions import CommandEvent
from forge_cli.core.errors import ToolError
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    Event,
    InputPrompt,
    ManualToolsAvailable,
    MessageEvent,
    StatusEvent,
)
from forge_cli.core.requests import NoSession, PromptArgument, PromptSpec, SampleRequest
from forge_cli.schema.toolset import Toolset
from forge_cli.testing import Project, Seen, call, calls, scripted_model
from tests.support.interpreter import PYTHON

SERVER = str(Path(__file__).with_name("server.py"))
YES = ApprovalDecision(True)
ECHO = calls(call("s__echo", text="x"))


def worker(project: Project, mode: str, **settings: Any) -> None:
    server = {"command": PYTHON, "args": [SERVER, mode], **settings}
    section = {"servers": {"s": server}, "approval": {"default": "preApproved"}}
    project.write("worker.yaml", json.dumps({"name": "w", "toolsets": {"mcp": section}}))


def answered(seen: Seen, index: int = 0) -> Any:
    return json.loads(seen.outcomes[index].value.text())


def attended(
    project: Project, *turns: Any, lines: list[str], **options: Any
) -> tuple[Seen, list[str]]:
    """Run with a person who types these lines; ``y`` or ``n`` for a request."""
    bus, prompts = EventBus(), list[str]()

    def type_line(event: Event) -> None:
        if isinstance(event, ApprovalRequired):
            prompts.append(event.request.description)
            bus.answer(event.request.request_id, ApprovalDecision(lines.pop(0) == "y"))
        if isinstance(event, InputPrompt):
            prompts.append(event.prompt)
            bus.answer_input(event.request_id, lines.pop(0))

    bus.subscribe(type_line, answers=True)
    return project.run(*turns, bus=bus, **options), prompts


def test_roots_are_the_zones(project: Project) -> None:
    worker(project, "roots")
    seen = project.run(ECHO, "done")
    assert [root["uri"] for root in answered(seen)["roots"]] == [project.folder.as_uri()]


@pytest.mark.parametrize("mode", ["samples", "elicits", "links"])
def test_request_that_the_worker_does_not_allow_is_refused(project: Project, mode: str) -> None:
    worker(project, mode)
    seen = project.run(ECHO, "done", answers=[])
    assert "code" in answered(seen)
    assert seen.asked == []


@pytest.mark.parametrize(("mode", "key"), [("samples", "sampling"), ("elicits", "elicitation")])
def test_request_disabled_in_the_user_config_is_refused(
    project: Project, mode: str, key: str
) -> None:
    worker(project, mode, **{key: True})
    project.home.mkdir(exist_ok=True)
    (project.home / "config.yaml").write_text(f"mcp: {{{key}: false}}\n")
    seen = project.run(ECHO, "done", answers=[])
    assert "code" in answered(seen)
    assert seen.asked == []


@pytest.mark.parametrize("where", ["server", "toolset"])
def test_sampling_asks_once_in_a_session(project: Project, where: str) -> None:
    worker(project, "samples", **({"sampling": True} if where == "server" else {}))
    if where == "toolset":
        said = json.loads(project.read("worker.yaml"))
        said["toolsets"]["mcp"]["sampling"] = True
        project.write("worker.yaml", json.dumps(said))
    seen = project.run(ECHO, "hi there", ECHO, "hi again", "done", answers=[True])
    assert [answered(seen, index)["content"]["text"] for index in (0, 1)] == [
        "hi there",
        "hi again",
    ]
    assert answered(seen)["role"] == "assistant"
    assert [(request.tool_name, request.args["messages"]) for request in seen.asked] == [
        ("sampling", "user: Say hi.")
    ]
    assert seen.result.response == "done"
    told = [event.message for event in seen.of(StatusEvent)]
    assert sum("the MCP server s got an answer from" in sentence for sentence in told) == 2


def test_sampling_is_denied_by_a_person_or_without_one(project: Project) -> None:
    worker(project, "samples", sampling=True)
    seen = project.run(ECHO, "done", answers=[ApprovalDecision(False, note="not today")])
    assert "not today" in answered(seen)["message"]
    seen = project.run(ECHO, "done")
    assert "the model was not asked" in answered(seen)["message"]
    decided = [event for event in seen.of(ApprovalDecided) if event.rule == "toolsets.mcp.sampling"]
    assert [(event.approved, event.by) for event in decided] == [(False, "headless")]


def test_sampling_counts_in_the_limits(project: Project) -> None:
    worker(project, "samples", sampling=True)
    said = json.loads(project.read("worker.yaml"))
    project.write("worker.yaml", json.dumps({**said, "limits": {"max_turns": 1}}))
    seen = project.run(ECHO, "never", answers=[True])
    assert "the limit of 1 turn was reached" in answered(seen)["message"]
    assert seen.result.status == "limit"


def test_form_is_filled_in_line_by_line(project: Project) -> None:
    worker(project, "elicits", elicitation=True)
    seen, prompts = attended(project, ECHO, "done", lines=["y", "0", "blue", "3"])
    assert answered(seen) == {"action": "accept", "content": {"size": 3, "colour": "blue"}}
    asked = ["size, How large (a number; required): ", "colour (red|blue; empty: 'red'): "]
    assert prompts == ["the MCP server s asks: Which one?", *asked, asked[0]]
    assert [event.options for event in seen.of(InputPrompt)][:2] == [None, ("red", "blue")]
    assert any("that does not fit" in event.message for event in seen.of(StatusEvent))


@pytest.mark.parametrize("lines", [["n"], ["y", ""]])
def test_form_can_be_declined(project: Project, lines: list[str]) -> None:
    worker(project, "elicits", elicitation=True)
    seen, _ = attended(project, ECHO, "done", lines=lines)
    assert answered(seen) == {"action": "decline"}


def test_time_of_an_answer_does_not_count_for_the_call(project: Project) -> None:
    worker(project, "elicits", elicitation=True, timeout=1)
    bus = EventBus()

    async def think(event: Any) -> None:
        await anyio.sleep(1.5)
        bus.answer(event.request.request_id, ApprovalDecision(False))

    async def go() -> Seen:
        seen = Seen()
        async with anyio.create_task_group() as tasks:
            bus.subscribe(
                lambda e: tasks.start_soon(think, e) if isinstance(e, ApprovalRequired) else None,
                answers=True,
            )
            model = scripted_model(ECHO, "done")
            loaded = load_worker(project.folder / "worker.yaml")
            options: dict[str, Any] = {
                "workspace": project.folder,
                "bus": bus,
                "on_event": seen.events.append,
            }
            with anyio.fail_after(60):
                async with WorkerRuntime(worker=loaded, model=model, **options) as runtime:
                    await runtime.run("go")
        return seen

    with project.environment():
        assert answered(anyio.run(go)) == {"action": "decline"}


MODERN = '''
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("modern")


class Form(BaseModel):
    size: int


def ask() -> Elicit[Form]:
    return Elicit("How large?", Form)


def sample() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Say hi."))], max_tokens=9)


@server.tool()
def echo(
    text: str, form: Annotated[Form, Resolve(ask)], said: Annotated[CreateMessageResult, Resolve(sample)]
) -> str:
    """Ask for both."""
    return f"{form.size} {said.content.text}"


server.run()
'''


@pytest.mark.long
def test_server_with_the_newer_protocol_asks_for_both_at_once(project: Project) -> None:
    project.write("modern.py", MODERN)
    worker(project, "", args=["modern.py"], sampling=True, elicitation=True)
    seen, prompts = attended(
        project, ECHO, "hi", "done", lines=["4"], approval_callback=lambda request: YES
    )
    assert (seen.statuses, answered(seen)) == (["success"], {"result": "4 hi"})
    assert len(prompts) == 1


PUSHING = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

server = MCPServer("pushing")


class Form(BaseModel):
    size: int


@server.tool()
async def echo(text: str, ctx: Context) -> str:
    return (await ctx.elicit("How large?", Form)).action


server.run()
"""


def test_server_may_ask_during_a_call(project: Project) -> None:
    project.write("pushing.py", PUSHING)
    worker(project, "", args=["pushing.py"], elicitation=True)
    refused = project.run(ECHO, "done").outcomes[0]
    assert "set 'protocol: legacy' in its definition" in (refused.error or "")
    worker(project, "", args=["pushing.py"], elicitation=True, protocol="legacy")
    assert answered(project.run(ECHO, "done")) == {"result": "decline"}


def test_form_without_a_person_is_declined(project: Project) -> None:
    worker(project, "elicits", elicitation=True)
    assert answered(project.run(ECHO, "done")) == {"action": "decline"}


def test_links_are_not_followed(project: Project) -> None:
    worker(project, "links", elicitation=True)
    seen, prompts = attended(project, ECHO, "done", lines=[])
    assert (answered(seen), prompts) == ({"action": "decline"}, [])


def converse(project: Project, *commands: Event, turns: Sequence[Any] = ("done",)) -> list[Event]:
    events: list[Event] = []

    async def go() -> None:
        loaded, bus = load_worker(project.folder / "worker.yaml"), EventBus()
        bus.subscribe(events.append)
        options: dict[str, Any] = {"workspace": project.folder, "bus": bus}
        with anyio.fail_after(60):
            async with (
                WorkerRuntime(worker=loaded, model=scripted_model(*turns), **options) as runtime,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(runtime.converse)
                await anyio.wait_all_tasks_blocked()
                for command in (*commands, CommandEvent("exit")):
                    bus.emit(command)

    with project.environment():
        anyio.run(go)
    return events


def said_by_user(events: list[Event]) -> list[str]:
    messages = [event.message for event in events if isinstance(event, MessageEvent)]
    return [message.text for message in messages if message.role == "user"]


def test_prompts_are_announced_and_sent_by_name(project: Project) -> None:
    worker(project, "prompts")
    events = converse(project, CommandEvent("s__write_up", ("topic=two words", "style=short")))
    (announced,) = [event.prompts for event in events if isinstance(event, ManualToolsAvailable)]
    assert announced == (
        {
            "name": "s__write_up",
            "description": "Write it up.",
            "arguments": [
                {"name": "topic", "description": "", "required": True},
                {"name": "style", "description": "How", "required": False},
            ],
        },
        {"name": "s__bare", "description": "", "arguments": []},
    )
    text = 'write up: {"topic": "two words", "style": "short"}\n\nassistant: At once.'
    shown = StatusEvent("info", f"/s__write_up: {text}")
    assert said_by_user(events) == [text]
    sent = next(event for event in events if isinstance(event, MessageEvent))
    assert events.index(shown) < events.index(sent)


@pytest.mark.parametrize(
    ("name", "args", "sentence"),
    [
        ("s__write_up", (), "/s__write_up needs topic=..."),
        ("s__bare", ("x=1",), "/s__bare has no argument 'x'; it takes none"),
        ("s__other", (), "there is no command 's__other'"),
    ],
)
def test_invalid_prompt_is_reported(
    project: Project, name: str, args: tuple[str, ...], sentence: str
) -> None:
    worker(project, "prompts")
    events = converse(project, CommandEvent(name, args))
    assert any(sentence in event.message for event in events if isinstance(event, StatusEvent))
    assert said_by_user(events) == []


@pytest.mark.parametrize(
    ("given", "args"),
    [(["a", "b=c"], {"text": "a b=c"}), (["text=a b"], {"text": "a b"}), ([], {})],
)
def test_single_argument_needs_no_key(given: list[str], args: dict[str, str]) -> None:
    assert PromptSpec("p", "", (PromptArgument("text"),)).read_args(given) == args


def test_toolset_without_prompts_or_session_is_supported() -> None:
    class Plain(Toolset):
        name = "plain"

    async def go() -> None:
        assert await Plain().prompts() == ()
        with pytest.raises(ToolError):
            await Plain().get_prompt("p", {})
        with pytest.raises(ToolError):
            await NoSession().sample(SampleRequest(asker="it", messages=()))
        assert await NoSession().ask_person("it", "?", {}) is None

    anyio.run(go)
