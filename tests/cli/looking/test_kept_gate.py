"""The kept gate of a worker: whatever it says of a call, the opened worker says, and it is read again in time.

Covers forge_cli.cli.looking.gate_facts.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from forge_cli.cli.looking import answers, kept_gate
from forge_cli.cli.looking.gate import judging
from forge_cli.cli.looking.kept_gate import _describe as describe
from forge_cli.cli.looking.kept_gate import judge_kept
from forge_cli.cli.signals import in_loop
from forge_cli.testing import Project
from tests.sandbox.files.test_cases import CASES, prepare

Call = tuple[str, dict[str, Any], Mapping[str, Any]]
TOOL_OF = {"read": "read_file", "list": "list_files", "write": "write_file", "delete": "delete_file"}

WORKERS = {
    "default zone": "toolsets: {filesystem: {}}",
    "silent zones": "toolsets: {filesystem: {}}\nsandbox: {zones: [{name: notes, mode: rw}, {name: src}]}",
    "consent in zones": """
toolsets: {filesystem: {}, plan: {}, memory: {}}
sandbox:
  zones:
    - {name: notes, mode: rw, approval: {write: preApproved, delete: blocked}}
    - {name: inner, path: notes/inner, mode: rw, approval: {write: blocked}}
    - {name: src, path: ./src}
""",
    "no zones": "toolsets: {filesystem: {}}\nsandbox: {zones: []}",
    "named tools": """
toolsets:
  filesystem:
    prefix: fs
    approval: {default: blocked, tools: {read_file: ask, write_file: blocked, list_files: ask}}
