"""A read-only session calls only tools that are declared to read, in the whole tree of workers."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import Effect, Tool, WorkerRuntime, load_worker
from forge_cli.apps.serve.served import ServedWorker
from forge_cli.core.events import ApprovalDecided, SessionStart, TurnStart
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.replay.recording import read_recording
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.repeat import Repetition
from forge_cli.events import ToolCall, ToolOutcome
from forge_cli.process.signals import in_loop
from forge_cli.record.line import Line
from forge_cli.record.log import Log, read_session, session_files
from forge_cli.record.open import open_session
from forge_cli.testing import Project, Seen, call, calls, scripted_model
from tests.support.interpreter import PYTHON
from tests.support.tree import ASK_HELPER, Tree, allowed, results

SERVER = """
import json, sys
from pathlib import Path

def tool(name, **annotations):
    return {"name": name, "description": "Write a file.", "inputSchema": {"type": "object"}, "annotations": annotations}

TOOLS = [tool("claims", readOnlyHint=True), tool("admits", readOnlyHint=False), tool("silent")]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no such method"}}
    match asked["method"]:
        case "initialize":
            answer["result"] = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                      "serverInfo": {"name": "s", "version": "1"}}
        case "tools/list":
            answer["result"] = {"tools": TOOLS}
        case "tools/call":
            Path("server-wrote").write_text("x")
            answer["result"] = {"content": [{"type": "text", "text": "written"}]}
    if "result" in answer:
        del answer["error"]
    print(json.dumps(answer), flush=True)
"""
TOOLS = '''
from forge_cli import Effect, ToolContext, WritePath, tool

@tool(effects=[Effect.WRITE], needs_approval=False)
def put() -> str:
    """Write beside the gate."""
    open("put", "w").close()
    return "put"

def unsaid() -> str:
    """Declare nothing, and write."""
    return put()

@tool(effects=[Effect.READ, Effect.NETWORK], needs_approval=False)
def fetch() -> str:
    """Reach out."""
    return put()

@tool(read_only=True, needs_approval=False)
def liar(path: WritePath, context: ToolContext) -> str:
    """Claim to read, and write where zones are judged."""
    context.sandbox.write_bytes(path, b"x")
    return "written"

@tool(read_only=True, needs_approval=False)
async def through(context: ToolContext) -> str:
    """Claim to read, and call one that does not."""
    return (await context.call("put", {})).status

@tool(read_only=True, needs_approval=False)
def look() -> str:
    """Look."""
    return "seen"
'''
WORKER = """
name: w
sandbox: {{zones: [{{name: made, path: ./made, mode: rw, approval: {{write: preApproved, delete: preApproved}}}},
                   {{name: here, path: ., mode: rw, approval: {{write: preApproved, delete: preApproved}}}}]}}
toolsets:
  filesystem: {{}}
  shell: {{default: preApproved}}
  plan: {{}}
  memory: {{}}
  executables: {{}}
  custom: {{module: ./tools.py, tools: [put, unsaid, fetch, liar, through, look], approval: {{default: preApproved}}}}
  mcp: {{servers: {{s: {{command: {python}, args: [{server}]}}}}, approval: {{default: preApproved}}}}
