"""Tools of other frameworks under ``external:``: taken by their shape, silent, and not bound to zones.

Covers forge_cli.toolsets.external.
"""

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest

from forge_cli.core.errors import WorkerError
from forge_cli.core.events import TurnStart
from forge_cli.testing import Project, call, calls
from forge_cli.toolsets.external import adapt
from tests.support.listener import Listener

STAND_INS = '''
"""Objects that look like the tools of other frameworks, and have nothing else of them."""

from types import SimpleNamespace

from pydantic import BaseModel

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


class Model:
    @staticmethod
    def model_json_schema():
        return SCHEMA


class OldModel:
    @staticmethod
    def schema():
        return SCHEMA


class LangChain:
    """``BaseTool``: a schema that is a model of either generation, a dict, or missing."""

    description = "Double a number."

    def __init__(self, name="chain", args_schema=Model, **more):
        self.name, self.args_schema = name, args_schema
        vars(self).update(more)

    async def ainvoke(self, args):
        return args["a"] * 2


class Kit(BaseModel):
    def get_tools(self):
        return [LangChain("first"), LangChain("second")]


class PydanticAI:
    """``Tool``: its function is called with validated args, and maybe a context."""

    name, description = "typed", "Double a number."

    def __init__(self, takes_ctx=False):
        self.takes_ctx = takes_ctx
        self.function_schema = SimpleNamespace(json_schema=SCHEMA, validator=self, call=self.call)

    def validate_python(self, args):
        return dict(args, valid=True)

    async def call(self, args, context):
        assert args["valid"] and context is None
        return SimpleNamespace(return_value=args["a"] * 2, metadata="for the program")


class FunctionToolset:
    tools = {"typed": PydanticAI()}

    async def call_tool(self): ...


class Smol:
    """``Tool``: a class whose instances are called, with inputs in a notation of their own."""

    name, description, output_type = "smol", "Double a number.", "integer"
    inputs = {
        "a": {"type": "integer", "description": "The number"},
        "b": {"type": ["string", "number"], "nullable": True},
        "c": {"type": "any", "nullable": True},
    }

    def forward(self, a, b=None, c=None):
        return a * 2

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)


class Seeing(Smol):
    inputs = {"picture": {"type": "image"}}


class OpenAI:
    """``FunctionTool``: it takes a context, and its args as JSON."""

    name, description, params_json_schema = "agentic", "Double a number.", SCHEMA

    async def on_invoke_tool(self, context, text):
        assert (context.tool_name, context.tool_arguments, context.context) == ("agentic", text, None)
        return str(int(text.split(":")[1].strip(" }")) * 2)


class Crew:
    """``BaseTool`` of CrewAI: its name is a title, and older versions put more before the description."""

    args_schema, max_usage_count = Model, None

    def __init__(self, name, description):
        self.name, self.description = name, description

    def run(self, a):
        return a * 2


class Llama:
    """``FunctionTool``: what it is stands in its metadata, and what it gives in an output."""

    metadata = SimpleNamespace(name="llama", description="Double a number.", get_parameters_dict=lambda: SCHEMA)

    def __init__(self, requires_context=False):
        self.requires_context = requires_context

    async def acall(self, a):
        return SimpleNamespace(content=str(a * 2) if a else "not zero", is_error=not a, raw_output=a)


class Spec:
    def to_tool_list(self):
        return [Llama()]


class Picky(Smol):
    def __init__(self, key): ...


class AnythingGoes:
    def __getattr__(self, name):
        raise RuntimeError("asked for " + name)


chain, typed, smol, agentic, llama = LangChain(), PydanticAI(), Smol(), OpenAI(), Llama()
old, plain = LangChain("old", OldModel), LangChain("plain", SCHEMA)
bare = LangChain("bare", None, args={"a": {"type": "integer"}})
hidden = LangChain("hidden", object, tool_call_schema=Model)
kit, toolset = Kit(), FunctionToolset()
several, named = [chain, [smol], Spec], {"twice": chain, "again": Smol}
crew = Crew("Double It!", "Double a number.")
boilerplate = "Tool Name: Double It\\nTool Arguments: {}\\nTool Description: Double a number."
old_crew = Crew("Double It", boilerplate)
with_context, in_workflow, seeing, odd = PydanticAI(True), Llama(True), Seeing(), LangChain("odd", object())
spaced, strange = LangChain("with a space"), AnythingGoes()
'''


