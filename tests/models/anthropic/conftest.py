"""A server, a model that sends requests to it, and the output of the model."""

import os
from collections.abc import Iterator

import pytest

from .server import Api
from .talk import Talk

KEY = "sk-ant-not-a-real-key-0123456789"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API on this machine; the environment leads there and nowhere else."""
    for name in list(os.environ):
        if name.startswith("ANTHROPIC_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    with Api() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield server
        assert server.refused == []


@pytest.fixture(params=["http", "sdk"])
def transport(request: pytest.FixtureRequest) -> str:
    """Each transport to the API; both must behave the same."""
    return str(request.param)


@pytest.fixture
def talk(api: Api, transport: str) -> Talk:
    return Talk(KEY, api.url, transport)
