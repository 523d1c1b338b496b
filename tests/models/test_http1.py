"""Answers are read, and heads of requests written, as h11 does it, however the bytes are cut and whatever is wrong.

Covers forge_cli.models.http1.
"""

from typing import NamedTuple

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forge_cli.models.http1 import LARGEST_HEAD, AnswerReader, NotHttp, encode_head


class Read(NamedTuple):
    """What was read of an answer, how that ended, and whether another may follow on the same connection."""

    status: int | None
    headers: dict[str, str]
    body: bytes
    end: str
    reusable: bool


def read(pieces: list[bytes], *, ends: bool) -> Read:
    reader, head, body, end = AnswerReader(), None, b"", "waits"
    try:
        for piece in [*pieces, b""] if ends else pieces:
            reader.feed(piece) if piece else reader.feed_end()
            if head := head or reader.read_head():
                while part := reader.read_piece():
                    body += part
                if part is not None:
                    end = "done"
                    break
    except NotHttp:
        end = "broken"
    reusable = end == "done" and head is not None and head.keeps_open and not reader.has_more
    return Read(head and head.status, _comparable(head.headers) if head else {}, body, end, reusable)


def read_by_h11(pieces: list[bytes], *, ends: bool) -> Read:
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
    machine.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
    machine.send(h11.EndOfMessage())
    status, headers, body, end = None, dict[str, str](), b"", "waits"
    try:
        for piece in [*pieces, b""] if ends else pieces:
            machine.receive_data(piece)
            while (event := machine.next_event()) not in (h11.NEED_DATA, h11.PAUSED) and end == "waits":
                match event:
                    case h11.Response():
                        status = event.status_code
                        for name, value in event.headers:
                            key, text = name.decode("latin-1"), value.decode("latin-1")
                            headers[key] = f"{headers[key]}, {text}" if key in headers else text
                    case h11.Data():
                        body += event.data
                    case h11.EndOfMessage():
                        end = "done"
            if end == "done":
                break
    except h11.RemoteProtocolError:
        end = "done" if end == "done" else "broken"
    reusable = end == "done" and machine.their_state is h11.DONE and not machine.trailing_data[0]
    return Read(status, _comparable(headers), body, end, reusable)


def _comparable(headers: dict[str, str]) -> dict[str, str]:
    """h11 changes how this one is spelled."""
    return {**headers, "transfer-encoding": "chunked"} if "transfer-encoding" in headers else headers


