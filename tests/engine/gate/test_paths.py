"""The gate judges paths: zones and protected names apply to every tool that uses a file."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from forge_cli import ApprovalDecision, ApprovalRequest
from forge_cli.core.events import ApprovalDecided, ToolResult
from forge_cli.record.line import Line
from forge_cli.sandbox.files import place
from forge_cli.testing import Project, Seen, call, calls

TOOLS = '''
from forge_cli import DeletePath, ReadPath, ToolContext, WritePath, tool
from forge_cli.hooks import PathUse

@tool(needs_approval=False)
def put(path: WritePath, text: str, *, context: ToolContext) -> str:
    """Write a file."""
    context.sandbox.write_bytes(path, text.encode())
    return "written"

@tool(needs_approval=False)
def put_all(paths: list[WritePath], *, context: ToolContext) -> str:
    """Write files."""
    for path in paths:
        context.sandbox.write_bytes(path, b"all")
    return "written"

@tool(needs_approval=False)
def look(path: ReadPath, *, context: ToolContext) -> str:
    """Read a file."""
    return context.sandbox.read_bytes(path).decode()

@tool(needs_approval=False)
def drop(path: DeletePath, *, context: ToolContext) -> str:
    """Delete a file."""
    context.sandbox.delete(path)
    return "deleted"

@tool(needs_approval=False, touches=lambda args: [PathUse(line, "write") for line in args["lines"].split()])
def put_lines(lines: str, *, context: ToolContext) -> str:
    """Write every file that a text names."""
    for path in lines.split():
        context.sandbox.write_bytes(path, b"line")
    return "written"

@tool(needs_approval=False)
def sneak(name: str, what: str = "write", *, context: ToolContext) -> str:
    """Touch a file without saying so."""
    sandbox = context.sandbox
    match what:
        case "write":
            sandbox.write_bytes(name, b"sneaked")
        case "read":
            return sandbox.read_bytes(name).decode()
        case "delete":
            sandbox.delete(name)
        case "list":
            return ", ".join(entry.name for entry in sandbox.list(name))
        case "judge":
            return sandbox.judge(name, "write").approval.value
    return "done"

def silent(path: WritePath, *, context: ToolContext) -> str:
    """Write a file, and say nothing about approval."""
    context.sandbox.write_bytes(path, b"silent")
    return "written"
'''
WORKER = """
name: w
sandbox:
  zones:
    - {name: free, path: free, mode: rw, approval: {write: preApproved, delete: preApproved}}
    - {name: out, path: out, mode: rw, approval: {write: ask, delete: blocked}}
    - {name: shut, path: shut, mode: rw, approval: {write: blocked}}
    - {name: src, path: src, mode: ro}
toolsets:
  filesystem: {}
  custom: {module: ./tools.py, tools: [put, put_all, look, drop, put_lines, sneak, silent]}
