"""Slash commands: their output, their requests to the runtime, and completion of their arguments.

Covers forge_cli.ui.facts, forge_cli.ui.commands.command, forge_cli.ui.places, forge_cli.ui.typed,
forge_cli.ui.commands.session, forge_cli.ui.commands.talk and forge_cli.ui.commands.table.
"""

import io
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.console import Console, RenderableType

from forge_cli import Event, EventBus, Tool, WorkerRuntime, load_worker, tool
from forge_cli.core.messages import Attachment, Message, Usage
from forge_cli.core.notify import RunningCommand
from forge_cli.core.results import Custom
from forge_cli.embedding import open_session
from forge_cli.engine.runtime.announcements import Announcer
from forge_cli.events import (
    CommandEvent,
    ContextUsage,
    GrantsEvent,
    ManualToolInvoke,
    ManualToolsAvailable,
    MessageEvent,
    SessionGrant,
    SessionStart,
    SessionUpdate,
    StatusEvent,
    ToolResult,
    TurnEndEvent,
    TurnStart,
)
from forge_cli.files.settings import TraceLevel
from forge_cli.testing import Project, scripted_model
from forge_cli.ui.commands.table import COMMANDS, help_table, run_line
from forge_cli.ui.facts import Facts
from forge_cli.ui.terminal.slash import BUILTINS, TOOL_COMMANDS

DOCS = Path(__file__).parents[3] / "docs"


@tool(manual="both", label="Push it", category="Git")
def push(branch: str, force: bool = False, tags: list[str] | None = None) -> str:
    """Push a branch."""
    return branch


