"""The contract of tools: verdicts, results and events are equal for every source.

Covers forge_cli.testing.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import (
    ApprovalDecision,
    InterruptSignal,
    Json,
    Text,
    Tool,
    WorkerRuntime,
    load_worker,
)
from forge_cli.core.events import ApprovalDecided
from forge_cli.core.results import ResultValue
from forge_cli.core.wire import JsonObject
from forge_cli.engine.plugins.scan import LOAD_PLUGINS
from forge_cli.testing import Project, Seen, call, calls, scripted_model
from tests.support.distributions import write_distribution

MODULE = '''
"""The same tools, whichever way they come in."""

import anyio

from forge_cli import Approval, Custom, ReadPath, Tool, ToolContext, ToolError, Toolset, ToolsetConfig
from forge_cli.errors import BlockedError
from forge_cli import WritePath, hookimpl, tool


def act(text: str = "x", times: int = 1) -> str:
    """Say something so many times.

    Args:
        text: What to say.
    """
    return text * times


def report(rows: list[int]) -> dict[str, int]:
    """Tell how many rows there are."""
    return {"rows": len(rows)}


def fail(text: str) -> str:
    """Fail with a sentence for the model."""
    raise ToolError(f"cannot {text}")


def crash() -> str:
    """Fail by mistake."""
    raise ValueError("it broke")


def refuse() -> str:
    """Find out that it is forbidden."""
    raise BlockedError("refuse", "not on a Sunday")


@tool(timeout=0.05)
async def hang() -> str:
    """Take too long."""
    await anyio.sleep_forever()


async def wait(gate: str) -> str:
    """Tell that it has begun, and wait."""
    open(gate, "w").close()
    await anyio.sleep_forever()


def where(context: ToolContext) -> str:
    """Tell what it knows of its call."""
    context.progress("looking", 0.5)
    return f"{context.worker} {context.tool} {context.call_id}"


def look(path: ReadPath, context: ToolContext) -> str:
    """Read a file."""
    return context.sandbox.read_bytes(path).decode()


def put(path: WritePath, text: str, context: ToolContext) -> str:
    """Write a file."""
    context.sandbox.write_bytes(path, text.encode())
    return "written"


def named(name: str, **options) -> Tool:
    return Tool.from_function(act, name=name, **options)


SILENT = [act, named("free"), named("asking"), named("barred")]
WORDS = {"no": False, "yes": True, "never": Approval.BLOCKED, "loud": lambda args: args["text"].isupper()}
SPEAKING = [named(name, needs_approval=word) for name, word in WORDS.items()]
ACTING = [act, report, fail, crash, refuse, hang, wait, where, look, put]


class Config(ToolsetConfig):
    group: str


class Contract(Toolset):
    name = "contract"
    Config = Config

    async def tools(self):
        if not hasattr(self, "_made"):
            group = globals()[self.config.group]
            self._made = [each if isinstance(each, Tool) else Tool.from_function(each) for each in group]
        return self._made


@hookimpl
def forge_toolsets():
    return [Contract]
'''


# --- the ways in


@dataclass(frozen=True)
class Way:
    """The form in which a worker names a group of tools, and their shown source."""

    toolset: str
    source: str
    settings: Callable[[str], JsonObject] = lambda group: {"group": group}
    lacks: frozenset[str] = frozenset()
    """Groups and stories that cannot come in that way."""
    plugins: tuple[str, ...] = ()
    """What the worker names at its top, where the toolset lies beside it."""


def _plugin(site: Path, distribution: str, version: str) -> None:
    write_distribution(
        site, distribution, ["contract = contract_module"], version=version, contract_module=MODULE
    )


def builtin(site: Path, project: Project) -> Way:
    _plugin(site, "forge-workers", "0.0")
    return Way("contract", "builtin forge-workers 0.0")


def package(site: Path, project: Project) -> Way:
    _plugin(site, "forge-tools-contract", "3.1")
    return Way("contract", "package forge-tools-contract 3.1")


def local(site: Path, project: Project) -> Way:
    project.write("tools.py", MODULE)
    return Way(
        "custom", "local ./tools.py", lambda group: {"module": "./tools.py", "tools": [group]}
    )


def file(site: Path, project: Project) -> Way:
    """The module of the package, as a file with hooks of its own."""
    project.write("contract.py", MODULE)
    return Way("contract", "local ./contract.py", plugins=("./contract.py",))


def folder(site: Path, project: Project) -> Way:
    """The same as a package that can be imported."""
    project.write(
        "contracts/__init__.py",
        "from .toolset import *\nfrom contracts.toolset import forge_toolsets\n",
    )
    project.write("contracts/toolset.py", MODULE)
    return Way("contract", "local contracts", plugins=("contracts",))


def unpublished(site: Path, project: Project) -> Way:
    """The same as a project that could be built and published."""
    entry = '[project.entry-points.forge]\ncontract = "contract_module"\n'
    project.write(
        "forge-tools-contract/pyproject.toml", f'[project]\nname = "forge-tools-contract"\n{entry}'
    )
    project.write("forge-tools-contract/src/contract_module.py", MODULE)
    return Way("contract", "local ./forge-tools-contract", plugins=("./forge-tools-contract",))


def external(site: Path, project: Project) -> Way:
    (site / "contract_module.py").write_text(MODULE)
    named = {"package": "contract_module"}
    return Way("external", "external contract_module", lambda group: {**named, "import": group})


PROGRAM = """import argparse, json

