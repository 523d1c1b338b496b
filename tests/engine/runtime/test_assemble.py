"""The tools of a worker file: selection, prefixes, approval entries, conflicts, and ownership of a toolset.

Covers forge_cli.engine.runtime.prepared, forge_cli.engine.runtime.other_zones.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from forge_cli import Approval
from forge_cli.core.errors import WorkerError
from forge_cli.core.events import ApprovalDecided, StatusEvent, TurnStart
from forge_cli.testing import Project, Seen, call, calls
from tests.support.distributions import write_distribution
from tests.support.listener import Listener

TOOLS = """
from forge_cli import Approval, tool

def look() -> str: return "seen"
def write() -> str: return "written"

@tool(needs_approval=True)
def careful() -> str: return "done"

@tool(needs_approval=Approval.BLOCKED)
def never() -> str: return "done"

@tool(needs_approval=lambda args: args["force"])
def push(force: bool = False) -> str: return "pushed"
"""
PLUGIN = '''
"""Toolsets for these tests."""
from forge_cli import Tool, Toolset, ToolsetConfig, hookimpl, tool

OPENED = []

class BoxConfig(ToolsetConfig):
    greeting: str = "hi"

class Box(Toolset):
    name = "box"
    Config = BoxConfig

    async def __aenter__(self):
        OPENED.append(f"open {self.config.greeting}")
        self.stack.callback(OPENED.append, "closed")
        return await super().__aenter__()

    def instructions(self):
        return f"Say {self.config.greeting}."

    @tool(needs_approval=False)
    def read_file(self) -> str:
        "Read."
        return self.config.greeting

    @tool
    def open_box(self) -> str:
        "Open."
        return "opened"

class Changing(Toolset):
    """Its tools come and go."""
    name = "changing"
    dynamic = True
    turns = 0

    async def tools(self):
        self.turns += 1
        def now() -> str: return "now"
        return [Tool.from_function(now, name=f"tool_{self.turns}", needs_approval=False)]

class Broken(Toolset):
    name = "broken"

    async def __aenter__(self):
        raise ConnectionError("no server")

class Mute(Toolset):
    name = "mute"

    async def tools(self):
        raise RuntimeError("cannot say")

class Unsound(Toolset):
    name = "unsound"

    async def tools(self):
        async def execute(args, context): ...
        return [Tool(name="odd", description="", input_schema={"type": "array"}, execute=execute)]

class Twice(Toolset):
    name = "twice"

    async def tools(self):
        def same() -> str: return ""
        return [Tool.from_function(same), Tool.from_function(same)]

@hookimpl
def forge_toolsets():
    return [Box, Changing, Broken, Mute, Unsound, Twice]
'''
OWN = version("forge-workers")
NAMES = ("box", "changing", "broken", "mute", "unsound", "twice")


@pytest.fixture
def worker(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project with tools.py, and a distribution with toolsets on the path."""
    entries = [f"{name} = box_plugin" for name in NAMES]
    write_distribution(tmp_path / "site", "forge-tools-box", entries, box_plugin=PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    project.write("tools.py", TOOLS)
    yield project
    sys.modules.pop("box_plugin", None)


def write_toolsets(project: Project, toolsets: str) -> Path:
    lines = "".join(f"  {line}\n" for line in toolsets.splitlines())
    return project.write("worker.yaml", f"name: w\ntoolsets:\n{lines}")


def problem_of(project: Project, toolsets: str) -> str:
    """The problem of the worker, with its file named FILE."""
    file = write_toolsets(project, toolsets)
    with pytest.raises(WorkerError) as caught:
        project.run("never said")
    assert caught.value.exit_code == 3
    return str(caught.value).replace(str(file), "FILE")


def offered(project: Project, toolsets: str) -> tuple[str, ...]:
    write_toolsets(project, toolsets)
    return project.run("hi").of(TurnStart)[0].tools


def custom(rest: str = "", tools: str = "look, write, careful, never, push") -> str:
    return f"custom:\n  module: ./tools.py\n  tools: [{tools}]\n{rest}"


def warnings(seen: Seen, file: Path) -> list[str]:
    return [
        event.message.replace(str(file), "FILE")
        for event in seen.of(StatusEvent)
        if event.level == "warning"
    ]


# --- which tools there are


@pytest.mark.parametrize(
    ("toolsets", "names"),
    [
        ("box:", ("read_file", "open_box")),
        ("filesystem: {tools: [list_files, read_file]}", ("read_file", "list_files")),
        ("filesystem: {tools: []}", ()),
        ("filesystem: {tools: [read_file], prefix: fs}", ("fs_read_file",)),
        ("filesystem: {tools: [read_file], prefix: fs_}", ("fs_read_file",)),
        ("filesystem: {tools: [read_file], prefix: fs-}", ("fs-read_file",)),
        (
            "filesystem: {tools: [read_file]}\nbox: {prefix: box}",
            ("read_file", "box_read_file", "box_open_box"),
        ),
        ("box: {}\ncustom: {module: ./tools.py, tools: [look]}", ("read_file", "open_box", "look")),
    ],
)
def test_assembly_lists_the_tools_of_a_worker(
    worker: Project, toolsets: str, names: tuple[str, ...]
) -> None:
    assert offered(worker, toolsets) == names


@pytest.mark.parametrize(
    ("toolsets", "problem"),
    [
        (
            "filesystem:\n  tools: [read_file, wirte_file]",
            "FILE:4:24: toolsets.filesystem: it has no tool 'wirte_file'; did you mean 'write_file'?",
        ),
        (
            "box:\n  tools: [zzz]",
            "FILE:4:13: toolsets.box: it has no tool 'zzz'; it offers: read_file, open_box",
        ),
        (
            "filesystem:\n  prefix: 'f s'",
            "FILE:4:13: toolsets.filesystem.prefix: 'f s_read_file' is not a name for a tool: "
            "use 1 to 64 letters, digits, '_' and '-'",
        ),
        (
            "filesystem: {tools: [read_file, read_file]}",
            "FILE:3:16: toolsets.filesystem.tools: 'read_file' is listed twice; keep one",
        ),
        ("filesytem: {}", "FILE:3:3: toolsets.filesytem: no such toolset; installed are "),
        ("filesystem: {zones: []}", "FILE:3:16: toolsets.filesystem: unknown key 'zones'; "),
        (
            "box: {greting: x}",
            "FILE:3:9: toolsets.box: unknown key 'greting'; did you mean 'greeting'?",
        ),
        ("box: {greeting: 3}", "FILE:3:19: toolsets.box.greeting: must be a string, not 3"),
        (
            "broken: {}",
            "FILE:3:3: toolsets.broken (forge-tools-box 1.0): it cannot start: ConnectionError: no server",
        ),
        (
            "mute: {}",
            "FILE:3:3: toolsets.mute (forge-tools-box 1.0): its tools cannot be listed: RuntimeError: cannot say",
        ),
        (
            "unsound: {}",
            'FILE:3:3: toolsets.unsound: the tool \'odd\' is unsound: the top level must have "type": "object"',
        ),
        ("twice: {}", "FILE:3:3: toolsets.twice: it offers two tools called 'same'"),
        (
            "filesystem: {}\nbox: {}",
            f"FILE:4:3: two toolsets offer a tool called 'read_file': 'filesystem' (builtin forge-workers {OWN}) and "
            "'box' (package forge-tools-box 1.0)\n  give one of them a prefix, as in box: {prefix: box}",
        ),
    ],
)
def test_unusable_tools_are_refused(worker: Project, toolsets: str, problem: str) -> None:
    assert problem_of(worker, toolsets).startswith(problem)


# --- what the worker says about approval


def test_approval_entry_names_a_tool_without_its_prefix(worker: Project) -> None:
    file = write_toolsets(
        worker, custom("  prefix: my\n  approval:\n    tools: {look: preApproved}\n", tools="look")
    )
    seen = worker.run(calls(call("my_look")), "{result}")
    (decided,) = seen.of(ApprovalDecided)
    assert (decided.verdict, decided.rule) == ("preApproved", "toolsets.custom.approval.tools.look")
    assert str(decided.where) == f"{file}:8:21"
    assert seen.result.response == "seen"


def test_approval_entry_with_a_prefixed_name_is_unknown(worker: Project) -> None:
    toolsets = custom("  prefix: my\n  approval: {tools: {my_look: preApproved}}\n", tools="look")
    assert problem_of(worker, toolsets) == (
        "FILE:7:33: toolsets.custom: it has no tool 'my_look'; did you mean 'look'?"
    )


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("lok: ask", "FILE:6:29: toolsets.custom: it has no tool 'lok'; did you mean 'look'?"),
        (
            "zeppelin: ask",
            "FILE:6:34: toolsets.custom: it has no tool 'zeppelin'; list it, or remove this entry",
        ),
        (
            "careful: preApproved",
            "FILE:6:33: toolsets.custom: 'careful' itself is stricter than that; "
            "a worker can tighten a tool's verdict, never loosen it",
        ),
        (
            "look: ask, never: ask",
            "FILE:6:42: toolsets.custom: 'never' itself is stricter than that; "
            "a worker can tighten a tool's verdict, never loosen it",
        ),
    ],
)
def test_approval_entry_without_effect_is_an_error(
    worker: Project, entries: str, problem: str
) -> None:
    assert problem_of(worker, custom(f"  approval: {{tools: {{{entries}}}}}\n")) == problem


