"""Commands that go on: read in pieces, written to under the rules, interrupted, and gone with the session.

Covers forge_cli.toolsets.shell.sessions.
"""

import locale
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import ApprovalDecision, ApprovalRequest, WorkerRuntime, load_worker
from forge_cli.bashrules.line import read
from forge_cli.bashrules.stdin import is_bare_shell, may_be_shell
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.events import ApprovalDecided, Event, StatusEvent
from forge_cli.core.results import Custom
from forge_cli.engine.gate.steps import Caller
from forge_cli.testing import Project, scripted_model
from tests.support.children import gate, sleepers, tag

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]

confined = pytest.param("auto", marks=pytest.mark.needs("bwrap"))
LEVELS = pytest.mark.parametrize("level", ["off", confined])

# Nobody knows what a shell session has read; these tests are about its lines.
WORKER = """
name: w
provenance: {{after_untrusted: {{other: "off"}}}}
sandbox:
  isolation: {level}
  zones:
    - {{name: here, path: ., mode: rw}}
    - {{name: scratch, mode: rw, approval: {{write: preApproved}}}}
toolsets:
  shell:
    rules:
      - {{pattern: echo, approval: preApproved}}
      - {{pattern: cat, approval: preApproved}}
      - {{pattern: cd, approval: preApproved}}
      - {{pattern: seq, approval: preApproved}}
      - {{pattern: sort, approval: preApproved}}
      - {{pattern: ln, approval: preApproved}}
      - {{pattern: rm, approval: blocked}}
"""
GBK_PIPE = b"\x81|".decode("gbk")
"""A character with a byte in it that is a pipe to a shell that knows nothing of the encoding."""
ENOUGH = 60_000
"""Milliseconds to wait for the end of what does end."""