parser = argparse.ArgumentParser()
parser.add_argument("--text")
parser.add_argument("--times", type=int)
args = parser.parse_args()
print(json.dumps({"kind": "text", "content": args.text * args.times}))
"""
MANIFEST = """name: {name}
description: Say something so many times.
entrypoint: {name}.py
parameters:
  - {{name: text, default: x, description: What to say.}}
  - {{name: times, type: integer, default: 1}}
"""
PROGRAMS = {
    "wait": ("open(args.gate, 'w').close()\ntime.sleep(60)", ["{name: gate}"]),
    "look": ("say(open(args.path).read())", ["{name: path, type: path}"]),
    "put": (
        "open(args.path, 'w').write(args.text)\nsay('written')",
        ["{name: path, type: path, access: write}", "{name: text}"],
    ),
}
"""What the tools of ACTING do as programs, and their parameters."""
HEAD = """import argparse, json, time

parser = argparse.ArgumentParser()
for name in ("gate", "path", "text"):
    parser.add_argument(f"--{name}")
args = parser.parse_args()


def say(text):
    print(json.dumps({"kind": "text", "content": text}))


"""


def executables(site: Path, project: Project) -> Way:
    """Programs have no word of their own, no context, no lists and no exceptions; all the rest is the same."""
    for name, (source, parameters) in PROGRAMS.items():
        manifest = f"name: {name}\ndescription: d\nentrypoint: {name}.py\nparameters: [{', '.join(parameters)}]\n"
        _program(project, name, HEAD + source, manifest)
    for name in NAMED:
        _program(project, name, PROGRAM, MANIFEST.format(name=name))
    lacks = ("SPEAKING", "ACTING", "data", "progress", "error", "crash", "refused", "timeout")
    lacks += (
        "writes into a zone that is read-only",
        "writes outside every zone",
    )  # they bring a zone of their own
    listed = {"SILENT": list(NAMED), "ACTING": ["act", *PROGRAMS]}
    source = f"executable {project.home}/tools/{{name}}"
    return Way("executables", source, lambda group: {"tools": listed[group]}, frozenset(lacks))


def _program(project: Project, name: str, source: str, manifest: str) -> None:
    folder = project.home / "tools" / name
    folder.mkdir(parents=True)
    (folder / f"{name}.py").write_text(source)
    (folder / "tool.yaml").write_text(manifest)


SOURCES: dict[str, Callable[[Path, Project], Way]] = {
    "builtin": builtin,
    "package": package,
    "local": local,
    "file": file,
    "folder": folder,
    "unpublished": unpublished,
    "external": external,
    "executables": executables,
}
"""Every way in; another one is another function that puts the same tools there."""


@dataclass(frozen=True)
class Bench:
    """A project in which the tools come in one way."""

    project: Project
    site: Path
    way: Way

    @classmethod
    def make(cls, source: str, folder: Path) -> "Bench":
        site, project = folder / "site", Project(folder / "project")
        site.mkdir()
        project.folder.mkdir()
        return cls(project, site, SOURCES[source](site, project))

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let the tools come in for a while; afterwards everything is as if they never had."""
        with pytest.MonkeyPatch.context() as patch, self.project.environment():
            patch.setattr(sys, "path", list(sys.path))
            patch.syspath_prepend(str(self.site))
            patch.setenv(
                LOAD_PLUGINS, "forge-tools-contract" if any(self.site.glob("forge_tools_*")) else ""
            )
            yield
        sys.modules.pop("contract_module", None)

    def worker(self, group: str, approval: JsonObject, sandbox: JsonObject | None = None) -> Path:
        section = {**self.way.settings(group), "approval": approval}
        start = f"name: w\nenvironment: false\nplugins: {list(self.way.plugins)!r}\n"
        text = f"{start}toolsets:\n  {self.way.toolset}: {section!r}\n"
        return self.project.write(
            "worker.yaml", text + (f"sandbox: {sandbox!r}\n" if sandbox else "")
        )

    def run(
        self,
        group: str,
        *made: JsonObject,
        approval: JsonObject,
        sandbox: JsonObject | None = None,
        **options: Any,
    ) -> Seen:
        self.worker(group, approval, sandbox)
        return self.project.run(calls(*made), "done", **options)


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    """One bench for each source, for properties that must be equal."""
    return {source: Bench.make(source, tmp_path_factory.mktemp(source)) for source in SOURCES}


