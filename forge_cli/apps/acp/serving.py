"""A server for one editor, from its first message to the last, and how signals end it."""

from __future__ import annotations

from typing import TextIO

import anyio

from forge_cli.apps.acp.channel import EditorChannel
from forge_cli.apps.acp.requests import EditorRequests
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.errors import ExitCode
from forge_cli.core.interrupt import Interrupted
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.process.client_lines import ClientLines, own_input
from forge_cli.process.signals import interruptible
from forge_cli.process.watchdog import say_fault


async def serve(asked: RunOptions, out: TextIO) -> ExitCode:
    """Serve until the editor leaves, or until a signal comes."""
    reasons = list[str]()

    def end(reason: str) -> None:
        reasons.append(reason)
        requests.stop(reason)

    def leave(end: ForcedEnd) -> int:
        """Third-party code holds the process: put everything in order without it."""
        for session in requests.live.values():
            if session.opened:
                session.opened.end_now(end)
        return say_fault(end) if end.fault else end.exit_code

    with own_input() as descriptor:
        async with anyio.create_task_group() as tasks:
            channel = EditorChannel(ClientLines(descriptor, out))
            requests = EditorRequests(asked, channel, tasks)
            with interruptible(end, leave=leave):
                tasks.start_soon(channel.read)
                tasks.start_soon(channel.write)
                await requests.serve()
            tasks.cancel_scope.cancel()
    return Interrupted(reasons[0]).exit_code if reasons else ExitCode.DONE
