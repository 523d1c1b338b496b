"""A custom user interface, built only on the events of forge: ``python ui.py WORKER``.

A line is a task; ``/TOOL key=value ...`` calls a tool; ``/clear`` and ``/exit`` are commands. If a call asks, type yes
or no. Ctrl+C interrupts the current task.
"""

import asyncio
import signal
import sys
from pathlib import Path

from forge_cli import ApprovalDecision, Event, EventBus, WorkerRuntime, load_worker, parse_command


class LineUI:
    """Prints events, and turns each line of input into one event."""

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus
        self.question: str | None = None
        bus.subscribe(self.show)
        self.stop_answering = bus.subscribe(self.ask, answers=True)

    def show(self, event: Event) -> None:
        match event.type:
            case "message" if event.message.role == "assistant" and event.message.text:
                print(f"< {event.message.text}")
            case "toolResult":
                print(f"[{event.tool_name}: {event.status}] {event.value.text()}")
            case "status" if event.level != "info":
                print(f"! {event.message}")
            case "interrupt":
                print("! interrupted")

    def ask(self, event: Event) -> None:
        if event.type == "approvalRequired":
            self.question = event.request.request_id
            print(f"? {event.request.description} ({event.request.reason}) yes/no")

    def take(self, line: str) -> None:
        if self.question and not line.startswith("/"):
            question, self.question = self.question, None
            self.bus.answer(question, ApprovalDecision(line.strip().lower() in ("y", "yes")))
        elif not line.startswith("/"):
            self.bus.emit("userInput", {"requestId": "", "content": line})
        elif (command := parse_command(line)).name == "clear":
            self.bus.emit("command", {"name": "clear"})
        else:
            self.bus.emit(
                "manualToolInvoke", {"toolName": command.name, "args": dict(command.options)}
            )

    async def read(self) -> None:
        while (line := await asyncio.to_thread(sys.stdin.readline)) and line != "/exit\n":
            self.take(line.rstrip("\n"))
        self.stop_answering()
        self.bus.emit("command", {"name": "exit"})


async def main(worker: Path) -> None:
    bus = EventBus()
    ui = LineUI(bus)
    async with WorkerRuntime(worker=load_worker(worker), bus=bus) as runtime:
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGINT, bus.emit, "interrupt", {"reason": "Ctrl+C"}
        )
        reading = asyncio.create_task(ui.read())
        await runtime.converse()
        reading.cancel()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python ui.py WORKER")
    asyncio.run(main(Path(sys.argv[1])))