class Hands:
    """Calls tools as a model would; each question gets a yes, or the next of ``answers``."""

    def __init__(self, answers: Iterable[ApprovalDecision | bool] | None) -> None:
        self.asked: list[ApprovalRequest] = []
        self.events: list[Event] = []
        self.heard = ""
        self.runtime: WorkerRuntime
        self._answers = None if answers is None else iter(answers)

    async def answer(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(request)
        answer = True if self._answers is None else next(self._answers)
        return ApprovalDecision(answer) if isinstance(answer, bool) else answer

    async def call(self, tool: str, **args: Any) -> ToolOutcome:
        with anyio.fail_after(60):
            outcome = await self.runtime.invoke(tool, args, Caller.MODEL)
        self.heard += said(outcome)
        return outcome

    async def start(self, command: str, yield_time_ms: int = 0, **args: Any) -> ToolOutcome:
        return await self.call("exec_command", command=command, yield_time_ms=yield_time_ms, **args)

    async def write(
        self, chars: str = "", yield_time_ms: int = 5, session_id: int = 1
    ) -> ToolOutcome:
        return await self.call(
            "write_stdin", session_id=session_id, chars=chars, yield_time_ms=yield_time_ms
        )

    async def hear(self, text: str) -> str:
        """Read until this has been said; returns all that was said so far."""
        with anyio.fail_after(60):
            while text not in self.heard:
                outcome = await self.write()
                assert text in self.heard or outcome.value.data["running"], (
                    f"{text!r} never came: {self.heard!r}"
                )
        return self.heard

    @property
    def verdicts(self) -> list[str]:
        return [event.verdict for event in self.events if isinstance(event, ApprovalDecided)]


def said(outcome: ToolOutcome) -> str:
    return outcome.value.data["output"] if isinstance(outcome.value, Custom) else ""


Open = Callable[..., AbstractAsyncContextManager[Hands]]


@pytest.fixture
def opened(project: Project) -> Open:
    @asynccontextmanager
    async def opened(
        *answers: ApprovalDecision | bool, level: str = "off", rules: str = "", **options: Any
    ) -> AsyncIterator[Hands]:
        project.write("worker.yaml", WORKER.format(level=level) + rules)
        (project.folder / "sub" / "scratch").mkdir(parents=True, exist_ok=True)
        hands = Hands(answers or None)
        worker = load_worker(project.folder / "worker.yaml")
        async with WorkerRuntime(
            worker=worker,
            model=scripted_model("nothing"),
            workspace=project.folder,
            approval_callback=hands.answer,
            on_event=hands.events.append,
            **options,
        ) as hands.runtime:
            yield hands

    return opened


# --- reading


@LEVELS
async def test_running_command_has_a_session_id_and_an_exit_code_at_its_end(
    opened: Open, level: str
) -> None:
    async with opened(level=level) as hands:
        running = await hands.start("read x; echo got $x")
        assert (running.status, running.text()) == ("success", "session_id: 1\n")
        assert running.value.data == {"sessionId": 1, "output": "", "running": True}
        ended = await hands.write("word\n", ENOUGH)
        assert (ended.status, ended.text()) == ("success", "exit code: 0\ngot word\n")
        assert ended.value.data == {
            "sessionId": None,
            "output": "got word\n",
            "running": False,
            "exitCode": 0,
            "signal": None,
        }


async def test_running_commands_are_reported_on_every_change(opened: Open) -> None:
    async with opened() as hands:
        await hands.start("true", ENOUGH)
        await hands.start("read x")
        await hands.start("sleep 600")
        await hands.write("word\n", ENOUGH, session_id=2)
    told = [
        event
        for event in hands.events
        if isinstance(event, StatusEvent) and event.about == "commands"
    ]
    running = [[(each.number, each.command) for each in event.running or ()] for event in told]
    first, second = (2, "read x"), (3, "sleep 600")
    assert running == [[first], [first, second], [second]]


async def test_command_that_ends_in_time_has_no_session(opened: Open) -> None:
    async with opened() as hands:
        ended = await hands.start("echo out; echo err >&2", ENOUGH)
        assert (ended.status, ended.text()) == ("success", "exit code: 0\nout\nerr\n")
        assert "open sessions: none" in (await hands.write()).text()


async def test_unread_output_is_returned_exactly_once(opened: Open) -> None:
    async with opened() as hands:
        await hands.start("cat")
        for word in ("one", "two", "three"):
            await hands.write(f"{word}\n")
            await hands.hear(f"{word}\n")
        await hands.write()
        assert hands.heard == "one\ntwo\nthree\n"


async def test_output_beyond_the_limit_is_returned_by_later_calls(opened: Open) -> None:
    async with opened() as hands:
        outcome = await hands.start("seq 20000", ENOUGH, max_output_tokens=100)
        assert len(said(outcome)) == 400
        assert outcome.text().startswith(
            "session_id: 1 (it has ended; there is more output to read)\n1\n2\n"
        )
        while outcome.value.data["sessionId"]:
            outcome = await hands.write()
            assert len(outcome.text()) <= 20_000
            assert "cut" not in outcome.text()
        assert outcome.text().startswith("exit code: 0\n")
        assert hands.heard == "".join(f"{number}\n" for number in range(1, 20001))


async def test_unread_output_is_bounded(opened: Open) -> None:
    async with opened() as hands:
        outcome = await hands.start(
            "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo last", ENOUGH
        )
        while outcome.value.data["sessionId"]:
            outcome = await hands.write()
        assert len(hands.heard) < 1_100_000
        assert (hands.heard[:6], hands.heard[-5:]) == ("first\n", "last\n")
        assert "bytes cut ...]" in hands.heard


async def test_background_process_does_not_keep_a_session_open(opened: Open) -> None:
    sleeping = tag()
    async with opened() as hands:
        ended = await hands.start(f"sleep {sleeping} & echo hi", ENOUGH)
        assert ended.text() == "exit code: 0\nhi\n"
        assert sleepers(sleeping)
    assert sleepers(sleeping) == []


# --- where, and how many


async def test_unknown_session_is_refused_without_a_question(opened: Open) -> None:
    async with opened() as hands:
        outcome = await hands.write("rm -rf /\n", session_id=7)
        assert (outcome.status, outcome.error) == (
            "error",
            "there is no session 7; open sessions: none",
        )
        await hands.start("cat")
        assert "there is no session 2; open sessions: 1" in (await hands.write(session_id=2)).text()
        assert (hands.asked, hands.verdicts) == ([], ["preApproved"])


async def test_open_sessions_are_limited(opened: Open) -> None:
    async with opened() as hands:
        for _ in range(8):
            assert (await hands.start("cat")).status == "success"
        refused = await hands.start("printf x")
        assert (refused.status, hands.asked) == ("error", [])
        assert refused.error == "there are 8 open sessions: 1, 2, 3, 4, 5, 6, 7, 8; end one first"
        assert (await hands.write("\x03", ENOUGH, session_id=3)).status == "error"
        assert (await hands.start("cat")).text().startswith("session_id: 9")


async def test_other_folder_asks(opened: Open, project: Project) -> None:
    async with opened() as hands:
        outcome = await hands.start("echo hi; pwd", ENOUGH, workdir="/here/sub")
        assert said(outcome) == f"hi\n{project.folder / 'sub'}\n"
        await hands.start("echo hi", ENOUGH, workdir="/here/sub")
        assert (
            hands.asked[1].reason
            == "the rules are for the working directory, but this is another folder"
        )
        await hands.start("echo hi", ENOUGH, workdir="/here")
        assert len(hands.asked) == 2


@pytest.mark.parametrize(
    "workdir", ["/here/none", "/here/worker.yaml", "/etc", "/here/../..", "none"]
)
async def test_missing_folder_is_refused_without_a_question(opened: Open, workdir: str) -> None:
    async with opened() as hands:
        assert (await hands.start("make", workdir=workdir)).status == "error"
        assert hands.asked == []


# --- writing to a shell


async def test_each_line_for_a_bare_shell_is_judged(opened: Open, project: Project) -> None:
    async with opened() as hands:
        await hands.start("bash")
        assert len(hands.asked) == 1
        await hands.write("echo one\n")
        await hands.write("echo two; cat worker.yaml\n")
        assert len(hands.asked) == 1
        refused = await hands.write("echo three; rm worker.yaml\n")
        assert (refused.status, len(hands.asked)) == ("blocked", 1)
        heard = await hands.hear("blocked")
        assert "two\n\nname: w" in heard
        assert "three" not in heard
        await hands.write("printf 'asked\\n'\n")
        assert len(hands.asked) == 2
        assert "no rule allows" in hands.asked[1].reason
        assert hands.asked[1].details[0].startswith("part:   printf ")
        await hands.hear("asked")
        assert project.folder.joinpath("worker.yaml").exists()


@LEVELS
async def test_reading_set_covers_only_plain_forms_in_sessions(opened: Open, level: str) -> None:
    """No confinement limits a session to reading, even if it limits lines of the tool ``shell``."""
    async with opened(level=level, rules="      - {use: reading}\n") as hands:
        await hands.start("bash")
        await hands.write("ls | head -1\n")
        assert len(hands.asked) == 1
        for line in ("node --version", "find . -name x | xargs wc -l", "rg -L x", "go env"):
            await hands.write(f"{line}\n")
        assert len(hands.asked) == 5
        await hands.start("node --version")
        assert (len(hands.asked), hands.asked[-1].tool_name) == (6, "exec_command")


async def test_shell_after_an_uncovered_line_always_asks(opened: Open) -> None:
    async with opened() as hands:
        await hands.start("bash")
        await hands.write("alias echo=make\n")
        await hands.write("echo one\n")
        assert [request.tool_name for request in hands.asked] == [
            "exec_command",
            "write_stdin",
            "write_stdin",
        ]
        assert hands.asked[2].reason == "earlier input of this shell was not pre-approved"
        assert (await hands.write("rm x\n")).status == "blocked"


async def test_refused_input_is_not_written(opened: Open) -> None:
    async with opened(True, False) as hands:
        await hands.start("bash")
        assert (await hands.write("printf no\n")).status == "denied"
        assert (await hands.write("rm x\n")).status == "blocked"
        ended = await hands.write("echo yes; cat missing\necho end; cat\n")
        assert ended.status == "success"
        assert "no\n" not in await hands.hear("end")
        assert len(hands.asked) == 2


@pytest.mark.parametrize(
    ("first", "second", "asked", "status"),
    [
        ("echo o", "ne\n", 1, "success"),
        ("echo one; r", "m x\n", 2, "blocked"),
        ("echo one \\\n", "two\n", 1, "success"),
        ("sort \\\n", "cat -o scratch/x\n", 2, "success"),
        ("echo \\\\\n", "echo two\n", 1, "success"),
        ("echo 'one\n", "two'\n", 3, "success"),
        ("echo one; \\\n", "rm x\n", 1, "blocked"),
    ],
)
async def test_line_in_two_pieces_is_judged_as_a_whole(
    opened: Open, first: str, second: str, asked: int, status: str
) -> None:
    async with opened() as hands:
        await hands.start("bash")
        assert (await hands.write(first)).status == "success"
        assert (await hands.write(second)).status == status
        assert len(hands.asked) == asked


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("cat\necho rm x\n", True),
        ("cat -\n# rm x\n", True),
        ("cat worker.yaml -\n# rm x\n", True),
        ("sort 2>&1\n# rm x\n", True),
        ("sort <&0 &\n# rm x\n", True),
        ("sort 3< worker.yaml\n# rm x\n", True),
        ("echo one; sort\n# rm x\n", True),
        ("sort\n\n", False),
        ("sort; echo rm x\n", False),
        ("sort < worker.yaml\n# rm x\n", False),
        ("sort <<E\nb\nE\necho one\n", False),
        ("echo one | sort\necho two\n", False),
        ("cat worker.yaml\necho one\n# rm x\n", False),
    ],
)
async def test_command_cannot_read_the_next_line_as_its_input(
    opened: Open, text: str, asks: bool
) -> None:
    """With ``head -c 2`` before it, ``# rm x`` is not a comment to the shell."""
    async with opened(True, False) as hands:
        await hands.start("bash")
        assert (await hands.write(text)).status == ("denied" if asks else "success")
        if asks:
            assert "may read the lines after it" in hands.asked[1].reason


