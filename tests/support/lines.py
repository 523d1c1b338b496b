"""Lines of the record as a session writes them, for tests that read them."""

from forge_cli.core.events import Event, Origin
from forge_cli.record.line import Line
from forge_cli.sandbox.secrets import Redactor

CHILD = Origin("child", 1, "task_1", ("w", "child"))


def lines_of(*events: Event, after: Line | None = None) -> list[Line]:
    """The lines of these events, one after the other."""
    found: list[Line] = []
    for event in events:
        last = found[-1] if found else after
        found.append(
            Line.of(event, session="s", worker="w", depth=0, redactor=Redactor({}), after=last)
        )
    return found
