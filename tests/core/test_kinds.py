"""Every kind of result and event is handled wherever it must be.

Covers forge_cli.core.event_kinds.
"""

import ast
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import strategies as st

from forge_cli.core.event_kinds import AnyEvent
from forge_cli.core.results import _KINDS, WELL_KNOWN_KINDS, Custom, ResultValue
from tests.support.kinds import WITH_BYTES, result_strategies, results_of

ROOT = Path(__file__).parents[2]
KINDS = "tests/support/kinds.py"
EVENTS = {kind.__name__ for kind in get_args(AnyEvent)}
ANSWERS = {
    "ApprovalResponse",
    "UserInput",
    "Interrupt",
    "ManualToolInvoke",
    "CommandEvent",
    "OtherEvent",
}
"""Most readers have nothing to do with what a person sent: what comes of it is an event of its own."""

IGNORED = {
    "forge_cli/ui/terminal/trace.py": ANSWERS
    | {"Streaming", "ApprovalRequired", "GrantsEvent", "InputPrompt", "DraftEvent"},
    "forge_cli/ui/facts.py": ANSWERS
    | {
        "Streaming",
        "ToolStarted",
        "ToolOutput",
        "ApprovalRequired",
        "ApprovalDecided",
        "NetworkAccess",
    }
    | {"WorkerUpdate", "InputPrompt", "SessionEnd", "CommandTried", "DraftEvent"},
    "forge_cli/apps/web/drawing.py": {
        "ApprovalResponse",
        "ManualToolInvoke",
        "CommandEvent",
        "OtherEvent",
    }
    | {"MessageEvent", "GrantsEvent", "NetworkAccess", "CommandTried", "DraftEvent", "SessionEnd"},
}
"""Readers of events as they come, and the kinds that each leaves out on purpose.

Those that read a log end in ``assert_never``, and mypy names the place. What comes over the bus may be an event of
somebody's program, which must not stop a reader.
"""


@cache
def matched(path: str) -> set[str]:
    """The kinds of event that some ``case`` in a file names."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    classes = [node.cls for node in ast.walk(tree) if isinstance(node, ast.MatchClass)]
    return {ast.unparse(each).rpartition(".")[2] for each in classes} & EVENTS


@pytest.mark.parametrize("path", IGNORED)
def test_every_reader_handles_or_lists_every_event(path: str) -> None:
    forgotten = EVENTS - matched(path) - IGNORED[path]
    assert not forgotten, (
        f"{path}: give {sorted(forgotten)} a case, or name it in IGNORED of tests/core/test_kinds.py"
    )
    both = IGNORED[path] & matched(path)
    assert not both, (
        f"take {sorted(both)} out of IGNORED of tests/core/test_kinds.py: {path} reads it"
    )
    assert IGNORED[path] <= EVENTS


def test_every_kind_of_result_is_read_from_logs() -> None:
    """``ResultValue`` is for mypy, the other two are for JSON."""
    kinds = {kind.kind: kind for kind in get_args(ResultValue) if kind is not Custom}
    remedy = "name the kind in WELL_KNOWN_KINDS and in _KINDS of forge_cli/core/results.py"
    assert set(kinds) == WELL_KNOWN_KINDS, remedy
    assert {name: kind for name, kind in _KINDS.items() if kind is not Custom} == kinds, remedy


def test_tests_have_every_kind_of_result() -> None:
    kinds = set(get_args(ResultValue)) - WITH_BYTES
    words = st.text()
    for name, found in {
        "results_of": set(map(type, results_of("x"))),
        "result_strategies": set(result_strategies(words, words, st.none())),
    }.items():
        missing = sorted(kind.__name__ for kind in kinds - found)
        assert not missing, f"give {missing} a row in {name} of {KINDS}"
        assert found == kinds


@pytest.mark.parametrize(
    "kind", result_strategies(st.text(), st.text(), st.none()), ids=lambda kind: kind.__name__
)
def test_result_of_each_kind_contains_its_text(kind: type) -> None:
    """So that a hostile text in it is really drawn."""
    found = [each for each in results_of("hostile") if isinstance(each, kind)]
    assert [each for each in found if "hostile" not in each.text()] == []