def test_approval_entry_for_an_unlisted_tool_is_an_error(worker: Project) -> None:
    toolsets = "filesystem:\n  tools: [read_file]\n  approval: {tools: {write_file: blocked}}"
    assert problem_of(worker, toolsets) == (
        "FILE:5:36: toolsets.filesystem: 'write_file' is not among the tools listed here; list it, or remove this entry"
    )


def test_pre_approval_of_an_args_dependent_tool_is_warned_about_once(worker: Project) -> None:
    file = write_toolsets(
        worker, custom("  approval: {tools: {push: preApproved}}\n", tools="push")
    )
    seen = worker.run(calls(call("push")), calls(call("push", force=True)), "done")
    assert seen.statuses == ["success", "denied"]
    assert warnings(seen, file) == [
        "FILE:6:30: toolsets.custom: 'push' decides by its arguments; a worker can tighten its verdict, never loosen it"
    ]


@pytest.mark.parametrize("entry", [Approval.ASK, Approval.BLOCKED])
def test_approval_entry_may_tighten(worker: Project, entry: Approval) -> None:
    file = write_toolsets(
        worker, custom(f"  approval: {{tools: {{push: {entry.value}}}}}\n", tools="push")
    )
    seen = worker.run(calls(call("push")), "done")
    (decided,) = seen.of(ApprovalDecided)
    assert (decided.verdict, decided.approved, str(decided.where)) == (
        entry.value,
        False,
        f"{file}:6:30",
    )
    assert warnings(seen, file) == []


