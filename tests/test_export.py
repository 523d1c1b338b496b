"""The tools of a worker in a program and in other frameworks: every call passes the gate.

Covers forge_cli.export.
"""

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forge_cli import ToolError, WorkerRuntime, load_worker
from forge_cli.errors import ExitCode, UsageError
from forge_cli.export import (
    functions,
    langchain_tools,
    open_tools,
    openai_agents_tools,
    pydantic_ai_tools,
)
from forge_cli.testing import Project, Seen, scripted_model

pytestmark = pytest.mark.anyio

TOOLS = '''
from forge_cli import Json, tool

def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b

@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount}"

@tool(needs_approval="blocked")
def never() -> str:
    """Do what nobody may."""
    return "done"

@tool(manual="manual")
def deploy() -> str:
    """Deploy."""
    return "deployed"

def where(city: str) -> Json:
    """Find a city."""
    return Json({"city": city, "at": [46, 7]})
'''
WORKER = """
name: w
toolsets:
  custom:
    module: ./tools.py
    tools: [add, pay, never, deploy, where]
    approval: {tools: {add: preApproved, where: preApproved}}
"""


@asynccontextmanager
async def opened(project: Project, **options: Any) -> AsyncIterator[tuple[WorkerRuntime, Seen]]:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    seen = Seen()
    given: dict[str, Any] = {"workspace": project.folder, "model": scripted_model(), **options}
    with project.environment():
        worker = load_worker(project.folder / "worker.yaml")
        async with WorkerRuntime(worker=worker, on_event=seen.events.append, **given) as runtime:
            yield runtime, seen


async def test_program_calls_any_tool_through_the_gate(project: Project) -> None:
    async with opened(project, approval_callback=lambda request: request.args["amount"] < 20) as (
        runtime,
        seen,
    ):
        outcomes = [
            await runtime.call("add", {"a": 1}),
            await runtime.call("pay", {"amount": 5}),
            await runtime.call("pay", {"amount": 50}),
            await runtime.call("never"),
            await runtime.call("deploy"),
            await runtime.call("add", {"a": "x"}),
            await runtime.call("absent"),
        ]
    assert [outcome.status for outcome in outcomes] == [
        *("success", "success", "denied", "blocked", "denied", "invalid", "not_found")
    ]
    assert outcomes[1].text() == "paid 5"
    assert len(seen.outcomes) == len(outcomes)


async def test_question_names_the_program_that_wants_the_call(project: Project) -> None:
    asked = []

    def answer(request: Any) -> bool:
        asked.append(request.description)
        return True

    async with opened(project, approval_callback=answer) as (runtime, _):
        await runtime.call("pay", {"amount": 5})
    assert asked == ["the program that runs w wants to call pay"]


async def test_exported_call_that_asks_is_denied_without_a_person(project: Project) -> None:
    async with opened(project) as (runtime, _):
        outcome = await runtime.call("pay", {"amount": 5})
    assert (outcome.status, outcome.by) == ("denied", "headless")


async def test_functions_have_the_signatures_of_their_tools(project: Project) -> None:
    async with opened(project) as (runtime, _):
        found = {function.__name__: function for function in functions(runtime)}
        assert set(found) == {"add", "pay", "never", "where"}
        assert found["add"].__doc__ == "Add two numbers."
        assert str(inspect.signature(found["add"])) == "(*, a, b=1)"
        assert await found["add"](a=2) == 3
        assert await found["where"](city="Bern") == {"city": "Bern", "at": [46, 7]}
        with pytest.raises(ToolError, match="pay was not called"):
            await found["pay"](amount=1)
        with pytest.raises(ToolError, match="missing field 'a'|a: "):
            await found["add"]()


async def test_tools_are_chosen_by_name(project: Project) -> None:
    async with opened(project, approval_callback=lambda request: True) as (runtime, _):
        add, deploy = functions(runtime, ["add", "deploy"])
        assert await add(a=1) == 2
        assert await deploy() == "deployed"
        with pytest.raises(UsageError, match="no tool 'ad'; its tools are add, "):
            functions(runtime, ["ad"])


async def test_worker_is_opened_for_its_tools_without_a_model(project: Project) -> None:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    with project.environment():
        worker = load_worker(project.folder / "worker.yaml")
        async with open_tools(worker, workspace=project.folder) as runtime:
            assert (await runtime.call("add", {"a": 1})).text() == "2"
            result = await runtime.run("go")
    assert result.exit_code == ExitCode.PROVIDER
    assert "opened for its tools only" in (result.error or "")


@pytest.mark.long
async def test_langchain_calls_pass_the_gate(project: Project) -> None:
    pytest.importorskip("langchain_core")
    async with opened(project) as (runtime, seen):
        tools = {tool.name: tool for tool in langchain_tools(runtime)}
        assert await tools["add"].ainvoke({"a": 1}) == "2"
        assert "pay was not called" in await tools["pay"].ainvoke({"amount": 1})
    assert seen.statuses == ["success", "denied"]


@pytest.mark.long
async def test_pydantic_ai_calls_pass_the_gate(project: Project) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ToolReturnPart
    from pydantic_ai.models.test import TestModel

    async with opened(project) as (runtime, seen):
        agent = Agent(TestModel(call_tools=["add", "pay"]), tools=pydantic_ai_tools(runtime))
        result = await agent.run("go")
        parts = [part for message in result.all_messages() for part in message.parts]
        returned = {
            part.tool_name: part.content for part in parts if isinstance(part, ToolReturnPart)
        }
    assert returned["add"].isdigit()
    assert "pay was not called" in returned["pay"]
    assert sorted(seen.statuses) == ["denied", "success"]


@pytest.mark.long
async def test_openai_agents_calls_pass_the_gate(project: Project) -> None:
    pytest.importorskip("agents")
    from agents.tool_context import ToolContext

    async with opened(project) as (runtime, seen):
        tools = {tool.name: tool for tool in openai_agents_tools(runtime)}

        async def call(name: str, text: str) -> Any:
            context: Any = ToolContext(
                context=None, tool_name=name, tool_call_id="c", tool_arguments=text
            )
            return await tools[name].on_invoke_tool(context, text)

        assert await call("add", '{"a": 1}') == "2"
        assert "pay was not called" in await call("pay", '{"amount": 1}')
        assert "not JSON" in await call("add", "{")
        assert "JSON object" in await call("add", "[]")
    assert seen.statuses == ["success", "denied"]
