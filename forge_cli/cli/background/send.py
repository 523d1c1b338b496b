"""``forge send``: a message for the next turn of a session in the background."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.background.common import (
    END_TIMEOUT,
    SessionArgument,
    find_background,
    require_run,
    wait_until_free,
)
from forge_cli.cli.background.start import start_again
from forge_cli.cli.options import new_app
from forge_cli.core.actions import UserInput
from forge_cli.core.bus import new_id
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.record.control import ENDED
from forge_cli.record.control_client import ControlClient, NotListening

app = new_app()


@app.command()
def send(
    session: SessionArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.")],
) -> None:
    """Send a message to a session, for after its current work.

    A session that has ended starts again with the message.
    """
    if not text.strip():
        raise UsageError("the message is empty")
    path = find_background(session)
    if send_message(path, text):
        sys.stdout.write(f"sent to {path.stem}: it reads the message after its current work\n")
    else:
        sys.stdout.write(f"sent to {path.stem}: it has started again\n")


def send_message(path: Path, text: str) -> bool:
    """Send a message to a session; return False if the session had to be restarted for it."""
    run = require_run(path)
    try:
        with ControlClient(path) as client:
            receipt = client.send(UserInput(new_id("message"), text))
        if receipt and receipt.counted:
            return True
        if receipt and receipt.reason != ENDED:
            raise ForgeError(f"the session {path.stem} did not take it: {receipt.reason}")
    except NotListening:
        pass
    if not wait_until_free(path, END_TIMEOUT):
        raise ForgeError(
            f"the session {path.stem} takes no messages now", hint="try again in a moment"
        )
    start_again(run, text)
    return False
