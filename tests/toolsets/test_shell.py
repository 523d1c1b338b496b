"""The toolset ``shell`` in workers: allowed commands, results, and leftover processes.

Covers forge_cli.sandbox.processes.outcome, forge_cli.toolsets.shell.toolset.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forge_cli import EventBus, InterruptSignal
from forge_cli.core.errors import WorkerError
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, Event, ToolOutput
from forge_cli.core.notify import UNCONFINED_RULES
from forge_cli.core.results import Custom
from forge_cli.sandbox.worker_processes import NOT_CONFINED
from forge_cli.testing import Project, Seen, call, calls
from tests.support.children import sleepers, tag

needs_proc = pytest.mark.needs("linux")

WORKER = """
name: w
sandbox:
  isolation: off
toolsets:
  shell:
    rules:
      - {pattern: echo, approval: preApproved}
      - {pattern: cat, approval: preApproved}
      - {pattern: git push, approval: blocked, reason: pushing is for people}
      - {pattern: git fetch, approval: ask, reason: it takes long}
    timeout: 20
"""


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    return project


def with_shell(project: Project, section: str, sandbox: str = "{isolation: off}") -> Project:
    project.write("worker.yaml", f"name: w\nsandbox: {sandbox}\ntoolsets:\n  shell: {section}\n")
    return project


def with_policy(project: Project, policy: str) -> None:
    project.home.mkdir(exist_ok=True)
    (project.home / "config.yaml").write_text(policy)


def shell(
    project: Project, command: str, answers: list[bool] | None = None, **options: Any
) -> Seen:
    return project.run(
        calls(call("shell", command=command)), "{result}", answers=answers, **options
    )


def told(project: Project, command: str, **args: Any) -> Custom:
    """The value of a call that everybody agrees to."""
    (outcome,) = project.run(
        calls(call("shell", command=command, **args)), "done", approval_mode="approve_all"
    ).outcomes
    assert isinstance(outcome.value, Custom)
    assert outcome.value.kind == "shell.result"
    return outcome.value


def verdict(project: Project, command: str) -> str:
    """The verdict on a line without a person; an allowed line is run."""
    return shell(project, command).of(ApprovalDecided)[0].verdict


# --- the rules


@pytest.mark.parametrize(
    ("command", "approval", "rule", "line", "reason"),
    [
        (
            "echo hi",
            "preApproved",
            "toolsets.shell.rules[0]",
            8,
            "'echo hi' matches the pre-approved rule 'echo'",
        ),
        (
            "git fetch",
            "ask",
            "toolsets.shell.rules[3]",
            11,
            "matches the asking rule 'git fetch': it takes long",
        ),
        (
            "echo hi; git push -f",
            "blocked",
            "toolsets.shell.rules[2]",
            10,
            "'git push': pushing is for people",
        ),
        (
            "make test",
            "ask",
            "toolsets.shell.default",
            7,
            "no rule allows 'make test', so you are asked",
        ),
    ],
)
def test_decision_names_the_rule_and_its_place(
    worker: Project, command: str, approval: str, rule: str, line: int, reason: str
) -> None:
    seen = shell(worker, command)
    (decided,) = seen.of(ApprovalDecided)
    assert (decided.verdict, decided.approved, decided.rule) == (
        approval,
        approval == "preApproved",
        rule,
    )
    assert reason in decided.reason
    assert str(decided.where).startswith(f"{worker.folder / 'worker.yaml'}:{line}:")
    assert decided.by == ("headless" if approval == "ask" else "rule")
    assert seen.statuses == [
        {"preApproved": "success", "ask": "denied", "blocked": "blocked"}[approval]
    ]


def test_unanalysable_line_asks_without_naming_a_rule(worker: Project) -> None:
    (decided,) = shell(worker, "echo $(make)").of(ApprovalDecided)
    assert (decided.verdict, decided.rule, decided.where) == ("ask", None, None)


def test_blocked_command_stays_blocked_despite_approval(worker: Project) -> None:
    seen = shell(worker, "sudo git push", approval_mode="approve_all")
    assert seen.statuses == ["blocked"]
    assert seen.result.response.startswith("shell is blocked: ")
    assert [denial["by"] for denial in seen.result.denials] == ["rule"]


def test_request_lists_the_parts_and_a_rule_that_would_cover_them(worker: Project) -> None:
    seen = shell(worker, "echo hi && make test", answers=[False])
    (request,) = seen.asked
    assert request.details == (
        "part:   echo hi -> preApproved (toolsets.shell.rules[0])",
        "part:   make test -> ask (no rule)",
        'cover:  {pattern: "make test", approval: preApproved}',
    )
    assert request.risk == "high"
    (required,) = seen.of(ApprovalRequired)
    assert required.payload()["details"] == list(request.details)


def test_yes_runs_the_command(worker: Project) -> None:
    seen = shell(worker, "printf 'a\\tb'", answers=[True])
    assert (seen.statuses, seen.result.response) == (["success"], "exit code: 0\na\tb")


def test_default_applies_to_commands_without_a_rule(project: Project) -> None:
    with_shell(project, "{default: blocked, rules: [{pattern: echo, approval: preApproved}]}")
    assert [verdict(project, line) for line in ("echo hi", "ls", "echo $HOME")] == [
        "preApproved",
        "blocked",
        "blocked",
    ]
    with_shell(project, "{default: preApproved, rules: [{pattern: ls, approval: ask}]}")
    assert [verdict(project, line) for line in ("echo hi", "ls", "echo $HOME")] == [
        "preApproved",
        "ask",
        "ask",
    ]


# --- the user's own rules

USER = """
policy:
  shell:
    rules:
      - {pattern: cat, approval: blocked, reason: not on my machine}
      - {pattern: git fetch, approval: preApproved}
      - {pattern: echo, approval: ask}
      - {pattern: date, approval: preApproved}