@pytest.fixture(params=SOURCES)
def bench(request: pytest.FixtureRequest, benches: dict[str, Bench]) -> Iterator[Bench]:
    """Each source by itself."""
    with benches[request.param].open():
        yield benches[request.param]


def from_each(benches: dict[str, Bench], name: str, look: Callable[[Bench], Any]) -> dict[str, Any]:
    """The observations of each source that has this group or story; there are always several."""
    seen = {}
    for source, bench in benches.items():
        if name not in bench.way.lacks:
            with bench.open():
                seen[source] = look(bench)
    assert len(seen) > 1
    return seen


def alike(seen: dict[str, Any]) -> bool:
    """Return True if every source gave the same as the first one."""
    return seen == dict.fromkeys(seen, next(iter(seen.values())))


# --- the same tools


@pytest.mark.parametrize("group", ["SILENT", "SPEAKING", "ACTING"])
def test_tools_are_equal_except_for_their_source(benches: dict[str, Bench], group: str) -> None:
    def offered(bench: Bench) -> list[Any]:
        tools = sorted(anyio.run(tools_of, bench.worker(group, {})), key=lambda each: each.name)
        assert [str(each.source) for each in tools] == [
            bench.way.source.format(name=each.name) for each in tools
        ]
        assert tools
        return [(each.name, each.description, each.schema.json_schema, each.mode) for each in tools]

    offers = from_each(benches, group, offered)
    assert alike(offers), offers


async def tools_of(worker: Path) -> list[Tool]:
    with anyio.fail_after(60):
        async with WorkerRuntime(
            worker=load_worker(worker), model=scripted_model("done")
        ) as runtime:
            return runtime.tools


# --- the same verdicts


OUTCOMES = {
    "yes": ("success", "user"),
    "no": ("denied", "user"),
    "headless": ("denied", "headless"),
    "approve_all": ("success", "mode"),
    "auto_deny": ("denied", "mode"),
}
"""How a call that asks ends, and by whom it was decided."""
NAMED = {"act": None, "free": "preApproved", "asking": "ask", "barred": "blocked"}


def answered(mode: str, count: int) -> JsonObject:
    """The options of a runtime with a person, without one, or with a deciding mode."""
    match mode:
        case "yes" | "no":
            return {"answers": [mode == "yes"] * count}
        case "headless":
            return {}
        case _:
            return {"approval_mode": mode}


def expected(verdict: str, mode: str) -> tuple[str, str]:
    return {"preApproved": ("success", "rule"), "blocked": ("blocked", "rule")}.get(
        verdict
    ) or OUTCOMES[mode]