def test_approval_entry_of_a_dynamic_toolset_is_warned_about_once(
    worker: Project,
) -> None:
    file = write_toolsets(worker, "changing: {approval: {tools: {tool_9: ask}}}")
    seen = worker.run(calls(call("tool_2")), calls(call("tool_3")), "done")
    assert [event.tools for event in seen.of(TurnStart)] == [("tool_2",), ("tool_3",), ("tool_4",)]
    assert seen.statuses == ["success", "success"]
    assert warnings(seen, file) == [
        "FILE:3:41: toolsets.changing: it has no tool 'tool_9'; did you mean 'tool_1'?"
    ]


# --- what a toolset owns, and says


def test_toolset_is_opened_with_its_section_and_closed_with_the_session(worker: Project) -> None:
    write_toolsets(worker, "box: {greeting: hello}")
    worker.run(calls(call("read_file")), "{result}")
    assert sys.modules["box_plugin"].OPENED == ["open hello", "closed"]


def test_opened_toolset_is_closed_when_another_cannot_start(worker: Project) -> None:
    problem_of(worker, "box: {}\nbroken: {}")
    assert sys.modules["box_plugin"].OPENED == ["open hi", "closed"]


def test_instructions_of_toolsets_follow_those_of_the_worker(worker: Project) -> None:
    worker.write(
        "worker.yaml",
        "name: w\ninstructions: Be brief.\ntoolsets: {filesystem: {tools: []}, box: {}}\n",
    )
    model = Listener()
    worker.run(model=model)
    (system,) = model.system
    assert system.startswith("Be brief.\n\nSay hi.\n\nYour environment:\n")


def test_files_of_the_worker_are_protected(worker: Project) -> None:
    worker.write(
        "worker.yaml",
        "name: w\n"
        "sandbox:\n"
        "  zones: [{name: all, path: ., mode: rw, approval: {write: preApproved, delete: preApproved}}]\n"
        "toolsets: {filesystem: {}, custom: {module: ./tools.py, tools: [look]}}\n",
    )
    turn = calls(
        *[
            call("write_file", path=f"/all/{name}", content="x")
            for name in ("a", "worker.yaml", "tools.py")
        ]
    )
    seen = worker.run(turn, "done")
    assert seen.statuses == ["success", "denied", "denied"]


def test_invalid_zones_are_refused_at_load(worker: Project) -> None:
    file = worker.write("worker.yaml", "name: w\nsandbox: {zones: [{name: src, mode: rx}]}\n")
    with pytest.raises(WorkerError) as caught:
        worker.run("hi")
    assert (
        str(caught.value) == f"{file}:2:37: sandbox.zones[0].mode: must be 'ro' or 'rw', not 'rx'"
    )
