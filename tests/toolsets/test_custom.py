"""The toolset ``custom``: contents of a tools.py, its calls, and errors.

Covers forge_cli.schema.offering and forge_cli.schema.unfit.
"""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import WorkerRuntime, load_worker
from forge_cli.core.actions import CommandEvent
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import WorkerError
from forge_cli.core.events import ApprovalDecided, StatusEvent, ToolResult
from forge_cli.core.messages import ToolSpec
from forge_cli.core.results import Json, Text
from forge_cli.core.source import Source
from forge_cli.core.tool import digest_of
from forge_cli.schema.tool import Tool
from forge_cli.schema.tool_fields import ManualExecution
from forge_cli.testing import Project, Seen, call, calls, scripted_model
from tests.support.listener import Listener


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def worker(
    project: Project, module: str, *tools: str, approval: str = "{default: preApproved}"
) -> Path:
    project.write("tools.py", module)
    return project.write(
        "worker.yaml",
        "name: w\n"
        "toolsets:\n"
        "  custom:\n"
        "    module: ./tools.py\n"
        f"    tools: [{', '.join(tools)}]\n"
        f"    approval: {approval}\n",
    )


def outcome(project: Project, tool: str, **args: Any) -> ToolResult:
    (result,) = project.run(calls(call(tool, **args)), "done").outcomes
    return result


def problem_of(project: Project, module: str, *tools: str) -> str:
    """The problem, with the worker's file named WORKER and the module TOOLS."""
    file = worker(project, module, *tools)
    with pytest.raises(WorkerError) as caught:
        project.run("never said")
    assert caught.value.exit_code == 3
    return (
        str(caught.value)
        .replace(str(file), "WORKER")
        .replace(str(project.folder / "tools.py"), "TOOLS")
    )


def tools_of(project: Project) -> list[Tool]:
    """The tools that the worker of a project has while it works."""
    found: list[Tool] = []

    class Looking:
        name, context_window = "looking:test", None

        async def stream(self, request: Any) -> Any:
            found.extend(request.tools)
            for delta in ():
                yield delta

        async def aclose(self) -> None: ...

    project.run(model=Looking())
    return found


# --- what a module may hold


def test_typed_function_is_a_tool(project: Project) -> None:
    worker(
        project,
        "from typing import Annotated\n"
        "from pydantic import Field\n"
        'def fib(n: Annotated[int, Field(ge=0, description="Position in sequence")]) -> int:\n'
        '    """Calculate the nth Fibonacci number."""\n'
        "    a, b = 0, 1\n"
        "    for _ in range(n):\n"
        "        a, b = b, a + b\n"
        "    return a\n",
        "fib",
    )
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 0, "description": "Position in sequence"}
        },
        "required": ["n"],
        "additionalProperties": False,
    }
    assert tools_of(project) == [ToolSpec("fib", "Calculate the nth Fibonacci number.", schema)]
    assert outcome(project, "fib", n=20).value == Json(6765)
    assert (
        outcome(project, "fib", n=-1).error
        == "invalid input for fib: n: must be an integer >= 0, got -1"
    )


def test_function_may_have_string_annotations(project: Project) -> None:
    module = "from __future__ import annotations\nfrom pathlib import Path\ndef name(path: Path) -> str: return path.name\n"
    worker(project, module, "name")
    assert outcome(project, "name", path="/a/b.txt").value == Text("b.txt")


@pytest.mark.parametrize(
    "schema",
    [
        "number = {'type': 'integer'}\n"
        "both = {'a': number, 'b': {**number, 'default': 2}}\n"
        "add_schema = {'type': 'object', 'properties': both, 'required': ['a']}\n",
        "from pydantic import BaseModel\nclass Both(BaseModel):\n    a: int\n    b: int = 2\nadd_schema = Both\n",
        "from pydantic import BaseModel\nclass addSchema(BaseModel):\n    a: int\n    b: int = 2\n",
    ],
    ids=["dict", "model", "camel case"],
)
def test_function_without_annotations_may_have_a_schema(project: Project, schema: str) -> None:
    worker(project, f"def add(a, b):\n    'Add.'\n    return a + b\n{schema}", "add")
    assert outcome(project, "add", a=1).value == Json(3)
    assert outcome(project, "add", a="x").status == "invalid"


