"""Whole screens of ``forge run`` on a real terminal.

Covers forge_cli.ui.terminal.calls.
"""

import io
import json
import os
import re

import anyio
import pytest

from forge_cli import EventBus
from forge_cli.core.events import SessionStart, Streaming, TurnStart
from forge_cli.process.signals import in_loop
from forge_cli.terminal import TerminalUI
from forge_cli.testing import Project
from forge_cli.ui.terminal import terminal as terminal_module

RUN = ("run", "worker.yaml", "go")
TOOLS = '''
from pathlib import Path

from forge_cli import ToolContext, tool


@tool(read_only=True)
def wait(gate: str, context: ToolContext) -> str:
    """Wait for somebody to write into a pipe."""
    context.progress("half of it", 0.5)
    return Path(gate).read_text()


@tool(read_only=True)
def look(at: str) -> str:
    """Look at something."""
    return "\\n".join(f"{at} {number}" for number in range(12))


def push(branch: str) -> str:
    """Push."""
    return "pushed"
'''
WORKER = """
name: coder
model: script:script.yaml
sandbox: {isolation: off, zones: [{name: code, path: ., mode: rw}]}
toolsets:
  filesystem: {}
  shell: {}
  custom:
    module: ./tools.py
    tools: [wait, look, push]
    approval: {default: ask, tools: {wait: preApproved, look: preApproved}}
"""


@pytest.fixture
def coder(writer: Project) -> Project:
    writer.write("worker.yaml", WORKER)
    writer.write("tools.py", TOOLS)
    writer.write("app.py", "one\ntwo\nthree\n")
    writer.write(
        "test.sh",
        "for number in 1 2 3 4 5 6 7 8; do echo test $number; done\necho bad >&2\nexit 3\n",
    )
    return writer


CODING = (
    "{text: I read it., calls: [{tool: read_file, input: {path: /code/app.py}}]}",
    '{text: "", calls: [{tool: look, input: {at: it}}]}',
    "{text: I test it., calls: [{tool: shell, input: {command: bash test.sh}}]}",
    '{text: "", calls: [{tool: write_file, input: {path: /code/new.py, content: "a\\nb\\n"}}, {tool: nosuch}]}',
    "{text: All is done.}",
)
LOOK = [f"  │ it {number}" for number in range(8)]
BEFORE = ["the model is scripted", "commands: not confined"]


