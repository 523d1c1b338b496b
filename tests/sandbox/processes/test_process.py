"""Child processes: clean environment, limits, exit status, and the end of all their children.

Covers forge_cli.sandbox.processes.child, forge_cli.sandbox.processes.command.
"""

import ctypes
import gc
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from forge_cli.core.errors import ToolError
from forge_cli.core.processes import Finished
from forge_cli.sandbox.processes import tree
from forge_cli.sandbox.processes.child import Child
from forge_cli.sandbox.processes.command import bash_argv, clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from tests.support.children import (
    ESCAPES,
    children,
    descriptors,
    escape,
    gate,
    sleepers,
    stranger,
    tag,
    time_out_after_first_output,
)

pytestmark = [pytest.mark.anyio, pytest.mark.needs("linux")]

SOON = 30.0
"""Seconds within which everything is stopped, whatever it is."""


async def run(line: str, folder: Path, **options: object) -> Finished:
    settings = {"cwd": folder, "env": clean_environment(), "timeout": 60.0, **options}
    async with ChildProcesses() as processes:
        return await processes.run(bash_argv(line), **settings)


async def run_out_of_time(line: str, folder: Path) -> Finished:
    async with ChildProcesses() as processes:
        child = processes.start(bash_argv(line), cwd=folder, env=clean_environment())
        return await time_out_after_first_output(child)


@pytest.mark.parametrize(
    ("line", "exit_code", "signal"),
    [
        ("exit 0", 0, None),
        ("exit 7", 7, None),
        ("kill -9 $$", None, 9),
        ("exit 137", 137, None),
        ("nosuch", 127, None),
    ],
)
async def test_exit_and_a_signal_are_told_apart(
    tmp_path: Path, line: str, exit_code: int | None, signal: int | None
) -> None:
    done = await run(line, tmp_path)
    assert (done.exit_code, done.signal, done.timed_out, done.truncated) == (
        exit_code,
        signal,
        False,
        False,
    )


async def test_commands_are_limited_and_refused_after_the_end(tmp_path: Path) -> None:
    settings = {"cwd": tmp_path, "env": clean_environment()}
    async with ChildProcesses(at_most=1) as processes:
        processes.start(bash_argv("read x"), takes_input=True, **settings)
        with pytest.raises(ToolError, match="which is the limit"):
            processes.start(bash_argv("true"), **settings)
    with pytest.raises(ToolError):
        processes.start(bash_argv("true"), **settings)


async def test_environment_is_an_allow_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "BASH_ENV",
        "FORGE_API_KEY",
        "SSH_AUTH_SOCK",
        "NAMED_KEY",
    ):
        monkeypatch.setenv(name, "/x")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("FORGE_MODEL", "script:x")
    done = await run("export -p", tmp_path, env=clean_environment(["NAMED_KEY"]))
    seen = {line.removeprefix("declare -x ").partition("=")[0] for line in done.stdout.splitlines()}
    assert {"PATH", "HOME", "LC_ALL", "FORGE_MODEL", "NAMED_KEY"} <= seen
    assert not seen & {
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "BASH_ENV",
        "FORGE_API_KEY",
        "SSH_AUTH_SOCK",
    }
    unnamed = (await run("export -p", tmp_path)).stdout
    assert "NAMED_KEY" not in unnamed


async def test_startup_files_of_the_user_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(os.environ["HOME"])
    for name in (".bashrc", ".bash_profile", ".profile", "env.sh"):
        (home / name).write_text("echo surprise\n")
    monkeypatch.setenv("BASH_ENV", str(home / "env.sh"))
    assert (await run("echo done", tmp_path)).stdout == "done\n"


async def test_line_may_begin_with_a_dash(tmp_path: Path) -> None:
    assert (await run("-x; echo next", tmp_path)).stdout == "next\n"


async def test_command_has_its_own_session_and_no_terminal(tmp_path: Path) -> None:
    line = "cat; (: </dev/tty) 2>/dev/null || echo none; read -r -a s </proc/$$/stat; echo $$ ${s[4]} ${s[5]}"
    none, ids = (await run(line, tmp_path)).stdout.splitlines()
    pid, group, session = map(int, ids.split())
    assert (none, group, session) == ("none", pid, pid)


