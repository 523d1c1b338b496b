"""The terminal itself: words as they come, colours where they are wanted, nothing that it would obey."""

import io
import re

import pytest

from forge_cli import EventBus
from forge_cli.cli.signals import in_loop
from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.events import Interrupt, Streaming
from forge_cli.ui.terminal.terminal import TerminalUI

RUN = ("run", "worker.yaml", "go")
TURNS = (r'{text: "First \e[2Jwords.", calls: [{tool: nosuch}]}', '{text: "Last words."}')


def test_a_terminal_gets_all_words_of_all_turns_and_a_trace(terminal, script) -> None:
    script(*TURNS)
    keyboard = terminal(*RUN)
    assert keyboard.end() == 0
    assert "\x1b" not in keyboard.seen
    shown = [line for line in keyboard.lines if line]
    assert shown[0].startswith("the model is scripted")
    assert shown[1:3] == ["First \\x1b[2Jwords.", "> nosuch"]
    assert shown[3].startswith("  not_found: there is no tool 'nosuch'")
    assert shown[-2] == "Last words."
    assert shown[-1].startswith("completed: 2 turns, 1 call, ")


@pytest.mark.parametrize("flags", [["-p"], ["--trace", "quiet"]], ids=" ".join)
def test_quiet_is_the_answer_only_and_still_escaped(terminal, script, flags: list[str]) -> None:
    script("{text: First., calls: [{tool: nosuch}]}", r'{text: "Last\e[2J words."}')
    keyboard = terminal(*RUN, *flags)
    assert keyboard.end() == 0
    assert keyboard.lines == ["Last\\x1b[2J words.", ""]


def test_colours(terminal, script) -> None:
    script(*TURNS)
    keyboard = terminal(*RUN, TERM="xterm-256color")
    assert keyboard.end() == 0
    assert re.search(r"\x1b\[36m> nosuch", keyboard.seen)
    assert not re.search(r"\x1b(?!\[[\d;]*m)", keyboard.seen), "colours and nothing else"


def test_no_colour(terminal, script) -> None:
    script(*TURNS)
    keyboard = terminal(*RUN, TERM="xterm-256color", NO_COLOR="1")
    assert keyboard.end() == 0
    assert not re.search(r"\x1b\[(\d+;)*[34]\d", keyboard.seen)


def test_a_result_of_a_tool_called_by_hand_is_escaped_on_a_terminal(terminal) -> None:
    keyboard = terminal("tools", "call", "echo", "--worker", "worker.yaml", "-y", "text=a\x1b[2Jb")
    assert keyboard.end() == 0
    assert keyboard.lines == ["a\\x1b[2Jb", ""]


def test_lines_of_a_stream_are_closed() -> None:
    out = io.StringIO()

    async def speak() -> None:
        bus = EventBus()
        async with TerminalUI(bus, trace="quiet", stream_text=True, out=out):
            for delta, done in [("a", False), ("b\n", False), ("", True), ("c", False), ("", True), ("", True)]:
                bus.emit(Streaming("s", delta, done))
            bus.emit(Interrupt("nobody looks"))

    in_loop(speak)
    assert out.getvalue() == "ab\nc\n"


def test_without_a_stream_nothing_is_written() -> None:
    out = io.StringIO()

    async def speak() -> None:
        bus = EventBus()
        async with TerminalUI(bus, trace="quiet", out=out):
            bus.emit(Streaming("s", "a", done=False))

    in_loop(speak)
    assert out.getvalue() == ""


def test_a_terminal_that_nobody_watches_answers_nothing() -> None:
    async def ask() -> bool:
        bus = EventBus()
        async with TerminalUI(bus, trace="quiet"):
            request = ApprovalRequest("a1", "c1", "t", {}, "d", "r", "low", None, None)
            return (await bus.ask(request)).approved

    assert in_loop(ask) is False


GET = """\
import contextlib, urllib.request
with contextlib.suppress(OSError):
    urllib.request.urlopen("http://unlisted.invalid/", timeout={})
"""


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("patience", [0.2, 60])
def test_a_connection_is_asked_for_until_its_command_ends(terminal, script, writer, patience: float) -> None:
    rules = "{rules: [{pattern: python3 get.py, approval: preApproved}]}"
    head = "name: w\nmodel: script:script.yaml\nsandbox: {network: []}\n"
    writer.write("worker.yaml", f"{head}toolsets: {{shell: {rules}}}\n")
    writer.write("get.py", GET.format(patience))
    script(
        "{calls: [{tool: shell, input: {command: python3 get.py}}]}",
        "{calls: [{tool: shell, input: {command: ls}}]}",
        "{text: done}",
    )
    keyboard = terminal("run", "worker.yaml", "go")
    shown = keyboard.asked()
    assert "w wants to reach unlisted.invalid:80 (risk: medium)" in shown
    assert 'command: "python3 get.py"' in shown
    if patience > 1:
        keyboard.type("n\n")
    assert 'command: "ls"' in keyboard.asked()
    keyboard.type("y\n")
    assert keyboard.end() == 0
    refused = "network: unlisted.invalid:80 refused by user: no rule covers it" in keyboard.text
    assert (refused, "2 calls (1 refused)" in keyboard.seen) == (patience > 1, patience > 1)
