"""The same trouble is told in the same words, whichever provider meets it.

Covers forge_cli.models.failures.
"""

import http.server
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.errors import ModelError
from forge_cli.core.messages import Message, ModelRequest
from forge_cli.core.text import visible
from forge_cli.models.anthropic.access import Credentials
from forge_cli.models.failures import read_error, wait_wanted
from forge_cli.models.http import certificates
from forge_cli.models.openai.server import Server

from ..deadline import deadline
from .providers import KEY, MAKERS, Maker, Told


def failure_of(make: Maker, url: str, silence: float = 10) -> tuple[str, Told]:
    """The sentence of a turn that fails and the warnings before it, without what only one provider has."""
    told: Told = []

    async def turn() -> str:
        model = make(url, told, silence)
        try:
            with anyio.fail_after(30), pytest.raises(ModelError) as caught:
                async for _ in model.stream(ModelRequest("", [Message("user", "Hi")], ())):
                    pass
            return str(caught.value)
        finally:
            await model.aclose()

    with deadline(40):
        said = anyio.run(turn)
    return _plain(said), [_plain(line) for line in told]


def same_failure(url: str, silence: float = 10) -> tuple[str, Told]:
    """The failure that every way to a model tells in the same words."""
    first, *others = (failure_of(make, url, silence) for make in MAKERS.values())
    assert others == [first, first]
    return first


def _plain(text: str) -> str:
    assert KEY not in text
    return re.sub(r"anthropic|openai", "PROVIDER", re.sub(r"ANTHROPIC|OPENAI", "PROVIDER", text))


