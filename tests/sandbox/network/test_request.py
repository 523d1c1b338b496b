"""Requests to the proxy: forwarded ones, and ambiguous ones that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.sandbox.network.proxy import BadRequest, ProxyRequest


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1")


def test_tunnel_request_is_parsed() -> None:
    assert ProxyRequest.read(
        head("CONNECT a.example:443 HTTP/1.1", "Host: b.example")
    ) == ProxyRequest("a.example", 443)
    assert ProxyRequest.read(head("CONNECT [2606::1]:443 HTTP/1.0")) == ProxyRequest(
        "[2606::1]", 443
    )


def test_request_is_passed_on_for_the_host_of_its_first_line_and_the_last_of_its_connection() -> (
    None
):
    given = head(
        "POST HTTP://a.example:8080/x?y=1 HTTP/1.1",
        "Host: b.example",
        "Content-Length: 5",
        "Proxy-Connection: keep-alive",
        "Proxy-Authorization: Basic eDp5",
        "Connection: x-mine, Content-Length",
        "X-Mine: 1",
        "Upgrade: websocket",
        "X-Other:  two words \t",
    )
    sent = head(
        "POST /x?y=1 HTTP/1.1", "Host: a.example:8080", "Content-Length: 5", "X-Other: two words"
    )
    expected = sent + b"\r\nConnection: close\r\n\r\n"
    assert ProxyRequest.read(given) == ProxyRequest("a.example", 8080, expected, 5)


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("http://a.example", "GET / "),
        ("http://a.example?q", "GET /?q "),
        ("http://a.example/a//b", "GET /a//b "),
    ],
)
def test_path_of_a_request_is_rewritten(target: str, line: str) -> None:
    assert ProxyRequest.read(head(f"GET {target} HTTP/1.1")).head.decode().startswith(line)


REFUSED = {
    "no request": "hello",
    "origin form": "GET / HTTP/1.1",
    "https in the clear": "GET https://a.example/ HTTP/1.1",
    "another scheme": "GET ftp://a.example/ HTTP/1.1",
    "a user": "GET http://a.example@10.0.0.1/ HTTP/1.1",
    "a user with a password": "GET http://me:pw@a.example/ HTTP/1.1",
    "a backslash": "GET http://a.example\\@10.0.0.1/ HTTP/1.1",
    "a fragment": "GET http://a.example/#x HTTP/1.1",
    "no host": "GET http:///x HTTP/1.1",
    "a bad version": "GET http://a.example/ HTTP/2.0",
    "no version": "GET http://a.example/",
    "two blanks": "GET  http://a.example/ HTTP/1.1",
    "a NUL": "GET http://a.example\0/ HTTP/1.1",
    "an escape": "GET http://a.example\x1b[2J/ HTTP/1.1",
    "a bare line feed": "GET http://a.example/ HTTP/1.1\nHost: b.example",
    "a bare carriage return": "GET http://a.example/ HTTP/1.1\rHost: b.example",
    "a letter beyond ASCII": "GET http://ä.example/ HTTP/1.1",
    "port 0": "CONNECT a.example:0 HTTP/1.1",
    "port junk": "CONNECT a.example:4x3 HTTP/1.1",
    "a huge port": "CONNECT a.example:65536 HTTP/1.1",
    "no port": "CONNECT a.example HTTP/1.1",
    "a URL in a tunnel": "CONNECT http://a.example/ HTTP/1.1",
}


@pytest.mark.parametrize("line", REFUSED.values())
def test_first_lines_that_are_refused(line: str) -> None:
    with pytest.raises(BadRequest) as caught:
        ProxyRequest.read(head(line))
    assert str(caught.value).isprintable()
    assert caught.value.status == "400 Bad Request"


HEADERS = {
    "two lengths": ["Content-Length: 5", "Content-Length: 6"],
    "two equal lengths": ["Content-Length: 5", "content-length: 5"],
    "a list of lengths": ["Content-Length: 5, 5"],
    "a sign": ["Content-Length: +5"],
    "hexadecimal": ["Content-Length: 0x5"],
    "two hosts": ["Host: a.example", "Host: b.example"],
    "a blank before the colon": ["Content-Length : 5"],
    "a folded line": ["X: 1", " Content-Length: 5"],
    "no colon": ["nothing"],
    "a bare line feed": ["X: 1\nContent-Length: 5"],
    "a bare carriage return": ["X: 1\rContent-Length: 5"],
    "a NUL": ["X: \0"],
    "no name": [": 5"],
}


@pytest.mark.parametrize("lines", HEADERS.values())
def test_headers_that_are_refused(lines: list[str]) -> None:
    with pytest.raises(BadRequest) as caught:
        ProxyRequest.read(head("POST http://a.example/ HTTP/1.1", *lines))
    assert caught.value.status == "400 Bad Request"


@pytest.mark.parametrize("more", [[], ["Content-Length: 5"]])
def test_body_of_unknown_length_is_refused(more: list[str]) -> None:
    with pytest.raises(BadRequest) as caught:
        ProxyRequest.read(
            head("POST http://a.example/ HTTP/1.1", "Transfer-Encoding: chunked", *more)
        )
    assert caught.value.status == "411 Length Required"


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"GET http://a.example/ HTTP/1.1\r\n", b"CONNECT "]),
)
def test_every_input_is_one_valid_request_or_refused(data: bytes, start: bytes) -> None:
    try:
        request = ProxyRequest.read(start + data)
    except BadRequest:
        return
    assert request.host.isascii()
    assert request.host.isprintable()
    assert 0 < request.port < 65536
    assert request.head.count(b"\r\n\r\n") == (request.length is not None)
    assert b"\n" not in request.head.replace(b"\r\n", b"")