"""


def test_user_rules_can_only_tighten(worker: Project) -> None:
    with_policy(worker, USER)
    lines = ("cat x", "git fetch", "echo hi", "date", "git push")
    assert [verdict(worker, line) for line in lines] == [
        "blocked",
        "ask",
        "ask",
        "preApproved",
        "blocked",
    ]
    (decided,) = shell(worker, "cat x").of(ApprovalDecided)
    assert (decided.rule, str(decided.where)) == (
        "policy.shell.rules[0]",
        f"{worker.home / 'config.yaml'}:5:9",
    )
    assert "not on my machine" in decided.reason


@pytest.mark.parametrize(
    ("policy", "place", "problem"),
    [
        (
            "policy: {shell: {rule: []}}",
            "1:18",
            "policy.shell: unknown key 'rule'; did you mean 'rules'?",
        ),
        ("policy: {shell: {default: ask}}", "1:18", "policy.shell: unknown key 'default'"),
        ("policy: {shel: {}}", "1:10", "policy.shel: no such toolset"),
        (
            "policy:\n  shell: {rules: [{pattern: rm, approval: never}]}",
            "2:43",
            "policy.shell.rules[0].approval",
        ),
        (
            "policy:\n  shell:\n    rules:\n      - {pattern: rm, approval: blocked, match: [ls]}",
            "4:50",
            "policy.shell.rules[0].match: 'ls' is not matched by 'rm'",
        ),
    ],
)
def test_invalid_user_rule_is_reported_at_once(
    worker: Project, policy: str, place: str, problem: str
) -> None:
    with_policy(worker, policy)
    with pytest.raises(WorkerError) as caught:
        worker.run("never said")
    assert str(caught.value).startswith(f"{worker.home / 'config.yaml'}:{place}: ")
    assert problem in str(caught.value)


# --- redirections

ZONES = """
name: w
sandbox:
  isolation: off
  zones:
    - {name: scratch, mode: rw, approval: {write: preApproved}}
    - {name: drafts, path: ./scratch/drafts, mode: ro}
    - {name: output, mode: rw}
toolsets:
  shell: {rules: [{pattern: echo, approval: preApproved}, {pattern: cd, approval: preApproved}]}
