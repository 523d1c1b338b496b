"""The same failure has the same message for every provider.

Covers forge_cli.models.failures.
"""

import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import anyio
import pytest

from forge_cli.core.errors import ModelError
from forge_cli.core.messages import Message, ModelRequest
from forge_cli.core.notify import StatusNotice
from forge_cli.models.anthropic.transport import Credentials
from forge_cli.models.failures import Retry, retry_after
from forge_cli.models.http import certificates
from forge_cli.models.openai.server import Server
from tests.support.deadline import deadline
from tests.support.providers import KEY, MAKERS, Maker, Told
from tests.support.wire import CLOSE, FINE, OK, answer, wire


def failure_of(make: Maker, url: str, silence: float = 10) -> tuple[str, Told]:
    """The message of a failed turn and its warnings, without parts that only one provider has."""
    told: Told = []

    async def turn() -> str:
        model = make(url, told, silence)
        try:
            with anyio.fail_after(60), pytest.raises(ModelError) as caught:
                async for _ in model.stream(ModelRequest("", [Message("user", "Hi")], ())):
                    pass
            return str(caught.value)
        finally:
            await model.aclose()

    with deadline(40):
        said = anyio.run(turn)
    return _plain(said), [_plain(line) for line in told]


def same_failure(url: str, silence: float = 10) -> tuple[str, Told]:
    """The failure that every provider reports in the same words."""
    first, *others = (failure_of(make, url, silence) for make in MAKERS.values())
    assert others == [first, first]
    return first


def _plain(text: str) -> str:
    assert KEY not in text
    return re.sub(r"anthropic|openai", "PROVIDER", re.sub(r"ANTHROPIC|OPENAI", "PROVIDER", text))


