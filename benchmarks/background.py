"""Sessions in the background: their start, idle cost, answers under kills, and attaching."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from table import Row, main

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import ForgeError
from forge_cli.record.log import read_session
from forge_cli.record.pending import AlreadyAnswered, answer_request, waiting_requests
from forge_cli.record.places import lock_holder
from forge_cli.ui.terminal.follow import LogTail, event_of

START, MEMORY, PROCESSOR, ATTACH = 1.3, 60.0, 0.02, 0.5
"""Limits: times a plain start, MB, seconds of CPU in a second of waiting, and seconds."""
SESSIONS, CALLS = 20, 50
EVENTS = 3_000
ANSWER_DEADLINE = 900.0
FORGE = [sys.executable, "-P", "-m", "forge_cli"]
WORKER = """
name: bench
instructions: Answer.
model: script:script.yaml
toolsets: {custom: {module: ./tools.py, tools: [note]}}
limits: {max_turns: 100000}
"""
TOOLS = '''
from forge_cli import tool


@tool(needs_approval=True)
def note(text: str) -> str:
    """Note a text."""
    with open("notes.txt", "a") as file:
        file.write(f"{text}\\n")
    return text
'''


def script(calls: int) -> str:
    turns = [{"calls": [{"tool": "note", "input": {"text": str(n)}}]} for n in range(calls)]
    return json.dumps({"turns": [*turns, {"text": "done"}]})


def folder_with(place: Path, calls: int) -> Path:
    """A folder with a worker that asks this often."""
    place.mkdir()
    (place / "worker.yaml").write_text(WORKER)
    (place / "tools.py").write_text(TOOLS)
    (place / "script.yaml").write_text(script(calls))
    return place


def start(folder: Path) -> str:
    done = subprocess.run(
        [*FORGE, "run", "worker.yaml", "Go.", "-b"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def timed(argv: list[str], folder: Path) -> float:
    begun = time.monotonic()
    subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.monotonic() - begun


def log_of(session: str) -> Path:
    return Path(os.environ["FORGE_HOME"], "sessions", f"{session}.jsonl")


def processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Proportional memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def stop(session: str) -> None:
    if pid := lock_holder(log_of(session)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def starts(folder: Path, rounds: int) -> list[Row]:
    plain, background = [], []
    sessions = []
    for _ in range(rounds):
        plain.append(timed([*FORGE, "run", "worker.yaml", "Go.", "-p"], folder))
        begun = time.monotonic()
        sessions.append(start(folder))
        background.append(time.monotonic() - begun)
    for session in sessions:
        stop(session)
    wall = sorted(background)[len(background) // 2]
    ratio = wall / sorted(plain)[len(plain) // 2]
    return [
        Row("start to ID, times forge run", ratio, START),
        Row("start to ID, seconds", wall, None),
    ]


def waiting(folder: Path) -> list[Row]:
    session = start(folder)
    while not [each for path, each in waiting_requests(lambda said: None) if path.stem == session]:
        time.sleep(0.05)
    pid = lock_holder(log_of(session)) or 0
    before = processor_time(pid)
    time.sleep(5)
    used = (processor_time(pid) - before) / 5
    rows = [
        Row("CPU of a waiting question, share", used, PROCESSOR),
        Row("memory of a waiting session, MB", memory(pid), MEMORY),
    ]
    stop(session)
    return rows


class Client(threading.Thread):
    """A client that answers whatever waits, until everything is answered."""

    def __init__(self, name: str, is_over: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.is_over = is_over
        self.counted: dict[tuple[str, str], str] = {}
        self.refused = 0

    def run(self) -> None:
        while not self.is_over.is_set():
            for path, each in waiting_requests(lambda said: None):
                if each.answer is not None:
                    continue
                note = f"{self.name} {random.random()}"
                try:
                    answer_request(path, each.id, ApprovalDecision(True, note=note, via=self.name))
                except AlreadyAnswered:
                    self.refused += 1
                except ForgeError:
                    continue  # the session was killed meanwhile, or has gone on
                else:
                    self.counted[path.stem, each.id] = note


def answers_under_kills(folder: Path, sessions: int, calls: int) -> list[Row]:
    """Answer all questions by two clients, while sessions are killed and resumed."""
    folders = {}
    for number in range(sessions):
        own = folder_with(folder / f"many{number}", calls)
        folders[start(own)] = own
    is_over = threading.Event()
    clients = [Client(name, is_over) for name in ("one", "two")]
    for client in clients:
        client.start()
    kills = 0
    deadline = time.monotonic() + ANSWER_DEADLINE
    unfinished = set(folders)
    while unfinished and time.monotonic() < deadline:
        time.sleep(1)
        unfinished = {each for each in unfinished if not is_done(each)}
        if unfinished and kills < sessions:
            stop(random.choice(sorted(unfinished)))
            kills += 1
        subprocess.run([*FORGE, "sessions", "resume", "--all"], capture_output=True, check=False)
    is_over.set()
    for client in clients:
        client.join(30)
    lost = doubled = 0
    for session, own in folders.items():
        notes = (own / "notes.txt").read_text().split() if (own / "notes.txt").exists() else []
        recorded: dict[str, list[str | None]] = {}
        for line in read_session(log_of(session)).lines:
            if line.type == "approvalResponse":
                recorded.setdefault(str(line.data["requestId"]), []).append(line.data.get("note"))
        doubled += sum(len(each) > 1 for each in recorded.values())
        doubled += len(notes) - len(set(notes))
        for client in clients:
            for (of, request), note in client.counted.items():
                lost += of == session and note not in recorded.get(request, [])
    refused = sum(client.refused for client in clients)
    answered = sum(len(client.counted) for client in clients)
    return [
        Row("answers that were lost", lost, 0, f"{answered} counted, {refused} came second"),
        Row("answers or calls that were doubled", doubled, 0, f"{kills} kills"),
        Row("sessions that did not end", len(unfinished), 0, f"of {sessions}"),
    ]


def is_done(session: str) -> bool:
    if lock_holder(log_of(session)) or not log_of(session).exists():
        return False
    last = read_session(log_of(session)).lines[-1]
    return last.type == "sessionEnd" and last.data["result"]["status"] == "completed"


def last_screen(folder: Path) -> list[Row]:
    """Read the last screen of a long log, as attaching does before it draws."""
    own = folder_with(folder / "long", EVENTS // 8)
    done = subprocess.run(
        [*FORGE, "run", "worker.yaml", "Go.", "-y", "-p", "--json"],
        cwd=own,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    log = log_of(json.loads(done.stdout.splitlines()[-1])["session"])
    begun = time.monotonic()
    events = [event_of(line) for line in LogTail.last_screen(log).read()]
    taken = time.monotonic() - begun
    count = log.read_bytes().count(b"\n")
    return [Row("last screen of a long log, seconds", taken, ATTACH, f"{len(events)} of {count}")]


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        os.environ["FORGE_HOME"] = f"{place}/home"
        folder = folder_with(Path(place, "project"), 1)
        Path(place, "home").mkdir(mode=0o700)
        Path(place, "home/config.yaml").write_text(f"background: {SESSIONS}\n")
        quick = rounds < 3
        sessions, calls = (4, 5) if quick else (SESSIONS, CALLS)
        return [
            *starts(folder, max(rounds, 3)),
            *waiting(folder),
            *last_screen(Path(place)),
            *answers_under_kills(Path(place), sessions, calls),
        ]


if __name__ == "__main__":
    main(measure, rounds=5)
