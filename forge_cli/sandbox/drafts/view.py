"""The view of a draft: overlays over its zones, for this process and all that it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from forge_cli.core.errors import UsageError
from forge_cli.sandbox.drafts.draft import SessionDraft
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.command import start_unconfined_by
from forge_cli.sandbox.processes.view import BoundedView, work_in_view
from forge_cli.sandbox.trial.enter import enter_namespaces, mount_overlay

_STARTER = Path(__file__).with_name("starter.py")


class NoView(UsageError):
    """Error for a machine or a folder that cannot have a copy-on-write view."""


def require_views() -> None:
    """Raise NoView if the operating system has no overlays."""
    if sys.platform != "linux":
        raise NoView("a draft needs Linux")


def enter_view(draft: SessionDraft) -> None:
    """Mount an overlay over each zone in a mount namespace of this process's own.

    A process that was forked before keeps the real files. Nothing in the view can reach them: the
    kernel resolves the lower folder of an overlay before the mount, and no other mount shows it.
    The process must have a single thread, because the kernel moves no other into the namespace.
    """
    require_views()
    if len(os.listdir("/proc/self/task")) > 1:
        raise NoView("a draft has to begin before other threads")
    here = os.getcwd()
    try:
        enter_namespaces(network=True)
        for zone in draft.zones:
            upper = draft.upper(zone)
            mount_overlay(zone.path, str(upper), str(upper.with_name("work")), zone.path)
    except OSError as error:
        place = error.filename or error.strerror or str(error)
        raise NoView(
            f"no copy-on-write view can be made here: {shown(str(place))}",
            hint="forge doctor says what is missing; without --draft each change asks",
        ) from None
    work_in_view(BoundedView(tuple(str(draft.upper(zone)) for zone in draft.zones), draft.size))
    os.chdir(here)  # the working directory was the real folder until now
    if os.geteuid() == 0:
        # Root could enter the mount namespaces of other processes, and find the real files there.
        start_unconfined_by((sys.executable, "-I", "-S", str(_STARTER)))