"""


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("command", "approval"),
    [
        ("echo hi > scratch/a", "preApproved"),
        ("echo hi >> scratch/deep/down/a", "preApproved"),
        ("echo hi > /dev/null 2>&1", "preApproved"),
        ("echo hi > output/a", "ask"),
        ("echo hi > a", "ask"),
        ("echo hi > scratch/../a", "ask"),
        ("cd scratch && echo hi > scratch/a", "ask"),
        ("echo hi > scratch/drafts/a", "ask"),
        ("echo hi > scratch/.env", "ask"),
        ("echo hi > scratch/.git/hooks/post-checkout", "ask"),
        ("echo hi > scratch/link", "ask"),
        ("echo hi > scratch/away/a", "ask"),
        ("echo hi > /scratch/a", "ask"),
        ("echo hi > /output/a", "ask"),
        ("echo hi < /scratch/deep/down/old", "ask"),
        ("echo hi < /scratch/.env", "ask"),
        ("cd /scratch && echo hi", "ask"),
        ("cd /scratch/deep && echo hi > down/a", "ask"),
    ],
)
def test_redirection_needs_the_approval_of_the_zone(
    project: Project, command: str, approval: str
) -> None:
    project.write("worker.yaml", ZONES)
    project.write("scratch/drafts/old", "")
    project.write("scratch/deep/down/old", "")
    project.write("output/kept", "kept")
    (project.folder / "scratch/link").symlink_to("../output/kept")
    (project.folder / "scratch/away").symlink_to("/")
    seen = shell(project, command)
    assert seen.of(ApprovalDecided)[0].verdict == approval
    assert seen.statuses == ["success" if approval == "preApproved" else "denied"]


READING = """
name: w
sandbox:
  isolation: off
  zones:
    - {name: here, path: ., mode: rw}
toolsets:
  shell:
    rules:
      - {pattern: wc, approval: preApproved}
      - {pattern: cd, approval: preApproved}
      - {pattern: make, approval: preApproved}
