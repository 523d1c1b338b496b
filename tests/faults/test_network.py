"""Whatever the network does: the documented exit code, one sentence, the result object, a log that is resumed,
and no call made twice, or made although its answer was cut off.
"""

import gzip
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forge_cli.testing import Project
from tests.models.anthropic.server import say, tool_use
from tests.models.openai.server import calls, says
from tests.support.faults.effects import TOOLS
from tests.support.faults.network import (
    CHUNKED,
    CLOSE,
    END,
    EVENTS,
    RESET,
    STALL,
    Answers,
    Drip,
    Fault,
    FaultyServer,
    chunked,
    sized,
)
from tests.support.warm import Warm, started

KEY = "sk-ant-not-a-real-key-0123456789"
ANTHROPIC = Answers(
    [
        say(tool_use("toolu_1", "leave", word="one")).encoded(),
        say("Next.", tool_use("toolu_2", "leave", word="two")).encoded(),
        say("done").encoded(),
    ],
    b'"tool_use_id"',
)
OPENAI = Answers(
    [
        calls(("call_1", "leave", {"word": "one"})).pieces,
        calls(("call_2", "leave", {"word": "two"}), text="Next.").pieces,
        says("done").pieces,
    ],
    b'"tool_call_id"',
)
WAYS: dict[str, tuple[Answers, str, Mapping[str, Any]]] = {
    "anthropic": (ANTHROPIC, "anthropic:claude-haiku-5-5", {}),
    "sdk": (ANTHROPIC, "anthropic:claude-haiku-5-5", {"transport": "sdk"}),
    "openai": (OPENAI, "openai:tiny", {}),
}
ERROR = b'{"type": "error", "error": {"type": "api_error", "message": "no"}}'
SILENCE = 3


def refusal(
    status: int, *headers: str, body: bytes = ERROR, kind: str = "application/json", says: str = ""
) -> Fault:
    return Fault(
        lambda wire: [sized(f"{status} Status", body, *headers, kind=kind)],
        says=says or f"HTTP {status}",
    )


def page(kind: str, body: bytes, says: str = "an invalid answer") -> Fault:
    return Fault(lambda wire: [sized("200 OK", body, kind=kind)], says=says)


def stream(*steps: bytes | str | Drip, says: str = "closed the connection", **more: Any) -> Fault:
    """A stream that begins well and brings these instead of events."""
    return Fault(lambda wire: [CHUNKED, *steps], says=says, **more)