async def test_shell_with_a_command_that_may_wait_for_input_always_asks(
    opened: Open,
) -> None:
    async with opened() as hands:
        await hands.start("bash")
        await hands.write("sort < worker.yaml; cat worker.yaml\n")
        await hands.write("sort\n")
        assert len(hands.asked) == 1
        await hands.write("echo rm x\n")
        assert "may read it" in hands.asked[1].reason
        assert (await hands.write("rm x\n")).status == "blocked"


async def test_shell_in_another_folder_asks_for_each_line(opened: Open) -> None:
    async with opened() as hands:
        await hands.start("bash", workdir="/here/sub")
        await hands.write("echo there > scratch/x\n")
        assert [request.tool_name for request in hands.asked] == ["exec_command", "write_stdin"]
        assert (
            hands.asked[1].reason
            == "the rules are for the working directory, but this is another folder"
        )


async def test_writes_after_cd_are_judged_in_the_new_folder(opened: Open, project: Project) -> None:
    async with opened() as hands:
        await hands.start("bash")
        await hands.write("echo here > scratch/x\n")
        await hands.write("cd sub\n")
        assert len(hands.asked) == 1
        await hands.write("echo there > scratch/x; echo done\n")
        assert len(hands.asked) == 2
        await hands.hear("done")
    assert (project.read("scratch/x"), project.read("sub/scratch/x")) == ("here\n", "there\n")


