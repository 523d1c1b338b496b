"""Search with an endpoint that answers like SearXNG: ``?q=...&format=json``."""

from __future__ import annotations

import json
from typing import Any

from forge_cli import ToolError
from forge_tools_web.fetch import Fetcher, read_url

SNIPPET = 500
FORMATS = "a SearXNG server answers in JSON if its settings.yml lists 'json' under search.formats"


async def search(fetcher: Fetcher, search_url: str, query: str) -> list[dict[str, str]]:
    """Return the results of the endpoint, with title, url and snippet."""
    url = read_url(search_url).copy_merge_params({"q": query, "format": "json"})
    try:
        page = await fetcher.get(str(url), trusted=True)
    except ToolError as error:
        hint = f"; {FORMATS}" if "answered 403" in str(error) else ""
        raise ToolError(f"the search failed: {error}{hint}") from None
    try:
        return _results(json.loads(page.body))
    except (ValueError, RecursionError):
        raise ToolError(
            f"the search failed: {search_url} does not answer with JSON results; {FORMATS}"
        ) from None


def _results(answer: Any) -> list[dict[str, str]]:
    if not isinstance(answer, dict) or not isinstance(answer.get("results"), list):
        raise ValueError("no results")
    return [
        _result(entry)
        for entry in answer["results"]
        if isinstance(entry, dict) and entry.get("url")
    ]


def _result(entry: dict[str, Any]) -> dict[str, str]:
    title, url, snippet = (
        " ".join(str(entry.get(key) or "").split()) for key in ("title", "url", "content")
    )
    return {
        "title": title,
        "url": url,
        "snippet": snippet if len(snippet) <= SNIPPET else f"{snippet[:SNIPPET]}...",
    }