"""


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("command", "approval"),
    [
        ("wc < notes", "preApproved"),
        ("wc < inside", "preApproved"),
        ("wc < sub/notes", "preApproved"),
        ("cd sub && wc < notes", "preApproved"),
        ("wc <<< text", "preApproved"),
        ("wc < missing", "preApproved"),
        ("wc < outside", "ask"),
        ("wc 0< outside", "ask"),
        ("wc 3< outside", "ask"),
        ("{ wc; wc; } < outside", "ask"),
        ("wc < dangling", "ask"),
        ("wc < away/etc/hostname", "ask"),
        ("wc < env", "ask"),
        ("cd sub && wc < hidden", "ask"),
        ("wc < sub/hidden", "ask"),
        ("make; wc < notes", "ask"),
        ("wc notes sub/notes inside outside", "preApproved"),
        ("wc notes .env", "ask"),
        ("wc env", "ask"),
        ("wc sub/hidden", "ask"),
        ("cd sub && wc hidden", "ask"),
        ("cd sub && wc notes", "preApproved"),
    ],
)
def test_read_is_judged_by_the_zone_of_the_real_file(
    project: Project, command: str, approval: str
) -> None:
    project.write("worker.yaml", READING)
    for name in ("notes", "sub/notes", ".env"):
        project.write(name, "text")
    links = {
        "inside": "notes",
        "outside": "/etc/hostname",
        "dangling": "/nowhere/at/all",
        "away": "/",
        "env": ".env",
    }
    links["sub/hidden"] = "../.env"
    for name, target in links.items():
        (project.folder / name).symlink_to(target)
    assert shell(project, command).of(ApprovalDecided)[0].verdict == approval


def test_plain_files_are_read_and_links_ask_without_a_zone(
    project: Project,
) -> None:
    zones = "[{name: scratch, mode: rw}]"
    rules = "[{pattern: wc, approval: preApproved}]"
    project.write(
        "worker.yaml",
        f"name: w\nsandbox: {{zones: {zones}}}\ntoolsets: {{shell: {{rules: {rules}}}}}\n",
    )
    project.write("notes", "text")
    (project.folder / "outside").symlink_to("/etc/hostname")
    verdicts = [
        shell(project, f"wc < {name}").of(ApprovalDecided)[0].verdict
        for name in ("notes", "outside")
    ]
    assert verdicts == ["preApproved", "ask"]


def test_zone_explains_why_it_asks(project: Project) -> None:
    project.write("worker.yaml", ZONES)
    project.write("scratch/drafts/old", "")
    project.write("output/kept", "kept")
    (project.folder / "scratch/link").symlink_to("../output/kept")
    (decided,) = shell(project, "echo hi > scratch/link").of(ApprovalDecided)
    assert decided.reason.startswith(
        "it writes scratch/link: writing in zone 'output' needs your OK"
    )
    assert decided.rule == "sandbox.zones.output.approval.write"


def test_host_folder_named_like_a_zone_is_not_that_zone(
    project: Project,
) -> None:
    first = project.folder.resolve().parts[1]
    zones = ZONES.replace("name: scratch", f"name: {first}, path: ./scratch")
    project.write("worker.yaml", zones)
    project.write("scratch/drafts/old", "")
    project.write("output/kept", "kept")
    (project.folder / "scratch/link").symlink_to("../output/kept")
    assert verdict(project, "echo hi > scratch/a") == "preApproved"
    assert verdict(project, "echo hi > scratch/link") == "ask"


@pytest.mark.needs("bwrap")
def test_confined_command_finds_zones_by_their_names(project: Project) -> None:
    project.write("worker.yaml", ZONES.replace("isolation: off", "isolation: required"))
    project.write("scratch/drafts/old", "kept")
    assert told(project, "find /scratch /output").data["stdout"].split() == [
        *("/scratch", "/scratch/drafts", "/scratch/drafts/old", "/output")
    ]
    told(
        project,
        "echo a > /scratch/a; echo b > /output/b; echo c > /drafts/c; echo d > /scratch/drafts/d",
    )
    assert (project.read("scratch/a"), project.read("output/b")) == ("a\n", "b\n")
    assert os.listdir(project.folder / "scratch/drafts") == ["old"]


def test_file_of_the_worker_asks(project: Project) -> None:
    zones = (
        "{isolation: off, zones: [{name: code, path: ., mode: rw, approval: {write: preApproved}}]}"
    )
    with_shell(project, "{rules: [{pattern: echo, approval: preApproved}]}", zones)
    assert verdict(project, "echo hi > notes.txt") == "preApproved"
    (decided,) = shell(project, "echo hi > worker.yaml").of(ApprovalDecided)
    assert (decided.verdict, decided.approved) == ("ask", False)


# --- what comes back


def test_successful_result_has_all_fields(worker: Project) -> None:
    value = told(worker, "echo out; echo err >&2")
    assert value.data.pop("durationMs") >= 0
    assert value == Custom(
        "shell.result",
        {
            "command": "echo out; echo err >&2",
            "exitCode": 0,
            "signal": None,
            "stdout": "out\n",
            "stderr": "err\n",
            "truncated": False,
            "timedOut": False,
        },
        summary="exit code: 0",
        model_text="exit code: 0\nout\n\nstderr:\nerr\n",
    )


def test_failed_command_is_an_error_with_its_output(worker: Project) -> None:
    seen = shell(worker, "echo out; echo err >&2; exit 3", approval_mode="approve_all")
    (outcome,) = seen.outcomes
    assert (outcome.status, outcome.error) == ("error", "exit code: 3")
    assert (outcome.value.kind, outcome.value.data["exitCode"]) == ("shell.result", 3)
    assert (outcome.value.data["stdout"], outcome.value.data["stderr"]) == ("out\n", "err\n")
    assert seen.result.response == "exit code: 3\nout\n\nstderr:\nerr\n"
    (line,) = (line for line in seen.lines if line["type"] == "toolResult")
    assert (line["error"], line["value"]["data"]["stderr"]) == ("exit code: 3", "err\n")


def test_signal_is_in_the_result(worker: Project) -> None:
    value = told(worker, "kill -9 $$")
    assert (value.data["exitCode"], value.data["signal"]) == (None, 9)
    assert value.summary == "exit code: 137 (ended by signal 9)"


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("command", "code", "number"),
    [("kill -9 $$", None, 9), ("exit 7", 7, None), ("exit 200", 200, None)],
)
def test_signal_is_in_the_result_of_a_confined_command(
    project: Project, command: str, code: int | None, number: int | None
) -> None:
    value = told(with_shell(project, "{default: ask}", "{isolation: required}"), command)
    assert (value.data["exitCode"], value.data["signal"]) == (code, number)


def test_timeout_keeps_the_output(worker: Project) -> None:
    seen = worker.run(
        calls(call("shell", command="echo so far; exec sleep 300", timeout=0.5)),
        "{result}",
        approval_mode="approve_all",
    )
    (outcome,) = seen.outcomes
    assert (outcome.status, outcome.error) == ("timeout", "stopped after 0.5 seconds")
    assert (outcome.value.data["timedOut"], outcome.value.data["stdout"]) == (True, "so far\n")
    assert seen.result.response == "stopped after 0.5 seconds\nso far\n"


def test_worker_sets_the_timeout(project: Project) -> None:
    with_shell(project, "{timeout: 0.2}")
    assert told(project, "exec sleep 300").summary == "stopped after 0.2 seconds"


FLOOD = "echo first; head -c 3000000 /dev/zero | tr '\\0' '{0}'; echo last; head -c 3000000 /dev/zero | tr '\\0' '{0}' >&2"


@pytest.mark.parametrize("noise", ["x", "\\001"], ids=["plain", "long as JSON"])
def test_output_is_bounded(worker: Project, noise: str) -> None:
    seen = shell(worker, FLOOD.format(noise), approval_mode="approve_all")
    data = seen.outcomes[0].value.data
    assert (data["exitCode"], data["truncated"]) == (0, True)
    assert data["stdout"].startswith("first\n")
    assert data["stdout"].endswith("last\n")
    assert 1_000_000 < len(data["stdout"]) + len(data["stderr"]) < 1_048_576
    assert len(seen.result.response) <= 20_000


def test_overlong_command_line_is_an_error(worker: Project) -> None:
    seen = shell(worker, f"echo {'x' * 2**18}", approval_mode="approve_all")
    assert seen.statuses == ["error"]
    assert "cannot be started" in seen.result.response


# --- what a command meets


def test_command_environment_has_no_keys(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "FORGE_TOKEN",
        "SOMETHING",
        "NAMED_API_KEY",
    ):
        monkeypatch.setenv(name, f"value-of-{name}")
    with_shell(project, "{env: [NAMED_API_KEY]}")
    found = dict(line.split("=", 1) for line in told(project, "env").data["stdout"].splitlines())
    assert found.keys().isdisjoint(
        {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "FORGE_TOKEN", "SOMETHING"}
    )
    assert found["NAMED_API_KEY"] == "value-of-NAMED_API_KEY"
    assert found["FORGE_WORKSPACE"] == found["PWD"] == str(project.folder)


def test_command_has_no_input(worker: Project) -> None:
    assert told(worker, "cat; read x || echo end").data["stdout"] == "end\n"


@needs_proc
@pytest.mark.parametrize("level", ["off", pytest.param("auto", marks=pytest.mark.needs("bwrap"))])
def test_background_process_does_not_delay_the_call_or_outlive_the_session(
    project: Project, level: str
) -> None:
    with_shell(project, "{timeout: 60}", f"{{isolation: {level}}}")
    sleeping = tag()
    line = f"sleep {sleeping} & (setsid sleep {sleeping} &); echo hi"
    seen = shell(project, line, approval_mode="approve_all")
    assert (seen.statuses, seen.outcomes[0].value.data["stdout"]) == (["success"], "hi\n")
    assert seen.outcomes[0].duration_ms < 20_000
    assert sleepers(sleeping) == []


@needs_proc
@pytest.mark.parametrize("level", ["off", pytest.param("auto", marks=pytest.mark.needs("bwrap"))])
def test_interrupt_stops_all_processes(project: Project, level: str) -> None:
    with_shell(project, "{timeout: 60}", f"{{isolation: {level}}}")
    gate = project.folder / "gate"
    os.mkfifo(gate)
    signal, sleeping = InterruptSignal(), tag()

    def wait_and_interrupt() -> None:
        gate.read_text()
        signal.interrupt()

    threading.Thread(target=wait_and_interrupt, daemon=True).start()
    line = f"(setsid sleep {sleeping} &); echo up > gate; sleep {sleeping}; echo never"
    seen = project.run(
        calls(call("shell", command=line), call("shell", command="echo next")),
        "never",
        approval_mode="approve_all",
        interrupt_signal=signal,
    )
    assert (seen.result.status, seen.statuses) == ("interrupted", ["interrupted", "interrupted"])
    assert sleepers(sleeping) == []


def test_interrupted_command_keeps_its_output(project: Project) -> None:
    with_shell(project, "{timeout: 60}")
    os.mkfifo(project.folder / "gate")
    signal = InterruptSignal()

    def wait_and_interrupt() -> None:
        (project.folder / "gate").read_text()
        signal.interrupt()

    threading.Thread(target=wait_and_interrupt, daemon=True).start()
    seen = project.run(
        calls(
            call("shell", command="echo one; echo two >&2; echo up > gate; sleep 60; echo never")
        ),
        "never",
        approval_mode="approve_all",
        interrupt_signal=signal,
    )
    (outcome,) = seen.outcomes
    assert (outcome.status, outcome.value.data["stdout"], outcome.value.data["stderr"]) == (
        *("interrupted", "one\n", "two\n"),
    )
    assert outcome.value.text() == '{"type": "interrupted"}\none\n\nstderr:\ntwo\n'
    (recorded,) = (line.data for line in seen.record if line.type == "toolResult")
    assert recorded["value"]["data"]["stdout"] == "one\n"


def test_output_is_shown_while_running_but_not_logged(project: Project) -> None:
    with_shell(project, "{timeout: 60}")
    gate = project.folder / "gate"
    os.mkfifo(gate)
    bus, shown = EventBus(), list[str]()

    def let_it_end(event: Event) -> None:
        if isinstance(event, ToolOutput):
            shown.append(event.text)
            threading.Thread(target=gate.write_text, args=("go",), daemon=True).start()

    bus.subscribe(let_it_end)
    seen = project.run(
        calls(call("shell", command="echo first; echo second >&2; cat gate > /dev/null")),
        "done",
        approval_mode="approve_all",
        bus=bus,
    )
    assert (shown[-1], seen.statuses) == ("first\nsecond", ["success"])
    assert "toolOutput" in {line["type"] for line in seen.lines} - {
        line.type for line in seen.record
    }


# --- isolation


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that is not in /tmp, which a confined process has for itself."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("sandbox", ["{}", "{isolation: auto}", "{isolation: required}"])
def test_confined_command_writes_only_in_its_zones(
    project: Project, home: Path, sandbox: str
) -> None:
    with_shell(project, "", sandbox)
    value = told(project, "touch here ~/there; cat worker.yaml && touch worker.yaml")
    assert (project.folder / "here").exists()
    assert not (home / "there").exists()
    assert "Read-only" in value.data["stderr"]
    assert value.data["exitCode"] == 1
    assert value.data["stdout"].startswith("name: w\n")


def test_off_needs_no_quotes(project: Project, home: Path) -> None:
    with_shell(project, "", "{isolation: off}")
    assert told(project, "touch ~/there").data["exitCode"] == 0
    assert (home / "there").exists()


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("sandbox", "reached"),
    [
        ("{isolation: auto}", True),
        ("{isolation: auto, network: false}", False),
        ("{isolation: required}", False),
        ("{isolation: required, network: true}", True),
    ],
)
def test_network_setting_applies(project: Project, sandbox: str, reached: bool) -> None:
    with_shell(project, "", sandbox)
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        assert (told(project, line).data["exitCode"] == 0) is reached


NO_LANDLOCK = """
import ctypes, struct
steps = struct.pack("=HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0, 0x15, 0, 1, 444, 6, 0, 0, 0x50026, 6, 0, 0, 0x7FFF0000)
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))
prctl = ctypes.CDLL(None).prctl
prctl(38, 1, 0, 0, 0)
prctl(22, 2, ctypes.byref(Program(4, steps)), 0, 0)
"""
"""Lets the kernel say that it has no such call, as it does where Landlock is not built in."""


@pytest.fixture
def only_bash(tmp_path: Path) -> dict[str, str]:
    """A machine on which there is a shell, and nothing that could confine it, for a process of its own."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bash").symlink_to("/bin/bash")
    (tmp_path / "bin" / "sitecustomize.py").write_text(
        NO_LANDLOCK if sys.platform == "linux" else ""
    )
    return {"PATH": str(tmp_path / "bin"), "PYTHONPATH": str(tmp_path / "bin")}