@pytest.mark.few(5)
@pytest.mark.parametrize("mode", OUTCOMES)
def test_tools_without_own_approval_have_equal_verdicts(bench: Bench, mode: str) -> None:
    for default in (None, "preApproved", "ask", "blocked"):
        stated = {"tools": {name: word for name, word in NAMED.items() if word}}
        approval = {**stated, "default": default} if default else stated
        seen = bench.run(
            "SILENT", *map(call, NAMED), approval=approval, **answered(mode, len(NAMED))
        )
        for name, outcome, decided in zip(
            NAMED, seen.outcomes, seen.of(ApprovalDecided), strict=True
        ):
            verdict = NAMED[name] or default or "ask"
            section = f"toolsets.{bench.way.toolset}.approval"
            rule = (
                f"{section}.tools.{name}"
                if NAMED[name]
                else f"{section}.default"
                if default
                else None
            )
            assert (outcome.tool_name, decided.verdict, decided.rule) == (name, verdict, rule)
            assert (outcome.status, decided.by) == expected(verdict, mode)
            assert decided.approved == (outcome.status == "success")
            assert (decided.where is None) == (rule is None)
        asked = [name for name in NAMED if (NAMED[name] or default or "ask") == "ask"]
        assert [request.tool_name for request in seen.asked] == (
            asked if mode in ("yes", "no") else []
        )


WORDS = {
    ("no", None): ("preApproved", "tool"),
    ("no", "ask"): ("ask", "rule"),
    ("no", "blocked"): ("blocked", "rule"),
    ("yes", None): ("ask", "tool"),
    ("yes", "blocked"): ("blocked", "rule"),
    ("never", None): ("blocked", "tool"),
    ("loud", None): ("preApproved", "tool"),
    ("loud", "ask"): ("ask", "rule"),
}
"""What becomes of a tool's own verdict once the worker has said the second; nothing the default says changes it."""


def test_tools_with_own_approval_have_equal_verdicts(benches: dict[str, Bench]) -> None:
    from_each(benches, "SPEAKING", believe)


def believe(bench: Bench) -> None:
    for (name, tightened), (verdict, by) in WORDS.items():
        approval = {"default": "preApproved", "tools": {name: tightened} if tightened else {}}
        seen = bench.run("SPEAKING", call(name), approval=approval)
        (decided,) = seen.of(ApprovalDecided)
        assert (name, decided.verdict) == (name, verdict)
        assert decided.by == ("headless" if verdict == "ask" else by)
    seen = bench.run("SPEAKING", call("loud", text="A"), call("loud", text="a"), approval={})
    assert seen.statuses == ["denied", "success"]


@pytest.mark.few(3)
def test_session_grant_covers_the_same_call(bench: Bench) -> None:
    yes = ApprovalDecision(True, remember="session")
    made = [call("act"), call("act", times=1, text="x"), call("act", text="y"), call("asking")]
    seen = bench.run("SILENT", *made, approval={}, answers=[yes] * 3)
    assert [each.by for each in seen.of(ApprovalDecided)] == ["user", "memory", "user", "user"]


# --- the same results, told in the same events


@dataclass(frozen=True)
class Story:
    """One call under one policy with its outcome; the same for every source with such a tool."""

    call: JsonObject
    status: str
    value: ResultValue
    events: str = "toolStarted approvalDecided toolResult"
    approval: JsonObject = field(default_factory=lambda: {"default": "preApproved"})
    answers: list[ApprovalDecision | bool] | None = None
    mode: str | None = None
    sandbox: JsonObject | None = None
    files: dict[str, str] = field(default_factory=dict)
    """What is in the project's folder before the call, beside the worker."""
    left: dict[str, str | None] = field(default_factory=dict)
    """What is there after it; None: there is no such file."""


