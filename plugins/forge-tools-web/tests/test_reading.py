"""The content of pages: HTML as Markdown, text unchanged, within limits."""

from __future__ import annotations

import gzip
import threading
import zlib
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest
import trafilatura
from forge_tools_web.fetch import Page
from forge_tools_web.reading import convert_small, decoded
from forge_tools_web.toolset import WebToolset
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from conftest import Site, Worker

LOCAL = "allow_private: true"


def test_html_is_converted_to_markdown(worker: Worker, site: Site) -> None:
    site.html("/tides")
    value = worker.fetch(site.url("/tides"), LOCAL).value
    assert value.content.startswith(
        f"[Tide tables \\[2026\\]]({site.url('/tides')})\n\n# How tides work\n"
    )
    assert f"**twice a day**, as [the moon]({site.url('/moon')}) pulls" in value.content
    assert "```\nheight = mean + range * cos(t)\n```" in value.content
    assert "| Brest | 6 m |" in value.content
    assert not any(word in value.content for word in ("never seen", "About us", "imprint"))
    assert value.display.preferred_view == "markdown"


@pytest.mark.parametrize(
    "text", ["<p>Hello &amp; welcome</p>", "<html><body>Hello &amp; welcome</body></html>"]
)
def test_small_page_is_read(worker: Worker, site: Site, text: str) -> None:
    site.html("/", text)
    assert (
        worker.fetch(site.url("/"), LOCAL).value.content
        == f"[{site.url('/')}]({site.url('/')})\n\nHello & welcome\n"
    )


def test_small_page_keeps_headings_and_links(worker: Worker, site: Site) -> None:
    paragraph = "<p>Some <b>bold</b> words and <a href='a'>a link</a>.</p>"
    site.html(
        "/",
        f"<body><nav><a href='/x'>Menu</a></nav><h1>Hi</h1>{paragraph}<ul><li>one</li></ul></body>",
    )
    assert worker.fetch(site.url("/"), LOCAL).value.content == (
        f"[{site.url('/')}]({site.url('/')})\n\n# Hi\n\nSome **bold** words and [a link]({site.url('/a')}).\n\n- one\n"
    )


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("<h2>A</h2><p>x</p><h2>B</h2><p>y</p>", "## A\n\nx\n\n## B\n\ny"),
        ("<div><h1>T</h1><p><a href='b.html'>more</a></p></div>", "# T\n\n[more](http://h.org/d/b.html)"),
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
         "| a | b | \n|---|---|\n| 1 | 2 |"),
        ("<pre>a\n  b</pre>", "```\na\n  b\n```"),
        ("<div>one</div><div>two</div>", "one\n\ntwo"),
        ("<h1>Index</h1><a href='a/'>a/</a><br><a href='?q=1'>q</a>",
         "# Index\n\n[a/](http://h.org/d/a/)\n\n[q](http://h.org/d/e?q=1)"),
        ("<p>x</p><script>go()</script><footer>foot</footer><style>p{}</style>", "x"),
        ("<p>" + "word " * 300 + "</p>", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_small_page_is_converted_completely(body: str, shown: str) -> None:
    tree = trafilatura.load_html(f"<html><body>{body}</body></html>")
    assert convert_small(tree, "http://h.org/d/e") == shown


WORDS = st.text("abcdefgh", min_size=1, max_size=8)
PARTS = st.lists(
    st.tuples(st.sampled_from(["h1", "h2", "p", "div", "li", "a", "b"]), WORDS),
    min_size=1,
    max_size=12,
)


@given(PARTS)
def test_small_page_loses_no_heading_link_or_word(parts: list[tuple[str, str]]) -> None:
    shapes = {
        "li": "<ul><li>{0}</li></ul>",
        "a": "<p><a href='/{0}'>{0}</a></p>",
        "b": "<p>x <b>{0}</b> y</p>",
    }
    body = "".join(shapes.get(tag, f"<{tag}>{{0}}</{tag}>").format(word) for tag, word in parts)
    lines = convert_small(
        trafilatura.load_html(f"<html><body>{body}</body></html>"), "http://h.org/"
    ).splitlines()
    expected = {
        "h1": "# {0}",
        "h2": "## {0}",
        "li": "- {0}",
        "a": "[{0}](http://h.org/{0})",
        "b": "x **{0}** y",
    }
    assert [line.strip() for line in lines if line.strip()] == [
        expected.get(tag, "{0}").format(word) for tag, word in parts
    ]


@pytest.mark.parametrize(
    "text", ["", "<html><body><div id=app></div><script>go()</script></body></html>"]
)
def test_page_without_text_says_so(worker: Worker, site: Site, text: str) -> None:
    site.html("/", text)
    assert "has no text; scripts" in worker.fetch(site.url("/"), LOCAL).error


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("content_type", "view"),
    [
        ("application/json", "code"),
        ("application/ld+json; charset=utf-8", "code"),
        ("application/atom+xml", "code"),
        ("text/plain", None),
        ("text/csv", None),
        ("text/markdown", "markdown"),
        (None, None),
    ],
)
def test_other_text_is_unchanged(
    worker: Worker, site: Site, content_type: str | None, view: str | None
) -> None:
    text = '{"a": [1, 2],\n "b": "ü"}\n'
    site.send("/", text.encode(), content_type)
    value = worker.fetch(site.url("/"), LOCAL).value
    assert value.content == text
    assert (value.display.preferred_view if value.display else None) == view