""",
    "some tools": "toolsets: {filesystem: {tools: [read_file, write_file], approval: {tools: {read_file: ask}}}}",
    "beside a shell": "toolsets: {filesystem: {}, shell: {rules: [{pattern: ls, approval: preApproved}]}}",
}
TREE = ["src/a.py", "notes/a.md", "notes/inner/b.md", "notes/.env", "notes/A.md", "worker.yaml.bak", ".git/config"]
TEXTS = ["", "x", "é", "e\u0301", "\ud800", "\x00", "\u202e", "a\nb", "[REDACTED:1]", "true", "1", "0", "null", "{}"]
PATHS = (
    *("/notes/a.md", "notes/a.md", "./notes/../notes/a.md", "/src/a.py", "src/a.py", "/inner/b.md", "/notes/new/x"),
    *("/", ".", "", "..", "/etc/passwd", "~/x", "/notes", "/notes/link", "/notes/out", "/notes/circle", "/notes/hard"),
    *(
        "notes/.env",
        ".git/config",
        ".git/hooks/x",
        ".forge/x",
        "worker.yaml",
        "WORKER.yaml",
        "tools.py",
        "notes/\u0430.md",
    ),
    *("/notes/a.md/b", "/nosuch/a", "notes/" + "x" * 300, "a\x00b", "notes/a.md\n", "\udcff", "C:\\x"),
)


def build(folder: Path) -> None:
    for name in TREE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text\n")
    (folder / "notes/link").symlink_to("a.md")
    (folder / "notes/out").symlink_to("/etc")
    (folder / "notes/circle").symlink_to("circle")
    (folder / "notes/hard").hardlink_to(folder / "notes/inner/b.md")


class Gates:
    """Both ways to judge the calls of a worker in a folder."""

    def __init__(self, folder: Path, worker: str) -> None:
        self.folder = folder
        self.worker = str(folder / "worker.yaml")
        (folder / "worker.yaml").write_text(f"name: w\n{worker}\n")
        self.kept = describe(self.worker, folder)

    def kept_answers(self, calls: Iterable[Call]) -> list[Any]:
        return [judge_kept(self.kept, self.folder, *call) for call in calls]

    def opened_answers(self, calls: Iterable[Call]) -> list[Any]:
        async def judge_all() -> list[Any]:
            with anyio.fail_after(60):
                async with judging(self.worker, self.folder) as judge:
                    return [await judge(*call) for call in calls]

        return in_loop(judge_all)

    def compare(self, calls: list[Call]) -> int:
        """How many calls the kept gate has judged, each as the opened worker has."""
        found = self.kept_answers(calls)
        for call, kept, opened in zip(calls, found, self.opened_answers(calls), strict=True):
            assert kept in (None, opened), call
            assert kept is None or opened["verdict"] != "refused", call
        return sum(kept is not None for kept in found)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("FORGE_HOME", str(folder))
    return folder


@pytest.fixture
def gates(tmp_path: Path, home: Path) -> Callable[[str], Gates]:
    folder = tmp_path / "work"
    folder.mkdir()
    build(folder)
    return lambda worker: Gates(folder, worker)


def args_of(tool: str) -> list[dict[str, Any]]:
    """Args that fit, and all that may be wrong with args."""
    fit: dict[str, Any] = {"write_file": {"content": "x"}, "grep_files": {"pattern": "x"}}.get(tool, {})
    odd = [{**fit, "path": value} for value in (None, 1, 1.5, True, [], ["/notes/a.md"], {}, {"path": "x"})]
    extra = [{**fit, "path": "/notes/a.md", name: "x"} for name in ("nosuch", "Path", "", "context", "self")]
    return [*({**fit, "path": path} for path in PATHS), *odd, *extra, fit, {}]


@pytest.mark.parametrize("worker", WORKERS.values(), ids=WORKERS)
def test_the_kept_gate_says_what_the_opened_worker_says(gates: Callable[[str], Gates], worker: str) -> None:
    tools = [
        "read_file",
        "write_file",
        "list_files",
        "delete_file",
        "file_info",
        "file_exists",
        "list_dir",
        "edit_file",
    ]
    prefix = "fs_" if "prefix" in worker else ""
    named = [*(f"{prefix}{tool}" for tool in tools), "grep_files", "nosuch", "apply_patch", "shell", "remember"]
    calls: list[Call] = [(name, args, {}) for name in named for args in args_of(name.removeprefix(prefix))]
    calls += [(f"{prefix}write_file", {"path": "/notes/n", "content": text}, {}) for text in TEXTS]
    limits: list[Any] = [0, 1, 20, 21, -1, 2**70, 1.0, 1.5, "3", "x", "", True, None, [], float("nan"), float("inf")]
    calls += [(f"{prefix}list_dir", {"path": ".", "depth": depth}, {}) for depth in limits]
    calls += [(f"{prefix}read_file", {"path": "src/a.py", "limit": limit}, {}) for limit in limits]
    calls += [(f"{prefix}read_file", {"path": "src/a.py", "numbered": value}, {}) for value in limits]
    assert gates(worker).compare(calls) > 20 or "zones: []" in worker


@pytest.mark.parametrize(
    "typed",
    [
        {"path": "src/a.py", "limit": "3"},
        {"path": "src/a.py", "limit": "x", "numbered": "no"},
        {"path": "src/a.py", "numbered": True, "offset": "007"},
        {"path": ["a", "b"]},
        {"path": True},
        {"no-such": "x", "path": "src/a.py"},
    ],
    ids=str,
)
def test_typed_options_are_read_the_same_way(gates: Callable[[str], Gates], typed: dict[str, Any]) -> None:
    gates(WORKERS["default zone"]).compare([("read_file", {}, typed), ("read_file", {"path": "/x"}, typed)])


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_the_cases_of_paths(case: dict[str, Any], tmp_path: Path, home: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    prepare(root, case)
    gates = Gates(root, f"toolsets: {{filesystem: {{}}}}\nsandbox: {{zones: {json.dumps(case['zones'])}}}")
    more = {"content": "x"} if case["op"] == "write" else {}
    if gates.kept == "null":  # it cannot be opened
        return
    judged = gates.compare([(TOOL_OF[case["op"]], {"path": case["path"], **more}, {})])
    swapped = any(step["op"] == "swap_after_check" for step in case["setup"])
    assert bool(judged) is (case["expect"] != "deny" or swapped)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(PATHS)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=3,
)
NAMES = st.sampled_from(["path", "content", "offset", "limit", "numbered", "depth", "pattern", "include", "old", "x"])
TOOLS = st.sampled_from(["read_file", "write_file", "list_files", "delete_file", "list_dir", "grep_files", "file_info"])


@given(calls=st.lists(st.tuples(TOOLS, st.dictionaries(NAMES, VALUES, max_size=4), st.just({})), min_size=20))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@example(calls=[("write_file", {"path": "/notes/a", "content": "\ud800"}, {})])
def test_any_calls(gates: Callable[[str], Gates], calls: list[Call]) -> None:
    gates(WORKERS["consent in zones"]).compare(calls)


OTHERS = {
    "code that does not load": ("toolsets: {filesystem: {}, custom: {module: ./tools.py, tools: [one]}}", {}),
    "a plugin beside it": ("plugins: [./tools.py]\ntoolsets: {filesystem: {}}", {}),
    "executables": ("toolsets: {filesystem: {}, executables: {}}", {}),
    "a server": ("toolsets: {filesystem: {}, mcp: {servers: {one: {command: 'false'}}}}", {}),
    "another worker": ("toolsets: {filesystem: {}, workers: {workers: [./other.yaml]}}", {}),
    "hooks": ("toolsets: {filesystem: {}}", {"config.yaml": "hooks: [{on: before_tool, run: [/bin/true]}]\n"}),
    "settings that are wrong": ("toolsets: {filesystem: {}}", {"config.yaml": "nosuch: 1\n"}),
    "a key that is wrong": ("toolsets: {filesystem: {nosuch: 1}}", {}),
}


@pytest.mark.parametrize(("worker", "files"), OTHERS.values(), ids=OTHERS)
def test_where_more_decides_nothing_is_kept(
    gates: Callable[[str], Gates], home: Path, tmp_path: Path, worker: str, files: dict[str, str]
) -> None:
    (tmp_path / "work" / "tools.py").write_text("raise SystemExit('looked at')\n")
    (tmp_path / "work" / "other.yaml").write_text("name: other\n")
    for name, text in files.items():
        (home / name).write_text(text)
    assert gates(worker).kept == "null"


MODULE = '''
import sys
from pathlib import Path
from typing import Annotated, Literal
from forge_cli import Approval, tool
from pydantic import Field
%s
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b

@tool(needs_approval=False)
def free(text: str) -> str:
    return text

@tool(needs_approval=True)
def careful(level: Annotated[int, Field(ge=1, le=3)] = 1) -> int:
    return level

@tool(needs_approval=Approval.BLOCKED)
def never() -> None: ...

@tool(effects=["read"])
def look_at(place: Path) -> str:
    return str(place)

@tool(needs_approval=lambda args, context: args["n"] > 3)
def judged(n: int) -> int:
    return n

def odd(kind: Literal["a", "b"], many: list[int]) -> str:
    return kind
'''
OWN_TOOLS = ["add", "free", "careful", "never", "look_at", "judged", "odd"]
POLICIES = [
    "",
    ", approval: {default: preApproved}",
    ", approval: {default: blocked, tools: {add: ask, free: preApproved}}",
    ", prefix: my, approval: {tools: {careful: blocked}}",
]


@pytest.mark.parametrize("policy", POLICIES)
def test_tools_of_a_module_are_judged_as_by_the_opened_worker(
    gates: Callable[[str], Gates], tmp_path: Path, policy: str
) -> None:
    """In a child, which the opened worker has as well; what the module decides itself is left to that."""
    (tmp_path / "work" / "tools.py").write_text(MODULE % "")
    found = gates(f"toolsets: {{filesystem: {{}}, custom: {{module: ./tools.py, tools: {OWN_TOOLS}{policy}}}}}")
    prefix = "my_" if "prefix" in policy else ""
    args: list[dict[str, Any]] = [
        *({}, {"a": 1}, {"a": 1, "b": 3}, {"a": "1"}, {"a": None}, {"text": "x"}, {"level": 2}, {"level": 9}, {"n": 5}),
        *({"place": "src/a.py"}, {"place": "/etc/passwd"}, {"place": "tools.py"}, {"kind": "a", "many": [1]}),
    ]
    calls: list[Call] = [(f"{prefix}{name}", each, {}) for name in OWN_TOOLS for each in args]
    calls += [("read_file", {"path": "src/a.py"}, {}), (f"{prefix}add", {}, {"a": "1", "b": "x"})]
    assert found.compare(calls) >= 5
    assert found.kept_answers([(f"{prefix}judged", {"n": 5}, {})]) == [None]


LIES = """
from forge_cli.cli.looking import gate_facts
lie = {"module": "cli.looking.kept_gate", "function": "judge_kept"}
gate_facts._needs_approval = lambda needs: lie
same = type("Same", (), {"__eq__": lambda one, other: True})()
same.policy = same.tool = same.schema = same.plain = same.json_schema = same
gate_facts.offer_from = lambda name, facts: same
"""


def test_a_module_names_no_function_to_be_called_here(gates: Callable[[str], Gates], tmp_path: Path) -> None:
    (tmp_path / "work" / "tools.py").write_text(MODULE % LIES)
    found = gates("toolsets: {custom: {module: ./tools.py, tools: [add, free]}}")
    assert "judge_kept" not in found.kept


def test_a_module_is_loaded_once(project: Project, cli: Any, opened_again: list[str], approve: Any) -> None:
    project.write("tools.py", MODULE % "")
    project.write("worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [add, free]}}")

    def ask(tool: str, *args: str) -> str:
        return str(json.loads(cli("approve", "worker.yaml", tool, *args, "--json").out)["verdict"])

    assert [ask("add", "a=1"), ask("free", "text=x"), ask("add", "a=3")] == ["ask", "preApproved", "ask"]
    assert opened_again == ["worker.yaml"]
    project.write("tools.py", (MODULE % "").replace("needs_approval=False", "needs_approval=True"))
    assert [ask("add", "a=1"), ask("free", "text=x")] == ["ask", "ask"]
    assert len(opened_again) == 2


ONE = "name: w\ntoolsets: {filesystem: {}}\nsandbox: {zones: [{name: notes, mode: rw, approval: {write: %s}}]}\n"


@pytest.fixture
def approve(project: Project, cli: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Approve a write; however new the files are, what they say is kept."""
    monkeypatch.setattr(answers, "SETTLED", -3600.0)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    project.write("worker.yaml", ONE % "ask")

    def run(path: str = "/notes/a") -> tuple[int, str]:
        done = cli("approve", "worker.yaml", "write_file", f"path={path}", "content=x", "--json")
        return done.code, json.loads(done.out)["verdict"] if done.out else done.err

    return run