def encoded(encoding: str, body: bytes) -> bytes:
    return (
        EVENTS
        + f"content-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )


def cut(share: float, how: str) -> Fault:
    """The stream ends after a share of its bytes."""

    def steps(wire: Any) -> list[bytes | str]:
        content = b"".join(wire)
        return [CHUNKED, chunked(content[: int(len(content) * share)] or b"\n"), how]

    return Fault(steps, says="")


@cache
def zeros() -> bytes:
    return gzip.compress(b"data: " + bytes(99 << 20), 1)


LINE_ENDS = {"CRLF": b"\r\n", "CR": b"\r"}
BROKEN, SILENT, GARBAGE, UNREACHABLE = (
    "closed the connection",
    f"did not respond for {SILENCE} s",
    "an invalid answer",
    "cannot be reached",
)
ROWS: dict[str, Fault] = {
    # before there is an answer
    "closed at once": Fault(lambda wire: [CLOSE], says=BROKEN, reads=False),
    "reset at once": Fault(lambda wire: [RESET], reads=False),
    "closed after the request": Fault(lambda wire: [CLOSE], says=BROKEN),
    "reset after the request": Fault(lambda wire: [RESET], says=BROKEN),
    "silent at once": Fault(lambda wire: [STALL], says=SILENT, reads=False),
    "silent after the request": Fault(lambda wire: [STALL], says=SILENT),
    "another protocol": Fault(lambda wire: [b"SSH-2.0-OpenSSH_9.9\r\n"], says=BROKEN, reads=False),
    "HTTP/2": Fault(lambda wire: [b"\0\0\x12\4\0\0\0\0\0\0\3\0\0\0\x64"], says=BROKEN),
    "a status that is none": Fault(lambda wire: [b"HTTP/1.1 abc\r\n\r\n"], says=BROKEN),
    "half a head": Fault(lambda wire: [b"HTTP/1.1 200 OK\r\ncontent-"], says=BROKEN),
    "a head that drips": Fault(lambda wire: [b"HTTP/1.1 200 OK\r\nx: ", Drip(b"x")], says=SILENT),
    "a head without end": Fault(
        lambda wire: [b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 99999, STALL], says=BROKEN
    ),
    "a head that is malformed": Fault(
        lambda wire: [b"HTTP/1.1 200 OK\r\n:: \0\r\n\r\n"], says=BROKEN
    ),
    "100 for ever": Fault(lambda wire: [Drip(b"HTTP/1.1 100 Continue\r\n\r\n")], says=SILENT),
    "100 before the answer": Fault(
        lambda wire: [b"HTTP/1.1 100 Continue\r\n\r\n", CHUNKED, chunked(*wire), END], code=0
    ),
    "103 before the answer": Fault(
        lambda wire: [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", CHUNKED, chunked(*wire), END],
        code=0,
    ),
    "101": Fault(
        lambda wire: [b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"]
    ),
    "204": Fault(lambda wire: [b"HTTP/1.1 204 No Content\r\n\r\n"]),
    # statuses
    **{
        str(status): refusal(status)
        for status in (400, 401, 402, 403, 404, 405, 413, 418, 422, 501, 505)
    },
    **{
        str(status): refusal(status)
        for status in (408, 409, 425, 429, 500, 502, 503, 504, 520, 529, 599)
    },
    "429, come back at once": refusal(429, "retry-after: 0"),
    "429, come back soon": refusal(429, "retry-after: 0.01"),
    "429, come back in an hour": refusal(
        429, "retry-after: 3600", says="is rate limiting; retry in 3600 s"
    ),
    "429, come back at a date": refusal(429, "retry-after: Wed, 21 Oct 2015 07:28:00 GMT"),
    "429, come back never": refusal(429, "retry-after: inf"),
    "529, come back before": refusal(529, "retry-after: -5"),
    "503, come back when you like": refusal(503, "retry-after: nan", "retry-after-ms: x"),
    "500, a page": refusal(
        500, body=b"<html><body>Bad <b>Gateway</b></body></html>", kind="text/html"
    ),
    "500, not JSON": refusal(500, body=b'{"error": '),
    "500, not text": refusal(500, body=bytes(range(256))),
    "500, nothing": refusal(500, body=b""),
    "500, another shape": refusal(500, body=b'[{"error": [1, {"message": 5}]}]'),
    "500, nested": refusal(500, body=b"[" * 100_000),
    "500, large": refusal(500, body=b"x" * 5_000_000, kind="text/plain"),
    "500, without end": Fault(
        lambda wire: [b"HTTP/1.1 500 No\r\n\r\n", Drip(b"x" * 9999, 0.001)], says=""
    ),
    "500, silent": Fault(
        lambda wire: [b"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\n", STALL], says=SILENT
    ),
    "500, cut": Fault(lambda wire: [b"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nx"], says=BROKEN),
    "500, a broken encoding": Fault(
        lambda wire: [sized("500 No", ERROR, "content-encoding: gzip")], says=BROKEN
    ),
    "a status of the future": refusal(999, says=""),
    # redirects
    "a redirect to itself": refusal(307, "location: /v1/messages", body=b"", says="redirects"),
    "a redirect to nowhere": refusal(307, body=b"", says="redirects without a target (HTTP 307)"),
    "a redirect to nonsense": refusal(308, "location: http://[::1", body=b"", says="redirects"),
    "a redirect to another protocol": refusal(
        308, "location: ftp://127.0.0.1/x", body=b"", says="redirects"
    ),
    "a redirect to a file": refusal(
        302, "location: file:///etc/passwd", body=b"", says="redirects"
    ),
    "a redirect to nobody": refusal(
        307, "location: http://127.0.0.1:9/", body=b"", says="redirects"
    ),
    # something else than a stream of events
    "a page": page("text/html", b"<html><body>Log in</body></html>"),
    "a page that is called a stream": page("text/event-stream", b"<html>\n\nLog in</html>\n\n"),
    "JSON of something else": page("application/json", b'{"ok": true}'),
    "not JSON": page("application/json", b'{"ok": tr'),
    "bytes": page("application/octet-stream", bytes(range(256))),
    "a stream without a word": page("text/event-stream", b""),
    "a broken gzip": Fault(lambda wire: [encoded("gzip", b"not a zip")], says=BROKEN),
    "half a gzip": Fault(lambda wire: [encoded("gzip", gzip.compress(b"".join(wire))[:200])]),
    "a gzip": Fault(lambda wire: [encoded("gzip", gzip.compress(b"".join(wire)))], code=0),
    "a gzip of zeros": Fault(lambda wire: [encoded("gzip", zeros())]),
    "an unknown encoding": Fault(lambda wire: [encoded("rot13", b"qngn")]),
    # chunks
    "a chunk without a size": Fault(lambda wire: [CHUNKED, b"hello\r\n"], says=BROKEN),
    "a chunk of less than nothing": Fault(lambda wire: [CHUNKED, b"-5\r\nhello\r\n"], says=BROKEN),
    "a chunk that is too long": Fault(lambda wire: [CHUNKED, b"2\r\nhello\r\n"], says=BROKEN),
    "a chunk that is too short": Fault(lambda wire: [CHUNKED, b"99\r\nhello\r\n"], says=BROKEN),
    "a chunk of an enormous size": Fault(
        lambda wire: [CHUNKED, b"f" * 99 + b"\r\nhello\r\n"], says=BROKEN
    ),
    "no last chunk": Fault(lambda wire: [CHUNKED, chunked(*wire)], code=0),
    "a length that is too short": Fault(
        lambda wire: [EVENTS + b"content-length: 20\r\n\r\n", *wire]
    ),
    "a length that is too long": Fault(
        lambda wire: [EVENTS + b"content-length: 99999\r\n\r\n", *wire], code=0
    ),
    "a length that is none": Fault(
        lambda wire: [EVENTS + b"content-length: x\r\n\r\n", *wire], says=BROKEN
    ),
    "two lengths": Fault(
        lambda wire: [EVENTS + b"content-length: 1\r\ncontent-length: 2\r\n\r\n", *wire],
        says=BROKEN,
    ),
    "no length": Fault(lambda wire: [EVENTS + b"\r\n", *wire], code=0),
    # the stream
    "nothing but a head": stream(CLOSE),
    "nothing but a head, reset": stream(RESET),
    "nothing but a head, silent": stream(STALL, says=SILENT),
    **{f"cut after {share:.0%}": cut(share, CLOSE) for share in (0.01, 0.2, 0.4, 0.6, 0.8)},
    **{f"reset after {share:.0%}": cut(share, RESET) for share in (0.01, 0.4, 0.8)},
    "silent after a while": Fault(lambda wire: [CHUNKED, chunked(*wire[:3]), STALL], says=SILENT),
    "comments only": stream(Drip(chunked(b": still here\n\n")), says=SILENT),
    "a line that drips": stream(chunked(b"data: "), Drip(chunked(b"x")), says=SILENT),
    "a chunk that drips": stream(b"fffff\r\ndata: ", Drip(b"x"), says=SILENT),
    "a line of 50 MB": stream(*[chunked(b"data: " + b"x" * (1 << 20))] * 50, says=""),
    "lines of 50 MB": stream(*[chunked(b"data: x\n" * (1 << 17))] * 50, says=""),
    "an event that is not JSON": stream(
        chunked(b"event: message_start\ndata: {not json\n\n"), END, says=GARBAGE
    ),
    "an event that is not text": stream(
        chunked(b"event: message_start\ndata: \xff\xfe\n\n"), END, says=GARBAGE
    ),
    "an event that is not an object": stream(
        chunked(b"event: message_start\ndata: 42\n\n"), END, says=GARBAGE
    ),
    "an event that is nested": stream(
        chunked(b"event: message_start\ndata: " + b"[" * 99999 + b"\n\n"), END, says=GARBAGE
    ),
    "fields that nobody knows": stream(
        chunked(b"data\nid: 7\nretry: soon\n:\nwhat: ever\n\n\n\n"), END, says=""
    ),
    "an error in the stream": stream(
        chunked(b"event: error\ndata: " + ERROR + b"\n\n"), END, says="no"
    ),
    "an error in the stream that is none": stream(
        chunked(b'event: error\ndata: {"error": [7]}\n\n'), END, says=""
    ),
    **{
        f"lines that end in {name}": Fault(
            lambda wire, end=end: [
                CHUNKED,
                chunked(*(event.replace(b"\n", end) for event in wire)),
                END,
            ],
            code=0,
        )
        for name, end in LINE_ENDS.items()
    },
    "a mark of the byte order": Fault(
        lambda wire: [CHUNKED, chunked(b"\xef\xbb\xbf", *wire), END], code=0
    ),
    "byte by byte": Fault(
        lambda wire: [CHUNKED, *(chunked(bytes([b])) for b in b"".join(wire)), END], code=0
    ),
    "more after the end": Fault(
        lambda wire: [CHUNKED, chunked(*wire, *wire), END, b"more"], code=0
    ),
    # connections
    "a connection that is closed while it rests": Fault(
        lambda wire: [CHUNKED + chunked(*wire) + END, CLOSE], code=0, turn=0
    ),
    "a connection that is reset while it rests": Fault(
        lambda wire: [CHUNKED + chunked(*wire) + END, RESET], code=0, turn=0
    ),
    "cut once": Fault(lambda wire: [CHUNKED, chunked(*wire[:-3]), RESET], code=0, once=True),
    "silent once": Fault(lambda wire: [CHUNKED, chunked(*wire[:-3]), STALL], code=0, once=True),
    # encryption
    "a certificate that nobody signed": Fault(
        lambda wire: [], says="is not trusted", tls="127.0.0.1"
    ),
    "a certificate of another": Fault(lambda wire: [], says="is not trusted", tls="else.where"),
    "encryption that is none": Fault(
        lambda wire: [sized("400 Bad", b"")], says=UNREACHABLE, reads=False, turn=0, tls=""
    ),
}
DRAWN = {
    "reset after the request",
    "429, come back soon",
    "a chunk that drips",
    "cut after 80%",
    "cut once",
}


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    with started("anthropic", "faults.hasty") as found:
        yield found


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("127.0.0.1", "else.where"):
        make = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "key",
            "-out",
            "certificate",
        ]
        kind = "IP" if name[0].isdigit() else "DNS"
        more = ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={kind}:{name}"]
        subprocess.run([*make, *more], cwd=folder, check=True, capture_output=True)
        (folder / name).write_bytes(
            (folder / "key").read_bytes() + (folder / "certificate").read_bytes()
        )
    return folder


def context(fault: Fault, request: pytest.FixtureRequest) -> ssl.SSLContext | None:
    if not fault.tls:
        return None
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(request.getfixturevalue("certificates") / fault.tls)
    return found


def prepare(project: Project, model: str, options: Mapping[str, Any]) -> None:
    project.write("tools.py", TOOLS)
    project.write("left", "")
    toolsets = "{custom: {module: ./tools.py, tools: [leave]}}"
    project.write("worker.yaml", f"name: busy\nmodel: {model}\ntoolsets: {toolsets}\n")
    project.home.mkdir()
    settings = {"models": {model: {"timeout": SILENCE, **options}}}
    (project.home / "config.yaml").write_text(json.dumps(settings))


def run(project: Project, url: str, *argv: str) -> "subprocess.CompletedProcess[str]":
    variables = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}
    keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    return project.forge("run", "worker.yaml", *argv, env={**variables, **keys})


def check_end(
    project: Project, done: "subprocess.CompletedProcess[str]", code: int, says: str
) -> None:
    """Check every end: the exit code, the result object, one message, a readable log."""
    told = f"{done.stdout}\n{done.stderr}"
    result = json.loads(done.stdout)
    assert (done.returncode, result["exitCode"]) == (code, code), told
    assert ("Traceback" in told, "internal error" in told, KEY in told) == (False, False, False), (
        told
    )
    if code:
        assert (result["status"], says in result["error"]) == ("failed", True), told
        assert done.stderr.count("\nforge: ") + done.stderr.startswith("forge: ") == 1, told
        assert f"forge: {result['error']}\n" in done.stderr
    verified = project.forge("sessions", "verify")
    assert (verified.returncode, verified.stderr) == (0, "")
    (log,) = (project.home / "sessions").glob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert (lines[-1]["type"], lines[-1]["result"]["exitCode"]) == ("sessionEnd", code)


def survive(
    project: Project, way: str, fault: Fault, tls: ssl.SSLContext | None, place: str | None = None
) -> None:
    answers, model, options = WAYS[way]
    prepare(project, model, options)
    with FaultyServer(answers, fault, tls) as server:
        url = place or (
            server.url if fault.tls is None or tls else server.url.replace("http:", "https:")
        )
        done = run(project, url, "go", "--output-format", "json")
    check_end(project, done, fault.code, fault.says)
    words = project.read("left").split()
    if fault.code == 0:
        assert words == ["one", "two"]
        return
    assert words == ["one"][: len(words)]
    with FaultyServer(answers) as server:
        resumed = run(project, server.url, "-c", "-p")
    assert (resumed.returncode, resumed.stdout) == (0, "done\n"), resumed.stderr
    assert project.read("left").split() == ["one", "two"]


def rows(names: set[str]) -> list[Any]:
    return [
        pytest.param(name, marks=[] if name in DRAWN else [pytest.mark.long])
        for name in ROWS
        if name in names
    ]


@pytest.mark.long
@pytest.mark.few(5)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", rows(set(ROWS)))
def test_network_fault_is_survived(
    project: Project, request: pytest.FixtureRequest, name: str, way: str
) -> None:
    survive(project, way, ROWS[name], context(ROWS[name], request))


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_destination_without_a_listener_is_reported(project: Project, way: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{held.getsockname()[1]}"
        survive(
            project,
            way,
            Fault(lambda wire: [], says="cannot be reached: Connection refused"),
            None,
            place,
        )
