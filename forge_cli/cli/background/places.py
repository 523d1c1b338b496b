"""Places for sessions that run in the background at the same time; the others wait for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from os import fdopen

import anyio
from msgspec.structs import replace

from forge_cli.cli.background.start import Started
from forge_cli.files.home import forge_home, make_private
from forge_cli.files.lock import acquire_file_lock
from forge_cli.files.settings import DEFAULT_BACKGROUND
from forge_cli.files.settings_files import load_user_settings
from forge_cli.record.runs import background_run
from forge_cli.record.socket_files import run_folder

PLACES = "places"
POLL_INTERVAL = 0.5
"""Seconds between two looks for a free place."""


@asynccontextmanager
async def place_to_run(session: str, started: Started) -> AsyncIterator[None]:
    """Hold one of the places while the block runs; wait for one if all are taken.

    A place is a locked file, which the system frees if the process is killed.
    """
    limit = load_user_settings(forge_home()).background or DEFAULT_BACKGROUND
    place = _free_place(limit)
    if place is None:
        _note(session, queued=True)
        started.report()
        while place is None:
            await anyio.sleep(POLL_INTERVAL)
            place = _free_place(limit)
        _note(session, queued=False)
    with closing(fdopen(place)):
        yield


def _free_place(limit: int) -> int | None:
    """Return the locked file of a free place, or None if there is none."""
    folder = run_folder() / PLACES
    make_private(folder)
    for number in range(1, limit + 1):
        try:
            return acquire_file_lock(folder / str(number), wait=False)
        except BlockingIOError:
            continue
    return None


def _note(session: str, *, queued: bool) -> None:
    if run := background_run(session):
        replace(run, queued=queued).write()