@contextmanager
def answering(status: int, headers: dict[str, str], body: bytes, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server that gives every request the same answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads along."""

    class Quiet(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that leaves is no news."""

    with Quiet(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        server.shutdown()


def error(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


STATUSES = {
    400: (error("invalid_request_error", "no"), "refused the request (HTTP 400: no)", 1),
    401: (error("authentication_error", "who?"), "refused the key in PROVIDER_API_KEY (HTTP 401: who?)", 1),
    402: (error("billing_error", "pay"), "has no credit left for this key (HTTP 402: pay)", 1),
    403: (error("x", "no"), "refused what the key in PROVIDER_API_KEY asks for (HTTP 403: no)", 1),
    404: (error("not_found_error", "tiny?"), "knows no such model or address (HTTP 404: tiny?)", 1),
    413: (error("request_too_large", "big"), "refused the request (HTTP 413: big)", 1),
    429: (error("rate_limit_error", "slow"), "has reached its limit of requests (HTTP 429: slow)", 5),
    500: (error("api_error", "oh"), "failed (HTTP 500: oh)", 5),
    503: (b"", "failed (HTTP 503)", 5),
    529: (error("overloaded_error", "busy"), "is overloaded (HTTP 529: busy)", 5),
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_in_the_same_words(status: int) -> None:
    body, sentence, attempts = STATUSES[status]
    with answering(status, {}, body) as url:
        first, told = same_failure(url)
    tried = " (tried 5 times)" if attempts == 5 else ""
    assert first.startswith(f"PROVIDER:tiny: {url} {sentence}{tried}")
    assert [line.rpartition("(")[2] for line in told] == [f"{number} of 5)" for number in range(2, attempts + 1)]
    assert "status.claude.com" not in first


def test_a_wait_of_an_hour_in_the_same_words() -> None:
    with answering(429, {"retry-after": "3600"}, error("rate_limit_error", "slow")) as url:
        first = same_failure(url)
    hint = "wait that long, or take another model: forge models list"
    assert first == (f"PROVIDER:tiny: {url} asks to come back in 3600 s (HTTP 429: slow)\n  {hint}", [])


def test_nobody_listens_in_the_same_words() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        first = same_failure(url)
    refused = f"PROVIDER:tiny: {url} cannot be reached: Connection refused"
    assert first[0] == f"{refused} (tried 5 times)\n  is the server running? PROVIDER_BASE_URL says where it is"
    assert first[1] == [f"{refused}; trying again ({number} of 5)" for number in range(2, 6)]


def test_a_name_that_nobody_knows_in_the_same_words() -> None:
    url = "http://nowhere.invalid"
    first = same_failure(url)
    assert first[0].startswith(f"PROVIDER:tiny: {url} cannot be reached: ")
    assert "(tried 5 times)" in first[0]


def test_silence_in_the_same_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        first = same_failure(url, 0.3)
    hint = "models.NAME.timeout in the config gives a slow server more time"
    assert first[0] == f"PROVIDER:tiny: {url} said nothing for 0.3 s (tried 2 times)\n  {hint}"


def test_a_cut_in_the_same_words() -> None:
    with answering(200, {"content-type": "text/event-stream", "content-length": "99"}, b": hello\n\n") as url:
        first = same_failure(url)
    sentence = f"PROVIDER:tiny: {url} broke off before its answer was complete (tried 5 times)\n  try again later"
    assert first[0] == sentence


def test_a_broken_encoding_in_the_same_words() -> None:
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip", "content-length": "9"}
    with answering(200, headers, b"not a zip") as url:
        said, _ = same_failure(url)
    assert said.startswith(f"PROVIDER:tiny: {url} broke off before its answer was complete (tried 5 times)")


def test_an_answer_that_never_ends_in_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("http", "anthropic.sdk"):
        monkeypatch.setattr(f"forge_cli.models.{module}.LONGEST_ANSWER", 1000)
    event = b'event: content_block_delta\ndata: {"type": "new", "choices": [{"delta": {"content": "x"}}]}\n\n'
    with answering(200, {"content-type": "text/event-stream"}, event * 200) as url:
        said, _ = same_failure(url)
    sentence = f"PROVIDER:tiny: {url} sent something that is not an answer: an answer of more than 1000 bytes"
    assert said.startswith(f"{sentence} (tried 5 times)")


@pytest.fixture
def certificate(tmp_path: Path) -> Iterator[Path]:
    """One that nobody has signed, for 127.0.0.1, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("makes a certificate with openssl")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "c.pem", "-out", "cert.pem"]
    subprocess.run(
        [*make, "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    both = tmp_path / "c.pem"
    both.write_bytes(both.read_bytes() + (tmp_path / "cert.pem").read_bytes())
    certificates.cache_clear()
    yield both
    certificates.cache_clear()


def tls_with(certificate: Path) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    return tls


def test_a_certificate_that_nobody_signed_in_the_same_words(certificate: Path) -> None:
    with answering(200, {}, b"", tls_with(certificate)) as url:
        said, told = same_failure(url)
    assert said.startswith(f"PROVIDER:tiny: the certificate of {url} is not trusted: self-signed certificate\n")
    assert told == []


def test_a_certificate_that_the_environment_names(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with answering(418, {}, error("teapot", "safely"), tls_with(certificate)) as url:
        said, _ = same_failure(url)
    assert said == f"PROVIDER:tiny: {url} refused the request (HTTP 418: safely)"


@pytest.mark.parametrize(
    ("make", "page"),
    [
        (lambda: Credentials("ANTHROPIC_API_KEY", KEY).endpoint, "https://status.claude.com"),
        (lambda: Server.at("https://api.openai.com/v1", KEY).endpoint, "https://status.openai.com"),
        (lambda: Credentials("ANTHROPIC_API_KEY", KEY, "https://gateway.example").endpoint, None),
        (lambda: Server.at("https://gateway.example/v1", KEY).endpoint, None),
    ],
)
def test_the_status_page_is_that_of_the_address(make, page: str | None) -> None:
    failure = make().refused(500, "HTTP 500", model="tiny")
    assert failure.hint == (f"try again later; {page} tells more" if page else "try again later")


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "12"}, 12, 12),
        ({"retry-after": "0.5"}, 0.5, 0.5),
        ({"retry-after": "-3"}, 0, 0),
        ({"retry-after-ms": "120"}, 0.12, 0.12),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2, 2),
        (
            {"retry-after": format_datetime(datetime.now(UTC) + timedelta(hours=9), usegmt=True)},
            8 * 3600,
            9 * 3600,
        ),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 -0000"}, 0, 0),
    ],
)
def test_waits_that_servers_want(headers: dict[str, str], low: float, high: float) -> None:
    wait = wait_wanted(headers)
    assert wait is not None
    assert low <= wait <= high


@given(st.text())
def test_a_wait_of_any_text(text: str) -> None:
    wait = wait_wanted({"retry-after": text})
    assert wait is None or wait >= 0


KEYS = st.sampled_from(["error", "message", "code", "type", "detail"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda item: st.lists(item) | st.dictionaries(KEYS, item),
    max_leaves=6,
)


@given(JSON.map(json.dumps) | st.text())
def test_any_body_becomes_one_short_line(body: str) -> None:
    message, _ = read_error(body)
    assert visible(message) == message
    assert len(message) <= 10 * 303
