"""The pace of a batch.

Covers forge_cli.engine.batch.local, forge_cli.core.messages.
"""

import anyio
import pytest

from forge_cli.core.errors import ModelError
from forge_cli.core.messages import current_pace
from forge_cli.engine.batch.local import SharedPace
from forge_cli.models.failures import ProviderFailure, Retry

pytestmark = pytest.mark.anyio


class Traffic:
    """Requests that end on demand."""

    def __init__(self, pace: SharedPace) -> None:
        self.pace = pace
        self.sent: list[int] = []
        self.news = anyio.Event()
        self.gates: dict[int, anyio.Event] = {}

    async def send(self, number: int) -> None:
        async with self.pace.request():
            self.sent.append(number)
            self.news.set()
            await self.gates.setdefault(number, anyio.Event()).wait()

    async def end(self, *numbers: int) -> None:
        for number in numbers:
            self.gates[number].set()
        await anyio.wait_all_tasks_blocked()

    async def until(self, *numbers: int) -> None:
        """Wait for these to be sent, and see that no other is."""
        while len(self.sent) < len(numbers):
            self.news = anyio.Event()
            await self.news.wait()
        await anyio.wait_all_tasks_blocked()
        assert self.sent == list(numbers)


async def test_first_request_is_answered_before_others_are_sent() -> None:
    traffic = Traffic(SharedPace(3))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(traffic.send, number)
            await anyio.wait_all_tasks_blocked()
            assert traffic.sent == [0]
            await traffic.end(0)
            await traffic.until(0, 1, 2, 3)
            await traffic.end(2)
            await traffic.until(0, 1, 2, 3, 4)
            await traffic.end(1, 3, 4)


async def test_provider_can_allow_others_before_the_first_answer() -> None:
    traffic = Traffic(SharedPace(3))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(traffic.send, number)
            await anyio.wait_all_tasks_blocked()
            assert traffic.sent == [0]
            traffic.pace.go_ahead()
            await traffic.until(0, 1, 2)
            await traffic.end(0, 1, 2)
            await traffic.until(0, 1, 2, 3, 4)
            await traffic.end(3, 4)


async def test_waiting_requests_continue_after_a_pause_without_running_ones() -> None:
    pace, sent = SharedPace(2), list[int]()

    async def send(number: int, *, busy: bool = False) -> None:
        async with pace.request():
            sent.append(number)
            await anyio.wait_all_tasks_blocked()
            if busy:
                pace.hold(0.05)

    with anyio.fail_after(60):
        await send(0)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: send(1, busy=True))
            group.start_soon(lambda: send(2, busy=True))
            for number in (3, 4):
                group.start_soon(send, number)
    assert sorted(sent) == [0, 1, 2, 3, 4]


async def test_busy_provider_slows_down_all_requests() -> None:
    pace, clock, told = SharedPace(8), anyio.current_time, list[str]()
    retry = Retry("m", lambda level, message: told.append(message), str)
    async with pace.request():
        pass
    assert pace.limit == 8
    sent, under_way = list[float](), anyio.Event()

    async def ask(*, busy: bool) -> None:
        async with pace.request():
            if busy:
                await under_way.wait()
                await retry.wait(1, ProviderFailure("busy", wait=1.5, busy=True))
            sent.append(clock())

    with anyio.fail_after(60):
        started = clock()
        async with anyio.create_task_group() as group:
            current_pace.set(pace)
            for _ in range(4):
                group.start_soon(lambda: ask(busy=True))
            await anyio.wait_all_tasks_blocked()
            under_way.set()
            await anyio.wait_all_tasks_blocked()
            assert pace.limit == 2  # four at once were told so, which counts once
            assert 0 < pace.pause <= 1.5
            for _ in range(2):
                group.start_soon(lambda: ask(busy=False))
    assert len(told) == 4
    assert len(sent) == 6
    assert min(sent) - started >= 1.49
    assert pace.limit == 8


async def test_others_wait_for_a_provider_that_one_item_has_given_up() -> None:
    pace = SharedPace(8)
    current_pace.set(pace)
    with pytest.raises(ModelError, match=r"busy \(tried 5 times\)"):
        async with pace.request():
            await Retry("m", lambda *_: None, str).wait(
                5, ProviderFailure("busy", wait=60, busy=True)
            )
    assert 50 < pace.pause <= 60


async def test_pace_is_halved_after_a_pause_and_grows_with_each_success() -> None:
    traffic = Traffic(SharedPace(4))
    with anyio.fail_after(60):
        async with traffic.pace.request():
            pass
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(traffic.send, number)
            await anyio.wait_all_tasks_blocked()
            async with traffic.pace.request():
                await traffic.end(0, 1, 2)
                await traffic.pace.back_off(0.05)
            assert traffic.pace.limit == 2
            for number in range(10, 15):
                group.start_soon(traffic.send, number)
            await anyio.wait_all_tasks_blocked()
            assert traffic.sent[3:] == [10, 11]
            await traffic.end(10)
            assert traffic.sent[3:] == [10, 11, 12, 13]
            await traffic.end(11)
            assert traffic.sent[3:] == [10, 11, 12, 13, 14]
            await traffic.end(12, 13, 14)


async def test_cancelled_waiter_leaves_its_turn_to_others() -> None:
    traffic = Traffic(SharedPace(1))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(traffic.send, 0)
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0.01):
                await traffic.send(1)
            group.start_soon(traffic.send, 2)
            await anyio.wait_all_tasks_blocked()
            await traffic.end(0)
            assert traffic.sent == [0, 2]
            await traffic.end(2)
