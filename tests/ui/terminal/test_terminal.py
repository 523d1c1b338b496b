"""The terminal: streamed text, optional colours, and no control sequences of others."""

import io
import os
import re

import anyio
import pytest
from msgspec.structs import replace

from forge_cli import ApprovalDecision, EventBus, RuntimeUI
from forge_cli.core.actions import Interrupt
from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.events import MessageEvent, StatusEvent, Streaming, TurnEndEvent, TurnStart
from forge_cli.core.messages import Message, Usage
from forge_cli.core.phrases import RESUME_CUT_OFF
from forge_cli.process.signals import in_loop
from forge_cli.terminal import TerminalUI

RUN = ("run", "worker.yaml", "go")
CHOICES = "[y]es once, [s]ession, [n]o, [t]ell why not, [?] why > "
TURNS = (r'{text: "First \e[2Jwords.", calls: [{tool: nosuch}]}', '{text: "Last words."}')


def test_terminal_shows_text_of_all_turns_and_a_trace(terminal, script) -> None:
    script(*TURNS)
    keyboard = terminal(*RUN)
    assert keyboard.end() == 0
    assert "\x1b" not in keyboard.seen
    shown = [line for line in keyboard.lines if line]
    assert shown[0].startswith("the model is scripted")
    assert shown[1] == "First \\x1b[2Jwords."
    assert shown[2] == "✗ nosuch"
    assert shown[3].startswith("  │ there is no tool 'nosuch'")
    assert shown[-2] == "Last words."
    assert shown[-1].startswith("completed · 2 turns · 1 call · ")


@pytest.mark.parametrize("flags", [["-p"], ["--trace", "quiet"]], ids=" ".join)
def test_quiet_output_is_only_the_answer_and_escaped(terminal, script, flags: list[str]) -> None:
    script("{text: First., calls: [{tool: nosuch}]}", r'{text: "Last\e[2J words."}')
    keyboard = terminal(*RUN, *flags)
    assert keyboard.end() == 0
    assert keyboard.lines == ["Last\\x1b[2J words.", ""]


def test_coloured_output_uses_only_known_sequences(terminal, script) -> None:
    script(*TURNS)
    keyboard = terminal(*RUN, TERM="xterm-256color")
    assert keyboard.end() == 0
    assert re.search(r"\x1b\[31m✗\x1b\[0m nosuch", keyboard.seen)
    assert not re.search(r"\x1b(?!\[[\d;]*[mJKA]|[78D])", keyboard.seen), (
        "colours and what moves the live lines"
    )


def test_no_color_disables_colours(terminal, script) -> None:
    script(*TURNS)
    keyboard = terminal(*RUN, TERM="xterm-256color", NO_COLOR="1")
    assert keyboard.end() == 0
    assert not re.search(r"\x1b\[(\d+;)*[34]\d", keyboard.seen)


def test_result_of_a_manual_call_is_escaped(terminal) -> None:
    keyboard = terminal("tools", "call", "echo", "--worker", "worker.yaml", "-y", "text=a\x1b[2Jb")
    assert keyboard.end() == 0
    assert keyboard.lines == ["a\\x1b[2Jb", ""]


def test_unfinished_streamed_line_is_ended() -> None:
    out = io.StringIO()

    async def speak() -> None:
        bus = EventBus()
        async with TerminalUI(bus, trace="quiet", output=out):
            for delta, done in [
                ("a", False),
                ("b\n", False),
                ("", True),
                ("c", False),
                ("", True),
                ("", True),
            ]:
                bus.emit(Streaming("s", delta, done))
            bus.emit(Interrupt("nobody looks"))

    in_loop(speak)
    assert out.getvalue() == "ab\nc\n"


def test_disabled_streaming_writes_nothing() -> None:
    out = io.StringIO()

    async def speak() -> None:
        bus = EventBus()
        async with TerminalUI(bus, trace="quiet", stream_text=False, output=out):
            bus.emit(Streaming("s", "a", done=False))

    in_loop(speak)
    assert out.getvalue() == ""


REQUEST = ApprovalRequest(
    "a1", "c1", "push", {}, "w wants to call push", "it asks", "low", None, None
)


async def asked(screen: TerminalUI, bus: EventBus) -> ApprovalDecision:
    """The answer that a terminal gives to a request; of a session, it is given once for all."""
    with anyio.fail_after(60):
        async with screen:
            return await bus.ask(REQUEST)


def test_terminal_ui_uses_the_given_streams() -> None:
    output, bus = io.StringIO(), EventBus()
    screen = TerminalUI(
        bus, output=output, input=io.StringIO("?\ny\nfour words and more\n"), trace="summary"
    )

    async def converse() -> tuple[bool, str]:
        with anyio.fail_after(60):
            async with screen:
                bus.emit("status", {"level": "info", "message": "working"})
                bus.emit(Streaming("s", "Hello!", done=False))
                bus.emit(Streaming("s", "", done=True))
                decision = await bus.ask(REQUEST)
                return decision.approved, await RuntimeUI(bus).get_user_input("Your name? ")

    assert in_loop(converse) == (True, "four words and more")
    shown = output.getvalue()
    assert shown.startswith(
        "working\nHello!\n\nw wants to call push (risk: low)\nwhy: it asks\n  s  for this session: this exact call\n"
    )
    assert shown.count(CHOICES) == 2
    assert "  s       yes, and for this session: this exact call\n" in shown
    assert shown.endswith("Your name? ")
    bus.emit(Streaming("s", "nobody looks any more", done=True))
    assert output.getvalue() == shown