@dataclass
class Screen:
    """A conversation without a worker: a bus, the shown text, and typed lines."""

    width: int = 200
    lines: list[str] = field(default_factory=list)
    filled: Mapping[str, Any] | None = None
    bus: EventBus = field(default_factory=EventBus)
    facts: Facts = field(default_factory=Facts)
    emitted: list[Event] = field(default_factory=list)
    attached: list[Attachment] = field(default_factory=list)
    trace: TraceLevel = "normal"
    left: bool = False
    unfolded: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.output = io.StringIO()
        self.console = Console(file=self.output, width=self.width, color_system=None)
        self.bus.subscribe(self.facts.note)
        self.bus.subscribe(self.emitted.append)

    def show(self, shown: RenderableType) -> None:
        self.console.print(shown, markup=False, highlight=False)

    async def ask(self, prompt: str, instead: str) -> str | None:
        return self.lines.pop(0) if self.lines else None

    async def fill(self, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.filled and {**given, **self.filled}

    def set_trace(self, level: TraceLevel) -> None:
        self.trace = level

    def attach(self, attachment: Attachment) -> None:
        self.attached.append(attachment)

    def unfold(self, number: int | None) -> None:
        self.unfolded.append(number)

    def leave(self) -> None:
        self.left = True

    def type(self, line: str) -> str:
        """Type a line; return the shown text."""
        self.output.seek(0)
        self.output.truncate()
        self.emitted.clear()
        if asked := anyio.run(run_line, self, line):
            self.bus.emit(asked)
        return self.output.getvalue()


@pytest.fixture
def screen() -> Screen:
    made = Screen()
    zones = (
        {"name": "workspace", "path": "/work", "mode": "rw"},
        {"name": "docs", "path": "/d", "mode": "ro"},
    )
    start = SessionStart(
        "m:1", "/work", "interactive", zones=zones, isolation="auto", session="s-1", worker="clerk"
    )
    Announcer(made.bus, is_root=True).start(start, [Tool.from_function(push)])
    return made


def test_results_are_listed_and_shown_by_number(screen: Screen) -> None:
    assert screen.type("/show") + screen.type("/show 3") == ""
    assert screen.unfolded == [None, 3]
    assert screen.type("/show all").startswith("usage: /show [N]")


def test_command_table_has_all_builtin_and_tool_commands() -> None:
    assert sorted(COMMANDS) == sorted((*BUILTINS, *TOOL_COMMANDS))


def test_every_command_is_documented() -> None:
    text = (DOCS / "commands.md").read_text()
    assert [
        name
        for name, command in COMMANDS.items()
        if f"`{command.signature}`" not in text.replace("\\|", "|")
    ] == []


def test_help_fits_40_columns() -> None:
    screen = Screen(width=40)
    screen.show(help_table(screen.facts))
    lines = screen.output.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert [line.split()[0] for line in lines if line.startswith("/")][:-1] == [
        f"/{name}" for name in COMMANDS
    ]


def test_prompt_of_a_toolset_is_sent_by_its_name(screen: Screen) -> None:
    prompt = {
        "name": "notes__sum",
        "description": "Sum up a note.",
        "arguments": [{"name": "title"}],
    }
    screen.bus.emit(ManualToolsAvailable((), (prompt,)))
    assert "Sum up a note." in screen.type("/help")
    assert screen.type("/notes__sum title='two words'") == ""
    assert screen.emitted[-1] == CommandEvent("notes__sum", ("title=two words",))
    assert "did you mean '/notes__sum'?" in screen.type("/notes__smu")


@pytest.mark.parametrize("line", ["/ask_me", "/tool ask_me", "/t ask_me --x 1", "/help ask_me"])
def test_tool_of_the_model_is_not_a_command(screen: Screen, line: str) -> None:
    screen.facts.tools = lambda: [
        replace(Tool.from_function(push), name="ask_me", manual=None),
        Tool.from_function(push),
    ]
    assert (
        screen.type(line)
        == "only the model can call ask_me\n  /tools lists the tools that you can call\n"
    )
    assert screen.emitted == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_the_usage_of_each_command(screen: Screen, name: str) -> None:
    shown = screen.type(f"/help {name}")
    assert shown.startswith(COMMANDS[name].signature + "\n")
    assert COMMANDS[name].summary in shown


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/hlep", "unknown command '/hlep'\n  did you mean '/help'?"),
        ("/nope", "unknown command '/nope'\n  /help lists the commands"),
        ("/pusj", "did you mean '/push'?"),
        ("/help nope", "unknown command '/nope'"),
        ("/undo --lst", "column 7: /undo has no option 'lst'\n  did you mean '--list'?"),
        ("/clear now", "usage: /clear"),
        ("/save --last a.md b.md", "usage: /save [--last] [FILE]"),
        ("/save --last=3 f.md", "usage: /save [--last] [FILE]"),
        ("/undo --call", "usage: /undo [--list] [--all | --call N | --turn N | --redo]"),
        ("/undo --call 1 --call 2", "usage: /undo"),
        ("/undo --all 3", "usage: /undo"),
        ("/attach", "usage: /attach FILE"),
        ("/x 'open", "column 4: unclosed quote '"),
        ("/trace loud", "unknown trace level 'loud'"),
        ("/approvals drop 1", "usage: /approvals [revoke N|all]"),
        ("/save --last", "there is no answer yet"),
        ("/save", "this session is not stored"),
        ("/tool", "usage: /tool NAME"),
        ("/t nope", "unknown tool 'nope'"),
        (
            "/push main",
            "'main' is neither KEY=VALUE nor --KEY VALUE\n  usage: /push --branch VALUE [--force]",
        ),
        ("/push --branch x --frce", "/push has no option 'frce'\n  did you mean 'force'?"),
    ],
)
def test_invalid_command_is_reported_without_a_request_to_the_runtime(
    screen: Screen, line: str, says: str
) -> None:
    assert says in screen.type(line)
    assert screen.emitted == []


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/clear", CommandEvent("clear")),
        ("/compact", CommandEvent("compact")),
        ("/reload", CommandEvent("reload")),
        ("/model anthropic:x", CommandEvent("model", ("anthropic:x",))),
        ("/add-dir ../more:ro", CommandEvent("add-dir", ("../more:ro",))),
        ("/approvals revoke 2", CommandEvent("revoke", ("2",))),
        ("/approvals revoke all", CommandEvent("revoke", ("all",))),
        ("/name A title with a=b", CommandEvent("name", ("A", "title", "with", "a=b"))),
        ("/resume abc", CommandEvent("resume", ("abc",))),
        ("/mcp", CommandEvent("mcp")),
        ("/mcp off time", CommandEvent("mcp", ("off", "time"))),
        ("/undo", CommandEvent("undo")),
        ("/undo --list", CommandEvent("undo", ("--list",))),
        ("/undo --redo", CommandEvent("undo", ("--redo",))),
        ("/undo --list --redo", CommandEvent("undo", ("--redo", "--list"))),
        ("/undo --all", CommandEvent("undo", ("--all",))),
        ("/undo --list --call 2", CommandEvent("undo", ("--call", "2", "--list"))),
        ("/rewind 2", CommandEvent("rewind", ("2",))),
        ("/push --branch main", ManualToolInvoke("push", {"branch": "main"})),
        (
            "/tool push branch=main --force",
            ManualToolInvoke("push", {"branch": "main", "force": True}),
        ),
        (
            "/t push --force --tags a --branch=x",
            ManualToolInvoke("push", {"force": True, "tags": ["a"], "branch": "x"}),
        ),
        ("/push --force branch=x", ManualToolInvoke("push", {"force": True, "branch": "x"})),
    ],
)
def test_command_sends_its_request_to_the_runtime(
    screen: Screen, line: str, command: Event
) -> None:
    assert screen.type(line) == ""
    assert screen.emitted == [command]


