"""web_search over an endpoint that answers as SearXNG does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from forge_cli.testing import call

if TYPE_CHECKING:
    from conftest import Site, Worker

FOUND = [
    {
        "url": "https://a.example/",
        "title": "First  one",
        "content": "about\nthe tides",
        "engine": "x",
        "score": 2.0,
    },
    {"url": "https://b.example/", "title": None, "content": "y" * 2000},
    {"title": "no address"},
    *(
        {"url": f"https://c.example/{number}", "title": str(number), "content": ""}
        for number in range(9)
    ),
]


def searched(worker: Worker, site: Site, settings: str = "", /, **args: Any) -> Any:
    """The outcome of one search over the site."""
    section = f'search_url: "{site.url("/search")}?language=en"{settings}'
    (outcome,) = worker.seen(call("web_search", **args), settings=section).outcomes
    return outcome


@pytest.fixture
def engine(site: Site) -> Site:
    site.send("/search", json.dumps({"query": "?", "results": FOUND}).encode(), "application/json")
    return site


def test_results_have_title_url_and_snippet(worker: Worker, engine: Site) -> None:
    value = searched(worker, engine, query="tides & moon", limit=2).value
    assert (value.kind, value.summary) == ("web.results", "2 results for 'tides & moon'")
    assert value.data == [
        {"title": "First one", "url": "https://a.example/", "snippet": "about the tides"},
        {"title": "", "url": "https://b.example/", "snippet": "y" * 500 + "..."},
    ]
    query = parse_qs(urlsplit(engine.seen[0].split()[1]).query)
    assert query == {"language": ["en"], "q": ["tides & moon"], "format": ["json"]}


def test_five_results_are_the_default(worker: Worker, engine: Site) -> None:
    assert len(searched(worker, engine, query="x").value.data) == 5
    assert len(searched(worker, engine, query="x", limit=20).value.data) == 11
    assert searched(worker, engine, query="x", limit=21).status == "invalid"
    assert searched(worker, engine, query="").status == "invalid"


def test_search_without_results_says_so(worker: Worker, site: Site) -> None:
    site.send("/search", b'{"results": []}', "application/json")
    value = searched(worker, site, query="x").value
    assert (value.summary, value.data) == ("No results for 'x'", [])


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"results": 7}', b"\xff", b"[" * 100_000])
def test_answer_without_a_list_of_results_is_an_error(
    worker: Worker, site: Site, body: bytes
) -> None:
    site.send("/search", body, "application/json")
    error = searched(worker, site, query="x").error
    assert "does not answer with JSON results; a SearXNG server answers in JSON if" in error


def test_engine_without_json_names_the_missing_setting(worker: Worker, site: Site) -> None:
    site.send("/search", b"forbidden", "text/plain", status=403)
    error = searched(worker, site, query="x").error
    assert "answered 403 Forbidden" in error
    assert "search.formats" in error


def test_engine_cannot_redirect_to_a_private_address(worker: Worker, site: Site) -> None:
    site.redirect("/search", site.url("/secret"))
    error = searched(worker, site, query="x").error
    assert error == (
        "the search failed: 127.0.0.1 is a private or local address; only the public internet can be reached"
    )
    assert len(site.seen) == 1


def test_missing_engine_names_the_missing_key(worker: Worker) -> None:
    (outcome,) = worker.seen(call("web_search", query="x")).outcomes
    assert (
        outcome.error
        == "web_search has no search engine: set toolsets.web.search_url in the worker file"
    )
