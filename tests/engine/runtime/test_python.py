"""Workers that a program makes without a file: functions, toolsets and zones of its own, behind the same gate.

Covers forge_cli.core.bounds, forge_cli.engine.runtime.background, forge_cli.engine.runtime.conversation and
forge_cli.engine.sync.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from forge_cli import (
    ApprovalDecision,
    ApprovalRequest,
    Event,
    EventBus,
    InterruptSignal,
    Text,
    Tool,
    Toolset,
    Worker,
    WorkerRuntime,
    Zone,
    load_worker,
    run_sync,
    tool,
)
from forge_cli.core.errors import UsageError
from forge_cli.embedding import (
    ExecutablesToolset,
    FilesystemToolset,
    MemoryToolset,
    PlanToolset,
    Sandbox,
    ShellToolset,
    open_session,
)
from forge_cli.errors import WorkerError
from forge_cli.events import ToolResult
from forge_cli.sandbox.secrets import Redactor
from forge_cli.testing import Project, call, calls, scripted_model

pytestmark = pytest.mark.anyio
Answer = Callable[[ApprovalRequest], ApprovalDecision]


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@pytest.fixture(autouse=True)
def home(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_HOME", str(project.home))
    monkeypatch.chdir(project.folder)


async def outcomes(
    worker: Worker, *made: dict, asked: Callable[[ApprovalRequest], ApprovalDecision] | None = None
) -> list[str]:
    """The results of these calls of the model, with a person who answers."""
    seen: list[ToolResult] = []
    model = scripted_model(calls(*made), "done")
    with anyio.fail_after(60):
        async with WorkerRuntime(worker=worker, model=model, approval_callback=asked) as runtime:
            runtime.bus.subscribe(
                lambda event: seen.append(event) if isinstance(event, ToolResult) else None
            )
            assert (await runtime.run("go")).status == "completed"
    seen.sort(key=lambda result: result.tool_call_id)
    return [f"{result.status}: {result.error or result.value.text()}" for result in seen]


def names_in(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_worker_can_be_a_function_and_a_task() -> None:
    worker = Worker.of(
        name="greeter", instructions="Be kind.", tools=[greet], approval={"default": "preApproved"}
    )
    model = scripted_model(calls(call("greet", name="Ana")), "Said: {result}")
    result = run_sync(worker, "Greet Ana.", model=model)
    assert (result.success, result.response, result.worker) == (
        True,
        "Said: Hello, Ana!",
        "greeter",
    )


async def test_tools_without_approval_ask_and_blocked_ones_stay_blocked() -> None:
    made = call("greet", name="Ana")
    assert await outcomes(Worker.of(name="w", tools=[greet]), made) == [
        "denied: greet was not called; denied: forge could not ask (not interactive)"
    ]
    assert await outcomes(
        Worker.of(name="w", tools=[greet]), made, asked=lambda request: ApprovalDecision(True)
    ) == ["success: Hello, Ana!"]
    blocked = Worker.of(name="w", tools=[greet], approval={"tools": {"greet": "blocked"}})
    (outcome,) = await outcomes(blocked, made, asked=lambda request: ApprovalDecision(True))
    assert outcome.startswith("blocked: ")


async def test_tools_toolsets_and_lists_can_be_mixed() -> None:
    class Clock(Toolset):
        name = "clock"

        def __init__(self, hour: int) -> None:
            super().__init__()
            self.hour = hour

        @tool(needs_approval=False)
        def hour_now(self) -> Text:
            """Tell the hour."""
            return Text(f"{self.hour} in {self.env.worker}")

    clock = Clock(12)
    made = Tool.from_function(greet, name="hail", needs_approval=False)
    worker = Worker.of(name="w", tools=[[greet], made, clock, PlanToolset], toolsets={"memory": {}})
    async with WorkerRuntime(worker=worker, model=scripted_model("done")) as runtime:
        names = [each.name for each in runtime.tools]
    assert names == ["get_memory", "save_memory", "hour_now", "update_plan", "greet", "hail"]
    for _ in range(2):
        assert await outcomes(worker, call("hour_now"), call("hail", name="Ana")) == [
            "success: 12 in w",
            "success: Hello, Ana!",
        ]
    assert not hasattr(clock, "env"), "each session has a copy of its own"


async def test_file_tool_may_have_its_own_rule() -> None:
    sandbox = Sandbox.of([Zone("notes", Path("notes"), "rw", {"write": "preApproved"})])  # type: ignore[arg-type]
    tools = {each.name: each for each in await FilesystemToolset(sandbox).tools()}
    write = replace(
        tools["write_file"], needs_approval=lambda args: not args["path"].endswith(".md")
    )
    worker = Worker.of(
        name="w", tools=[write, tools["read_file"], tools["apply_patch"]], sandbox=sandbox
    )
    asked: list[str] = []

    def refuse(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.args["path"])
        return ApprovalDecision(False)

    patch = "*** Begin Patch\n*** Add File: /notes/c\n+a\n*** End Patch"
    results = await outcomes(
        worker,
        call("write_file", path="/notes/a.md", content="words"),
        call("write_file", path="/notes/b.py", content="code"),
        call("read_file", path="notes/a.md"),
        call("read_file", path="/etc/hosts"),
        call("apply_patch", input=patch),
        asked=refuse,
    )
    assert asked == ["/notes/b.py"]
    assert [result.partition(":")[0] for result in results] == [
        "success",
        "denied",
        "success",
        "error",
        "success",
    ]
    assert names_in("notes") == ["a.md", "c"]


async def test_custom_rule_cannot_write_a_redacted_secret() -> None:
    sandbox = Sandbox.of([Zone("notes", Path("notes"), "rw", {"write": "preApproved"})])  # type: ignore[arg-type]
    loose = [
        replace(each, needs_approval=False) for each in await FilesystemToolset(sandbox).tools()
    ]
    mark = Redactor({"API_KEY": "s3cret-s3cret-s3cret"}).redact_text("key: s3cret-s3cret-s3cret")
    results = await outcomes(
        Worker.of(name="w", tools=loose, sandbox=sandbox),
        call("write_file", path="/notes/a", content=mark),
        call(
            "apply_patch", input=f"*** Begin Patch\n*** Add File: /notes/c\n+{mark}\n*** End Patch"
        ),
    )
    assert all(result.startswith("error: nothing was written: ") for result in results)
    assert names_in("notes") == []


async def test_filesystem_toolset_brings_its_zones(project: Project) -> None:
    project.write("docs/a.txt", "words")
    files = FilesystemToolset(Sandbox.of([Zone("docs", Path("docs"))], workspace=project.folder))
    assert await outcomes(
        Worker.of(name="w", tools=[files]),
        call("read_file", path="/docs/a.txt"),
        call("list_files", path="/"),
        call("write_file", path="/docs/b.txt", content=""),
    ) == [
        "success: [docs/a.txt, lines 1-1 of 1]\n1: words",
        "success: docs/",
        "error: zone 'docs' is read-only, so '/docs/b.txt' cannot be changed; no zone can be written",
    ]
    with pytest.raises(WorkerError, match="has another sandbox"):
        Worker.of(name="w", tools=[files], sandbox=Sandbox.of([]))


async def test_built_in_toolsets_accept_settings_from_a_program(project: Project) -> None:
    (project.home).mkdir(exist_ok=True)
    rules = [{"pattern": "echo", "approval": "preApproved"}]
    worker = Worker.of(
        name="w",
        tools=[ShellToolset({"rules": rules}), MemoryToolset(), ExecutablesToolset()],
        sandbox={"isolation": "off"},
    )
    hi, on, forget = (
        call("shell", command=command) for command in ("echo hi", "echo on", "rm -r x")
    )
    results = await outcomes(worker, hi, forget)
    assert [result.partition(":")[0] for result in results] == ["success", "denied"]
    (project.home / "config.yaml").write_text(
        "policy: {shell: {rules: [{pattern: echo on, approval: blocked}]}}\n"
    )
    results = await outcomes(worker, hi, on)
    assert [result.partition(":")[0] for result in results] == ["success", "blocked"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Worker.of(name="Bad Name"), "name"),
        (lambda: Worker.of(name="w", modle="x"), "modle"),
        (
            lambda: Worker.of(name="w", tools=[greet], approval={"default": "maybe"}),
            "approval.default",
        ),
        (lambda: ShellToolset({"rulse": []}), "toolsets.shell: unknown key 'rulse'"),
    ],
)
def test_invalid_settings_raise_a_readable_error(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(WorkerError, match=sentence):
        make()


def test_unknown_option_is_refused() -> None:
    given: dict = {"sinks": ()}
    with pytest.raises(TypeError, match="WorkerRuntime has no option 'sinks'; they are model, "):
        WorkerRuntime(worker=Worker.of(name="w"), **given)
    named: dict = {"worker": "worker.yaml"}
    with pytest.raises(
        TypeError, match=r"worker must come from load_worker\(PATH\) or .*, not 'worker.yaml'"
    ):
        WorkerRuntime(**named)


@pytest.mark.parametrize("name", ["A", "a/b", "", ".."])
def test_zone_has_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid zone name"):
        Sandbox.of([Zone(name, Path("x"))])


async def test_zones_of_a_program_are_checked_like_those_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="No such file"):
        Sandbox.of([Zone("docs", Path("missing"))])
    twice = [Zone("a", tmp_path), Zone("b", tmp_path)]
    with pytest.raises(WorkerError, match="are the same folder"):
        Sandbox.of(twice)


async def test_invalid_tool_is_refused_when_the_worker_is_opened() -> None:
    with pytest.raises(
        WorkerError, match=r"toolsets\.python \(Python\): 'tools\[0\]' is neither a function"
    ):
        await outcomes(Worker.of(name="w", tools=[5]))


async def test_events_of_a_task_are_streamed() -> None:
    worker = Worker.of(name="w", tools=[greet], approval={"default": "preApproved"})
    model = scripted_model(calls(call("greet", name="Ana")), "{result}", "again")
    with anyio.fail_after(60):
        async with WorkerRuntime(worker=worker, model=model) as runtime:
            assert runtime.result is None
            types = [event.type async for event in runtime.stream("Greet Ana.")]
            assert runtime.result is not None
            assert runtime.result.response == "Hello, Ana!"
            assert [
                event.type async for event in runtime.stream("More.") if event.type == "turnEnd"
            ] == ["turnEnd"]
    assert types[0] == "message"
    assert types[-1] == "turnEnd"
    assert [each for each in types if each.startswith("tool")] == ["toolStarted", "toolResult"]


async def test_error_of_a_task_is_raised_to_the_reader_of_its_events() -> None:
    async with WorkerRuntime(worker=Worker.of(name="w"), model=scripted_model("done")) as runtime:
        with pytest.raises(Exception, match="the task is empty"):
            async for _ in runtime.stream(" "):
                pass


async def test_task_whose_events_are_not_read_ends_with_the_runtime() -> None:
    started = anyio.Event()

    async def wait() -> None:
        """Wait for ever."""
        started.set()
        await anyio.sleep_forever()

    seen: list[ToolResult] = []
    signal = InterruptSignal()
    worker = Worker.of(name="w", tools=[wait], approval={"default": "preApproved"})
    model = scripted_model(calls(call("wait")), "done")
    with anyio.fail_after(60):
        async with WorkerRuntime(worker=worker, model=model, interrupt_signal=signal) as runtime:
            runtime.bus.subscribe(
                lambda event: seen.append(event) if isinstance(event, ToolResult) else None
            )
            async for event in runtime.stream("go"):
                if event.type == "toolStarted":
                    break
            await started.wait()
    assert [result.status for result in seen] == ["interrupted"]
    assert runtime.result is not None
    assert runtime.result.status == "interrupted"
    assert signal.reason == "its events are no longer read"


async def test_worker_without_a_file_has_sessions() -> None:
    worker = Worker.of(name="w", tools=[greet])
    with open_session(worker) as session:
        async with WorkerRuntime(
            worker=worker, model=scripted_model("one"), session=session
        ) as runtime:
            first = await runtime.run("first")
    with open_session(worker, resume=first.session_id) as session:
        async with WorkerRuntime(
            worker=worker, model=scripted_model("one", "two"), session=session
        ) as runtime:
            again = await runtime.run("second")
    assert (again.session_id, again.status) == (first.session_id, "completed")


async def test_session_grant_does_not_survive_other_settings() -> None:
    plain, changed = (
        Worker.of(name="w", tools=[greet]),
        Worker.of(name="w", tools=[greet], description="new"),
    )
    assert plain.content() == Worker.of(name="w", tools=[greet]).content()
    assert plain.content() != changed.content()
    assert (
        plain.content() != Worker.of(name="w", tools=[greet], approval={"default": "ask"}).content()
    )


async def test_sync_call_in_a_running_loop_suggests_await() -> None:
    with pytest.raises(UsageError, match="event loop") as caught:
        run_sync(Worker.of(name="w"), "go", model=scripted_model("done"))
    assert "await runtime.run(task)" in str(caught.value.hint)


def test_call_without_asyncio_is_a_readable_error() -> None:
    """As under trio."""
    opening = WorkerRuntime(worker=Worker.of(name="w"), model=scripted_model("done")).initialize()
    with pytest.raises(UsageError, match="a WorkerRuntime requires asyncio"):
        opening.send(None)


async def test_second_concurrent_task_is_refused() -> None:
    begun, done = anyio.Event(), anyio.Event()

    @tool(needs_approval=False)
    async def wait() -> str:
        """Wait."""
        begun.set()
        await done.wait()
        return "waited"

    worker = Worker.of(name="w", tools=[wait])
    with anyio.fail_after(60):
        async with WorkerRuntime(
            worker=worker, model=scripted_model(calls(call("wait")), "{result}", "more")
        ) as runtime:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.run, "go")
                await begun.wait()
                with pytest.raises(UsageError, match="the runtime is already running a task"):
                    await runtime.run("go, too")
                done.set()
            assert runtime.result
            assert runtime.result.response == "waited"
            assert (await runtime.run("and now?")).response == "more"


@pytest.mark.parametrize("at_work", [False, True])
async def test_manual_call_on_the_bus_passes_the_gate_at_any_time(at_work: bool) -> None:
    called, ended = list[str](), anyio.Event()
    bus, results = EventBus(), list[ToolResult]()

    @tool(manual="both")
    async def note(text: str) -> str:
        """Note something."""
        called.append(text)
        return text

    @tool(needs_approval=False)
    async def work() -> str:
        """Work until the call of the person has ended."""
        bus.emit("manualToolInvoke", {"toolName": "note", "args": {"text": "x"}})
        await ended.wait()
        return "worked"

    def hear(event: Event) -> None:
        assert isinstance(event, ToolResult)
        results.append(event)
        if event.tool_name == "note":
            ended.set()

    bus.subscribe(hear, only=(ToolResult,))
    asked = list[ApprovalRequest]()
    worker, model = (
        Worker.of(name="w", tools=[note, work]),
        scripted_model(calls(call("work")), "done"),
    )
    with anyio.fail_after(60):
        async with WorkerRuntime(
            worker=worker,
            model=model,
            bus=bus,
            approval_callback=lambda request: not asked.append(request),
        ) as runtime:
            if at_work:
                assert (await runtime.run("go")).response == "done"
            else:
                bus.emit("manualToolInvoke", {"toolName": "note", "args": {"text": "x"}})
                await ended.wait()
    assert (called, [request.tool_name for request in asked]) == (["x"], ["note"])
    assert [result.status for result in results] == ["success"] * (2 if at_work else 1)


@pytest.mark.parametrize(
    "answer", [{"approved": True, "remember": True}, {"approved": True, "note": 5}]
)
async def test_answer_that_cannot_be_logged_is_a_no(answer: dict) -> None:
    worker = Worker.of(name="greeter", tools=[greet])
    (said,) = await outcomes(worker, call("greet", name="Ana"), asked=lambda request: answer)
    assert said.endswith(
        f"denied: the approval callback returned {answer}, which is not a decision"
    )
    (said,) = await outcomes(
        worker, call("greet", name="Ana"), asked=lambda request: ApprovalDecision(**answer)
    )
    assert said.endswith("which is not a decision")


async def test_manual_call_ends_with_the_runtime() -> None:
    begun = anyio.Event()

    @tool(needs_approval=False, manual="both")
    async def hang() -> str:
        """Never end."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    worker = Worker.of(name="w", tools=[hang])
    with anyio.fail_after(60):
        async with WorkerRuntime(worker=worker, model=scripted_model("done")) as runtime:
            runtime.bus.emit("manualToolInvoke", {"toolName": "hang", "args": {}})
            await begun.wait()