def without_start(lines: list[str]) -> list[str]:
    """From the first words of the model on."""
    return lines[next(index for index, line in enumerate(lines) if line.startswith("I ")) :]


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [80, 50])
@pytest.mark.parametrize(
    "env", [{"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str
)
def test_coding_session_fits_every_terminal(
    terminal, script, coder, columns: int, env: dict[str, str]
) -> None:
    script(*CODING)
    keyboard = terminal(*RUN, "-y", columns=columns, **env)
    assert keyboard.end() == 0
    shown = without_start(keyboard.screen(columns))
    assert shown[:-1] == [
        "I read it.",
        "✓ read_file /code/app.py · 3 lines",
        "",
        "✓ look it",
        *LOOK,
        "  │ ... 4 more lines",
        "",
        "I test it.",
        *(
            ["✗ shell bash test.sh · exit code 3 · approved by -y"]
            if columns == 80
            else ["✗ shell bash test.sh · exit code 3", "  │ approved by -y"]
        ),
        "  │ ... 4 lines before",
        "  │ test 5",
        "  │ test 6",
        "  │ test 7",
        "  │ test 8",
        "  │ bad",
        "",
        *(
            ["✓ write_file /code/new.py · new, 2 lines · approved by -y"]
            if columns == 80
            else ["✓ write_file /code/new.py · new, 2 lines", "  │ approved by -y"]
        ),
        "  │ new.py (new)",
        "  │ 1 + a",
        "  │ 2 + b",
        "✗ nosuch",
        *[
            line
            for line in shown
            if re.match("  │ (?!\\d|new|it |test|bad|\\.\\.\\.|approved)", line)
        ],
        "",
        "All is done.",
        "",
    ]
    assert shown[-1].startswith("completed · 5 turns · 5 calls · ")
    assert max(map(len, shown)) <= columns
    assert ("\x1b" in keyboard.seen) == (env["TERM"] == "xterm")
    assert (re.search(r"\x1b\[[\d;]*m", keyboard.seen) is None) == (env != {"TERM": "xterm"})


@pytest.mark.long
def test_parallel_calls_keep_their_own_lines(terminal, script, coder) -> None:
    os.mkfifo(coder.folder / "gate")
    script(
        "{text: I wait., calls: [{tool: wait, input: {gate: gate}}, {tool: look, input: {at: it}}]}",
        "{text: It came.}",
    )
    keyboard = terminal(*RUN, TERM="xterm")
    keyboard.expect("✓ look it")
    keyboard.expect("running wait")
    *_, wait, look, status = keyboard.screen()
    assert re.fullmatch(r". wait gate · 50% half of it( · \d.*)?", wait)
    assert look == "✓ look it"
    assert status.startswith("script:script.yaml · running wait")
    (coder.folder / "gate").write_text("the news")
    assert keyboard.end() == 0
    shown = without_start(keyboard.screen())
    assert shown[1].startswith("✓ wait gate · the news")
    assert shown[2:5] == ["✓ look it", "  │ it 0", "  │ it 1"]


@pytest.mark.long
def test_command_shows_its_last_lines_and_keeps_them_on_interrupt(terminal, script, coder) -> None:
    coder.write("test.sh", "echo one; echo two; echo three; echo four; sleep 60\n")
    script(
        "{text: I test it., calls: [{tool: shell, input: {command: bash test.sh}}]}",
        "{text: never}",
    )
    keyboard = terminal(*RUN, "-y", TERM="xterm")
    keyboard.expect("four")
    keyboard.expect("running shell")
    assert keyboard.screen()[-4:-1] == ["  │ two", "  │ three", "  │ four"]
    keyboard.type("\x03")
    assert keyboard.end() == 130
    shown = without_start(keyboard.screen())
    assert re.fullmatch(r"✗ shell bash test.sh · interrupted( · \d.*)? · approved by -y", shown[2])
    assert shown[3:8] == ["  │ one", "  │ two", "  │ three", "  │ four", ""]
    assert shown[8].startswith("interrupted · 1 turn · 1 call · ")
    (session,) = (coder.home / "sessions").glob("*.jsonl")
    assert shown[9:] == [f"  resume with: forge run worker.yaml -r {session.stem}"]
    script("{text: I resume.}")
    keyboard = terminal("run", "worker.yaml", "-c", "more", "--fork")
    assert keyboard.end() == 0
    assert "forge: resuming " in keyboard.seen
    (kept,) = (
        line
        for line in map(json.loads, session.read_text().splitlines())
        if line["type"] == "toolResult"
    )
    assert (kept["status"], kept["value"]["data"]["stdout"]) == (
        "interrupted",
        "one\ntwo\nthree\nfour\n",
    )


@pytest.mark.long
def test_prompt_has_the_terminal_for_itself(terminal, script, coder) -> None:
    script("{text: I push., calls: [{tool: push, input: {branch: main}}]}", "{text: It is there.}")
    keyboard = terminal(*RUN, TERM="xterm")
    keyboard.asked()
    asked = keyboard.screen()
    assert asked[-1].startswith("[y]es once, ")
    assert "running" not in "\n".join(asked)
    keyboard.type("y")
    assert keyboard.end() == 0
    assert "✓ push main · pushed" in keyboard.screen()


CUT = """
from forge_cli import hookimpl
from forge_cli.errors import ModelError
from forge_cli.hooks import ModelFactory
from forge_cli.core.messages import Restart, TextDelta, TurnEnd
from forge_cli.core.notify import StatusNotice, RetryNotice


class Cut:
    context_window = None

    def __init__(self, name, env):
        self.name, self.notify = f"cut:{name}", env.notify

    async def stream(self, request):
        yield TextDelta("This is cut ")
        if self.name == "cut:for-good":
            raise ModelError("the line broke, and nobody knows what the model wanted to say")
        if self.name == "cut:once":
            yield TextDelta("and cut \\n\\n")
        retry = RetryNotice("the line broke", 0.2, 2, 5)
        self.notify("warning", str(retry) if self.name == "cut:words" else StatusNotice.of_retry(retry))
        yield Restart("the line broke")
        yield TextDelta("This is whole.")
        yield TurnEnd()

    async def aclose(self):
        pass


@hookimpl
def forge_models():
    return [ModelFactory("cut", Cut)]
"""


@pytest.fixture
def cut(coder: Project) -> None:
    coder.write("models.py", CUT)
    coder.write("worker.yaml", "name: w\nmodel: cut:once\nplugins: [./models.py]\n")


def test_restarted_answer_is_removed_or_marked_without_a_warning(terminal, cut) -> None:
    keyboard = terminal(*RUN, TERM="xterm")
    assert keyboard.end() == 0
    assert keyboard.screen()[:-1] == [
        "This is cut and cut",
        "ignore the partial answer above, it is asked for again: the line broke",
        "This is whole.",
        "",
    ]
    keyboard = terminal(*RUN, "-m", "cut:early", TERM="xterm")
    assert keyboard.end() == 0
    assert keyboard.screen()[:-1] == ["This is whole.", ""]
    assert "waiting" not in keyboard.seen
    words = terminal(*RUN, "-m", "cut:words", TERM="xterm")
    assert words.end() == 0
    assert "warning: the line broke; trying again in 0.2 s (2 of 5)" in words.screen()
    plain = terminal(*RUN, "-m", "cut:early", TERM="dumb")
    assert plain.end() == 0
    assert plain.lines[1] == "warning: the line broke; trying again in 0.2 s (2 of 5)"


def test_restarted_answer_that_was_not_shown_is_not_mentioned(coder: Project, cut) -> None:
    done = coder.forge(*RUN)
    assert (done.returncode, done.stdout) == (0, "This is whole.\n")
    assert "the line broke; trying again" in done.stderr
    assert "the partial answer above" not in done.stderr


def test_permanently_cut_answer_is_marked(terminal, cut) -> None:
    keyboard = terminal(*RUN, "-m", "cut:for-good", TERM="xterm", columns=60)
    assert keyboard.end() == 7
    text, empty, end, error, more, hint = keyboard.screen(60)[:6]
    assert (text, empty) == ("This is cut", "")
    assert (error, more) == (
        "forge: the line broke, and nobody knows what the model",
        "  wanted to say",
    )
    assert end.startswith("failed · 1 turn · 0 calls · ")
    assert hint.startswith("  resume with: forge run worker.yaml -r ")


@pytest.mark.long
def test_child_worker_is_shown_below_its_call(terminal, script, coder) -> None:
    head = "name: boss\nmodel: script:boss.script.yaml\n"
    coder.write("boss.yaml", f"{head}toolsets: {{workers: {{allowed: [worker.yaml]}}}}\n")
    coder.write(
        "boss.script.yaml",
        "turns: [{calls: [{tool: coder, input: {input: x}}]}, {text: 'It is done.'}]\n",
    )
    script("{calls: [{tool: look, input: {at: it}}]}", "{text: I looked.}")
    keyboard = terminal("run", "boss.yaml", "go", "-y", TERM="xterm")
    assert keyboard.end() == 0
    told = [line for line in keyboard.screen() if "coder" in line]
    shown = [line for line in told if not re.search("scripted|confined", line)]
    assert shown == [
        "> coder x",
        "  coder: started by boss",
        "  coder: ✓ look it",
        "  coder: completed · 2 turns",
        "✓ coder · I looked. · approved by -y",
    ]


class Tty(io.StringIO):
    """A terminal that can do nothing but print."""

    written: anyio.Event

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


def test_dumb_terminal_reports_waiting_for_the_model_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(terminal_module, "WAIT_NOTICE_AFTER", 0.01)
    shown = Tty()

    async def wait() -> None:
        bus, shown.written = EventBus(), anyio.Event()
        with anyio.fail_after(60):
            async with TerminalUI(bus, output=shown, interactive=False):
                bus.emit(SessionStart("slow:model", "/w", "interactive"))
                bus.emit(TurnStart(1, "0" * 64, ()))
                await shown.written.wait()
                bus.emit(Streaming("s", "Here.", done=False))
                bus.emit(Streaming("s", "", done=True))

    in_loop(wait)
    assert shown.getvalue() == "waiting for slow:model\nHere.\n"
