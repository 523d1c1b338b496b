"""The course of a replay, in numbers and in words."""

from __future__ import annotations

from forge_cli.core.text import counted
from forge_cli.core.wire import JsonObject
from forge_cli.engine.replay.replay import Course


def counts(course: Course) -> JsonObject:
    return {"turns": course.turns, "ran": course.ran, "recorded": course.taken, "unsure": course.unsure}


def summary(course: Course) -> str:
    """What was done again, and what could not be compared."""
    told = f"{counted(course.turns, 'turn')}, {counted(course.ran + course.taken, 'call')}"
    if course.taken:
        told += f" ({course.taken} from the record)"
    if course.unsure:
        told += f"; {counted(course.unsure, 'result')} not compared, depending on what was not made again"
    return told