NOTES = {"zones": [{"name": "notes", "mode": "rw", "approval": {"write": "preApproved"}}]}
ASKED = "toolStarted approvalRequired approvalResponse approvalDecided toolResult"
STORIES = {
    "success": Story(call("act", text="ab", times=2), "success", Text("abab")),
    "coerced": Story(call("act", times="3"), "success", Text("xxx")),
    "data": Story(call("report", rows=[1, 2]), "success", Json({"rows": 2})),
    "progress": Story(
        call("where"),
        "success",
        Text("w where call_1_1"),
        "toolStarted approvalDecided status toolResult",
    ),
    "approved": Story(call("act"), "success", Text("x"), ASKED, {}, [True]),
    "error": Story(call("fail", text="fly"), "error", Text("cannot fly")),
    "crash": Story(call("crash"), "error", Text("ValueError: it broke")),
    "refused": Story(call("refuse"), "blocked", Text("refuse: not on a Sunday")),
    "invalid": Story(
        call("act", times="many"),
        "invalid",
        Text("invalid input for act: times: must be an integer, got 'many'"),
        "toolStarted toolResult",
    ),
    "unknown field": Story(
        call("act", txt="x"),
        "invalid",
        Text("invalid input for act: unknown field 'txt' (did you mean 'text'?)"),
        "toolStarted toolResult",
    ),
    "timeout": Story(call("hang"), "timeout", Text("hang was stopped after 0.05 seconds")),
    "blocked": Story(
        call("act"),
        "blocked",
        Text("act is blocked: the worker says blocked"),
        approval={"default": "blocked"},
    ),
    "denied": Story(
        call("act"),
        "denied",
        Text("act was not called; the user said no: not now"),
        ASKED,
        {},
        [ApprovalDecision(False, note="not now")],
    ),
    "denied by nobody": Story(
        call("act"),
        "denied",
        Text("act was not called; denied: forge could not ask (not interactive)"),
        "toolStarted approvalRequired approvalDecided toolResult",
        {},
    ),
    "denied by mode": Story(
        call("act"),
        "denied",
        Text("act was not called; denied: approval mode auto_deny"),
        approval={},
        mode="auto_deny",
    ),
    "reads a file": Story(
        call("look", path="/notes/a.txt"),
        "success",
        Text("hello"),
        sandbox=NOTES,
        files={"notes/a.txt": "hello"},
    ),
    "writes a file": Story(
        call("put", path="/notes/a.txt", text="new"),
        "success",
        Text("written"),
        sandbox=NOTES,
        files={"notes/a.txt": "old"},
        left={"notes/a.txt": "new"},
    ),
    "writes into a blocked zone": Story(
        call("put", path="/shut/a.txt", text="new"),
        "blocked",
        Text("put is blocked: zone 'shut' blocks write"),
        sandbox={"zones": [{"name": "shut", "mode": "rw", "approval": {"write": "blocked"}}]},
        files={"shut/a.txt": "old"},
        left={"shut/a.txt": "old"},
        mode="approve_all",
    ),
    "writes into a zone that is read-only": Story(
        call("put", path="notes/a.txt", text="new"),
        "error",
        Text(
            "zone 'notes' is read-only, so 'notes/a.txt' cannot be changed; no zone can be written"
        ),
        "toolStarted toolResult",
        sandbox={"zones": [{"name": "notes", "mode": "ro"}]},
        files={"notes/a.txt": "old"},
        left={"notes/a.txt": "old"},
        mode="approve_all",
    ),
    "writes outside every zone": Story(
        call("put", path="../a.txt", text="new"),
        "error",
        Text("'../a.txt' is in no zone; the only zone is /notes"),
        "toolStarted toolResult",
        sandbox=NOTES,
        left={"../a.txt": None},
        mode="approve_all",
    ),
    "writes a protected name": Story(
        call("put", path="/notes/.git/hooks/pre-commit", text="new"),
        "denied",
        Text("put was not called; denied: forge could not ask (not interactive)"),
        "toolStarted approvalRequired approvalDecided toolResult",
        sandbox=NOTES,
        left={"notes/.git/hooks/pre-commit": None},
    ),
    "reads .env": Story(
        call("look", path="/notes/.env"),
        "denied",
        Text("look was not called; the user said no"),
        ASKED,
        answers=[False],
        sandbox=NOTES,
        files={"notes/.env": "KEY=1"},
    ),
    "reads .env after a yes": Story(
        call("look", path="/notes/.env"),
        "success",
        Text("KEY=1"),
        ASKED,
        answers=[True],
        sandbox=NOTES,
        files={"notes/.env": "KEY=1"},
    ),
    "interrupted": Story(call("wait", gate="GATE"), "interrupted", Text('{"type": "interrupted"}')),
}
KEYS = {
    "toolStarted": {"toolCallId", "toolName", "args"},
    "approvalRequired": {
        "requestId",
        "toolCallId",
        "toolName",
        "args",
        "description",
        "reason",
        "risk",
        "rule",
        "where",
        "fingerprint",
    },
    "approvalResponse": {"requestId", "approved"},
    "approvalDecided": {
        "toolCallId",
        "verdict",
        "approved",
        "by",
        "rule",
        "where",
        "reason",
        "cached",
        "fingerprint",
    },
    "status": {"level", "message", "toolCallId", "progress"},
    "toolResult": {"toolCallId", "toolName", "status", "value", "durationMs"},
}
"""What an event has to say of a call; an answer may have a note, a decision its request, a failure its error."""
MORE = {
    "requestId",
    "note",
    "error",
    "preview",
    "distribution",
    "offers",
    "policyFiles",
    "defaults",
    "runs",
    "traceback",
}
ENVELOPE = {"v", "seq", "time", "session", "worker", "depth", "type", "prev", "hash"}