@pytest.mark.parametrize(
    "content_type", ["application/pdf", "image/png", "application/octet-stream"]
)
def test_content_that_is_not_text_is_refused(worker: Worker, site: Site, content_type: str) -> None:
    site.send("/", b"\x89PNG", content_type)
    assert worker.fetch(site.url("/"), LOCAL).error == (
        f"{site.url('/')} is {content_type}, but only HTML, JSON, XML and plain text can be read"
    )


@pytest.mark.parametrize(
    ("body", "content_type", "sentence"),
    [
        (b"\x7fELF\0\0", "text/plain", "is declared as text/plain, but it is not text"),
        (b"\x7fELF\0\0", None, "is application/octet-stream"),
        (b"  \n", "text/plain", "is empty"),
    ],
)
def test_binary_content_declared_as_text_is_refused(
    worker: Worker, site: Site, body: bytes, content_type: str | None, sentence: str
) -> None:
    site.send("/", body, content_type)
    assert sentence in worker.fetch(site.url("/"), LOCAL).error


def test_server_error_is_reported(worker: Worker, site: Site) -> None:
    assert (
        worker.fetch(site.url("/missing"), LOCAL).error
        == f"{site.url('/missing')} answered 404 Not Found"
    )


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("grün €".encode("cp1252"), "iso-8859-1"),
        ("grün €".encode("cp1252"), None),
        ("grün €".encode(), None),
        ("grün €".encode(), "no-such-charset"),
        ("grün €".encode(), "punycode"),
        ("grün €".encode("utf-8-sig"), "iso-8859-1"),
        ("grün €".encode("utf-16"), None),
        ("grün €".encode("utf-16-le"), "utf-16le"),
        ('<meta charset="iso-8859-15">grün €'.encode("iso-8859-15"), None),
        ('<META content="text/html; charset=UTF-8">grün €'.encode(), None),
    ],
)
def test_text_is_decoded_by_its_declared_charset(body: bytes, charset: str | None) -> None:
    assert decoded(Page("http://x/", "text/html", charset, body)).endswith("grün €")


@given(
    st.binary(max_size=200),
    st.none() | st.text(max_size=20) | st.sampled_from(["utf-16", "gb18030", "zip", "idna"]),
)
def test_arbitrary_bytes_are_decoded_to_text(body: bytes, charset: str | None) -> None:
    assert isinstance(decoded(Page("http://x/", "text/html", charset, body)), str)


def test_gzip_is_decompressed(worker: Worker, site: Site) -> None:
    site.send("/", gzip.compress(b"hello " * 1000), "text/plain", Content_Encoding="gzip")
    assert worker.fetch(site.url("/"), LOCAL).value.content == "hello " * 1000
    assert site.headers[0]["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize(
    ("body", "coding", "sentence"),
    [
        (zlib.compress(b"x"), "deflate", "has the encoding 'deflate', which was not requested"),
        (
            gzip.compress(gzip.compress(b"x", mtime=0), mtime=0),
            "gzip, gzip",
            "has the encoding 'gzip, gzip'",
        ),
        (b"plain", "gzip", "is declared as gzip, but it is not"),
        (
            gzip.compress(b"one two three", mtime=0)[:-9],
            "gzip",
            "ends before its content is complete",
        ),
    ],
)
def test_other_encodings_are_refused(
    worker: Worker, site: Site, body: bytes, coding: str, sentence: str
) -> None:
    site.send("/", body, "text/plain", Content_Encoding=coding)
    assert sentence in worker.fetch(site.url("/"), LOCAL).error


def test_size_is_limited(worker: Worker, site: Site) -> None:
    site.send("/fits", b"x" * 5_000_000, "text/plain")
    site.send("/more", b"x" * 5_000_001, "text/plain")
    assert worker.fetch(site.url("/fits"), LOCAL).status == "success"
    assert (
        worker.fetch(site.url("/more"), LOCAL).error == f"{site.url('/more')} is larger than 5 MB"
    )


def test_decompressed_size_is_limited(worker: Worker, site: Site) -> None:
    site.send("/", gzip.compress(b"\0" * 50_000_000, 9), "text/plain", Content_Encoding="gzip")
    assert worker.fetch(site.url("/"), LOCAL).error == f"{site.url('/')} is larger than 5 MB"


def endless(handler: BaseHTTPRequestHandler) -> None:
    """Send without an end, until the other side has had enough."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/plain")
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def test_endless_page_is_aborted(worker: Worker, site: Site) -> None:
    site.pages["/"] = endless
    assert worker.fetch(site.url("/"), LOCAL).error == f"{site.url('/')} is larger than 5 MB"


@pytest.mark.parametrize("started", [False, True])
def test_time_is_limited(
    worker: Worker, site: Site, monkeypatch: pytest.MonkeyPatch, *, started: bool
) -> None:
    released = threading.Event()

    def stall(handler: BaseHTTPRequestHandler) -> None:
        if started:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/plain")
            handler.end_headers()
            handler.wfile.write(b"one moment")
        released.wait(20)

    site.pages["/"] = stall
    monkeypatch.setattr(WebToolset, "seconds", 0.3)
    outcome = worker.fetch(site.url("/"), LOCAL)
    released.set()
    assert (outcome.status, outcome.error) == ("timeout", "web_fetch was stopped after 0.3 seconds")


def test_limits_equal_the_documented_ones() -> None:
    assert (WebToolset.seconds, WebToolset.max_bytes) == (30, 5_000_000)