STATUS = st.sampled_from(
    [b"HTTP/1.1 200 OK"] * 5
    + [b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No", b"HTTP/1.1 304", b"HTTP/1.1 100 Continue", b"HTTP/1.1 429 x \xe9"]
    + [b"HTTP/1.1 101 Other", b"HTTP/1.1 099 x", b"HTTP/2.0 200", b"HTTP/1.1 20 OK", b"http/1.1 200 OK", b""]
    + [b"HTTP/1.1 200 O\0K", b"HTTP/1.1  200 OK", b"SSH-2.0-OpenSSH_9.9", b" HTTP/1.1 200"]
)
FRAMES = [b"content-length: 5", b"Content-Length: 5 ", b"transfer-encoding: chunked", b"Transfer-Encoding: Chunked"]
HEADER = st.sampled_from(
    FRAMES * 3
    + [b"content-length: 5, 5", b"content-length: 6", b"content-length: -1", b"content-length: +5", b"content-length:"]
    + [
        b"content-length: 0",
        b"content-length: 123456789012345678901",
        b"content-length: \xb2",
        b"content-length: 5\xa0",
    ]
    + [b"transfer-encoding: gzip, chunked", b"connection: close", b"connection: keep-alive, Close", b"x: y", b"x: y"]
    + [b"x : y", b" folded", b"\tfolded", b"x: a\x01b", b"x: a\0b", b"x: \xe9\x85\xa0", b": z", b"x", b"x: a\x0bb"]
    + [b"a: 1\rb: 2"]
)
END = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\n", b"\r\r\n", b"\r"])
BODY = st.sampled_from(
    [b"abcde", b"5\r\nabcde\r\n0\r\n\r\n"] * 3
    + [b"", b"abc", b"abcdef", b"abcdeHTTP/1.1 200 OK\r\n\r\n", b"5;x=1\r\nabcde\r\n0;y\r\nt: 1\r\n\r\n"]
    + [b"5\r\nabcdeXX0\r\n\r\n", b"5\r\nabcde\r\n0\r\nbad trailer\r\n\r\n", b"5\r\nabcde\r\n0\r\n a\r\n\r\n"]
    + [
        b"5  \r\nabcde\r\n3\r\nfgh\r\n0\r\n\r\nrest",
        b"z\r\n",
        b"-5\r\n",
        b"0x5\r\n",
        b"5\nabcde\n0\n\n",
        b"\r\n5\r\nabc",
    ]
    + [b"5\r\nabc", b"5\r\nabcde\r\n0\r\n", b"5\r\nabcde\r\n0\r\nx: y\r\n", b"5\r\nabcde\r", b"1" * 21 + b"\r\n"]
    + [b"5\r\nabcde\r\n0\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", b"5\r\nabcdex", b"5\r\nabcde\r\n\r\n"]
)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """One or two of them, with lines that end in one way, mostly."""
    said = b""
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        lines = [draw(STATUS), *draw(st.lists(HEADER, max_size=3)), b""]
        usual = draw(END)
        odd = draw(st.sampled_from([None] * 8 + list(range(len(lines)))))
        said += b"".join(line + (draw(END) if place == odd else usual) for place, line in enumerate(lines))
        said += draw(BODY)
    return said


@given(answers(), st.lists(st.integers(0, 400), max_size=6), st.booleans(), st.booleans())
@example(b"HTTP/1.1 204 No\r\ncontent-length: 5\xa0\r\ncontent-length: 5\r\n\r\n", [], False, False)
@example(b"\x16\x03\x01", [], False, False)
@example(b"HTTP/1.1 200 OK\r\nx: " + b"y" * LARGEST_HEAD, [], False, False)
def test_an_answer_is_read_as_h11_reads_it(said: bytes, places: list[int], singly: bool, ends: bool) -> None:
    cuts = (
        list(range(len(said))) if singly and len(said) < 1000 else sorted({min(place, len(said)) for place in places})
    )
    pieces = [said[start:end] for start, end in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    pieces = [piece for piece in pieces if piece]
    assert read(pieces, ends=ends) == read_by_h11(pieces, ends=ends)


def test_an_answer_to_head_has_no_body() -> None:
    reader = AnswerReader("HEAD")
    reader.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
    assert reader.read_head()
    assert (reader.read_piece(), reader.is_done) == (b"", True)


TEXT = st.sampled_from(["accept", "x-y", "a b", "", "x:", "é", "\n", "a\r\nb: c", "\0", "\t", " a", "a "]) | st.text(
    max_size=4
)


@given(TEXT | st.just("POST"), TEXT | st.just("/v1"), st.dictionaries(TEXT, TEXT, max_size=2))
@example("POST", "/v1", {"x:": "y"})
@example("POST", "/v1", {"x": " y"})
def test_a_head_is_written_as_h11_writes_it(method: str, target: str, more: dict[str, str]) -> None:
    headers = {"host": "example.org", **{name: value for name, value in more.items() if name == name.lower()}}
    try:
        event = h11.Request(method=method, target=target, headers=list(headers.items()))
        expected = h11.Connection(h11.CLIENT).send(event)
    except (h11.LocalProtocolError, UnicodeError):
        expected = None
    try:
        written = encode_head(method, target, tuple(headers.items())) + b"\r\n"
    except ValueError:
        written = None
    assert written == expected


@pytest.mark.parametrize("name", ["content-length", "transfer-encoding"])
def test_the_end_of_a_request_is_nobody_elses_to_tell(name: str) -> None:
    with pytest.raises(NotHttp):
        encode_head("POST", "/", (("host", "example.org"), (name, "chunked")))
