"""The end line: what matters most stays where there is little room."""

from forge_cli.ui.terminal.trace import format_tokens, summarize

from ...rows import each_row

RESULT = {
    "status": "completed",
    "turns": 3,
    "tool_calls": 5,
    "denials": [],
    "usage": {"input_tokens": 1600, "output_tokens": 112, "cache_read_tokens": 800, "cache_write_tokens": 68},
    "cost": 0.91,
    "duration_ms": 14_200,
}
WHOLE = "completed · 3 turns · 5 calls · 2.5k in (800 cached), 112 out · $0.91 · 12 % of the window · 14 s"


def test_all_of_it() -> None:
    assert summarize(RESULT, 24_000, 200_000) == WHOLE
    assert summarize(RESULT, 24_000, 200_000, width=len(WHOLE)) == WHOLE


@each_row(
    ("width", "line"),
    [
        (96, "completed · 3 turns · 5 calls · 2.5k in (800 cached), 112 out · $0.91 · 14 s"),
        (75, "completed · 5 calls · 2.5k in (800 cached), 112 out · $0.91 · 14 s"),
        (60, "completed · 2.5k in (800 cached), 112 out · $0.91 · 14 s"),
        (49, "completed · $0.91 · 14 s"),
        (20, "completed · $0.91"),
        (3, "completed"),
    ],
)
def test_the_least_important_is_left_out_first(width: int, line: str) -> None:
    assert summarize(RESULT, 24_000, 200_000, width=width) == line


def test_what_is_not_known_is_not_told() -> None:
    unknown = {**RESULT, "usage": {}, "cost": None, "denials": [{}]}
    assert summarize(unknown, 0, None) == "completed · 3 turns · 5 calls (1 refused) · 14 s"
    assert format_tokens({"output_tokens": 3}) == "0 in, 3 out"