@pytest.fixture
def opened_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The workers whose files were read."""
    found: list[str] = []
    describe = kept_gate._describe

    def note(worker: str, workspace: Path) -> str:
        found.append(worker)
        return describe(worker, workspace)

    monkeypatch.setattr(kept_gate, "_describe", note)
    return found


def test_files_are_read_once(approve: Any, opened_again: list[str]) -> None:
    assert [approve(), approve("/notes/b"), approve("/notes/b/c")] == [(0, "ask")] * 3
    assert opened_again == ["worker.yaml"]


def test_a_changed_worker_is_read_again(approve: Any, project: Project) -> None:
    assert approve() == (0, "ask")
    project.write("worker.yaml", ONE % "blocked")
    assert approve() == (0, "blocked")
    project.write("worker.yaml", ONE % "nonsense")
    assert approve()[0] == 3


def test_settings_that_appear_are_read(approve: Any, project: Project) -> None:
    assert approve() == (0, "ask")
    project.home.mkdir(exist_ok=True)
    (project.home / "config.yaml").write_text("policy: {filesystem: {rules: []}}\n")
    code, sentence = approve()
    assert (code, "takes no policy" in sentence) == (3, True)


def test_folders_are_looked_at_each_time(approve: Any, project: Project) -> None:
    """Nothing that was kept has changed."""
    (project.folder / "notes").mkdir()
    outside = project.folder / "outside"
    outside.mkdir()
    assert approve("/notes/in/a") == (0, "ask")
    (project.folder / "notes" / "in").symlink_to(outside)
    assert approve("/notes/in/a") == (0, "refused")


def test_a_zone_that_appears_is_found(approve: Any, project: Project, opened_again: list[str]) -> None:
    project.write(
        "worker.yaml", "name: w\ntoolsets: {filesystem: {}}\nsandbox: {zones: [{name: a}, {name: notes, mode: rw}]}"
    )
    assert [approve()[0], approve()[0]] == [3, 3]
    (project.folder / "a").mkdir()
    assert [approve(), approve()] == [(0, "ask")] * 2
    assert len(opened_again) == 3


def test_a_path_that_is_not_given_is_left_to_the_opened_worker(gates: Callable[[str], Gates]) -> None:
    """It is the working directory where that lies in a zone, and the list of zones elsewhere."""
    worker = gates(WORKERS["silent zones"])
    assert worker.kept_answers([("list_files", {}, {})]) == [None]
    assert worker.compare(
        [("list_files", {}, {}), ("list_files", {"path": "."}, {}), ("list_files", {"path": "/"}, {})]
    )


def test_what_others_can_write_is_not_believed(approve: Any, project: Project, opened_again: list[str]) -> None:
    assert approve() == (0, "ask")
    (file,) = (project.home / "cache" / "answers").glob("*.json")
    file.write_text(file.read_text().replace('\\"write\\": \\"ask\\"', '\\"write\\": \\"preApproved\\"'))
    assert approve() == (0, "preApproved"), "the file is what is read"
    os.chmod(file, 0o666)
    assert approve() == (0, "ask")
    assert len(opened_again) == 2


def test_facts_that_make_no_sense_are_left_to_the_opened_worker(tmp_path: Path) -> None:
    call: Call = ("write_file", {"path": "a", "content": "x"}, {})
    for kept in (
        "",
        "null",
        "[]",
        "{}",
        '{"offers": {"write_file": {"toolset": 1}}}',
        '{"offers": {"write_file": []}}',
    ):
        assert judge_kept(kept, tmp_path, *call) is None
