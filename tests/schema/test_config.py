"""Parsing of files: both spellings, unknown keys, marks, and one message for each error.

Covers forge_cli.schema.marks, forge_cli.schema.config_problems.
"""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, field_validator

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.wire import camel_case
from forge_cli.files.document import parse_document
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.marks import dotted
from tests.support.rows import each_row


class Step(Config):
    run_it: Literal["now", "later"] = "now"
    tries: Annotated[int, Field(ge=1)] = 1


class Plan(Config):
    plan_name: str
    steps: list[Step] = Field(default_factory=list)
    by_name: dict[str, Step] = Field(default_factory=dict)
    ratio: float | None = None
    import_: str | None = Field(default=None, alias="import")
    code: Annotated[str, Field(pattern="^[a-z]+$")] = "a"
    words: Annotated[tuple[str, ...], Field(min_length=2)] = ("a", "b")
    title: Annotated[str, Field(min_length=1, max_length=3)] = "a"
    loud: bool = False
    quiet: bool | None = None

    @field_validator("plan_name")
    @classmethod
    def _lower(cls, name: str) -> str:
        if not name.islower():
            raise ValueError(f"'{name}' must be lowercase; write it small")
        return name


def _other_cases(name: str) -> st.SearchStrategy[str]:
    spelled = st.tuples(*(st.sampled_from([letter, letter.upper()]) for letter in name)).map(
        "".join
    )
    return spelled.filter(lambda key: key not in (name, camel_case(name)))


def read(text: str) -> Plan:
    return parse_config(Plan, parse_document(text, "plan.yaml"), file="plan.yaml")


@pytest.mark.parametrize(
    "text", ["planName: a\nsteps: [{runIt: later}]", "plan_name: a\nsteps: [{run_it: later}]"]
)
def test_both_spellings_of_keys_are_accepted(text: str) -> None:
    assert read(text).model_dump(exclude_defaults=True) == {
        "plan_name": "a",
        "steps": [{"run_it": "later"}],
    }


@given(st.sampled_from(["plan_name", "steps", "by_name"]).flatmap(_other_cases))
def test_third_spelling_of_a_key_is_unknown(key: str) -> None:
    with pytest.raises(WorkerError, match=f"unknown key '{key}'"):
        read(f"plan_name: a\n{key}: a")


def test_alias_is_the_only_name_of_its_key() -> None:
    assert read("planName: a\nimport: x").import_ == "x"


@each_row(
    ("text", "problem"),
    [
        ("steps: []", "plan.yaml:1:1: plan_name: this key is required"),
        (
            "plan_name: a\nplanName: b",
            "plan.yaml:2:1: 'plan_name' is given in snake_case and camelCase; keep one",
        ),
        ("plan_name: a\nstep: []", "plan.yaml:2:1: unknown key 'step'; did you mean 'steps'?"),
        (
            "plan_name: a\nzebra: 1",
            "plan.yaml:2:1: unknown key 'zebra'; "
            "known here: by_name, code, import, loud, plan_name, quiet, ratio, steps, title, words",
        ),
        (
            "plan_name: a\nsteps:\n  - {}\n  - {runit: now}",
            "plan.yaml:4:6: steps[1]: unknown key 'runit'; did you mean 'run_it'?",
        ),
        (
            "plan_name: a\nsteps: [{runIt: soon}]",
            "plan.yaml:2:17: steps[0].run_it: must be 'now' or 'later', not 'soon'",
        ),
        (
            "plan_name: a\nby_name:\n  x: {tries: 0}",
            "plan.yaml:3:14: by_name.x.tries: must be greater than or equal to 1, not 0",
        ),
        ("plan_name: a\nby_name: {x: 3}", "plan.yaml:2:14: by_name.x: must be a mapping, not 3"),
        ("plan_name: a\nsteps: {}", "plan.yaml:2:1: steps: must be a list, not a mapping"),
        ("plan_name: a\nratio: []", "plan.yaml:2:1: ratio: must be a number, not a list"),
        ("plan_name:", "plan.yaml:1:11: plan_name: must be a string, not nothing"),
        ("plan_name: a\ncode: X", "plan.yaml:2:7: code: must match pattern '^[a-z]+$', not 'X'"),
        ("plan_name: a\ntitle: ''", "plan.yaml:2:8: title: must not be empty"),
        (
            "plan_name: a\ntitle: long",
            "plan.yaml:2:8: title: must have at most 3 characters, not 'long'",
        ),
        (
            "plan_name: a\nwords: [a]",
            "plan.yaml:2:1: words: must have at least 2 items, not a list",
        ),
        ("plan_name: a\nloud: 7", "plan.yaml:2:7: loud: must be true or false, not 7"),
        ("plan_name: a\nloud: no", "plan.yaml:2:7: loud: must be true or false, not 'no'"),
        ('plan_name: a\nquiet: "true"', "plan.yaml:2:8: quiet: must be true or false, not 'true'"),
        ("plan_name: a\nquiet: 1", "plan.yaml:2:8: quiet: must be true or false, not 1"),
        ("plan_name: a\nratio: '5'", "plan.yaml:2:8: ratio: must be a number, not '5'"),
        (
            "plan_name: a\nby_name: {x: {tries: true}}",
            "plan.yaml:2:22: by_name.x.tries: must be an integer, not true",
        ),
        (
            "plan_name: a\nby_name: {x: {tries: 1.5}}",
            "plan.yaml:2:22: by_name.x.tries: must be an integer, not 1.5",
        ),
        (
            f"plan_name: a\ncode: {'X' * 9000}",
            f"plan.yaml:2:7: code: must match pattern '^[a-z]+$', not '{'X' * 36} ... {'X' * 36}'",
        ),
        ("plan_name: Big", "plan.yaml:1:12: plan_name: 'Big' must be lowercase; write it small"),
    ],
)
def test_config_problem_is_one_sentence_with_a_mark(text: str, problem: str) -> None:
    with pytest.raises(WorkerError) as caught:
        read(text)
    assert str(caught.value) == problem
    assert caught.value.exit_code == 3


def test_config_problem_without_marks_names_the_file() -> None:
    with pytest.raises(WorkerError) as caught:
        parse_config(Plan, {"planName": 3}, at=("plans", 0), file="plan.yaml")
    assert str(caught.value) == "plan.yaml:1:1: plans[0].plan_name: must be a string, not 3"


def test_value_has_its_mark() -> None:
    plan = read("planName: a\nsteps:\n  - {}\n  - runIt: later\n")
    assert plan.where("plan_name") == Mark("plan.yaml", 1, 11)
    assert (
        plan.where("steps", 1, "run_it")
        == plan.steps[1].where("run_it")
        == Mark("plan.yaml", 4, 12)
    )
    assert plan.where("steps", 1) == Mark("plan.yaml", 4, 5)
    assert plan.where("steps") == Mark("plan.yaml", 2, 1)
    assert plan.where("steps", 7) == Mark("plan.yaml", 2, 1)
    assert plan.where("ratio") == Mark("plan.yaml", 1, 1)
    assert Plan(plan_name="a").where("plan_name") is None


@pytest.mark.parametrize(
    ("loc", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("sandbox", "zones", 0, "mode"), "sandbox.zones[0].mode"),
        ((0, "a"), "[0].a"),
    ],
)
def test_location_is_written_as_in_files(loc: tuple[Any, ...], text: str) -> None:
    assert dotted(loc) == text
