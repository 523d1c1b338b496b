"""The calls of one turn: at most eight in parallel, and none passes a call that may write."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest

from forge_cli import Approval, ApprovalDecision, ApprovalRequest, Effect, Tool, ToolContext
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import Event, StatusEvent, ToolResult
from forge_cli.core.interrupt import Parked
from forge_cli.engine.turns.calls import MAX_PARALLEL, Turn
from forge_cli.events import ToolCall
from tests.engine.conftest import Gate, OpenGate

pytestmark = pytest.mark.anyio

READS = frozenset({Effect.READ})
NUMBERED = {"type": "object", "properties": {"n": {"type": "integer"}}}
Act = Callable[[dict[str, Any], ToolContext], Awaitable[Any]]


def reading(act: Act, name: str = "read", **options: Any) -> Tool:
    given: dict[str, Any] = {"needs_approval": Approval.PRE_APPROVED, "effects": READS, **options}
    return Tool(name=name, description="Read.", input_schema=NUMBERED, execute=act, **given)


def writing(act: Act, name: str = "write", **options: Any) -> Tool:
    return reading(act, name, effects=frozenset({Effect.WRITE}), **options)


def numbered(count: int, name: str = "read", first: int = 0) -> list[ToolCall]:
    return [ToolCall(f"{name}{n}", name, {"n": n}) for n in range(first, first + count)]


async def take(gate: Gate, calls: Sequence[ToolCall], *, stop_on_refusal: bool = False) -> Turn:
    turn = Turn(gate.guard, stop_on_refusal)
    with anyio.fail_after(60):
        await turn.take(calls)
    return turn


def ids(turn: Turn) -> list[str]:
    return [outcome.call.id for outcome in turn.outcomes]


def statuses(turn: Turn) -> list[str]:
    return [outcome.status for outcome in turn.outcomes]


class Meeting:
    """A tool whose calls wait until so many of them are there; ``most`` is how many there ever were at once."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.present = self.most = self.arrived = 0
        self.complete = anyio.Event()

    async def __call__(self, args: dict[str, Any], context: ToolContext) -> int:
        self.present += 1
        self.arrived += 1
        self.most = max(self.most, self.present)
        if self.arrived % self.size == 0:
            done, self.complete = self.complete, anyio.Event()
            for _ in range(20):  # whoever else could come would come now
                await anyio.lowlevel.checkpoint()
            done.set()
        else:
            await self.complete.wait()
        self.present -= 1
        return int(args["n"])


async def test_parallel_calls_are_limited_to_eight(gate: OpenGate) -> None:
    meeting = Meeting(MAX_PARALLEL)
    turn = await take(gate(reading(meeting)), numbered(32))
    assert (meeting.most, meeting.arrived) == (8, 32)
    assert [outcome.text() for outcome in turn.outcomes] == [str(n) for n in range(32)]


async def test_writing_call_runs_alone_and_in_order(
    gate: OpenGate,
) -> None:
    log: list[str] = []

    def logged(name: str) -> Act:
        async def act(args: dict[str, Any], context: ToolContext) -> None:
            log.append(f"{name}{args['n']} begins")
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            log.append(f"{name}{args['n']} ends")

        return act

    opened = gate(reading(logged("read")), writing(logged("write")))
    calls = [
        *numbered(2),
        *numbered(2, "write"),
        *numbered(2, first=2),
        *numbered(1, "write", first=2),
    ]
    turn = await take(opened, calls)
    assert ids(turn) == [call.id for call in calls]
    first, writes, second, last = log[:4], log[4:8], log[8:12], log[12:]
    assert first == ["read0 begins", "read1 begins", "read0 ends", "read1 ends"]
    assert writes == ["write0 begins", "write0 ends", "write1 begins", "write1 ends"]
    assert second == ["read2 begins", "read3 begins", "read2 ends", "read3 ends"]
    assert last == ["write2 begins", "write2 ends"]


async def test_unstated_effects_do_not_count_as_read_only(gate: OpenGate) -> None:
    meeting = Meeting(1)
    await take(gate(reading(meeting, effects=None)), numbered(4))
    assert meeting.most == 1


# --- some of them fail


