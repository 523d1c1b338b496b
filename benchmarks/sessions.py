"""Logs of sessions: writing a line, a long resume, and lists and searches of many logs."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from table import Row, least_cpu, main, take_turns

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.calls import ToolCall
from forge_cli.core.events import (
    ApprovalDecided,
    Event,
    MessageEvent,
    StatusEvent,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
    TurnStart,
)
from forge_cli.core.messages import Message, Usage
from forge_cli.core.results import Text
from forge_cli.files.regular import sync_data
from forge_cli.record.line import Line
from forge_cli.record.log import broken_link, read_session
from forge_cli.record.places import session_file
from forge_cli.record.recorder import Recorder, SessionLog, needs_disk
from forge_cli.record.resume import read_past
from forge_cli.sandbox.secrets import Redactor

SHORT, LONG = 1_000, 10_000
FEW, MANY = 10, 1_000
GIGABYTE = 1_000_000_000
NEEDLE = "needle in the hay"
FORGE = str(Path(sys.executable).with_name("forge"))


def events(count: int) -> list[Event]:
    """Return turns of one call each, as a worker makes them."""
    found: list[Event] = [MessageEvent(Message("user", "go"))]
    turn = 0
    while len(found) < count:
        turn += 1
        call, args = (
            f"call_{turn}",
            {"path": f"/workspace/file_{turn}.txt", "content": "words " * 20},
        )
        said = Message("assistant", f"Turn {turn}.", calls=(ToolCall(call, "write_file", args),))
        found += [
            TurnStart(turn, "0" * 64, ("read_file", "write_file")),
            MessageEvent(said),
            TurnEndEvent(turn, "tool_use", Usage(1_000, 50)),
            ToolStarted(call, "write_file", args),
            decided(call),
            ToolResult(call, "write_file", "success", Text("Created it. " * 10), 3),
        ]
    return found[:count]


def decided(call: str) -> ApprovalDecided:
    yes = ApprovalDecision(True)
    return ApprovalDecided(
        call, "ask", yes.approved, yes.by, None, None, "zone 'workspace' asks", cached=False
    )


def write(session: str, count: int) -> Path:
    with SessionLog.create(session_file(session)) as log:
        recorder = Recorder(log, session=session, worker="w", redactor=Redactor(os.environ))
        for event in events(count):
            recorder(event)
    return log.path


def bare_write(folder: Path, lines: list[object]) -> None:
    """Dump and write the same lines one by one, as the floor."""
    file = os.open(folder / "floor", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    for line in lines:
        os.write(file, json.dumps(line).encode() + b"\n")
    os.close(file)


def synced_write(folder: Path, name: str, count: int) -> None:
    """Write the same events to a bare file and sync where forge does, as the floor on disk."""
    file = os.open(folder / name, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def sink(line: Line) -> None:
        os.write(file, line.text().encode())
        if needs_disk(line):
            sync_data(file)

    recorder = Recorder(sink, session=name, worker="w", redactor=Redactor(os.environ))
    for event in events(count):
        recorder(event)
    os.close(file)


def wall_seconds(action: Callable[[], object]) -> float:
    """Return wall time, for actions that wait for the disk."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def resume(path: Path) -> None:
    log = read_session(path)
    if broken_link(log) is not None:
        raise SystemExit("the log is broken")
    read_past(log.lines)


def bare_read(path: Path) -> None:
    """Parse every line, as the floor."""
    for line in path.read_bytes().splitlines():
        json.loads(line)


def fill(home: Path, count: int, size: int, piece: bytes) -> None:
    """Make ``count`` logs of this size, one of them with the searched text."""
    folder = home / "sessions"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"20260101-000000-{number:08x}.jsonl").write_bytes(
            piece * max(1, size // len(piece))
        )
    with open(folder / "20260101-000000-00000000.jsonl", "ab") as log:
        log.write(
            Line.of(
                StatusEvent("info", NEEDLE.title()),
                session="s",
                worker="w",
                depth=0,
                redactor=Redactor({}),
            )
            .text()
            .encode()
        )


def command_cpu(argv: list[str], environment: Mapping[str, str]) -> float:
    """Return the CPU seconds of a command with all of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, env=environment, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        raise SystemExit(f"{argv}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def look(piece: bytes, rounds: int) -> list[Row]:
    """Measure ``sessions list`` with few and many logs, and ``sessions search`` in a gigabyte."""
    if not shutil.which("rg"):
        raise SystemExit("ripgrep is the floor; install it, its command is called rg")
    with tempfile.TemporaryDirectory() as name:
        few, many = ({**os.environ, "FORGE_HOME": f"{name}/{count}"} for count in (FEW, MANY))
        fill(Path(name, str(FEW)), FEW, GIGABYTE // MANY, piece)
        fill(Path(name, str(MANY)), MANY, GIGABYTE // MANY, piece)
        listing, search = [FORGE, "sessions", "list"], [FORGE, "sessions", "search", NEEDLE]
        bare = [
            *("rg", "--no-config", "--no-ignore", "--ignore-case", "--line-number"),
            NEEDLE,
            f"{name}/{MANY}",
        ]
        taken = take_turns(
            {
                "few": partial(command_cpu, listing, few),
                "many": partial(command_cpu, listing, many),
                "search": partial(command_cpu, search, many),
                "rg": partial(command_cpu, bare, many),
            },
            rounds,
            warm_up=1,
        )
    best = {what: min(seconds) for what, seconds in taken.items()}

    def row(what: str, mine: str, floor: str, limit: float) -> Row:
        return Row(
            what, best[mine] / best[floor], limit, f"{best[mine]:.2f} / {best[floor]:.2f} s of CPU"
        )

    return [
        row("sessions list of 1,000 sessions, x of 10", "many", "few", 5.0),
        row("sessions search in 1 GB of logs, x ripgrep", "search", "rg", 3.0),
    ]


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FORGE_HOME"] = folder
        names = iter(range(10_000))
        short, long = write("short", SHORT), write("long", LONG)
        lines: list[object] = [json.loads(line) for line in short.read_bytes().splitlines()]
        logged = least_cpu(lambda: write(f"w{next(names)}", SHORT), rounds) / SHORT
        floor = least_cpu(lambda: bare_write(Path(folder), lines), rounds) / SHORT
        disk = {
            "log": lambda: wall_seconds(lambda: write(f"d{next(names)}", SHORT)),
            "floor": lambda: wall_seconds(
                lambda: synced_write(Path(folder), f"f{next(names)}", SHORT)
            ),
        }
        on_disk, bare = (min(taken) / SHORT * 1000 for taken in take_turns(disk, rounds).values())
        resumed = {path: least_cpu(partial(resume, path), rounds) for path in (short, long)}
        read = least_cpu(lambda: bare_read(long), rounds)
        looks = look(short.read_bytes(), rounds)
    return [
        Row(
            "a line of the log, ms",
            logged * 1000,
            1.0,
            f"{logged / floor:.1f} x a bare dump and write",
        ),
        Row(
            "a line on the disk / a bare one",
            on_disk / bare,
            4.0,
            f"{on_disk:.2f} / {bare:.2f} ms, on the wall",
        ),
        Row(
            "resume of 10,000 events, x json.loads of its lines",
            resumed[long] / read,
            6.0,
            f"{resumed[long]:.2f} s",
        ),
        Row("10,000 events / 1,000 events", resumed[long] / resumed[short], 13.0, "10 is linear"),
        *looks,
    ]


if __name__ == "__main__":
    main(measure, rounds=5)