def test_exit_ends_the_conversation(screen: Screen) -> None:
    assert screen.type("/exit") == ""
    assert screen.left


def test_form_asks_for_missing_args_and_can_be_cancelled(screen: Screen) -> None:
    screen.filled = {"branch": "asked"}
    screen.type("/push -i --force")
    assert screen.emitted == [ManualToolInvoke("push", {"force": True, "branch": "asked"})]
    screen.filled = None
    screen.type("/push -i")
    assert screen.emitted == []


def test_status_shows_all_facts(screen: Screen) -> None:
    screen.bus.emit(TurnStart(1, "digest", ()))
    screen.bus.emit(TurnEndEvent(1, "end", Usage(1200, 30, 5), 0.25))
    screen.bus.emit(ContextUsage(1235, 10_000))
    screen.bus.emit(SessionUpdate(title="Sheep", usage=Usage(10, 2)))
    screen.bus.emit(GrantsEvent((SessionGrant("shell", "git status"),)))
    screen.bus.emit(StatusEvent("info", "commands: confined (bwrap)", about="confinement"))
    assert [line.rstrip() for line in screen.type("/status").splitlines()] == [
        "worker     clerk",
        "model      m:1",
        "session    s-1 (Sheep)",
        "turns      1",
        "tokens     1,215 in (5 read from the cache), 32 out",
        "cost       $0.25",
        "context    1,235 of 10,000 tokens (12% of the window)",
        "folder     /work",
        "zone       /workspace (rw): /work",
        "zone       /docs (ro): /d",
        "isolation  auto, commands are confined (bwrap)",
        "mode       ask",
        "approvals  interactive, 1 grant",
        "granted    shell: git status",
    ]


def test_background_commands_are_listed(screen: Screen) -> None:
    assert screen.type("/ps") == "no command is running\n"
    running = (
        RunningCommand(1, "python3 -m http.server", time.time() - 65),
        RunningCommand(3, "a\x1bb", time.time()),
    )
    screen.bus.emit(StatusEvent("debug", "commands running: 2", about="commands", running=running))
    lines = [line.rstrip() for line in screen.type("/ps").splitlines()]
    assert lines == [
        "running  1: python3 -m http.server (1 min 5 s)",
        "running  3: a\\x1bb (0.0 s)",
    ]
    assert [line.rstrip() for line in screen.type("/status").splitlines()][-2:] == [
        "running    1: python3 -m http.server (1 min 5 s)",
        "running    3: a\\x1bb (0.0 s)",
    ]
    screen.bus.emit(StatusEvent("debug", "commands running: 0", about="commands", running=()))
    assert screen.type("/ps") == "no command is running\n"


