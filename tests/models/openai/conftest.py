"""A server to talk to, and a model that talks to it without waiting between attempts."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from forge_cli.models.http import Timeouts
from forge_cli.models.openai.dialects import NativeDialect
from forge_cli.models.openai.provider import OpenAIModel
from forge_cli.models.openai.server import Server

from .server import ChatServer


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server
    assert server.complaints == []
    assert server.left == 0


@pytest.fixture
def told() -> list[str]:
    """The notices of the model for people."""
    return []


@pytest.fixture
def make(server: ChatServer, told: list[str]) -> Callable[..., OpenAIModel]:
    """A model at the server; dialect, key, seconds of silence and delays can be chosen."""

    def make(
        dialect: Any = None, *, key: str | None = None, read: float = 10, **options: Any
    ) -> OpenAIModel:
        server.key = key
        at = Server.at(server.url, key, Timeouts(read=read))
        options.setdefault("delays", (0, 0, 0, 0))
        return OpenAIModel(
            "tiny", at, dialect or NativeDialect(), lambda _, text: told.append(text), **options
        )

    return make