@pytest.mark.parametrize("more", ["**more", "a, **more"])
def test_schema_may_use_names_reserved_in_python(project: Project, more: str) -> None:
    module = f"def f({more}): return more\nf_schema = {{'type': 'object', 'properties': {{'a': {{}}, 'zzz': {{}}}}}}\n"
    worker(project, module, "f")
    assert outcome(project, "f", a=1, zzz=2).value in (Json({"zzz": 2}), Json({"a": 1, "zzz": 2}))


@pytest.mark.parametrize("returned", ["(n for n in range(3))", "map(str, [1])", "{'a': [agen()]}"])
def test_endless_result_is_an_error(project: Project, returned: str) -> None:
    worker(project, f"async def agen():\n    yield 1\ndef f() -> object: return {returned}\n", "f")
    result = outcome(project, "f")
    assert (
        result.status,
        str(result.error).endswith("may never end; return a list of its items"),
    ) == ("error", True)


def test_schema_overrides_annotations(project: Project) -> None:
    module = (
        "def greet(name: int, times: int = 1) -> str: return f'{name!r}'\n"
        "greet_schema = {'type': 'object', 'properties': {'name': {'type': 'string'}}, 'required': ['name']}\n"
    )
    worker(project, module, "greet")
    assert outcome(project, "greet", name="Ann").value == Text("'Ann'")
    assert outcome(project, "greet", name="Ann", times=2).status == "invalid"


def test_tool_object_is_a_tool(project: Project) -> None:
    worker(
        project,
        "from forge_cli import Approval, Text, Tool\n"
        "async def execute(args, context): return Text(f\"{context.tool} {args['n']}\")\n"
        "counter = Tool(name='count', description='Count.', needs_approval=Approval.PRE_APPROVED,\n"
        "    input_schema={'type': 'object', 'properties': {'n': {'type': 'integer'}}}, execute=execute)\n",
        "counter",
    )
    assert outcome(project, "count", n=3).value == Text("count 3")


TOOLSET = """
from forge_cli import Toolset, tool

LIFE = []

class Counter(Toolset):
    name = "counter"

    async def __aenter__(self):
        LIFE.append("open")
        self.stack.callback(LIFE.append, "closed")
        self.count = 0
        return await super().__aenter__()

    @tool(needs_approval=False)
    def up(self, by: int = 1) -> int:
        "Count up."
        LIFE.append("up")
        self.count += by
        return self.count

    @tool
    async def reset(self) -> None:
        "Start again."
        self.count = 0
"""


def test_toolset_class_is_opened_used_and_closed(project: Project) -> None:
    worker(project, TOOLSET, "Counter", approval="{tools: {reset: blocked}}")
    seen = project.run(calls(call("up"), call("up", by=2), call("reset")), "done")
    assert seen.statuses == ["success", "success", "blocked"]
    assert [result.value for result in seen.outcomes[:2]] == [Json(1), Json(3)]
    module = sys.modules[
        f"forge_local_{digest_of((project.folder / 'tools.py').read_bytes())[:16]}"
    ]
    assert module.LIFE == ["open", "up", "up", "closed"]


def test_new_session_has_a_new_toolset(project: Project) -> None:
    worker(project, TOOLSET, "Counter")
    assert outcome(project, "up").value == Json(1)
    assert outcome(project, "up").value == Json(1)


@pytest.mark.parametrize("name", ["Counter", "LISTED", "NAMED"])
def test_every_session_has_the_instructions_of_a_toolset(project: Project, name: str) -> None:
    said = "def instructions(self): return f'Count for {self.env.worker}.'"
    worker(project, f"{TOOLSET}\n    {said}\nLISTED, NAMED = [Counter], {{'a': [Counter]}}\n", name)
    for _ in range(2):
        model = Listener()
        project.run(model=model)
        assert [text.partition("\n\n")[0] for text in model.system] == ["Count for w."]