def test_grants_are_numbered_with_their_rules(screen: Screen) -> None:
    assert screen.type("/approvals") == "nothing is granted for this session\n"
    rule = "toolsets.shell.rules: [{pattern: git status, approval: preApproved}]"
    screen.bus.emit(
        GrantsEvent(
            (SessionGrant("add", "a=1"), SessionGrant("shell", "commands: git status", (rule,)))
        )
    )
    lines = screen.type("/approvals").splitlines()
    assert [line.rstrip() for line in lines[:3]] == [
        "1. add: a=1",
        "2. shell: commands: git status",
        f"   {rule}",
    ]
    assert COMMANDS["approvals"].complete(screen.facts, "") == ["revoke", "1", "2", "all"]


def test_plan_is_a_checklist(screen: Screen) -> None:
    assert screen.type("/plan") == "there is no plan\n"
    steps = [{"step": "look", "status": "completed"}, {"step": "do", "status": "in_progress"}]
    plan = Custom("plan.update", {"explanation": None, "plan": steps}, summary="")
    screen.bus.emit(ToolResult("c", "update_plan", "success", plan, 1))
    assert screen.type("/plan") == "[x] look\n[>] do\n"


def test_file_is_attached_to_the_next_message(screen: Screen, tmp_path: Path) -> None:
    screen.facts.workspace = str(tmp_path)
    (tmp_path / "a.txt").write_text("hello")
    assert (
        screen.type("/attach a.txt")
        == "a.txt (text/plain, 5 bytes) is attached to your next message\n"
    )
    assert screen.attached == [Attachment("a.txt", "text/plain", b"hello")]
    assert "there is no such file" in screen.type("/attach b.txt")
    assert COMMANDS["attach"].complete(screen.facts, "a") == ["a.txt"]


def test_trace_level_is_shown_and_set(screen: Screen) -> None:
    assert screen.type("/trace").startswith("the trace level is normal")
    screen.type("/trace debug")
    assert screen.trace == "debug"
    assert COMMANDS["trace"].complete(screen.facts, "q") == ["quiet"]


def test_command_without_args_shows_the_current_value(screen: Screen) -> None:
    assert screen.type("/model") == "the model is m:1; /model NAME changes it\n"
    assert screen.type("/name").startswith("this session has no title yet")
    assert [line.rstrip() for line in screen.type("/tools").splitlines()] == [
        "Git",
        "/push  Push it: Push a branch.",
    ]
    entry = {
        "name": "vat",
        "label": "vat",
        "description": "Add VAT.\nMore.",
        "inputSchema": {},
        "category": None,
    }
    work = {
        **entry,
        "name": "file_it",
        "label": "Keep it",
        "description": "",
        "category": "Files\x1b[2J",
    }
    push = {
        **entry,
        "name": "push",
        "label": "Push it",
        "description": "Push a branch.",
        "category": "Git",
    }
    screen.bus.emit(ManualToolsAvailable((entry, push, work)))
    assert [" ".join(line.split()) for line in screen.type("/tools").splitlines()] == [
        *("Files\\x1b[2J", "/file_it Keep it"),
        *("Git", "/push Push it: Push a branch."),
        *("Others", "/vat Add VAT."),
    ]
    screen.bus.emit(ManualToolsAvailable((entry,)))
    assert screen.type("/tools").rstrip() == "/vat  Add VAT."


def test_command_arguments_are_completed(screen: Screen) -> None:
    screen.facts.models = lambda: ["anthropic:a", "anthropic:b", "openai:c"]
    assert COMMANDS["model"].complete(screen.facts, "anthropic:") == ["anthropic:a", "anthropic:b"]
    assert COMMANDS["help"].complete(screen.facts, "re") == ["resume", "rewind", "review", "reload"]
    assert COMMANDS["tool"].complete(screen.facts, "p") == ["push"]


