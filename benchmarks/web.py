"""The browser: 10,000 events to five tabs against writing them to the log, and the first byte."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sessions import events, write
from startup import start
from table import Row, Sample, best, main, ratio, take_turns

from forge_cli.apps.web.drawing import SessionDrawing
from forge_cli.apps.web.view import SessionView, TabStream
from forge_cli.record.recorder import Recorder
from forge_cli.sandbox.secrets import Redactor
from forge_cli.ui.server import new_server

ROOT = Path(__file__).resolve().parent.parent
FORGE = str(Path(sys.executable).with_name("forge"))
EVENTS, TABS = 10_000, 5
LIMIT, START_LIMIT = 3.0, 8.0
CLIENT = """
import socket, sys
port, tabs, last = map(int, sys.argv[1:])
streams = []
for _ in range(tabs):
    stream = socket.create_connection(("127.0.0.1", port))
    stream.sendall(b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
    streams.append(stream.makefile("rb"))
for stream in streams:
    while b'"ready"' not in stream.readline():
        pass
print("ready", flush=True)
for stream in streams:
    while stream.readline() != b"id: %d\\n" % last:
        pass
print("done", flush=True)
"""
"""A client process that reads all events."""


async def deliver(count: int) -> None:
    """Record events of a session without a file, and send them to every tab."""
    view = SessionView(SessionDrawing("bench"))
    view.drawing.set_live(True)

    async def beside(view: SessionView) -> None:
        """Do nothing, because no other process adds to the session."""

    async def app(scope: object, receive: object, send: object) -> None:
        await TabStream(view, 0, beside)(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = new_server(app)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        argv = ["-c", CLIENT, str(listener.getsockname()[1]), str(TABS), str(count)]
        client = await asyncio.create_subprocess_exec(sys.executable, *argv, stdout=subprocess.PIPE)
        assert client.stdout
        await client.stdout.readline()
        recorder = Recorder(view.take, session="bench", worker="w", redactor=Redactor(os.environ))
        for event in events(count):
            recorder(event)
            await asyncio.sleep(0)
        await client.stdout.readline()
        view.close()
        server.should_exit = True
        await serving
        await client.wait()


def measured(action: Callable[[], object]) -> Sample:
    cpu, wall = time.process_time(), time.monotonic()
    action()
    return Sample(time.process_time() - cpu, time.monotonic() - wall)


def first_byte(home: str) -> Sample:
    """Return the time to the first byte of the page, with the CPU of the server process."""
    environment = {**os.environ, "FORGE_HOME": home, "CI": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    argv = [FORGE, "web", "--no-open"]
    process = subprocess.Popen(argv, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    found = re.search(r"http://127\.0\.0\.1:(\d+)/\?secret=(\S+)", process.stderr.readline())
    assert found
    with socket.create_connection(("127.0.0.1", int(found[1]))) as stream:
        head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{found[1]}\r\nAuthorization: Bearer {found[2]}\r\n\r\n"
        stream.sendall(head.encode())
        if not stream.recv(100).startswith(b"HTTP/1.1 200"):
            raise SystemExit("the page is not there")
    wall = time.perf_counter() - began
    process.send_signal(signal.SIGKILL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = -signal.SIGKILL
    process.stderr.close()
    return Sample(usage.ru_utime + usage.ru_stime, wall)


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FORGE_HOME"] = folder
        names = iter(range(10_000))
        sent = take_turns(
            {
                "log": lambda: measured(lambda: write(f"w{next(names)}", EVENTS)),
                "tabs": lambda: measured(lambda: asyncio.run(deliver(EVENTS))),
            },
            rounds,
        )
        typer = [sys.executable, "-c", "import typer"]
        started = take_turns(
            {"typer": lambda: start(typer, dict(os.environ)), "web": lambda: first_byte(folder)},
            rounds,
            warm_up=1,
        )
    return [
        ratio(
            f"10,000 events to {TABS} tabs, x writing them to the log",
            best(sent["tabs"]),
            best(sent["log"]),
            LIMIT,
        ),
        ratio(
            "the page's first byte, x import typer",
            best(started["web"]),
            best(started["typer"]),
            START_LIMIT,
        ),
    ]


if __name__ == "__main__":
    main(measure, rounds=5)
