"""Streams that stay open and bring nothing."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from forge_cli.models.http import until_silent

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def stream(*items: str, pause: float = 0.0) -> AsyncGenerator[str]:
    for item in items:
        await anyio.sleep(pause)
        yield item
    if pause:
        await anyio.sleep_forever()


def is_useful(item: str) -> bool:
    return item != "ping"


async def test_what_ends_is_whole() -> None:
    assert [item async for item in until_silent(stream("a", "ping", "b"), 5, is_useful)] == ["a", "ping", "b"]


async def test_signs_of_life_do_not_count() -> None:
    seen: list[str] = []

    async def listen() -> None:
        async for item in until_silent(stream("a", *["ping"] * 1000, pause=0.02), 0.5, is_useful):
            seen.append(item)

    with anyio.fail_after(20), pytest.raises(TimeoutError):
        await listen()
    assert seen[0] == "a"
    assert set(seen[1:]) == {"ping"}
    assert len(seen) < 100


async def test_what_the_listener_takes_its_time_for_does_not_count() -> None:
    seen = []
    async for item in until_silent(stream("ping", "ping", "a"), 0.3, is_useful):
        await anyio.sleep(0.4)
        seen.append(item)
    assert seen == ["ping", "ping", "a"]