PROMPTS = """
from forge_cli import Toolset, tool
from forge_cli.hooks import PromptArgument, PromptSpec

def plain() -> str:
    \"\"\"Do nothing.\"\"\"
    return ""

class Notes(Toolset):
    name = "notes"
    @tool
    def look(self) -> str:
        \"\"\"Look.\"\"\"
        return ""
    async def prompts(self):
        return [PromptSpec("sum_note", "Sum up.", (PromptArgument("title", "of it", True),))]
    async def get_prompt(self, name, args):
        return f"Sum up the note {args['title']}."

LISTED = [plain, {"inside": Notes}]
"""


@pytest.mark.parametrize("names", [("Notes",), ("LISTED",), ("plain", "Notes")])
def test_prompts_of_a_toolset_are_commands(project: Project, names: tuple[str, ...]) -> None:
    loaded = load_worker(worker(project, PROMPTS, *names))

    async def main() -> str | None:
        model = scripted_model("You said: {task}")
        with anyio.fail_after(40):
            async with (
                WorkerRuntime(worker=loaded, model=model) as runtime,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(runtime.converse)
                await anyio.lowlevel.checkpoint()
                runtime.bus.emit(CommandEvent("sum_note", ("Plans",)))
                runtime.bus.emit(CommandEvent("exit"))
        return runtime.result.response if runtime.result else None

    with project.environment():
        assert anyio.run(main) == "You said: Sum up the note Plans."


# --- what a function says of itself


def test_needs_approval_gets_validated_args_with_defaults(project: Project) -> None:
    module = (
        "from forge_cli import tool\n"
        "@tool(needs_approval=lambda args: args['force'])\n"
        "def push(branch: str, force: bool = False) -> str: return branch\n"
    )
    worker(project, module, "push", approval="{default: blocked}")
    turn = calls(call("push", branch="main"), call("push", branch="main", force=True))
    seen = project.run(turn, "done", answers=[False])
    assert seen.statuses == ["success", "denied"]
    assert [(event.verdict, event.by, event.reason) for event in seen.of(ApprovalDecided)] == [
        ("preApproved", "tool", "the tool needs no approval for this call"),
        ("ask", "user", "the tool wants this call approved"),
    ]
    assert [dict(request.args) for request in seen.asked] == [{"branch": "main", "force": True}]


@pytest.mark.parametrize(
    ("mode", "for_the_model", "status"),
    [("llm", True, "success"), ("both", True, "success"), ("manual", False, "blocked")],
)
def test_manual_mode_determines_the_callers(
    project: Project, mode: str, for_the_model: bool, status: str
) -> None:
    module = f"from forge_cli import tool\n@tool(manual='{mode}', label='Push')\ndef push() -> str: return 'ok'\n"
    worker(project, module, "push")
    assert [spec.name for spec in tools_of(project)] == (["push"] if for_the_model else [])
    assert outcome(project, "push").status == status


@pytest.mark.parametrize(
    "signature",
    [
        "context: ToolContext",
        "here: ToolContext, n: int = 1",
        "n: int = 1, *, ctx: ToolContext",
        "n: int = 1, *, ctx: 'ToolContext'",
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_context_parameter_is_recognised_by_its_type(
    project: Project, signature: str, kind: str
) -> None:
    name = next(part.split(":")[0] for part in signature.split(", ") if "ToolContext" in part)
    module = f"from forge_cli import ToolContext\n{kind} who({signature}) -> str: return {name}.worker + {name}.call_id\n"
    worker(project, module, "who")
    assert outcome(project, "who").value == Text("wcall_1_1")


def test_modules_beside_the_worker_can_be_imported(project: Project) -> None:
    project.write("beside_for_this_test.py", "VALUE = 42\n")
    worker(
        project,
        "from beside_for_this_test import VALUE\ndef value() -> int: return VALUE\n",
        "value",
    )
    assert outcome(project, "value").value == Json(42)


async def _opened_tools(project: Project) -> list[Tool]:
    loaded = load_worker(project.folder / "worker.yaml")
    async with WorkerRuntime(
        worker=loaded, model=scripted_model("hi"), workspace=project.folder
    ) as runtime:
        return runtime.tools


def test_tools_have_their_source_and_the_digest_of_the_file(project: Project) -> None:
    module = (
        "from forge_cli import tool\n"
        "@tool(manual='both', label='L')\n"
        "def one() -> int: return 1\n"
        "def two() -> int: return 2\n"
    )
    worker(project, module, "one", "two")
    one, two = anyio.run(_opened_tools, project)
    assert (
        (one.source, one.digest)
        == (two.source, two.digest)
        == (Source("local", "./tools.py"), digest_of(module.encode()))
    )
    assert (one.manual, two.manual) == (ManualExecution("both", "L"), None)


def test_changed_file_is_reloaded_by_the_next_session(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    worker(project, "def version() -> int: return 1\n", "version")
    assert outcome(project, "version").value == Json(1)
    project.write("tools.py", "def version() -> int: return 2\n")
    assert outcome(project, "version").value == Json(2)


def test_changed_link_target_is_loaded_by_the_next_session(
    project: Project,
) -> None:
    worker(project, "", "version")
    link = project.folder / "tools.py"
    for version in (1, 2):
        link.unlink()
        link.symlink_to(
            project.write(f"version{version}.py", f"def version() -> int: return {version}\n")
        )
        assert outcome(project, "version").value == Json(version)


# --- what is said when it is wrong


MODULE = (
    "def add(a: int, b: int) -> int: return a + b\n\n\ndef untyped(a): return a\n\n\nNUMBER = 3\n"
)


@pytest.mark.parametrize(
    ("module", "tools", "problem"),
    [
        (
            MODULE,
            ["add", "ad"],
            "WORKER:5:18: tools.py has no 'ad'; it offers: add, untyped\n  did you mean 'add'?",
        ),
        (MODULE, ["zzz"], "WORKER:5:13: tools.py has no 'zzz'; it offers: add, untyped"),
        ("", ["add"], "WORKER:5:13: tools.py has no 'add'; it offers: nothing"),
        (
            MODULE,
            ["untyped"],
            "WORKER:5:13: tools.py: 'untyped' cannot be a tool: untyped: parameter 'a' has no type hint; "
            "add one (a: str), or define untyped_schema",
        ),
        (
            MODULE,
            ["NUMBER"],
            "WORKER:5:13: tools.py: 'NUMBER' is neither a function nor a tool, but of type int",
        ),
        (
            "class Thing: ...\n",
            ["Thing"],
            "WORKER:5:13: tools.py: 'Thing' is neither a function nor a tool, but of type type",
        ),
        (
            "def f(a): ...\nf_schema = 'a: int'\n",
            ["f"],
            "WORKER:5:13: tools.py: 'f' cannot be a tool: its schema must be a pydantic model or a JSON Schema dict, "
            "not str",
        ),
        (
            "def f(a): ...\nf_schema = fSchema = {}\n",
            ["f"],
            "WORKER:5:13: tools.py: there are both f_schema and fSchema; keep one",
        ),
        (
            "def f(*names: str): ...\n",
            ["f"],
            "WORKER:5:13: tools.py: 'f' cannot be a tool: f: parameter 'names' takes any number of values; "
            "name each of them, or define f_schema",
        ),
        (
            "double = lambda n: 2 * n\ndouble_schema = {'type': 'object'}\n",
            ["double"],
            "WORKER:5:13: tools.py: 'double' cannot be a tool: it is a lambda, which has no name and no type hints; "
            "define it with def",
        ),
        (
            "def f(a: int): ...\nf_schema = {'type': 'object', 'properties': {'a': {}, 'zzz': {}}}\n",
            ["f"],
            "WORKER:5:13: tools.py: 'f' cannot be a tool: its schema has 'zzz', which f does not take; it takes: a",
        ),
        (
            "from forge_cli import ToolContext\nfrom pydantic import BaseModel\n"
            "class fSchema(BaseModel):\n    here: int\ndef f(here: ToolContext): ...\n",
            ["f"],
            "WORKER:5:13: tools.py: 'f' cannot be a tool: its schema has 'here', which f does not take; "
            "it takes: nothing",
        ),
        (
            "from math import hypot as f\nf_schema = {'type': 'object', 'properties': {}}\n",
            ["f"],
            "WORKER:5:13: tools.py: 'f' cannot be a tool: its signature cannot be read; wrap it in a function of your",
        ),
        (
            "def f(a, b=1): ...\nf_schema = {'type': 'object', 'properties': {}}\n",
            ["f"],
            "WORKER:5:13: tools.py: 'f' cannot be a tool: its schema lacks 'a', which f needs; add it, or give it",
        ),
        (
            "def f(n: int = 3):\n    yield n\n",
            ["f"],
            "WORKER:5:13: tools.py: 'f' cannot be a tool: f must not yield, because a tool has one result; return a list",
        ),
        (
            "from forge_cli import Toolset, tool\n"
            "class Kit(Toolset):\n    @tool\n    async def f(self):\n        yield 1\n",
            ["Kit"],
            "WORKER:5:13: tools.py: f must not yield, because a tool has one result; return a list",
        ),
        (
            "from forge_cli import Tool\nasync def run(args, context):\n    yield 1\n"
            "f = Tool(name='f', description='', input_schema={'type': 'object'}, execute=run)\n",
            ["f"],
            "TOOLS:4:1: cannot be imported: SchemaError: f: execute must not yield, because a tool has one result; "
            "return a list",
        ),
        (
            "import json\nimport nonexistent_module_x\n",
            ["add"],
            "TOOLS:2:1: cannot be imported: ModuleNotFoundError: No module named 'nonexistent_module_x'",
        ),
        (
            "def boom():\n    raise RuntimeError('at import')\n\nboom()\n",
            ["boom"],
            "TOOLS:2:1: cannot be imported: RuntimeError: at import",
        ),
        ("x = 1\ndef f(:\n", ["f"], "TOOLS:2:7: cannot be imported: SyntaxError: "),
        (
            "import sys\n\nsys.exit('bye')\n",
            ["f"],
            "TOOLS:3:1: cannot be imported: SystemExit: bye",
        ),
        (
            "from forge_cli import tool\n\n@tool(manual='always')\ndef f(): ...\n",
            ["f"],
            "TOOLS:3:1: cannot be imported: SchemaError: f: manual must be 'llm', 'manual' or 'both'",
        ),
        (
            "class Own: ...\ndef f(d: list[Own]): ...\n",
            ["f"],
            "WORKER:3:3: toolsets.custom: the tool 'f' is unsound: f: 'd' (list[Own]) has no JSON Schema; "
            "use a type that JSON can carry, or define f_schema",
        ),
        pytest.param(
            "from typing import TypedDict\nclass Own(TypedDict): ...\ndef f(d: Own): ...\n",
            ["f"],
            "WORKER:3:3: toolsets.custom: the tool 'f' is unsound: f: 'd' (<class 'Own'>) has a TypedDict of typing; "
            "before Python 3.12, import it from typing_extensions",
            marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes either"),
        ),
        (
            "from forge_cli import Toolset, tool\n\n"
            "class Own(Toolset):\n    @tool\n    @staticmethod\n    def f(): ...\n",
            ["Own"],
            "TOOLS:4:1: cannot be imported: TypeError: @tool belongs below @staticmethod, next to the function",
        ),
        (
            "from forge_cli import Toolset\n\nclass Own(Toolset):\n    async def tools(self): return [7]\n",
            ["Own"],
            "WORKER:5:13: tools.py: tools() of 'Own' returned 7, which is not a Tool",
        ),
        (
            "from forge_cli import Toolset\n\nclass Own(Toolset):\n    def tools(self): return ['f']\n",
            ["Own"],
            "WORKER:5:13: tools.py: tools() of 'Own' returned 'f', which is not a Tool",
        ),
        (
            "from forge_cli import Toolset\n\nclass Own(Toolset):\n    async def __aenter__(self): pass\n"
            "    async def tools(self): return None\n",
            ["Own"],
            "WORKER:5:13: tools.py: tools() of 'Own' returned None, which is not a Tool",
        ),
        (
            "from forge_cli import Toolset\n\nclass Own(Toolset):\n    def zones(self): return []\n",
            ["Own"],
            "WORKER:5:13: tools.py: 'Own' is a toolset that adds zones; "
            "give it a section, by 'plugins' of the worker or a package",
        ),
        (
            "from forge_cli import Toolset\n\n"
            "class Own(Toolset):\n    @classmethod\n    def zones(cls, home): return []\n",
            ["Own"],
            "WORKER:5:13: tools.py: 'Own' is a toolset that adds zones",
        ),
        (
            "def f() -> int: return 1\n",
            ["f", "f"],
            "WORKER:5:5: toolsets.custom.tools: 'f' is listed twice; keep one",
        ),
    ],
)
def test_module_problem_is_reported_with_its_place(
    project: Project, module: str, tools: list[str], problem: str
) -> None:
    assert problem_of(project, module, *tools).startswith(problem)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{tools: [f]}", "WORKER:3:11: toolsets.custom.module: this key is required"),
        ("{module: ./tools.py}", "WORKER:3:11: toolsets.custom.tools: this key is required"),
        (
            "{module: ./tool.py, tools: [f]}",
            "WORKER:3:20: toolsets.custom.module: FOLDER/tool.py does not exist\n  did you mean './tools.py'?",
        ),
        (
            "{module: tools, tools: [f]}",
            "WORKER:3:20: toolsets.custom.module: FOLDER/tools does not exist\n  did you mean 'tools.py'?",
        ),
        (
            "{module: ./tools.ts, tools: [f]}",
            "WORKER:3:20: toolsets.custom.module: FOLDER/tools.ts does not exist\n  did you mean './tools.py'?",
        ),
        (
            "{module: ./sub/tools.js, tools: [f]}",
            "WORKER:3:20: toolsets.custom.module: FOLDER/sub/tools.js does not exist\n"
            "  did you mean './sub/tools.py'?",
        ),
        (
            "{module: ./sub/zzzz.ts, tools: [f]}",
            "WORKER:3:20: toolsets.custom.module: FOLDER/sub/zzzz.ts does not exist\n"
            "  a module is a Python file; for programs in other languages, use the toolset executables (see forge tools new)",
        ),
        ("{module: ., tools: [f]}", "WORKER:3:20: toolsets.custom.module: FOLDER is not a file"),
        (
            "{modul: ./tools.py, tools: [f]}",
            "WORKER:3:12: toolsets.custom: unknown key 'modul'; did you mean 'module'?",
        ),
        (
            "{module: ./notes.txt, tools: [f]}",
            "FOLDER/notes.txt:1:1: not a Python file; a module of tools ends in .py",
        ),
    ],
)
def test_section_problem_is_reported_with_its_place(
    project: Project, section: str, problem: str
) -> None:
    project.write("notes.txt", "hello")
    project.write("tools.py", "def f() -> int: return 1\n")
    project.write("sub/tools.py", "def f() -> int: return 1\n")
    file = project.write("worker.yaml", f"name: w\ntoolsets:\n  custom: {section}\n")
    with pytest.raises(WorkerError) as caught:
        project.run("never said")
    assert (
        str(caught.value).replace(str(file), "WORKER").replace(str(project.folder), "FOLDER")
        == problem
    )


def test_unlisted_function_is_not_offered(project: Project) -> None:
    worker(project, MODULE, "add")
    seen: Seen = project.run(calls(call("untyped", a=1)), "done")
    assert seen.statuses == ["not_found"]


EDITED = '''
from pathlib import Path

import helping
from forge_cli import tool


@tool(needs_approval=False)
def edit(file: str, old: str, new: str) -> str:
    """Edit a file beside."""
    path = Path(__file__).parent / file
    path.write_text(path.read_text().replace(old, new))
    return "edited"


@tool(needs_approval=True)
def greet() -> str:
    """Greet."""
    return "one " + helping.NAME
'''


def edited(project: Project, *edits: tuple[str, str, str], **options: Any) -> Seen:
    """Greets, edits and greets again, once for each edit."""
    worker(project, EDITED, "edit", "greet", approval="{default: ask}")
    project.write("helping.py", "NAME = 'Ana'\n")
    turns = [calls(call("greet"))]
    for file, old, new in edits:
        turns += [calls(call("edit", file=file, old=old, new=new)), calls(call("greet"))]
    return project.run(*turns, "done", **options)


def greetings(seen: Seen) -> list[str]:
    return [each.value.text() for each in seen.outcomes if each.tool_name == "greet"]


def warnings_of(seen: Seen) -> list[str]:
    return [
        event.message
        for event in seen.of(StatusEvent)
        if event.level == "warning" and "tools.py" in event.message
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [("tools.py", '"one "', '"two "', "two Ana"), ("helping.py", "'Ana'", "'Ben'", "one Ben")],
)
def test_changed_module_is_reloaded_before_the_next_turn(
    project: Project, file: str, old: str, new: str, told: str
) -> None:
    seen = edited(project, (file, old, new), answers=[True, True])
    assert (greetings(seen), warnings_of(seen)) == (["one Ana", told], [])


def test_broken_edit_keeps_the_loaded_module_and_is_reported_once(project: Project) -> None:
    edits = [
        ("tools.py", '"one "', '"two " )'),
        ("helping.py", "Ana", "Ana"),
        ("tools.py", '"two " )', '"two "'),
    ]
    seen = edited(project, *edits, answers=[True] * 4)
    assert greetings(seen) == ["one Ana", "one Ana", "one Ana", "two Ana"]
    [warning] = warnings_of(seen)
    assert warning.startswith("./tools.py changed; its previous version stays in use: ")
    assert "tools.py:19:" in warning


def test_edit_that_removes_a_listed_name_is_broken(project: Project) -> None:
    seen = edited(project, ("tools.py", "def greet", "def welcome"), answers=[True, True])
    assert greetings(seen) == ["one Ana", "one Ana"]
    [warning] = warnings_of(seen)
    assert "tools.py has no 'greet'; it offers: edit, welcome" in warning


def test_session_grant_is_bound_to_the_content_of_the_module(project: Project) -> None:
    always = ApprovalDecision(True, remember="session")
    same = edited(project, ("helping.py", "Ana", "Ana"), answers=[always])
    assert (greetings(same), len(same.asked)) == (["one Ana", "one Ana"], 1)
    changed = edited(project, ("helping.py", "Ana", "Ben"), answers=[always, False])
    assert [each.status for each in changed.outcomes if each.tool_name == "greet"] == [
        "success",
        "denied",
    ]


def test_open_toolset_stays_until_the_session_ends(project: Project) -> None:
    module = EDITED + "\n\nfrom forge_cli import Toolset\n\n\nclass Kit(Toolset):\n    pass\n"
    worker(project, module, "edit", "greet", "Kit")
    project.write("helping.py", "NAME = 'Ana'\n")
    edit = calls(call("edit", file="helping.py", old="Ana", new="Ben"))
    seen = project.run(
        calls(call("greet")), edit, calls(call("greet")), "done", answers=[True, True]
    )
    assert greetings(seen) == ["one Ana", "one Ana"]
    [warning] = warnings_of(seen)
    assert warning.endswith("it contains an open toolset; restart the session to use the change")


WRAPPED = """
import functools

def with_db(function):
    @functools.wraps(function)
    def inner(**given):
        return function(db="DB", **given)
    return inner

@with_db
def query(sql, db):
    \"\"\"Ask it.\"\"\"
    return f"{sql} on {db}"

query_schema = {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]}
"""


def test_schema_beside_a_wrapper_matches_its_parameters(project: Project) -> None:
    project.write("tools.py", WRAPPED)
    project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [query]}}\n"
    )
    done = project.forge("tools", "call", "query", "--worker", "worker.yaml", "-y", "sql=x")
    assert (done.returncode, done.stdout) == (0, "x on DB\n"), done.stderr