@pytest.fixture
def shaped(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    site = tmp_path / "site"
    site.mkdir()
    (site / "standins.py").write_text(STAND_INS)
    monkeypatch.syspath_prepend(str(site))
    yield project
    sys.modules.pop("standins", None)


def worker(project: Project, name: str, package: str = "standins", more: str = "") -> None:
    project.write(
        "worker.yaml",
        f"name: w\ntoolsets:\n  external: {{package: {package}, import: {name}{more}}}\n",
    )


NAMES = {
    "chain": ["chain"],
    "old": ["old"],
    "plain": ["plain"],
    "bare": ["bare"],
    "hidden": ["hidden"],
    "kit": ["first", "second"],
    "Kit": ["first", "second"],
    "typed": ["typed"],
    "toolset": ["typed"],
    "smol": ["smol"],
    "Smol": ["smol"],
    "agentic": ["agentic"],
    "llama": ["llama"],
    "Spec": ["llama"],
    "several": ["chain", "smol", "llama"],
    "named": ["twice", "again"],
    "crew": ["double_it"],
    "old_crew": ["double_it"],
}


@pytest.mark.few(6)
@pytest.mark.parametrize("name", NAMES)
def test_tools_of_other_frameworks_ask_and_work(shaped: Project, name: str) -> None:
    worker(shaped, name)
    tools = NAMES[name]
    seen = shaped.run(
        calls(*(call(tool, a=21) for tool in tools)), "done", answers=[True] * len(tools)
    )
    assert seen.of(TurnStart)[0].tools == tuple(tools)
    assert [outcome.value.text() for outcome in seen.outcomes] == ["42"] * len(tools)
    assert [request.tool_name for request in seen.asked] == tools
    assert {(request.risk, request.reason.rpartition("; ")[2]) for request in seen.asked} == {
        ("high", "it is not bound to zones")
    }


@pytest.mark.parametrize("name", ["crew", "old_crew"])
def test_crewai_tool_keeps_only_its_own_description(shaped: Project, name: str) -> None:
    worker(shaped, name)
    model = Listener()
    shaped.run(model=model)
    assert [tool.description for tool in model.requests[0].tools] == ["Double a number."]


def test_args_are_validated_before_the_framework_gets_them(shaped: Project) -> None:
    worker(shaped, "several", more=", approval: {default: preApproved}")
    made = [
        call("chain", a="x"),
        call("smol"),
        call("smol", a=1, b="text", c=[None]),
        call("smol", a=1, b=[]),
    ]
    seen = shaped.run(calls(*made, call("llama", a=0)), "done")
    assert seen.statuses == ["invalid", "invalid", "success", "invalid", "error"]
    assert seen.outcomes[-1].error == "not zero"


MANY = 60
"""More than the threads that anyio has at most."""


class Meeting:
    """A function of smolagents that ends once all of its calls have begun."""

    name, description, output_type = "meeting", "Wait for the others.", "null"
    inputs: ClassVar[dict[str, Any]] = {}
    forward = None

    def __init__(self) -> None:
        self.everybody = threading.Barrier(MANY)

    def __call__(self) -> None:
        self.everybody.wait(20)


def test_calls_do_not_wait_for_the_threads_of_others() -> None:
    async def work() -> None:
        [tool] = adapt(Meeting())
        with anyio.fail_after(60):
            await asyncio.gather(*[tool.execute({}, None) for _ in range(MANY)])

    asyncio.run(work())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("with_context", "'typed' takes the RunContext of its framework, and there is none here"),
        ("in_workflow", "'llama' takes the Context of its framework, and there is none here"),
        ("seeing", "'smol' takes 'picture' as image, which JSON cannot represent"),
        ("odd", "its schema has the type object, not JSON Schema or a pydantic model"),
        (
            "spaced",
            "'with a space' is not a name for a tool: use 1 to 64 letters, digits, '_' and '-'",
        ),
        ("strange", "'strange' is neither a function nor a tool, but of type AnythingGoes"),
        ("Picky", "the class 'Picky' (smolagents) needs arguments: "),
    ],
)
def test_unsupported_object_is_reported(shaped: Project, name: str, problem: str) -> None:
    worker(shaped, name)
    with pytest.raises(WorkerError) as caught:
        shaped.run("never said")
    assert f"toolsets.external: standins: {problem}" in str(caught.value)


