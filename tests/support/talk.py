"""A conversation for tests: a UI that reacts to events, and a worker that talks by a script."""

from collections.abc import Callable
from typing import Any

import anyio

from forge_cli import Event, EventBus, WorkerResult, WorkerRuntime, load_worker
from forge_cli.events import MessageEvent
from forge_cli.testing import Project, scripted_model

DEADLINE = 60


class UI:
    """Records events, and runs an action at the first event of a name."""

    def __init__(
        self, bus: EventBus, *, answers: bool = False, **reactions: Callable[[Event], None]
    ) -> None:
        self.bus, self.seen, self.reactions = bus, list[Event](), reactions
        bus.subscribe(self.take, answers=answers)

    def take(self, event: Event) -> None:
        self.seen.append(event)
        if reaction := self.reactions.pop(event.type, None):
            reaction(event)

    def of(self, name: str) -> list[Any]:
        return [event for event in self.seen if event.type == name]

    @property
    def answers(self) -> list[str]:
        return [
            event.message.text
            for event in self.seen
            if isinstance(event, MessageEvent)
            and event.message.role == "assistant"
            and event.message.text
        ]


def say(bus: EventBus, *lines: str) -> None:
    for line in lines:
        bus.emit("userInput", {"requestId": "", "content": line})


def leave(bus: EventBus) -> None:
    bus.emit("command", {"name": "exit"})


def converse(
    project: Project, bus: EventBus, *turns: Any, begin: Callable[[], None], **options: Any
) -> WorkerResult | None:
    async def main() -> WorkerResult | None:
        runtime = WorkerRuntime(
            worker=load_worker(project.folder / "worker.yaml"),
            model=scripted_model(*turns),
            bus=bus,
            **options,
        )
        with anyio.fail_after(DEADLINE):
            async with runtime, anyio.create_task_group() as tasks:

                async def start() -> None:
                    begin()

                tasks.start_soon(start)
                return await runtime.converse()
        raise AssertionError

    return anyio.run(main)