def test_last_answer_is_written_once(screen: Screen, tmp_path: Path) -> None:
    screen.facts.workspace = str(tmp_path)
    screen.bus.emit(MessageEvent(Message("assistant", "The answer.")))
    assert screen.type("/save --last answer.md") == f"wrote {tmp_path}/answer.md (12 bytes)\n"
    assert (tmp_path / "answer.md").read_text() == "The answer.\n"
    assert "already exists" in screen.type("/save --last answer.md")


def past_session(project: Project, task: str, title: str | None = None) -> str:
    """A session of the worker that has ended."""

    async def main() -> str:
        worker = load_worker(project.folder / "worker.yaml")
        with open_session(worker) as session:
            async with WorkerRuntime(
                worker=worker, model=scripted_model("done"), session=session
            ) as runtime:
                await runtime.run(task)
                if title:
                    runtime.bus.emit(SessionUpdate(title=title))
            return session.id

    return anyio.run(main)


def typed(screen: Screen, line: str, *answers: str) -> Sequence[Event]:
    screen.lines = list(answers)
    screen.type(line)
    return screen.emitted


def test_session_is_chosen_by_number_text_or_id(screen: Screen, project: Project) -> None:
    project.write("worker.yaml", "name: clerk\n")
    sheep, tax = (
        past_session(project, "count", "Counting sheep"),
        past_session(project, "Pay the tax"),
    )
    assert screen.type("/sessions") == "no other session of clerk in this folder\n"
    screen.facts.workspace = str(Path.cwd())
    assert typed(screen, "/sessions", "zzz", "1") == [CommandEvent("resume", (tax,))]
    shown = screen.type("/sessions")
    assert [line.split("  ")[0][:2] for line in shown.splitlines()] == ["1.", "2."]
    assert "Pay the tax" in shown.splitlines()[0]
    assert "Counting sheep" in shown.splitlines()[1]
    assert typed(screen, "/sessions", "1") == [CommandEvent("resume", (tax,))]
    assert typed(screen, "/sessions SHEEP", "1") == [CommandEvent("resume", (sheep,))]
    assert typed(screen, "/resume", "sheep", "1") == [CommandEvent("resume", (sheep,))]
    assert typed(screen, "/resume", tax[-8:]) == [CommandEvent("resume", (tax,))]
    assert typed(screen, "/sessions", "") == []
    assert typed(screen, "/sessions nothing like it") == []
    long = past_session(
        project, f"one {'word ' * 99}\n\n<command-run-by-user>\n$ ls\n</command-run-by-user>"
    )
    assert [line[:2] for line in screen.type("/sessions").splitlines()] == ["1.", "2.", "3."]
    screen.facts.session = long
    assert screen.type("/rewind").startswith("1. one word word")
    (choice,) = COMMANDS["resume"].complete(screen.facts, sheep[-8:])
    assert choice.note == "Counting sheep"  # type: ignore[attr-defined]
    log = Path(os.environ["FORGE_HOME"], "sessions", f"{tax}.jsonl")
    log.write_text(
        log.read_text().replace(
            '"type": "sessionStart"', '"type": "sessionStart", "batch": "out.jsonl"', 1
        )
    )
    assert "tax" not in screen.type("/sessions")  # one item of many
    assert "tax" in screen.type("/sessions tax")


def test_transcript_is_written_as_markdown(screen: Screen, project: Project) -> None:
    project.write("worker.yaml", "name: clerk\n")
    screen.facts.session, screen.facts.workspace = (
        past_session(project, "Pay the tax"),
        str(project.folder),
    )
    screen.type("/save")
    written = project.read(f"{screen.facts.session}.md")
    assert written.startswith(f"# {screen.facts.session}\n")
    assert "> Pay the tax" in written
