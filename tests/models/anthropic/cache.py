"""The cache of the real API according to its documentation: hits and writes of a request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

LOOKBACK = 20
"""Blocks at which a mark looks for something kept, itself included."""
MARKS = 4
MINIMUM = 1024
"""Tokens below which nothing is kept."""
PER_TOKEN = 4


@dataclass(frozen=True)
class Place:
    """The end of one block: everything up to it, as one hash, its tokens in all, and whether it is marked."""

    prefix: str
    tokens: int
    marked: bool


@dataclass
class PromptCache:
    """Counts the usage of each request: tokens read from the cache, written to it, and neither."""

    kept: set[str] = field(default_factory=set)
    usages: list[dict[str, int]] = field(default_factory=list)

    def count(self, request: Any) -> dict[str, int]:
        places = list(_places(request))
        marks = [index for index, place in enumerate(places) if place.marked]
        assert len(marks) <= MARKS
        read = max((self._find(places, mark) for mark in marks), default=0)
        written = max(
            [place.tokens for mark in marks if (place := places[mark]).tokens >= MINIMUM], default=0
        )
        self.kept |= {places[mark].prefix for mark in marks if places[mark].tokens >= MINIMUM}
        usage = {
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": max(0, written - read),
            "input_tokens": places[-1].tokens - max(read, written),
            "output_tokens": 42,
        }
        self.usages.append(usage)
        return usage

    def _find(self, places: list[Place], mark: int) -> int:
        """The tokens of the longest kept prefix that a mark finds."""
        near = places[max(0, mark - LOOKBACK + 1) : mark + 1]
        return next((place.tokens for place in reversed(near) if place.prefix in self.kept), 0)


def share_read(usage: dict[str, int]) -> float:
    """How much of the input came from the cache."""
    fresh = usage["input_tokens"] + usage["cache_creation_input_tokens"]
    return usage["cache_read_input_tokens"] / (usage["cache_read_input_tokens"] + fresh)


def _places(request: Any) -> Iterator[Place]:
    """Tools, then the system prompt, then the messages, block by block; the mark of the request is on the last one."""
    blocks = list(_blocks(request))
    digest, size = hashlib.sha256(str(request["model"]).encode()), 0
    for index, (where, block) in enumerate(blocks):
        bare = {key: value for key, value in block.items() if key != "cache_control"}
        content = json.dumps([where, bare]).encode()
        digest.update(content)
        size += len(content)
        marked = "cache_control" in block or (
            "cache_control" in request and index == len(blocks) - 1
        )
        yield Place(digest.hexdigest(), size // PER_TOKEN, marked)


def _blocks(request: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from (("tools", tool) for tool in request.get("tools", []))
    yield from (("system", block) for block in request.get("system", []))
    for message in request["messages"]:
        yield from ((message["role"], block) for block in message["content"])
