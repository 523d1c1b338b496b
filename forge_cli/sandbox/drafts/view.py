"""The view of a draft: overlays over its zones, for this process and all that it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from forge_cli.core.errors import UsageError
from forge_cli.sandbox.drafts.copies import copy_zones
from forge_cli.sandbox.drafts.draft import SessionDraft, drop_draft, load_draft
from forge_cli.sandbox.drafts.start import StartState
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.command import start_unconfined_by
from forge_cli.sandbox.processes.view import work_in_view
from forge_cli.sandbox.trial.copies import mounted_below
from forge_cli.sandbox.trial.enter import enter_namespaces, mount_overlay

_STARTER = Path(__file__).with_name("starter.py")


class NoView(UsageError):
    """Error for a machine or a folder that cannot have a copy-on-write view."""


def require_views() -> None:
    """Raise NoView if the operating system has no overlays."""
    if sys.platform != "linux":
        raise NoView("a draft needs Linux")


def prepare_view(draft: SessionDraft) -> SessionDraft:
    """Return a new draft with a view, or on plain copies if it cannot have one.

    Raise a UsageError if neither works.
    """
    why = _no_view(draft)
    if why is None:
        return draft
    try:
        return copy_zones(draft, why)
    except BaseException:
        drop_draft(load_draft(draft.place) or draft)
        raise


def _no_view(draft: SessionDraft) -> str | None:
    """Return why a draft cannot have a view; None if it can, which another process has tried."""
    if sys.platform != "linux":
        return "this system has no copy-on-write views"
    if mounted := mounted_below([Path(zone.path) for zone in draft.zones]):
        return f"{shown(str(mounted))} is another file system"
    if foreign := StartState.load(draft.place).foreign:
        return f"{shown(foreign)} belongs to another user or group"
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            enter_view(draft)
        except NoView as error:
            os.write(writing, error.message.encode(errors="replace"))
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as report:
        problem = report.read().decode(errors="replace")
    os.waitpid(child, 0)
    return problem or None


def enter_view(draft: SessionDraft) -> None:
    """Mount an overlay over each zone in a mount namespace of this process's own.

    A process that was forked before keeps the real files. Nothing in the view can reach them: the
    kernel resolves the lower folder of an overlay before the mount, and no other mount shows it.
    The process must have a single thread, because the kernel moves no other into the namespace.
    """
    if draft.why_copied:
        work_in_view(draft.view)
        return
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
    work_in_view(draft.view)
    os.chdir(here)  # the working directory was the real folder until now
    if os.geteuid() == 0:
        # Root could enter the mount namespaces of other processes, and find the real files there.
        start_unconfined_by((sys.executable, "-I", "-S", str(_STARTER)))