async def test_shell_that_may_have_made_links_asks_before_writing(opened: Open) -> None:
    async with opened() as hands:
        await hands.start("bash")
        await hands.write("echo x > scratch/x\n")
        await hands.write("ln -s sub scratch/link < /dev/null\n")
        await hands.write("echo done\n")
        assert len(hands.asked) == 1
        await hands.write("echo x > scratch/link/x\n")
        assert len(hands.asked) == 2
        assert "ln may have made links" in hands.asked[1].reason


async def test_rules_follow_a_shell_into_other_folders(opened: Open, project: Project) -> None:
    project.write("sub/a", "")
    async with opened() as hands:
        await hands.start("bash")
        await hands.write("cd su")
        await hands.write("b\ncat a\n")
        await hands.write("cat a; echo two\n")
        assert len(hands.asked) == 1
        await hands.write("cd scratch\n")
        await hands.write("echo three\n")
        assert len(hands.asked) == 2
        assert (
            "scratch is a link, or files in it are written without asking" in hands.asked[1].reason
        )


@pytest.mark.parametrize(
    "command", ["bash -i", "/bin/bash", "bash < /dev/stdin", "exec bash", "python3 -i", "tail -f"]
)
async def test_input_for_other_programs_asks(opened: Open, command: str) -> None:
    async with opened() as hands:
        await hands.start(command)
        before = len(hands.asked)
        await hands.write("echo one\n")
        assert len(hands.asked) == before + 1
        assert hands.asked[-1].reason == "the effect of input on this program is unknown"
        assert hands.asked[-1].preview.content == f"session 1 is: {command}"
        assert (await hands.write("rm x\n")).status == "blocked"