def error(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


STREAM = "content-type: text/event-stream"
NEVER_ENDS = (
    b'event: content_block_delta\ndata: {"type": "new", "choices": [{"delta": {"content": "x"}}]}\n\n'
    * 200
)
FINAL = {
    "refused the request (HTTP 400: no)": answer(400, error("invalid_request_error", "no")),
    "refused the key in PROVIDER_API_KEY (HTTP 401: who?)\n  set a valid one, or take another model": (
        answer(401, error("authentication_error", "who?"))
    ),
    "has no credit left for this key (HTTP 402: pay)": answer(402, error("billing_error", "pay")),
    "does not allow this with the key in PROVIDER_API_KEY (HTTP 403: no)": answer(
        403, error("x", "no")
    ),
    "has no such model or path (HTTP 404: tiny?)\n  check the model's name 'tiny'": (
        answer(404, error("not_found_error", "tiny?"))
    ),
    "refused the request (HTTP 413: big)\n  the conversation exceeds": answer(
        413, error("request_too_large", "big")
    ),
    "refused the request (HTTP 418: short and stout)": answer(
        418, error("teapot", "short and stout")
    ),
    "refused the request (HTTP 422)": answer(422, b""),
    "failed (HTTP 501: no)": answer(501, error("api_error", "no")),
    "failed (HTTP 529: no)": answer(529, error("overloaded_error", "no"), "x-should-retry: false"),
    "is rate limiting; retry in 3600 s (HTTP 429: slow)\n  wait that long, or take another model: forge models list": (
        answer(429, error("rate_limit_error", "slow"), "retry-after: 3600")
    ),
}
PASSING = {
    "has reached its limit of requests (HTTP 429: slow)": answer(
        429, error("rate_limit_error", "slow")
    ),
    "failed (HTTP 408: late)": answer(408, error("timeout_error", "late")),
    "failed (HTTP 409: twice)": answer(409, error("x", "twice")),
    "failed (HTTP 500: oh)": answer(500, error("api_error", "oh")),
    "failed (HTTP 503)": answer(503, b""),
    "is overloaded (HTTP 529: busy)": answer(529, error("overloaded_error", "busy")),
    "closed the connection before its answer was complete": [
        OK + f"{STREAM}\r\ncontent-length: 99\r\n\r\n: hello\n\n".encode(),
        CLOSE,
    ],
    "sent an invalid answer: an answer of more than 1000 bytes": answer(200, NEVER_ENDS, STREAM),
    "sent an invalid answer: a stream without events": answer(200, b"<p>\n\n</p>\n\n", STREAM),
}


@pytest.mark.long
def test_failures_have_the_same_message_for_every_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("http", "anthropic.sdk"):
        monkeypatch.setattr(f"forge_cli.models.{module}.MAX_ANSWER_BYTES", 1000)
    failures = []
    for attempts, troubles in ((1, FINAL), (5, PASSING)):
        for sentence, reply in troubles.items():
            with wire(reply) as server:
                said, told = same_failure(server.url)
            tried = " (tried 5 times)" if attempts == 5 else ""
            again = [f"{number} of 5)" for number in range(2, attempts + 1)]
            if (
                not said.startswith(f"PROVIDER:tiny: {server.url} {sentence}{tried}")
                or "status.claude.com" in said
            ):
                failures.append((sentence, said))
            if [line.rpartition("(")[2] for line in told] != again or len(
                server.requests
            ) != 3 * attempts:
                failures.append((sentence, told))
    assert failures == []


def test_refused_connection_has_the_same_message() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        first = same_failure(url)
    refused = f"PROVIDER:tiny: {url} cannot be reached: Connection refused"
    assert (
        first[0]
        == f"{refused} (tried 5 times)\n  is the server running? PROVIDER_BASE_URL says where it is"
    )
    assert first[1] == [f"{refused}; trying again ({number} of 5)" for number in range(2, 6)]


def test_unknown_host_has_the_same_message() -> None:
    url = "http://nowhere.invalid"
    first = same_failure(url)
    assert first[0].startswith(f"PROVIDER:tiny: {url} cannot be reached: ")
    assert "(tried 5 times)" in first[0]


def test_silence_has_the_same_message() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        first = same_failure(url, 0.3)
    hint = "models.NAME.timeout in the config gives a slow server more time"
    assert first[0] == f"PROVIDER:tiny: {url} did not respond for 0.3 s (tried 2 times)\n  {hint}"


@pytest.fixture
def certificate(tmp_path: Path) -> Iterator[Path]:
    """A self-made certificate for 127.0.0.1, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("makes a certificate with openssl")
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "c.pem",
        "-out",
        "cert.pem",
    ]
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


def test_untrusted_certificate_has_the_same_message(certificate: Path) -> None:
    with wire(FINE, tls=tls_with(certificate)) as server:
        said, told = same_failure(server.url)
    assert said.startswith(
        f"PROVIDER:tiny: the certificate of {server.url} is not trusted: self-signed certificate\n"
    )
    assert told == []


def test_certificate_named_in_the_environment_is_trusted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with wire(answer(418, error("teapot", "safely")), tls=tls_with(certificate)) as server:
        said, _ = same_failure(server.url)
    assert said == f"PROVIDER:tiny: {server.url} refused the request (HTTP 418: safely)"


def test_status_page_belongs_to_the_address() -> None:
    pages = {
        Credentials("ANTHROPIC_API_KEY", KEY).endpoint: "; outages: https://status.claude.com",
        Server.at(
            "https://api.openai.com/v1", KEY
        ).endpoint: "; outages: https://status.openai.com",
        Credentials("ANTHROPIC_API_KEY", KEY, "https://gateway.example").endpoint: "",
        Server.at("https://gateway.example/v1", KEY).endpoint: "",
    }
    hints = {endpoint: endpoint.refused(500, "HTTP 500", model="tiny").hint for endpoint in pages}
    assert hints == {endpoint: f"try again later{page}" for endpoint, page in pages.items()}


def test_retry_after_is_read_from_every_header_form() -> None:
    nine_hours = format_datetime(datetime.now(UTC) + timedelta(hours=9), usegmt=True)
    waits: list[tuple[dict[str, str], float, float]] = [
        ({"retry-after": "12"}, 12, 12),
        ({"retry-after": "0.5"}, 0.5, 0.5),
        ({"retry-after": "-3"}, 0, 0),
        ({"retry-after-ms": "120"}, 0.12, 0.12),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2, 2),
        ({"retry-after": nine_hours}, 8 * 3600, 9 * 3600),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 -0000"}, 0, 0),
    ]
    assert [
        (said, low) for said, low, high in waits if not low <= (retry_after(said) or 0) <= high
    ] == []


PAST = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)


@pytest.mark.parametrize(
    ("header", "own", "waited"),
    [
        ({}, 0.02, 0.02),
        ({"retry-after": "0"}, 0.02, 0.02),
        ({"retry-after": "-5"}, 0.02, 0.02),
        ({"retry-after": "0.001"}, 0.02, 0.02),
        ({"retry-after-ms": "0"}, 0.02, 0.02),
        ({"retry-after-ms": "1"}, 0.02, 0.02),
        ({"retry-after": PAST}, 0.02, 0.02),
        ({"retry-after": "0.05"}, 0.02, 0.05),
        ({"retry-after": "1"}, 9, 1),
    ],
)
def test_server_without_a_retry_delay_gets_one(
    header: dict[str, str], own: float, waited: float
) -> None:
    """All attempts would be over in milliseconds, while the server is busy for seconds."""
    told: list[float] = []

    def notify(level: str, message: str) -> None:
        assert isinstance(message, StatusNotice)
        assert message.retry
        told.append(message.retry.wait)

    failure = Credentials("ANTHROPIC_API_KEY", KEY).endpoint.refused(
        529, "busy", headers=header, model="tiny"
    )
    begun = time.monotonic()
    anyio.run(Retry("tiny", notify, str, delays=(own,)).wait, 1, failure)
    assert waited <= told[0] <= waited * 1.25
    assert time.monotonic() - begun >= told[0] * 0.9
