"""The resident gate: answers hooks over the socket on its standard input, until it is idle."""

import asyncio
import os
import signal
import socket
import sys
from dataclasses import dataclass, field

from forge_guard.answers import Answer
from forge_guard.hook import is_ours
from forge_guard.judging import Gates, answer
from forge_guard.policy import note_seen

IDLE = float(os.environ.get("FORGE_GUARD_IDLE") or 900)
"""Seconds without a question before it ends."""
LONGEST = 32 * 2**20
"""Bytes of a question."""
Waiting = tuple[bytes, "asyncio.Future[Answer]"]


@dataclass
class Resident:
    """A queue of questions, judged by one task.

    A gate has to be closed by the task that opened it, so that all other tasks wait for this one.
    """

    _questions: "asyncio.Queue[Waiting | None]" = field(default_factory=asyncio.Queue)

    async def serve(self, listening: socket.socket) -> None:
        """Answer questions until there are none for a while, or a signal arrives."""
        gates = Gates()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # None ends the loop below, so that the gates are closed by this task.
            loop.add_signal_handler(number, self._questions.put_nowait, None)
        server = await asyncio.start_unix_server(self._hear, sock=listening)
        try:
            while waiting := await self._next():
                request, done = waiting
                said = await _answer(request, gates)
                if not done.done():
                    done.set_result(said)
        finally:
            server.close()
            await gates.aclose()

    async def _next(self) -> Waiting | None:
        try:
            return await asyncio.wait_for(self._questions.get(), IDLE)
        except TimeoutError:
            return None

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not is_ours(writer.get_extra_info("socket")):
                return
            request = await reader.read(LONGEST)
            while len(request) < LONGEST and (more := await reader.read(LONGEST - len(request))):
                request += more
            done = asyncio.get_running_loop().create_future()
            self._questions.put_nowait((request, done))
            said = await done
            writer.write(
                b"\0".join([str(said.code).encode(), said.out.encode(), said.err.encode()])
            )
            await writer.drain()
        except OSError:  # the hook that asked is gone
            pass
        finally:
            writer.close()


async def _answer(request: bytes, gates: Gates) -> Answer:
    head, _, text = request.partition(b"\0\0")
    tool, *named = os.fsdecode(head).split("\0")
    env = dict(each.split("=", 1) for each in named)
    note_seen(tool)
    return await answer(tool, text.decode("utf-8", "replace"), env, gates.judge)


def main(name: str) -> None:
    """Serve the socket on standard input, which has this name in the current folder."""
    os.setsid()  # Ctrl+C in the terminal of the first tool must not end it
    listening = socket.socket(fileno=os.dup(0))
    try:
        asyncio.run(Resident().serve(listening))
    finally:
        if os.path.exists(name):
            os.unlink(name)


if __name__ == "__main__":
    main(sys.argv[1])