OTHER_SHELLS = [
    "sh",
    "dash",
    "zsh",
    "fish",
    "/bin/sh",
    "sh -i",
    "env dash",
    "sudo -s",
    "bash -c dash",
    "ssh host",
    "$SHELL",
]


def test_only_plain_bash_counts_as_a_bare_shell() -> None:
    bare = ["bash", " bash --norc --noprofile ", "'bash'"]
    others = [
        *OTHER_SHELLS,
        "python3",
        "bash -i",
        "bash x.sh",
        "bash; ls",
        "bash < x",
        "/bin/bash",
        "sudo bash",
    ]
    others += ["X=1 bash", "bash | cat", "bash --posix", "rbash", ""]
    assert [command for command in (*bare, *others) if is_bare_shell(read(command))] == bare
    assert [command for command in (*bare, *others) if may_be_shell(command)] == [
        *OTHER_SHELLS,
        "sudo bash",
    ]


@pytest.mark.parametrize("shell", ["sh", pytest.param("dash", marks=pytest.mark.needs("dash"))])
async def test_other_shell_asks_for_every_line_and_starts_nothing_blocked(
    opened: Open, project: Project, shell: str
) -> None:
    async with opened() as hands:
        await hands.start(shell)
        for count, line in enumerate(["echo one\n", "echo two\n", "git status\n"], 2):
            await hands.write(line)
            assert len(hands.asked) == count
            assert hands.asked[-1].reason.startswith("the rules know bash only")
        for line in (
            "echo a &>/dev/null rm worker.yaml\n",
            "echo a;rm worker.yaml\n",
            "$'rm' x\n",
            "x=rm; $x a\n",
        ):
            assert (await hands.write(line)).status == "blocked", line
        assert len(hands.asked) == 4
        assert project.folder.joinpath("worker.yaml").exists()


async def test_yes_to_input_counts_once(opened: Open) -> None:
    async with opened(*[ApprovalDecision(True, remember="session")] * 3) as hands:
        await hands.start("cat")
        await hands.write("again\n")
        await hands.write("again\n")
        assert await hands.hear("again\nagain\n") == "again\nagain\n"
        assert len(hands.asked) == 2


async def test_process_that_closed_its_input_is_reported(opened: Open) -> None:
    async with opened() as hands:
        await hands.start("exec <&-; echo deaf; exec sleep 300")
        await hands.hear("deaf\n")
        outcome = await hands.write("word\n")
        assert (outcome.status, outcome.error) == (
            "error",
            "the process no longer reads its input",
        )


# --- polling and interrupting


@LEVELS
async def test_interrupt_needs_no_consent_and_ends_a_program(opened: Open, level: str) -> None:
    async with opened(level=level) as hands:
        await hands.start("echo up; exec sleep 300")
        await hands.hear("up\n")
        ended = await hands.write("\x03", ENOUGH)
        assert ended.status == "error"
        assert ended.text().startswith("exit code: 130")
        assert [request.tool_name for request in hands.asked] == ["exec_command"]