"""


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    project.write("src/a.txt", "source")
    project.write("free/.env", "KEY=1")
    project.write("free/a.txt", "free")
    project.write("out/a.txt", "out")
    project.write("shut/a.txt", "shut")
    return project


def once(project: Project, tool: str, answers: Any = (), **args: Any) -> tuple[ToolResult, Seen]:
    seen = project.run(calls(call(tool, **args)), "done", answers=list(answers))
    return seen.outcomes[0], seen


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("tool", "args", "status", "reason"),
    [
        ("put", {"path": "/shut/a.txt", "text": "x"}, "blocked", "zone 'shut' blocks write"),
        ("put_all", {"paths": ["/free/b", "/shut/a.txt"]}, "blocked", "zone 'shut' blocks write"),
        ("put_lines", {"lines": "/free/b /shut/a.txt"}, "blocked", "zone 'shut' blocks write"),
        ("drop", {"path": "/out/a.txt"}, "blocked", "zone 'out' blocks delete"),
        ("put", {"path": "/src/a.txt", "text": "x"}, "error", "zone 'src' is read-only"),
        ("put", {"path": "/etc/x", "text": "x"}, "error", "is in no zone"),
        ("look", {"path": "../up"}, "error", "is in no zone"),
        ("put_lines", {"lines": "/free/ok /nowhere/x"}, "error", "is in no zone"),
    ],
)
def test_path_that_a_zone_forbids_is_refused_without_a_question(
    worker: Project, tool: str, args: dict[str, Any], status: str, reason: str
) -> None:
    result, seen = once(worker, tool, **args)
    assert (result.status, seen.asked) == (status, [])
    assert reason in str(result.error)
    assert not (worker.folder / "free/b").exists()
    assert worker.read("shut/a.txt") == "shut"


SECRET = "'.env' is a protected name: it may hold secrets, and shells and programs load it"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("tool", "args", "reason", "rule"),
    [
        (
            "put",
            {"path": "/out/a.txt", "text": "x"},
            "writing in zone 'out' needs your OK",
            "sandbox.zones.out.approval.write",
        ),
        (
            "put",
            {"path": "/free/.git/hooks/x", "text": "x"},
            "'.git' is a protected name: git runs what it names",
            "protected names",
        ),
        (
            "put",
            {"path": "/free/.mcp.json", "text": "x"},
            "'.mcp.json' is a protected name: other assistants start what it names",
            "protected names",
        ),
        ("put_lines", {"lines": "/free/a .env"}, SECRET, "protected names"),
        ("look", {"path": "/free/.env"}, "'.env' may hold secrets", "protected names: .env*"),
        ("drop", {"path": "/free/.env"}, SECRET, "protected names"),
    ],
)
def test_asking_path_names_zone_and_rule_and_runs_after_a_yes(
    worker: Project, tool: str, args: dict[str, Any], reason: str, rule: str
) -> None:
    worker.write("worker.yaml", WORKER.replace("path: free", "path: ."))
    worker.write(".env", "KEY=1")
    worker.write("a", "")
    result, seen = once(worker, tool, [False], **args)
    assert (result.status, len(seen.asked)) == ("denied", 1)
    assert (seen.asked[0].reason, seen.asked[0].rule) == (reason, rule)
    result, _ = once(worker, tool, [True], **args)
    assert result.status == "success", result.error


def test_files_of_the_worker_ask_for_every_tool(worker: Project) -> None:
    worker.write("worker.yaml", WORKER.replace("path: free", "path: ."))
    for name in ("worker.yaml", "tools.py"):
        result, seen = once(worker, "put", [False], path=f"/free/{name}", text="x")
        assert result.status == "denied"
        assert "it is one of the worker's own files" in seen.asked[0].reason


@pytest.mark.few(4)
@pytest.mark.parametrize("mode", [None, "approve_all"])
@pytest.mark.parametrize(
    ("args", "declaration"),
    [
        ({"name": "/out/new.txt"}, "WritePath"),
        ({"name": "/shut/a.txt"}, "WritePath"),
        ({"name": "/free/.git/config"}, "WritePath"),
        ({"name": "/free/.env", "what": "read"}, "ReadPath"),
        ({"name": "/out/a.txt", "what": "delete"}, "DeletePath"),
    ],
)
def test_undeclared_path_is_refused_in_every_mode(
    worker: Project, args: dict[str, Any], declaration: str, mode: str | None
) -> None:
    seen = worker.run(calls(call("sneak", **args)), "done", answers=[], approval_mode=mode)
    (result,) = seen.outcomes
    assert (result.status, seen.asked) == ("error", [])
    assert f"declare the argument as {declaration}" in str(result.error)
    assert worker.read("shut/a.txt") == "shut"


def test_pre_approved_path_needs_no_declaration(worker: Project) -> None:
    assert once(worker, "sneak", name="/free/new.txt")[0].status == "success"
    assert once(worker, "sneak", name="free/new.txt", what="read")[0].value.text() == "sneaked"
    assert (
        once(worker, "sneak", name="/free", what="list")[0].value.text() == ".env, a.txt, new.txt"
    )
    assert once(worker, "sneak", name="/out/x", what="judge")[0].value.text() == "ask"
    assert once(worker, "sneak", name="/free/new.txt", what="delete")[0].status == "success"


def test_strictest_of_tool_worker_and_zone_applies_with_each_reason(
    worker: Project,
) -> None:
    result, seen = once(worker, "silent", [False], path="/free/x")
    assert (result.status, seen.asked[0].reason) == (
        "denied",
        "neither the tool nor the worker says anything, so it asks",
    )
    _, seen = once(worker, "silent", [False], path="/out/x")
    assert seen.asked[0].reason == (
        "neither the tool nor the worker says anything, so it asks; writing in zone 'out' needs your OK"
    )
    assert seen.asked[0].rule == "sandbox.zones.out.approval.write"
    worker.write(
        "worker.yaml",
        WORKER.replace("put_lines, sneak, silent]", "silent], approval: {default: preApproved}"),
    )
    assert once(worker, "silent", path="/free/x")[0].status == "success"
    assert once(worker, "silent", [False], path="/out/x")[0].status == "denied"
    worker.write(
        "worker.yaml", WORKER.replace("silent]}", "silent], approval: {tools: {put: blocked}}}")
    )
    assert once(worker, "put", path="/free/x", text="x")[0].status == "blocked"


def test_three_spellings_of_a_path_are_one_call(worker: Project) -> None:
    always = ApprovalDecision(True, remember="session")
    spellings = [
        "/out/new.txt",
        "out/new.txt",
        str(worker.folder / "out/new.txt"),
        "./out/../out/new.txt",
    ]
    made = [calls(call("put", path=path, text="x")) for path in spellings]
    seen = worker.run(*made, "done", answers=[always])
    assert (seen.statuses, len(seen.asked)) == (["success"] * 4, 1)


def test_approval_of_a_list_of_paths_does_not_cover_another_list(worker: Project) -> None:
    always = ApprovalDecision(True, remember="session")
    made = [
        calls(call("put_lines", lines=lines))
        for lines in ("/out/a /out/b", "/out/a  /out/b", "/out/a /out/c")
    ]
    seen = worker.run(*made, "done", answers=[always, always, False])
    assert (seen.statuses, len(seen.asked)) == (["success", "success", "denied"], 3)


def test_file_replaced_between_approval_and_write_asks_again(
    worker: Project,
) -> None:
    asked: list[ApprovalRequest] = []

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        if len(asked) == 1:
            (worker.folder / "free/.env").unlink()
            worker.write("free/.env", "NEW=1")
        return ApprovalDecision(len(asked) == 1)

    seen = worker.run(
        calls(call("put", path="/free/.env", text="x")), "done", approval_callback=answer
    )
    assert (seen.statuses, worker.read("free/.env")) == (["denied"], "NEW=1")
    assert "'/free/.env' has changed since it was judged" in asked[1].reason


def test_link_changed_after_judging_is_judged_again(worker: Project) -> None:
    """Judged while it leads to a writable file, opened while it leads to a file that asks."""
    link = worker.folder / "free/link"
    link.symlink_to("a.txt")

    def flip(line: Line) -> None:
        if line.type == "approvalDecided":
            link.unlink(missing_ok=True)
            link.symlink_to(".env")

    seen = worker.run(
        calls(call("put", path="/free/link", text="x")), "done", answers=[False], sinks=(flip,)
    )
    assert (seen.statuses, len(seen.asked), worker.read("free/.env")) == (["denied"], 1, "KEY=1")


@contextmanager
def counted_walks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    walks: Counter[str] = Counter()
    locate = place.locate_place

    def counting(path: Any, *args: Any, **options: Any) -> Any:
        walks[path.text] += 1
        return locate(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(place, "locate_place", counting)
        yield walks


@pytest.mark.parametrize(
    ("tool", "args", "most"),
    [
        ("write_file", {"path": "/out/a.txt", "content": "new"}, 3),
        ("write_file", {"path": "/free/a.txt", "content": "new"}, 2),
        ("read_file", {"path": "/src/a.txt"}, 2),
        ("delete_file", {"path": "/free/a.txt"}, 2),
        ("put", {"path": "/out/a.txt", "text": "new"}, 2),
    ],
)
def test_judging_previewing_and_executing_each_resolve_once(
    worker: Project, monkeypatch: pytest.MonkeyPatch, tool: str, args: dict[str, Any], most: int
) -> None:
    with counted_walks(monkeypatch) as walks:
        result, _ = once(worker, tool, [True], **args)
    assert result.status == "success"
    assert walks[args["path"]] <= most


def test_every_decision_names_the_zone(worker: Project) -> None:
    _, seen = once(worker, "put", path="/free/x", text="x")
    (decided,) = seen.of(ApprovalDecided)
    assert (decided.verdict, decided.rule, decided.reason) == (
        "preApproved",
        "sandbox.zones.free.approval.write",
        "zone 'free' pre-approves write",
    )
    assert str(decided.where).endswith("worker.yaml:5:60")


@pytest.mark.parametrize(
    ("touches", "problem"),
    [
        (
            "[1 / 0]",
            "put_lines does not say which paths it touches: ZeroDivisionError: division by zero",
        ),
        ("[args['lines']]", "touches of put_lines returned '/free/a', which is not a PathUse"),
        ("args['lines']", "touches of put_lines returned '/free/a', which is not a PathUse"),
        ("None", "touches of put_lines returned None, which is not a PathUse"),
    ],
)
def test_tool_without_known_paths_is_not_called(
    worker: Project, touches: str, problem: str
) -> None:
    worker.write(
        "tools.py",
        TOOLS.replace("""[PathUse(line, "write") for line in args["lines"].split()]""", touches),
    )
    result, _ = once(worker, "put_lines", lines="/free/a")
    assert (result.status, result.error) == ("error", problem)