FOLDERS = '''
from forge_cli import Toolset, ToolsetConfig, Zone, hookimpl, tool


class NotesConfig(ToolsetConfig):
    folder: str = "notes"


class Notes(Toolset[NotesConfig]):
    name = "notes"
    repeatable = True

    @classmethod
    def zones_for(cls, config, places):
        return [Zone(config.folder, config.folder, "rw")]

    @classmethod
    def own_files(cls, config, folder):
        return [folder / config.folder / "rules.txt"]

    @tool(needs_approval=False)
    def where(self) -> str:
        """Tell where the notes are."""
        return self.config.folder


@hookimpl
def forge_toolsets():
    return [Notes]
'''


@pytest.mark.parametrize(
    ("section", "made"),
    [
        ("{}", ["notes"]),
        ("{folder: a}", ["a"]),
        ("[{folder: a}, {folder: b, prefix: b_}]", ["a", "b"]),
    ],
)
def test_toolset_declares_tools_by_settings_and_working_directory(
    project: Project, tmp_path: Path, section: str, made: list[str]
) -> None:
    project.write("tools.py", FOLDERS)
    project.write(
        "worker.yaml", f"name: w\nplugins: [./tools.py]\ntoolsets: {{notes: {section}}}\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    result = run_sync(
        load_worker("worker.yaml"), "go", model=scripted_model("done"), workspace=elsewhere
    )
    assert (result.status, names_in(str(elsewhere))) == ("completed", made)
    assert not (project.folder / made[0]).exists()
