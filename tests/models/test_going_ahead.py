"""When other items of a batch may ask: once the prompt is in the provider's cache.

Covers forge_cli.core.messages, forge_cli.models.openai.provider, forge_cli.models.anthropic.provider.
"""

from collections.abc import Iterator

import pytest

from forge_cli.core.errors import ModelError
from forge_cli.core.messages import current_pace
from forge_cli.engine.batch.local import SharedPace
from forge_cli.models.http import Timeouts
from forge_cli.models.openai.dialects import NativeDialect
from forge_cli.models.openai.provider import OpenAIModel
from forge_cli.models.openai.server import Server
from tests.models.anthropic.server import Api, Stall, say
from tests.models.anthropic.talk import Talk
from tests.models.openai.server import ChatServer, Reply, call_delta, chunk, refusal
from tests.models.openai.talk import USER, turn

MOST = 5


@pytest.fixture
def pace() -> Iterator[SharedPace]:
    pace = SharedPace(MOST)
    token = current_pace.set(pace)
    yield pace
    current_pace.reset(token)


def fail(reply: Reply) -> None:
    """A turn that comes to no end."""
    with ChatServer() as server:
        server.will(*[reply] * 5)
        at = Server.at(server.url, timeouts=Timeouts(read=0.5))
        model = OpenAIModel("tiny", at, NativeDialect(), lambda *_: None, delays=(0,))
        with pytest.raises(ModelError):
            turn(model, USER)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("begun", "limit"),
    [
        ((), 1),
        ((b": a sign of life\n\n", chunk(role="assistant", content="")), 1),
        ((chunk(content="Hel"),), MOST),
        ((call_delta(0, "c", "add", ""),), MOST),
    ],
    ids=["silence", "signs of life", "text", "a call"],
)
def test_other_requests_start_when_an_answer_begins(
    pace: SharedPace, begun: tuple[bytes, ...], limit: int
) -> None:
    fail(Reply(begun, end="silence"))
    assert pace.limit == limit


def test_other_requests_do_not_start_after_a_refusal(pace: SharedPace) -> None:
    fail(refusal(401, {"error": {"message": "no"}}))
    assert pace.limit == 1


@pytest.mark.few(1)
@pytest.mark.parametrize(("events", "limit"), [(2, 1), (3, MOST)])
def test_other_requests_start_when_an_answer_of_anthropic_begins(
    pace: SharedPace, events: int, limit: int
) -> None:
    with Api() as api:
        api.will(*[Stall(say("Hello."), events)] * 2)
        with pytest.raises(ModelError):
            Talk("sk-ant-not-a-real-key-0123456789", api.url, silence=1.0).turn()
    assert pace.limit == limit
