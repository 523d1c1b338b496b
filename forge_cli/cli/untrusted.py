"""Past calls that would ask because of untrusted text, for ``--provenance``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from forge_cli.cli.courses import workspace_of
from forge_cli.cli.notices import warn
from forge_cli.cli.output import data_output
from forge_cli.core.approval import ValueOrigin
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.events import SessionStart
from forge_cli.core.text import counted, visible
from forge_cli.engine.replay.drift import described
from forge_cli.inspection.past_words import PastWords, judge_all_words, judge_words
from forge_cli.process.signals import in_loop
from forge_cli.record.log import damage_of, find_record, read_session
from forge_cli.ui.table import print_json
from forge_cli.ui.wrap import wrap_for

if TYPE_CHECKING:
    from forge_cli.core.events import Event


def show_words(name: str, session: str, directory: Path | None, *, as_json: bool) -> None:
    """Show the calls of one session that would ask; nothing is executed or asked."""
    log = read_session(find_record(session))
    if damage := damage_of(log):
        warn(damage)
    start: Event | None = next(
        (line.event for line in log.lines if line.type == SessionStart.type), None
    )
    if not isinstance(start, SessionStart):
        hint = "forge sessions list shows them"
        raise WorkerError(Mark(str(log.path)), "not a session log", hint=hint)
    with data_output() as out:
        found = in_loop(judge_words, name, workspace_of(start.workspace, directory), log.lines)
        if as_json:
            print_json(found.wire(), out)
            return
        for each in found.asks:
            _say(described(ToolCall("", each.tool, each.input)), out)
            for origin in each.provenance:
                _say(f"  {_line_of(origin)}", out)
        _say(_sum_up(found), out)


def show_all_words(*, as_json: bool) -> None:
    """Show how many calls of every past session would ask."""
    with data_output() as out:
        found = in_loop(judge_all_words, warn)
        if as_json:
            print_json([each.wire() for each in found], out)
            return
        for line in _overview(found):
            _say(line, out)


def _overview(found: Sequence[PastWords]) -> Iterator[str]:
    for each in found:
        if each.asks:
            yield _sum_up(each)
    asks = sum(len(each.asks) for each in found)
    calls = counted(sum(each.calls for each in found), "call")
    tainted = sum(each.untrusted is not None for each in found)
    yield (
        f"{asks} of {calls} would have asked, in {counted(len(found), 'past session')}, "
        f"of which {tainted} read untrusted text"
    )


def _sum_up(found: PastWords) -> str:
    calls = counted(found.calls, "call")
    if found.untrusted is None:
        return f"{found.session}: {calls}, and no untrusted text was read"
    asks = f"{len(found.asks)} of {calls} would have asked"
    return f"{found.session}: {asks}; untrusted since {found.untrusted}"


def _line_of(origin: ValueOrigin) -> str:
    if not origin.argument:
        return origin.sentence()
    place = f" (line {origin.line})" if origin.line else ""
    return f"{origin.argument}: {origin.value}: {origin.sentence()}{place}"


def _say(text: str, out: TextIO) -> None:
    out.write(wrap_for(out, visible(text), 4) + "\n")