async def test_failed_call_does_not_stop_the_others(gate: OpenGate) -> None:
    async def read(args: dict[str, Any], context: ToolContext) -> str:
        match args["n"]:
            case 1:
                raise RuntimeError("boom")
            case 2:
                raise SystemExit(3)
            case 3:
                raise BaseExceptionGroup("several", [KeyError("a")])
            case 4:
                raise anyio.get_cancelled_exc_class()
            case 5:
                await anyio.sleep_forever()
        return "fine"

    calls = [
        *numbered(7),
        ToolCall("x", "read", {"n": "x"}),
        ToolCall("y", "nowhere", {}),
        *numbered(2, first=8),
    ]
    turn = await take(gate(reading(read, timeout=0.05)), calls)
    assert ids(turn) == [call.id for call in calls]
    assert statuses(turn) == [
        *("success", "error", "error", "error", "error", "timeout", "success"),
        *("invalid", "not_found", "success", "success"),
    ]


async def test_unwritable_log_ends_parallel_calls_like_a_single_one(
    gate: OpenGate,
) -> None:
    executed: list[int] = []

    async def read(args: dict[str, Any], context: ToolContext) -> None:
        executed.append(args["n"])
        await anyio.lowlevel.checkpoint()

    def full(event: Event) -> None:
        if isinstance(event, ToolResult):
            raise ForgeError("the disk is full")

    opened = gate(reading(read))
    opened.bus.subscribe(full)
    with pytest.raises(ForgeError, match="the disk is full"):
        await take(opened, numbered(50))
    assert len(executed) <= MAX_PARALLEL


@pytest.mark.parametrize("when", [0, 3, 11, 19])
async def test_interrupt_gives_every_call_exactly_one_result(gate: OpenGate, when: int) -> None:
    async def read(args: dict[str, Any], context: ToolContext) -> str:
        if args["n"] == when:
            context.interrupt.interrupt()
        if args["n"] >= when:
            await anyio.sleep_forever()
        return "fine"

    opened = gate(reading(read), writing(read))
    calls = [*numbered(20), *numbered(3, "write")]
    turn = await take(opened, calls)
    assert ids(turn) == [call.id for call in calls]
    assert statuses(turn) == ["success"] * when + ["interrupted"] * (23 - when)
    results = [event.tool_call_id for event in opened.events if isinstance(event, ToolResult)]
    assert sorted(results) == sorted(call.id for call in calls)


# --- somebody has to be asked


async def test_prompts_come_one_at_a_time_and_nothing_runs_beside_them(gate: OpenGate) -> None:
    prompts: list[int] = []
    running: list[str] = []

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        prompts.append(len(running))
        running.append("prompt")
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        running.remove("prompt")
        return ApprovalDecision(request.args["n"] != 1)

    async def act(args: dict[str, Any], context: ToolContext) -> str:
        running.append("act")
        await anyio.lowlevel.checkpoint()
        running.remove("act")
        return "fine"

    opened = gate(reading(act), reading(act, "look", needs_approval=Approval.ASK), answers=answer)
    calls = [*numbered(2), *numbered(3, "look"), *numbered(2, first=2)]
    turn = await take(opened, calls)
    assert prompts == [0, 0, 0]
    assert statuses(turn) == [
        "success",
        "success",
        "success",
        "denied",
        "success",
        "success",
        "success",
    ]


async def test_parked_calls_leave_other_calls_their_results(gate: OpenGate) -> None:
    """A tool that only reads may have another worker do it, and that one may have to ask."""

    async def read(args: dict[str, Any], context: ToolContext) -> str:
        if args["n"] in (1, 3):
            raise Parked(f"{args['n']} waits")
        return "fine"

    opened = gate(reading(read))
    turn = await take(opened, [*numbered(5), *numbered(2, "write")])
    assert str(turn.parked) == "1 waits"
    assert ids(turn) == ["read0", "read2", "read4"]


async def test_progress_of_parallel_calls_names_its_call(gate: OpenGate) -> None:
    def look(n: int, context: ToolContext) -> int:
        context.progress(f"at {n}")
        return n

    opened = gate(Tool.from_function(look, needs_approval=Approval.PRE_APPROVED, effects=READS))
    await take(opened, numbered(8, "look"))
    told = {
        (event.tool_call_id, event.message)
        for event in opened.events
        if isinstance(event, StatusEvent)
    }
    assert told == {(f"look{n}", f"at {n}") for n in range(8)}
