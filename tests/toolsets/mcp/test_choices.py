"""Choices in forms of MCP servers: their display, and the meaning of an answer.

Covers forge_cli.engine.runtime.choices and forge_cli.toolsets.mcp.connection.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.events import InputPrompt, StatusEvent
from forge_cli.engine.runtime.choices import choices_of
from forge_cli.testing import Project

from .test_requests import ECHO, answered, attended, worker

HERO = "hero (hero-1: Superman|hero-2: Green Lantern; required): "
PET = "pet (p1: Cat|p2: Dog; empty: none): "
SIZES = "sizes (several of small|large, separated by commas; empty: small): "
FRIENDS = (
    "friends (several of hero-1: Superman|hero-2: Green Lantern, separated by commas; required): "
)


@pytest.mark.parametrize(
    ("lines", "content"),
    [
        (
            ["Superman", "dog", "small, large", "hero-2,Superman"],
            {
                "hero": "hero-1",
                "pet": "p2",
                "sizes": ["small", "large"],
                "friends": ["hero-2", "hero-1"],
            },
        ),
        (
            ["hero-2", "", "", "green lantern"],
            {"hero": "hero-2", "sizes": ["small"], "friends": ["hero-2"]},
        ),
        (
            ["hero-1", "p1", '["small"]', "hero-1"],
            {"hero": "hero-1", "pet": "p1", "sizes": ["small"], "friends": ["hero-1"]},
        ),
    ],
)
def test_choices_are_shown_and_picked_by_value_or_title(
    project: Project, lines: list[str], content: dict[str, Any]
) -> None:
    worker(project, "chooses", elicitation=True)
    seen, prompts = attended(project, ECHO, "done", lines=["y", *lines])
    assert answered(seen) == {"action": "accept", "content": content}
    assert prompts[1:] == [HERO, PET, SIZES, FRIENDS]
    options = [event.options for event in seen.of(InputPrompt)]
    assert options == [("Superman", "Green Lantern"), ("Cat", "Dog"), None, None]


def test_invalid_choice_is_asked_again(project: Project) -> None:
    worker(project, "chooses", elicitation=True)
    lines = ["y", "Batman", "", "huge", "Superman", "hero-1", "large"]
    seen, prompts = attended(project, ECHO, "done", lines=lines)
    assert answered(seen)["content"] == {
        "hero": "hero-1",
        "sizes": ["large"],
        "friends": ["hero-1"],
    }
    assert prompts[5:] == [HERO, SIZES]


def test_form_without_a_valid_answer_is_declined_and_reported(project: Project) -> None:
    worker(project, "chooses", elicitation=True)
    seen, _ = attended(project, ECHO, "done", lines=["y", "x", "", "", "Superman", "x", "x"])
    assert answered(seen) == {"action": "decline"}
    said = [event.message for event in seen.of(StatusEvent)]
    assert "the form is declined after 3 invalid answers" in said


VALUES = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, unique=True)


@given(
    values=VALUES,
    titles=st.lists(st.sampled_from(["a", "b", "A", "x", "X", "y"]), min_size=4, max_size=4),
)
def test_each_shown_option_selects_its_own_choice(values: list[str], titles: list[str]) -> None:
    listed = [
        {"const": value, "title": title} for value, title in zip(values, titles, strict=False)
    ]
    found = choices_of({"oneOf": listed}, {})
    assert found is not None
    assert [found.pick(option) for option in found.options] == values
    assert [found.pick(value) for value in values] == values


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}},
        True,
        {"anyOf": [{"const": 1}, {"type": "string"}]},
    ],
)
def test_fields_without_choices_have_no_options(declared: Any) -> None:
    assert choices_of(declared, {}) is None