def test_piped_answers_are_read_by_line_and_their_end_is_no() -> None:
    bus = EventBus()
    read, write = os.pipe()
    os.write(write, b"n not now\ny\ns")
    os.close(write)
    with open(read) as input:
        screen = TerminalUI(bus, output=io.StringIO(), input=input)

        async def ask() -> list[ApprovalDecision]:
            with anyio.fail_after(60):
                async with screen:
                    return [
                        await bus.ask(replace(REQUEST, request_id=f"a{number}"))
                        for number in range(4)
                    ]

        answers = in_loop(ask)
    assert [(answer.approved, answer.note) for answer in answers] == [
        (False, "not now"),
        (True, None),
        (False, None),
        (False, None),
    ]


def test_separate_output_leaves_standard_error_unused(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def show(**streams: io.StringIO) -> None:
        bus = EventBus()
        async with TerminalUI(bus, **streams):
            bus.emit("status", {"level": "info", "message": "working"})
            bus.emit(Streaming("s", "Hello!", done=False))

    output, trace = io.StringIO(), io.StringIO()
    in_loop(lambda: show(output=output, trace_output=trace))
    assert (output.getvalue(), trace.getvalue()) == ("Hello!", "working\n")
    assert capfd.readouterr() == ("", "")
    in_loop(show)
    assert capfd.readouterr() == ("Hello!", "working\n")


def test_unattended_terminal_answers_nothing() -> None:
    async def ask() -> bool:
        bus = EventBus()
        async with TerminalUI(bus, trace="quiet", interactive=False):
            request = ApprovalRequest("a1", "c1", "t", {}, "d", "r", "low", None, None)
            return (await bus.ask(request)).approved

    assert in_loop(ask) is False


GET = """\
import contextlib, urllib.request
with contextlib.suppress(OSError):
    urllib.request.urlopen("http://unlisted.invalid/", timeout={})
"""


@pytest.mark.few(1)
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("patience", [0.2, 60])
def test_connection_is_asked_about_until_its_command_ends(
    terminal, script, writer, patience: float
) -> None:
    rules = "{try: off, rules: [{pattern: python3 get.py, approval: preApproved}]}"
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
    assert "\r\n  $ python3 get.py\r\n" in shown
    if patience > 1:
        keyboard.type("n\n")
    assert "\r\n  $ ls\r\n" in keyboard.asked()
    assert f"[?] why > {'n' if patience > 1 else ''}\r\n" in keyboard.seen
    keyboard.type("y\n")
    assert keyboard.end() == 0
    refused = "network: unlisted.invalid:80 refused by user: no rule covers it" in keyboard.text
    assert (refused, "2 calls (1 refused)" in keyboard.seen) == (patience > 1, patience > 1)


def test_edit_is_shown_before_and_summarised_after_and_a_patch_by_its_files(
    terminal, script, writer
) -> None:
    writer.write("output/a.py", "one = 1\ntwo = 2\n")
    update, add = (
        r"*** Update File: output/a.py\n@@\n-two = 2\n+two = 3\n",
        r"*** Add File: output/b\n+b\n",
    )
    patch = rf"*** Begin Patch\n{update}{add}*** End Patch"
    script(
        "{calls: [{tool: edit_file, input: {path: output/a.py, old: one = 1, new: one = 0}}]}",
        f'{{calls: [{{tool: apply_patch, input: {{input: "{patch}"}}}}]}}',
        "{text: Done.}",
    )
    keyboard = terminal(*RUN)
    assert "1   - one = 1\r\n  │   1 + one = 0\r\n  │ 2 2   two = 2" in keyboard.asked()
    keyboard.type("y\n")
    told = keyboard.asked()
    assert "✓ edit_file output/a.py" in told
    assert "+ one = 0" not in told
    keyboard.type("y\n")
    told = keyboard.expect("Done.")
    assert "✓ apply_patch input=(8 lines) · M output/a.py  A output/b\r\n" in told
    assert "+ two = 3" not in told
    assert keyboard.end() == 0


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("output", [io.StringIO, Screen])
def test_cut_answer_continues_in_its_line_and_warnings_follow(
    output: type[io.StringIO],
) -> None:
    out = output()

    async def speak() -> None:
        bus = EventBus()
        async with TerminalUI(bus, output=out):
            bus.emit(TurnStart(1, "digest", ()))
            bus.emit(Streaming("s", "One lo", done=False))
            bus.emit(StatusEvent("warning", "the answer was cut off"))
            bus.emit(Streaming("s", "", done=True))
            bus.emit(MessageEvent(Message("assistant", "One lo")))
            bus.emit(TurnEndEvent(1, "max_tokens", Usage()))
            bus.emit(MessageEvent(Message("user", RESUME_CUT_OFF)))
            bus.emit(TurnStart(2, "digest", ()))
            bus.emit(Streaming("t", "ng line", done=False))
            bus.emit(Streaming("t", "", done=True))
            bus.emit(MessageEvent(Message("assistant", "ng line")))
            bus.emit(TurnEndEvent(2, "end", Usage()))

    in_loop(speak)
    first, warning = [line for line in out.getvalue().splitlines() if line]
    assert first == "One long line"
    assert "the answer was cut off" in warning