async def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    secret = os.readlink(f"/proc/self/fd/{reading}")
    done = await run("readlink /proc/$$/fd/*", tmp_path)
    os.close(reading)
    os.close(writing)
    inherited = done.stdout.splitlines()
    assert "/dev/null" in inherited
    assert secret not in inherited


@pytest.mark.parametrize(
    ("words", "folder", "reason"),
    [
        (["/no/such/program"], ".", "No such file"),
        (["bash"], "missing", "missing"),
        (["bash", "-c", "a\0b"], ".", "null byte"),
        (["bash", "-c", "x" * 2**22], ".", "too long"),
        (["/etc/passwd"], ".", "Permission denied"),
    ],
)
async def test_failed_start_has_a_reason_and_leaves_nothing_open(
    tmp_path: Path, words: list[str], folder: str, reason: str
) -> None:
    async with ChildProcesses() as processes:
        await processes.run(
            ["true"], cwd=tmp_path, env={}, timeout=None
        )  # with the first one comes the guardian
        before = descriptors()
        with pytest.raises(ToolError, match=rf"^'.*' cannot be started: .*{reason}"):
            processes.start(words, cwd=tmp_path / folder, env={}, takes_input=True)
        assert descriptors() == before


async def test_memory_is_bounded_while_output_is_not(tmp_path: Path) -> None:
    await run("true", tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = await run("head -c 200000000 /dev/zero", tmp_path, timeout=60)
    assert (done.exit_code, done.truncated) == (0, True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


async def test_background_process_does_not_hold_the_result_back(tmp_path: Path) -> None:
    sleeping = tag()
    async with ChildProcesses() as processes:
        with anyio.fail_after(60):
            done = await processes.run(
                bash_argv(f"sleep {sleeping} & echo hi"),
                cwd=tmp_path,
                env=clean_environment(),
                timeout=60,
            )
        assert (done.stdout, done.exit_code, done.timed_out) == ("hi\n", 0, False)
        assert sleepers(sleeping)
    assert not sleepers(sleeping)


async def test_timeout_stops_the_command_and_keeps_what_it_said(tmp_path: Path) -> None:
    line = "trap 'echo asked; exit 5' TERM; echo problem >&2; echo started; while :; do sleep 0.01; done"
    done = await run_out_of_time(line, tmp_path)
    assert (done.stdout, done.exit_code, done.timed_out) == ("started\nasked\n", 5, True)
    assert done.stderr.startswith("problem\n")
    assert done.duration_ms >= 100


async def test_command_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    done = await run_out_of_time("trap '' TERM; echo started; while :; do sleep 1; done", tmp_path)
    assert (done.stdout, done.signal, done.timed_out) == ("started\n", 9, True)


async def test_end_in_time_is_no_timeout_although_the_output_stays_open(tmp_path: Path) -> None:
    sleeping = tag()
    done = await run(f"sleep {sleeping} & sleep 0.2", tmp_path, timeout=30)
    assert (done.exit_code, done.timed_out) == (0, False)


@pytest.mark.few(3)
@pytest.mark.parametrize("way", ESCAPES)
async def test_stop_reaches_everybody(tmp_path: Path, way: str) -> None:
    sleeping = tag()
    async with ChildProcesses() as processes:
        with gate(tmp_path) as out:
            line = f"{escape(way, out, sleeping)}sleep {sleeping}"
            child = processes.start(bash_argv(line), cwd=tmp_path, env=clean_environment())
            await out.opened()
        assert sleepers(sleeping)
        begin = time.monotonic()
        await child.stop()
        assert (time.monotonic() - begin < SOON, sleepers(sleeping), child.running) == (
            True,
            [],
            False,
        )
    assert children() == []


@pytest.mark.few(2)
@pytest.mark.parametrize("way", ESCAPES)
async def test_interrupt_stops_everybody_and_goes_on(tmp_path: Path, way: str) -> None:
    sleeping = tag()
    async with ChildProcesses() as processes:
        with gate(tmp_path) as out, anyio.CancelScope() as scope:
            async with anyio.create_task_group() as calls:

                async def call() -> None:
                    line = f"{escape(way, out, sleeping)}sleep {sleeping}"
                    await processes.run(
                        bash_argv(line), cwd=tmp_path, env=clean_environment(), timeout=60
                    )
                    raise AssertionError("the interrupt was lost")

                calls.start_soon(call)
                await out.opened()
                begin = time.monotonic()
                scope.cancel()
        assert scope.cancelled_caught
        assert (time.monotonic() - begin < SOON, sleepers(sleeping)) == (True, [])
    assert children() == []


@pytest.mark.long
@pytest.mark.few(3)
@pytest.mark.parametrize("way", ESCAPES)
async def test_processes_do_not_outlive_the_context(tmp_path: Path, way: str) -> None:
    sleeping = tag()
    async with ChildProcesses() as processes:
        with gate(tmp_path) as out:
            line = escape(way, out, sleeping)
            child = processes.start(bash_argv(line), cwd=tmp_path, env=clean_environment())
            await out.opened()
        await child.ended.wait()
        assert sleepers(sleeping)
        begin = time.monotonic()
    assert (time.monotonic() - begin < SOON, sleepers(sleeping), children()) == (True, [], [])


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["an error", "a cancellation"])
async def test_leaving_in_a_hurry_stops_everything_too(tmp_path: Path, how: str) -> None:
    sleeping = [tag() for _ in range(5)]
    before = descriptors()
    with anyio.CancelScope() as scope:
        try:
            async with ChildProcesses() as processes:
                for seconds in sleeping:
                    line = f"trap '' TERM; sleep {seconds}"
                    processes.start(
                        bash_argv(line), cwd=tmp_path, env=clean_environment(), takes_input=True
                    )
                begin = time.monotonic()
                if how == "an error":
                    raise LookupError
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        except LookupError:
            pass
    assert time.monotonic() - begin < SOON
    assert ([sleepers(seconds) for seconds in sleeping], children(), descriptors()) == (
        [[]] * 5,
        [],
        before,
    )


async def test_failing_watcher_stops_the_command(tmp_path: Path) -> None:
    sleeping, before = tag(), descriptors()

    def fail(shown: str) -> None:
        raise LookupError(shown)

    with anyio.fail_after(60), pytest.raises(BaseExceptionGroup) as caught:
        await run(f"echo begun; sleep {sleeping}", tmp_path, watch=fail)
    assert [str(error) for error in caught.value.exceptions] == ["begun"]
    assert (sleepers(sleeping), children(), descriptors()) == ([], [], before)


async def test_start_under_cancellation_leaks_nothing(tmp_path: Path) -> None:
    before = descriptors()
    with anyio.CancelScope() as scope:
        async with ChildProcesses() as processes:
            scope.cancel()
            child = processes.start(
                bash_argv("sleep 300"), cwd=tmp_path, env=clean_environment(), takes_input=True
            )
    assert (child.running, children(), descriptors()) == (False, [], before)


async def test_sessions_of_one_command_run_concurrently(tmp_path: Path) -> None:
    sleeping = tag()
    async with ChildProcesses() as processes:
        with gate(tmp_path) as out:
            line = (
                f"for i in {{1..40}}; do setsid sleep {sleeping} & done; echo x >{out.path}; wait"
            )
            child = processes.start(bash_argv(line), cwd=tmp_path, env=clean_environment())
            await out.opened()
        begin = time.monotonic()
        await child.stop()
        assert (time.monotonic() - begin < SOON, sleepers(sleeping)) == (True, [])
    assert children() == []


async def test_children_of_others_are_left_alone(tmp_path: Path) -> None:
    neighbour = tag()
    with stranger() as other, stranger("bash", "-c", "exit 3") as ended:
        async with ChildProcesses() as processes:
            with gate(tmp_path) as out:
                line = f"{escape('env -i', out, neighbour)}exec sleep {neighbour}"
                processes.start(bash_argv(line), cwd=tmp_path, env=clean_environment())
                await out.opened()
            done = await processes.run(
                bash_argv("sleep 300"), cwd=tmp_path, env=clean_environment(), timeout=0.2
            )
            assert (done.timed_out, len(sleepers(neighbour)) >= 2, other.poll()) == (
                True,
                True,
                None,
            )
        assert (other.poll(), ended.wait()) == (None, 3)


async def test_process_of_another_thread_is_not_marked(tmp_path: Path) -> None:
    others: list[subprocess.Popen[bytes]] = []
    enough = threading.Event()

    def start_others() -> None:
        while not enough.is_set() and len(others) < 200:
            others.append(subprocess.Popen(["sleep", "300"], start_new_session=True))
        enough.wait()

    thread = threading.Thread(target=start_others)
    thread.start()
    try:
        async with ChildProcesses() as processes:
            for _ in range(20):
                child = processes.start(
                    bash_argv("sleep 300"), cwd=tmp_path, env=clean_environment()
                )
                await child.stop()
        assert [other.poll() for other in others] == [None] * len(others)
    finally:
        enough.set()
        thread.join()
        for other in others:
            other.kill()
            other.wait()


async def many(count: int, folder: Path) -> None:
    """Run commands that each leave a process for a moment, and count leftovers."""
    async with ChildProcesses() as processes:
        for number in range(count):
            line = "(setsid sleep 0.01 &) >/dev/null 2>&1; exit 0" if number % 4 == 0 else "true"
            done = await processes.run(
                bash_argv(line), cwd=folder, env=clean_environment(), timeout=60
            )
            assert done.exit_code == 0
            if number == 8:
                before = descriptors()
        gc.collect()
        assert descriptors() == before
        assert sum(isinstance(thing, Child) for thing in gc.get_objects()) <= 1
        assert len(children()) <= 8
    assert children() == []


@pytest.mark.long
async def test_ten_thousand_commands_leave_nothing_open(tmp_path: Path) -> None:
    await many(10_000, tmp_path)


async def test_kernel_that_does_not_tell_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    done = await run("echo hi; exit 3", tmp_path)
    assert (done.stdout, done.exit_code) == ("hi\n", 3)
    assert (await run("sleep 300", tmp_path, timeout=0.1)).timed_out


@pytest.fixture
def no_adoption() -> Iterator[None]:
    """Let orphans go to the same process as on other systems."""
    tree.adopt_orphans()
    prctl = ctypes.CDLL(None).prctl
    prctl(36, 0, 0, 0, 0)
    yield
    prctl(36, 1, 0, 0, 0)


@pytest.mark.long
@pytest.mark.usefixtures("no_adoption")
async def test_process_group_is_stopped_without_proc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "_PROC", False)
    sleeping = tag()
    begin = time.monotonic()
    done = await run(f"trap '' TERM; sleep {sleeping} & sleep {sleeping}", tmp_path, timeout=0.2)
    assert (done.timed_out, sleepers(sleeping), time.monotonic() - begin < 0.2 + SOON) == (
        True,
        [],
        True,
    )