@pytest.mark.long
def test_required_isolation_without_a_mechanism_is_refused(
    project: Project, only_bash: dict[str, str]
) -> None:
    with_shell(project, "", "\n  isolation: required")
    done = Project.forge(project, "worker", "check", "worker.yaml", env=only_bash)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(
        "forge: worker.yaml:3:14: isolation is required, and this machine has no working"
    )
    assert "install bubblewrap" in done.stderr


@pytest.mark.long
def test_auto_isolation_without_a_mechanism_warns_once(
    project: Project, only_bash: dict[str, str]
) -> None:
    with_shell(project, "", "{isolation: auto}")
    twice = "[{tool: shell, input: {command: echo one}}, {tool: shell, input: {command: echo two}}]"
    project.write(
        "script.yaml", f"turns: [{{calls: {twice}}}, {{text: '{{results[0]}} {{results[1]}}'}}]"
    )
    done = Project.forge(
        project, "run", "worker.yaml", "go", "-y", "-m", "script:script.yaml", env=only_bash
    )
    assert (done.returncode, done.stdout) == (0, "exit code: 0\none\n exit code: 0\ntwo\n")
    assert done.stderr.count(NOT_CONFINED) == 1


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("rules", "isolation", "times"),
    [("preApproved", "auto", 1), ("ask", "auto", 0), ("preApproved", "off", 0)],
)
def test_rules_without_a_mechanism_are_reported_also_with_print(
    project: Project, only_bash: dict[str, str], rules: str, isolation: str, times: int
) -> None:
    with_shell(
        project, f"{{rules: [{{pattern: echo, approval: {rules}}}]}}", f"{{isolation: {isolation}}}"
    )
    project.write("script.yaml", "turns: [{text: done}]")
    done = Project.forge(
        project, "run", "worker.yaml", "go", "-p", "-m", "script:script.yaml", env=only_bash
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (0, "done\n", times)
    assert done.stderr.count(f"warning: {UNCONFINED_RULES}") == times


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(("trace", "times"), [("debug", 1), ("normal", 0)])
def test_trace_names_the_confinement(project: Project, trace: str, times: int) -> None:
    with_shell(project, "", "{isolation: auto}")
    project.write("script.yaml", "turns: [{text: done}]")
    done = project.forge("run", "worker.yaml", "go", "--trace", trace, "-m", "script:script.yaml")
    assert (done.returncode, done.stderr.splitlines().count("commands: confined (bwrap)")) == (
        0,
        times,
    )


@pytest.mark.long
@pytest.mark.needs("Landlock")
@pytest.mark.parametrize(("trace", "times"), [("summary", 1), ("quiet", 0)])
def test_weaker_mechanism_is_a_warning(
    project: Project, tmp_path: Path, trace: str, times: int
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bash").symlink_to("/bin/bash")
    with_shell(project, "{rules: [{pattern: echo, approval: preApproved}]}", "{isolation: auto}")
    project.write(
        "script.yaml",
        "turns: [{calls: [{tool: shell, input: {command: echo one}}]}, {text: '{result}'}]",
    )
    argv = ("run", "worker.yaml", "go", "--trace", trace, "-m", "script:script.yaml")
    done = project.forge(*argv, env={"PATH": str(tmp_path / "bin")})
    assert (done.returncode, done.stdout) == (0, "exit code: 0\none\n")
    assert (
        done.stderr.count("warning: commands: confined, weaker (Landlock: protected names in zones")
        == times
    )


@pytest.mark.long
def test_isolation_off_without_a_mechanism_is_silent(
    project: Project, only_bash: dict[str, str]
) -> None:
    with_shell(project, "", "{isolation: off}")
    assert Project.forge(project, "worker", "check", "worker.yaml", env=only_bash).stderr == ""


@pytest.mark.needs("git")
def test_git_ignores_config_files_in_zones(project: Project) -> None:
    """A folder made a repository by plain files, with a program that every look at it would start."""
    with_shell(
        project, "{rules: [{pattern: git status, approval: preApproved}]}", "{isolation: off}"
    )
    for name in ("objects/x", "refs/x", "HEAD", "config"):
        project.write(name, "ref: refs/heads/main\n")
    planted = project.folder / "planted"
    project.write(
        "config", f"[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch {planted} #\n"
    )
    shell(project, "git status")
    assert not planted.exists()
    for name in ("objects/x", "refs/x", "HEAD", "config"):
        (project.folder / name).unlink()
    subprocess.run(["git", "init", "-q", "."], cwd=project.folder, check=True)
    subprocess.run(
        ["git", "config", "core.fsmonitor", f"touch {planted} #"], cwd=project.folder, check=True
    )
    shell(project, "git status")
    assert not planted.exists()


def test_manual_compilation_of_a_tool_gets_a_hint(project: Project) -> None:
    folder = project.home / "tools" / "greet"
    folder.mkdir(parents=True)
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {default: preApproved}}\n")
    line = f"cd {folder} && go build -o greet greet.go"
    seen = project.run(calls(call("shell", command=line)), "{result}", approval_mode="approve_all")
    assert "forge compiles Go programs in its folder of tools by itself" in seen.result.response
    turn = calls(call("shell", command="go build -o greet absent.go"))
    elsewhere = project.run(turn, "{result}", approval_mode="approve_all")
    assert "forge compiles" not in elsewhere.result.response
