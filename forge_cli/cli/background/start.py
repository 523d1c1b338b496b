"""Start of a session in the background, in a process of its own without a terminal."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

from forge_cli.core.approval import OnAsk
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import cut
from forge_cli.core.zones import ZoneMode
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.home import make_private
from forge_cli.files.worker import load_worker
from forge_cli.record.log import find_session
from forge_cli.record.places import lock_holder, new_session_id
from forge_cli.record.runs import MAX_TASK, BackgroundRun, now, remove_run
from forge_cli.record.socket_files import run_folder

START_TIMEOUT = 0.8
"""Seconds to wait for the session to begin; an error in this time is reported at once."""
LOCK_TIMEOUT = 20.0
"""Seconds to wait until the session holds its log, on a machine with much other work."""
POLL_INTERVAL = 0.05


class Started:
    """The pipe on which the process in the background reports that its session has begun."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def report(self) -> None:
        """Let the command that the person typed end."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.write(self._descriptor, b"!")
            os.close(self._descriptor)
            self._descriptor = None


def start_in_background(asked: RunOptions, *, parks: bool) -> tuple[RunOptions, Started] | str:
    """Fork; return the session in the calling process, and options in the new process.

    The new process has a session of its own and no terminal. If it fails at once, its error is
    printed here, and the calling process exits with its code.
    """
    session = _session_of(asked)
    asked = replace(
        asked,
        interactive=False,
        resume=session if asked.resumes and not asked.fork else asked.resume,
        last=asked.last and asked.fork,
        new_id=session,
        on_ask=OnAsk.PARK if parks else asked.on_ask,
    )
    run = BackgroundRun(
        session=session,
        worker=load_worker(asked.worker).name,
        task=cut(asked.task, MAX_TASK, "end"),
        started=now(),
        command=tuple(restart_command(asked, session)),
        folder=os.getcwd(),
    )
    make_private(run_folder())
    # A file of an earlier process of this session is continued.
    output = os.open(
        run.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    size = os.fstat(output).st_size
    run.write()
    reads, writes = os.pipe()
    # Otherwise, both processes would write what is still buffered.
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(reads)
        _replace_streams(output)
        return asked, Started(writes)
    os.close(writes)
    os.close(output)
    _wait_for_begin(run, child, reads, size)
    os.close(reads)
    return session


def start_again(run: BackgroundRun, task: str | None = None) -> None:
    """Resume a session in a new process in the background, optionally with a message."""
    command = [sys.executable, "-P", "-m", "forge_cli", *run.command]
    if task is not None:
        command.append(task)
    if not os.path.isdir(run.folder):
        raise ForgeError(
            f"the folder {run.folder} of the session {run.session} no longer exists",
            hint=f"resume it elsewhere: forge run WORKER -r {run.session}",
        )
    try:
        done = subprocess.run(
            command,
            cwd=run.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        raise ForgeError(f"forge cannot be started: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().removeprefix("forge: ")
        raise ForgeError(said or f"it could not be started (exit code {done.returncode})")


def restart_command(asked: RunOptions, session: str) -> list[str]:
    """Return the arguments that resume a session in the background, with the same options."""
    command = ["run", "-r", session, "-b", "-C", str(asked.workspace)]
    if asked.model is not None:
        command += ["-m", asked.model]
    if asked.mode is not None:
        command += ["--approval-mode", asked.mode.value]
    if asked.on_ask is not OnAsk.PARK:
        command += ["--on-ask", asked.on_ask.value]
    for zone in asked.zones:
        command += ["--add-dir", f"{zone.path}:ro" if zone.mode is ZoneMode.RO else str(zone.path)]
    for name in ("max_turns", "max_tokens", "max_cost", "max_time"):
        if (limit := getattr(asked.limits, name)) is not None:
            command += [f"--{name.replace('_', '-')}", str(limit)]
    flags = {
        "--no-plugins": not asked.plugins,
        "--read-only": asked.read_only,
        "--locked": asked.locked,
    }
    command += [flag for flag, given in flags.items() if given]
    # Behind "--", a task that begins with a dash is not read as an option.
    return [*command, "--", asked.named]


def _session_of(asked: RunOptions) -> str:
    """Return the ID that the session has or will have."""
    if asked.fork or not asked.resumes:
        return new_session_id()
    if asked.resume is not None:
        return find_session(asked.resume).stem
    from forge_cli.record.overview import last_session

    return last_session(load_worker(asked.worker), asked.workspace).stem


def _replace_streams(output: int) -> None:
    """Read from nowhere, and write standard output and error to the file of the session."""
    null = os.open(os.devnull, os.O_RDONLY)
    for own, other in ((null, 0), (output, 1), (output, 2)):
        os.dup2(own, other)
    os.close(null)
    os.close(output)
    # As with nohup: the process has no terminal that could hang up.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _wait_for_begin(run: BackgroundRun, child: int, reads: int, size: int) -> None:
    """Wait until the session has begun, or holds its log and only takes long to open.

    If the process has ended already, print its error, and exit with its code.
    """
    begun = time.monotonic()
    while time.monotonic() - begun < LOCK_TIMEOUT:
        if select.select([reads], [], [], POLL_INTERVAL)[0]:
            if os.read(reads, 1):
                return
            _report_early_end(run, child, size)
        if time.monotonic() - begun > START_TIMEOUT and lock_holder(run.log) is not None:
            return


def _report_early_end(run: BackgroundRun, child: int, size: int) -> NoReturn:
    """Print the error of a process that ended before its session began, and exit with its code."""
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    with open(run.output, "rb") as stream:
        stream.seek(size)
        sys.stderr.write(stream.read().decode(errors="replace"))
    if not run.log.exists():
        remove_run(run.session)
    raise SystemExit(code if code >= 0 else 128 - code)