TRACED = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0x4206, int(sys.argv[1]), None, None):
    sys.exit(os.strerror(ctypes.get_errno()))
print("traced", flush=True)
time.sleep(300)
"""


@pytest.mark.long
async def test_process_that_will_not_go_away_is_given_up(tmp_path: Path) -> None:
    """A traced process stays in the process table until its tracer has looked at it, killed or not."""
    before = descriptors()
    async with ChildProcesses() as processes:
        with gate(tmp_path) as out:
            allowed = f"import ctypes; ctypes.CDLL(None).prctl(0x59616d61, -1); open({str(out.path)!r}, 'w').write('x')"
            words = [
                sys.executable,
                "-c",
                f"{allowed}; print('said', flush=True); import time; time.sleep(300)",
            ]
            child = processes.start(words, cwd=tmp_path, env=clean_environment())
            await out.opened()
            await child.stdout.wait_for_output()
        with stranger(sys.executable, "-c", TRACED, str(child.pid)) as tracer:
            assert tracer.stdout
            assert tracer.stdout.readline() == b"traced\n"
            begin = time.monotonic()
            await child.stop()
            assert time.monotonic() - begin < SOON
            done = child.finished()
            assert (done.exit_code, done.signal, done.stdout) == (None, None, "said\n")
    assert descriptors() == before