def tell(bench: Bench, story: Story) -> Seen:
    """Run one story; a call that waits is interrupted as soon as it has begun."""
    options: JsonObject = {
        "approval": story.approval,
        "answers": story.answers,
        "approval_mode": story.mode,
    }
    for file, text in story.files.items():
        bench.project.write(file, text)
    made = story.call
    if story.status == "interrupted":
        gate, signal = bench.project.folder / "gate", InterruptSignal()
        os.mkfifo(gate)
        made = {**made, "input": {"gate": str(gate)}}
        options["interrupt_signal"] = signal
        threading.Thread(target=lambda: (gate.read_text(), signal.interrupt()), daemon=True).start()
    return bench.run("ACTING", made, sandbox=story.sandbox, **options)


def told(bench: Bench, seen: Seen) -> list[JsonObject]:
    """The recorded events without values that depend on time, place or section."""
    return [_plain(line, bench) for line in seen.lines if "seq" in line]


def _plain(value: Any, bench: Bench) -> Any:
    match value:
        case dict():
            unstable = {
                "time",
                "session",
                "session_id",
                "sessionId",
                "prev",
                "hash",
                "requestId",
                "durationMs",
                "duration_ms",
                "refreshMs",
                "distribution",
                "fingerprint",
                "at",
                "policyFiles",
                "defaults",
                "runs",
            }
            plain = {key: _plain(item, bench) for key, item in value.items() if key not in unstable}
            return {**plain, "where": plain["where"] is not None} if "where" in plain else plain
        case list():
            return [_plain(item, bench) for item in value]
        case str():
            text = value.replace(str(bench.project.folder), "FOLDER").replace(
                f".{bench.way.toolset}.", ".TOOLSET."
            )
            return _placeless(text)
        case _:
            return value


@pytest.mark.few(4)
@pytest.mark.parametrize("name", STORIES)
def test_results_and_events_are_equal(benches: dict[str, Bench], name: str) -> None:
    stories = from_each(benches, name, lambda bench: told(bench, check(bench, STORIES[name])))
    if (
        name == "crash"
    ):  # its result names the file of the module, so that what the model reads next differs
        for line in (line for lines in stories.values() for line in lines):
            line.pop("requestDigest", None)
            line.pop("traceback", None)
    modules = {source: lines for source, lines in stories.items() if not benches[source].way.lacks}
    assert alike(modules), modules
    stories = {source: _of_calls(lines) for source, lines in stories.items()}
    assert alike(stories), stories


def _placeless(text: str) -> str:
    """Without the place of an exception or a rule: the module, or the section, differs wherever a tool comes from."""
    return re.sub(r" \((\w+\.py:\d+|\S+\.yaml:\d+:\d+)\)$", "", text)


def check(bench: Bench, story: Story) -> Seen:
    """Run a story and check its end."""
    seen = tell(bench, story)
    (outcome,) = seen.outcomes
    value = (
        Text(_placeless(outcome.value.content))
        if isinstance(outcome.value, Text)
        else outcome.value
    )
    assert (outcome.status, value) == (story.status, story.value)
    assert (outcome.error and _placeless(outcome.error)) == (
        None if story.status == "success" else story.value.text()
    )
    kept = {file: bench.project.folder / file for file in story.left}
    assert {
        file: path.read_text() if path.exists() else None for file, path in kept.items()
    } == story.left

    begun, ended = seen.types.index("toolStarted"), seen.types.index("toolResult")
    assert seen.types[begun : ended + 1] == story.events.split()
    for line in seen.lines:
        if _is_of_a_call(line):
            assert line.keys() - ENVELOPE - MORE == KEYS[line["type"]] - MORE, line["type"]
            assert line.keys() >= ENVELOPE
    return seen


def _of_calls(lines: list[JsonObject]) -> list[JsonObject]:
    """The events of calls alone; other tools and prompt texts may differ."""
    return [{**line, "preview": None, "seq": None} for line in lines if _is_of_a_call(line)]


def _is_of_a_call(line: JsonObject) -> bool:
    """Return True if a line belongs to a call; a status without one belongs to the session."""
    return line["type"] in KEYS and (line["type"] != "status" or "toolCallId" in line)