"""
ARGS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "/here/notes.txt"},
    "write_file": {"path": "/here/new", "content": "x"},
    "edit_file": {"path": "/here/notes.txt", "old": "kept", "new": "lost"},
    "delete_file": {"path": "/here/notes.txt"},
    "file_exists": {"path": "/here/notes.txt"},
    "file_info": {"path": "/here/notes.txt"},
    "grep_files": {"pattern": "kept"},
    "apply_patch": {"input": "*** Begin Patch\n*** Add File: here/new\n+x\n*** End Patch"},
    "shell": {"command": "touch shelled"},
    "exec_command": {"command": "touch executed"},
    "write_stdin": {"session_id": 1, "chars": "x"},
    "update_plan": {"plan": []},
    "get_memory": {"memory_id": "a"},
    "save_memory": {"memory_id": "a", "content": "x"},
    "create_custom_tool": {"name": "mine", "description": "Mine."},
    "run_custom_tool": {"tool_name": "own"},
    "liar": {"path": "/here/new"},
}
READING = {
    "read_file",
    "list_files",
    "list_dir",
    "file_exists",
    "file_info",
    "grep_files",
    "update_plan",
    "get_memory",
}


@pytest.fixture
def every(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A worker with every built-in toolset that needs no child, and tools from all sources."""
    monkeypatch.chdir(project.folder)
    server = project.write("server.py", SERVER)
    project.write("tools.py", TOOLS)
    project.write("notes.txt", "kept\n")
    project.write(
        "worker.yaml",
        WORKER.format(python=json.dumps(PYTHON), server=json.dumps(str(server))),
    )
    own = project.home / "tools" / "own"
    own.mkdir(parents=True)
    manifest = "name: own\ndescription: Own.\nversion: 1.0.0\nentrypoint: own.sh\nusage: Own.\nparameters: []\n"
    (own / "tool.yaml").write_text(manifest)
    (own / "own.sh").write_text("touch executable\n")
    return project


def files(*folders: Path) -> dict[str, bytes | None]:
    """All files in the folder, except those of forge."""
    own = {"cache", "__pycache__", ".stats.jsonl"}
    paths = [path for folder in folders for path in folder.rglob("*") if not own & {*path.parts}]
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


def tools_of(project: Project, **options: Any) -> set[str]:
    async def names() -> set[str]:
        async with WorkerRuntime(
            worker=load_worker("worker.yaml"), model=scripted_model("done"), **options
        ) as runtime:
            return {tool.name for tool in runtime.tools}

    with project.environment():
        return in_loop(names)


def test_read_only_session_blocks_every_write(every: Project) -> None:
    names = sorted(tools_of(every))
    assert {"s__claims", "s__admits", "s__silent", "own", *ARGS} <= set(names)
    (every.folder / "made").rmdir()
    before = files(every.folder, every.home)
    made = [call(name, **ARGS.get(name, {})) for name in names]
    seen = every.run(calls(*made), "done", approval_mode="approve_all", read_only=True)
    statuses = {outcome.tool_name: outcome.status for outcome in seen.outcomes}
    assert {name for name, status in statuses.items() if status != "blocked"} == READING | {
        "liar",
        "through",
        "look",
    }
    assert (statuses["liar"], statuses["look"], statuses["read_file"]) == (
        "error",
        "success",
        "success",
    )
    assert [
        outcome.value.text() for outcome in seen.outcomes if outcome.tool_name == "through"
    ] == ["blocked"]
    assert files(every.folder, every.home) == before
    assert not (every.folder / "made").exists()


def test_tools_that_cannot_be_called_are_not_offered(every: Project) -> None:
    seen = every.run("done", read_only=True)
    offered = {name for turn in seen.of(TurnStart) for name in turn.tools}
    assert offered == READING | {"liar", "through", "look"} == tools_of(every, read_only=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("caller", list(Caller), ids=lambda caller: caller.value)
def test_read_only_applies_to_every_caller(every: Project, caller: Caller) -> None:
    async def outcome() -> str:
        worker = load_worker("worker.yaml")
        async with WorkerRuntime(
            worker=worker, model=scripted_model("x"), read_only=True
        ) as runtime:
            done = await runtime.opened.loop.guard.call(
                ToolCall("a", "shell", {"command": "touch a"}), caller
            )
            return f"{done.status}: {done.error}"

    with every.environment():
        said = in_loop(outcome)
    why = "this session is read-only, and it is declared to do more: execute, network, write"
    assert said == f"blocked: shell is blocked: {why}"
    assert not (every.folder / "a").exists()


def test_refusal_names_the_reason(project: Project) -> None:
    project.write("tools.py", "def unsaid() -> str:\n    '''Act.'''\n    return 'x'\n")
    project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [unsaid]}}\n"
    )
    seen = project.run(calls(call("unsaid")), "done", read_only=True)
    decided = seen.of(ApprovalDecided)[0]
    assert (decided.verdict, decided.by, decided.rule) == ("blocked", "mode", "--read-only")
    assert decided.reason == "this session is read-only, and its effects are not declared"
    assert seen.result.denials[0]["by"] == "mode"