def test_policy_states_that_zones_do_not_limit_framework_tools(
    shaped: Project, tmp_path: Path
) -> None:
    worker(shaped, "several", more=", approval: {tools: {smol: preApproved}}")
    env = {"PYTHONPATH": str(tmp_path / "site")}
    rows = shaped.forge("worker", "show", "worker.yaml", "--policy", env=env).stdout.splitlines()
    rows = [row for row in rows if "external" in row]
    assert len(rows) == 3
    assert all("it is not bound to zones" in row for row in rows)
    assert "the worker says preApproved; it is not bound to zones" in rows[1]


REAL = {
    "langchain_core": """
        from langchain_core.tools import tool

        @tool
        def double(a: int) -> int:
            "Double a number."
            return a * 2
        """,
    "pydantic_ai": """
        from pydantic_ai import Tool
        from pydantic_ai.toolsets import FunctionToolset

        def twice(a: int) -> int:
            "Double a number."
            return a * 2

        double = FunctionToolset(tools=[Tool(twice, name="double")])
        """,
    "smolagents": """
        from smolagents import Tool

        class Double(Tool):
            name, description, output_type = "double", "Double a number.", "integer"
            inputs = {"a": {"type": "integer", "description": "The number"}}

            def forward(self, a: int) -> int:
                return a * 2

        double = Double()
        """,
    "agents": """
        from agents import function_tool

        @function_tool
        def double(a: int) -> int:
            "Double a number."
            return a * 2
        """,
    "llama_index.core": """
        from llama_index.core.tools import FunctionTool

        def twice(a: int) -> int:
            "Double a number."
            return a * 2

        double = FunctionTool.from_defaults(twice, name="double")
        """,
}


@pytest.mark.long
@pytest.mark.parametrize("package", REAL)
def test_installed_frameworks_work(shaped: Project, package: str, tmp_path: Path) -> None:
    """``nox -s long`` installs them."""
    pytest.importorskip(package)
    module = f"real_{package.partition('.')[0]}"
    lines = [line.removeprefix("        ") for line in REAL[package].splitlines()]
    (tmp_path / "site" / f"{module}.py").write_text("\n".join(lines))
    worker(shaped, "double", package=module)
    seen = shaped.run(
        calls(call("double", a=21), call("double", a="x")), "done", answers=[True], timeout=120
    )
    assert seen.statuses == ["success", "invalid"]
    assert seen.outcomes[0].value.text() == "42"


def test_package_annotations_are_not_trusted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(project.folder))
    project.write(
        "promises.py", 'def total(city: str) -> int:\n    """Add up."""\n    return "many"\n'
    )
    section = "external: {package: promises, import: total, approval: {default: preApproved}}"
    project.write("worker.yaml", f"name: w\ntoolsets:\n  {section}\n")
    seen = project.run(calls(call("total", city="Bern")), "{result}")
    assert seen.result.response == "many"