async def test_end_of_input_is_judged_like_the_line_it_completes(opened: Open) -> None:
    async with opened() as hands:
        await hands.start("wc -c")
        await hands.start("bash")
        assert said(await hands.write("four\x04", ENOUGH)) == "4\n"
        assert (await hands.write("rm x\x04", ENOUGH, session_id=2)).status == "blocked"
        assert said(await hands.write("echo one\n\x04", ENOUGH, session_id=2)) == "one\n"


@LEVELS
async def test_interrupted_shell_continues(opened: Open, level: str) -> None:
    async with opened(level=level) as hands:
        await hands.start("bash")
        await hands.write("sleep 300; echo code $?\n")
        asked = len(hands.asked)
        with anyio.fail_after(60):
            while "code 130\n" not in hands.heard:
                assert (await hands.write("\x03")).value.data["running"]
        assert len(hands.asked) == asked
        ended = await hands.write("exit 5\n", ENOUGH)
        assert ended.error == "exit code: 5"


# --- the end


@pytest.mark.few(1)
@LEVELS
async def test_processes_end_with_the_session(opened: Open, level: str, tmp_path: Path) -> None:
    sleeping = tag()
    async with opened(level=level) as hands:
        await hands.start(
            f"(setsid sleep {sleeping} &); echo up; trap '' TERM INT; sleep {sleeping}; sleep {sleeping}"
        )
        await hands.start("bash")
        await hands.write(f"echo shell up; sleep {sleeping}\n", session_id=2)
        await hands.hear("up\n")
        assert sleepers(sleeping)
    assert sleepers(sleeping) == []


async def test_interrupted_start_leaves_no_process(opened: Open, project: Project) -> None:
    sleeping = tag()
    async with opened() as hands, anyio.create_task_group() as tasks:
        with gate(project.folder) as up:
            outcomes: list[ToolOutcome] = []

            async def start() -> None:
                outcomes.append(
                    await hands.start(f"echo one; echo up > {up.path}; sleep {sleeping}", ENOUGH)
                )

            tasks.start_soon(start)
            await up.opened()
        hands.runtime.interrupt()
        while not outcomes:
            await anyio.lowlevel.checkpoint()
        assert (outcomes[0].status, sleepers(sleeping)) == ("interrupted", [])
        assert outcomes[0].text() == '{"type": "interrupted"}\none\n'
        hands.runtime.interrupt_signal.reset()
        assert "open sessions: none" in (await hands.write()).text()


@pytest.mark.parametrize(
    ("encoding", "written"), [("ISO-8859-1", "e9"), ("UTF-8", "c3 a9"), ("ANSI_X3.4-1968", "c3 a9")]
)
async def test_text_is_encoded_by_the_locale(
    opened: Open, monkeypatch: pytest.MonkeyPatch, encoding: str, written: str
) -> None:
    monkeypatch.setattr(locale, "getencoding", lambda: encoding)
    async with opened() as hands:
        await hands.start("head -n 1 >line; od -An -tx1 line; cat line")
        outcome = await hands.write("é\n", ENOUGH)
    assert said(outcome) == f" {written} 0a\né\n"


@pytest.mark.parametrize(
    ("encoding", "chars", "problem"),
    [
        ("ISO-8859-1", "echo €\n", "iso8859-1, the encoding of the locale, lacks '€' (U+20AC)"),
        (
            "GBK",
            f"echo {GBK_PIPE}echo two\n",
            f"in gbk, the encoding of the locale, a shell may misread '{GBK_PIPE}'",
        ),
    ],
)
async def test_text_that_the_locale_cannot_encode_is_not_written(
    opened: Open, monkeypatch: pytest.MonkeyPatch, encoding: str, chars: str, problem: str
) -> None:
    monkeypatch.setattr(locale, "getencoding", lambda: encoding)
    async with opened() as hands:
        await hands.start("bash --norc")
        refused = await hands.write(chars)
        after = await hands.write("echo one; exit\n", ENOUGH)
    assert (refused.status, problem in (refused.error or "")) == ("error", True), refused.error
    assert said(after) == "one\n"