def test_model_is_informed_and_zones_keep_their_paths(project: Project) -> None:
    zone = "{name: made, path: ./made, mode: rw}"
    project.write(
        "worker.yaml",
        f"name: w\nsandbox: {{zones: [{zone}]}}\ntoolsets: {{filesystem: {{}}, shell: {{}}}}\n",
    )
    seen = project.run("done", read_only=True)
    system = seen.of(TurnStart)[0].system or ""
    assert "\n- Zone /made: the folder made; read only\n" in system
    assert "\n- Session: read-only, nothing can be changed\n" in system
    assert "Commands:" not in system
    start = seen.of(SessionStart)[0]
    assert (start.read_only, [zone["path"] for zone in start.zones or ()]) == (
        True,
        [str(project.folder / "made")],
    )
    assert "read-only" not in (project.run("done").of(TurnStart)[0].system or "")


# The tree


def test_workers_can_delegate_and_children_only_read(tree: Tree) -> None:
    tree.boss(
        allowed("helper"),
        more="sandbox: {zones: [{name: a, mode: rw, approval: {write: preApproved}}]}",
    )
    made = [call("write_file", path="/a/x", content="x"), call("list_files", path="/a")]
    tree.worker("helper", calls(*made), "done", toolsets=("filesystem: {}",))
    seen = tree.run(ASK_HELPER, "done", read_only=True, approval_mode="approve_all")
    assert [event.status for event in results(seen, 1)] == ["blocked", "success"]
    assert [event.status for event in results(seen, 0)] == ["success"]
    assert not (tree.project.folder / "a").exists()


def test_delegating_only_tool_declares_it() -> None:
    async def execute(args: dict[str, Any], context: object) -> str:
        return ""

    made = {
        "name": "x",
        "description": "X.",
        "input_schema": {"type": "object"},
        "execute": execute,
    }
    assert Tool(**made, delegates=True).fits_read_only
    assert not Tool(**made).fits_read_only
    assert not Tool(**made, effects=frozenset({Effect.READ, Effect.NETWORK})).fits_read_only
    assert not Tool(**made, delegates=True).read_only


# Served


def test_served_clients_get_read_only_tools_and_tasks(project: Project) -> None:
    project.write("script.yaml", SCRIPT)
    project.write(
        "worker.yaml",
        "name: w\nmodel: script:script.yaml\ntoolsets: {filesystem: {}, memory: {}}\n",
    )

    async def serve() -> tuple[set[str], str]:
        worker = load_worker(project.folder / "worker.yaml")
        asked = RunOptions(workspace=project.folder, read_only=True)
        with asked.open_session(worker, print) as session:
            served = ServedWorker(asked, worker, asked.host(worker), session, takes_tasks=True)
            async with served:
                call = served.call("run_w", {"task": "go"}, can_ask=False)
                with anyio.fail_after(60):
                    while not isinstance(news := await call.next(), ToolOutcome):
                        pass
                return {tool.name for tool in served.tools}, news.value.text()

    with project.environment():
        names, answer = in_loop(serve)
    assert names == READING - {"update_plan"} | {"run_w"}
    assert answer == BLOCKED
    assert not (project.folder / "x.txt").exists()


# Resuming and replaying


def kept(project: Project, *turns: Any, **options: Any) -> Seen:
    seen = Seen()

    async def work() -> None:
        worker = load_worker(project.folder / "worker.yaml")
        resume = options.pop("resume", None)
        with open_session(
            worker, resume=resume, fork=options.pop("fork", False), workspace=project.folder
        ) as session:
            model = scripted_model(*turns)
            runtime = WorkerRuntime(
                worker=worker,
                model=model,
                workspace=project.folder,
                session=session,
                on_event=seen.events.append,
                **options,
            )
            async with runtime:
                seen.result = await runtime.run("go")

    with project.environment():
        in_loop(work)
    return seen


@pytest.mark.parametrize("fork", [False, True])
def test_resumed_session_stays_read_only(project: Project, fork: bool) -> None:
    zones = "{zones: [{name: a, path: ., mode: rw, approval: {write: preApproved}}]}"
    project.write("worker.yaml", f"name: w\nsandbox: {zones}\ntoolsets: {{filesystem: {{}}}}\n")
    write = calls(call("write_file", path="/a/x", content="x"))
    script = "done", write, "done", write, "done"
    first = kept(project, *script, read_only=True)
    later = kept(
        project, *script, resume=first.result.session_id, fork=fork, approval_mode="approve_all"
    )
    assert later.statuses == ["blocked"]
    assert later.of(SessionStart)[0].read_only
    again = kept(project, *script, resume=later.result.session_id)
    assert again.statuses == ["blocked"]
    fresh = kept(project, write, "done")
    assert (fresh.statuses, fresh.of(SessionStart)[0].read_only) == (["success"], None)


def test_replay_of_a_read_only_session_is_read_only(project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {filesystem: {}}\n")
    project.write("a.txt", "here\n")
    made = calls(call("read_file", path="a.txt"), call("write_file", path="b.txt", content="x"))
    seen = project.run(made, "done", read_only=True)
    lines: list[Line] = seen.record
    recording = read_recording(Log(project.folder / "x.jsonl", tuple(lines)))
    repetition = Repetition(
        worker=load_worker(project.folder / "worker.yaml"),
        recording=recording,
        workspace=project.folder.resolve(),
    )
    in_loop(repetition.go)
    assert not (project.folder / "b.txt").exists()


# The command line


SCRIPT = 'turns: [{calls: [{tool: write_file, input: {path: "x.txt", content: "x"}}]}, {text: "{result}"}]\n'


@pytest.fixture
def writer(project: Project) -> Project:
    project.write("script.yaml", SCRIPT)
    project.write("worker.yaml", "name: w\nmodel: script:script.yaml\ntoolsets: {filesystem: {}}\n")
    return project


BLOCKED = "write_file is blocked: this session is read-only, and it is declared to do more: write"


def test_run_command_accepts_read_only(writer: Project) -> None:
    done = writer.forge("run", "worker.yaml", "go", "-p", "-y", "--read-only")
    assert (done.returncode, done.stdout) == (0, f"{BLOCKED}\n")
    with writer.environment():
        (path,) = session_files()
        assert json.loads(path.read_text().splitlines()[0])["readOnly"] is True
        assert read_session(path).lines[0].event.read_only  # type: ignore[union-attr]
    again = writer.forge("run", "worker.yaml", "once more", "-p", "-y", "-c")
    assert again.stdout == f"{BLOCKED}\n"
    stopped = writer.forge("run", "worker.yaml", "go", "-p", "--read-only", "--on-ask", "fail")
    assert (stopped.returncode, (writer.folder / "x.txt").exists()) == (4, False)


def test_chat_and_batch_accept_read_only(writer: Project) -> None:
    talked = writer.forge("chat", "worker.yaml", "-y", "--read-only", stdin="go\n/status\n!ls\n")
    assert BLOCKED in talked.stdout
    assert "this session is read-only, so it runs no commands" in talked.stderr
    assert "approve_all, 0 grants, read-only" in " ".join(talked.stderr.split())
    writer.write("in.jsonl", '{"task": "go"}\n')
    done = writer.forge("batch", "worker.yaml", "in.jsonl", "-y", "--read-only")
    assert done.returncode == 0, done.stderr
    assert BLOCKED in writer.read("in.results.jsonl")
    assert not (writer.folder / "x.txt").exists()
