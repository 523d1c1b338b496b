"""The final answer as a value of a Python type: supported types, repairs, and the log.

Covers forge_cli.engine.turns.output_type.
"""

import dataclasses
import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from forge_cli import ForgeError, Worker, WorkerRuntime, run_sync
from forge_cli.core.errors import ExitCode
from forge_cli.errors import UsageError
from forge_cli.testing import Project, Seen, scripted_model
from tests.support.listener import Listener


class City(BaseModel):
    name: str
    people: int = Field(ge=0)
    founded: date | None = None


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("it has to be even")
        return number


class Renamed(BaseModel):
    kind: str = Field(alias="Type")


BERN = City(name="Bern", people=1, founded=date(1191, 1, 1))


@dataclasses.dataclass
class Point:
    x: int
    y: int
    labels: tuple[str, ...] = ()


class Price(TypedDict):
    amount: Decimal


def ask(project: Project, output_type: Any, *answers: str, **options: Any) -> Any:
    worker = Worker.of(name="asker", model="script:unused.yaml")
    with project.environment():
        return run_sync(
            worker, "go", model=scripted_model(*answers), output_type=output_type, **options
        )


@pytest.mark.parametrize(
    ("output_type", "answer", "value"),
    [
        (City, '{"name": "Bern", "people": 1, "founded": "1191-01-01"}', BERN),
        (Point, '{"x": 1, "y": 2, "labels": ["a"]}', Point(1, 2, ("a",))),
        (Price, '{"amount": "1.50"}', {"amount": Decimal("1.50")}),
        (list[City], '[{"name": "Bern", "people": 1}]', [City(name="Bern", people=1)]),
        (int, "42", 42),
        (bool, "false", False),
        (Renamed, '{"Type": "x"}', Renamed(Type="x")),
        (dict[str, Point], '```json\n{"a": {"x": 1, "y": 2}}\n```', {"a": Point(1, 2)}),
    ],
)
def test_output_is_a_value_of_the_type(
    project: Project, output_type: Any, answer: str, value: Any
) -> None:
    result = ask(project, output_type, answer)
    assert result.exit_code == ExitCode.DONE
    assert result.output == value
    assert type(result.output) is type(value)


def test_printed_result_and_log_contain_json(project: Project) -> None:
    answer = {"name": "Bern", "people": 1, "founded": "1191-01-01"}
    project.write("worker.yaml", "name: w\n")
    seen: Seen = project.run(json.dumps(answer), output_type=City)
    assert seen.result.output == BERN
    assert json.loads(json.dumps(seen.result.wire()))["output"] == answer
    ended = [line for line in seen.lines if line["type"] == "sessionEnd"]
    assert ended[0]["result"]["output"] == answer


def test_alias_is_kept_in_the_printed_result(project: Project) -> None:
    assert ask(project, Renamed, '{"Type": "x"}').wire()["output"] == {"Type": "x"}


def test_schema_of_the_type_is_in_the_prompt(project: Project) -> None:
    project.write("worker.yaml", "name: w\n")
    model = Listener.scripted('{"name": "Bern", "people": 1}')
    project.run(model=model, output_type=City)
    assert '"people"' in model.system[0]
    assert '"minimum": 0' in model.system[0]


@pytest.mark.parametrize(
    ("output_type", "wrong", "right"),
    [
        (City, '{"name": "Bern", "people": -1}', '{"name": "Bern", "people": 1}'),
        (City, '{"name": "Bern", "people": 1, "founded": "soon"}', '{"name": "Bern", "people": 1}'),
        (Even, '{"number": 3}', '{"number": 4}'),
    ],
)
def test_answer_that_only_the_type_refuses_is_requested_again(
    project: Project, output_type: Any, wrong: str, right: str
) -> None:
    result = ask(project, output_type, wrong, right)
    assert (result.exit_code, result.turns) == (ExitCode.DONE, 2)
    assert isinstance(result.output, output_type)


def test_invalid_answer_has_no_output(project: Project) -> None:
    result = ask(project, Even, *['{"number": 3}'] * 3)
    assert (result.exit_code, result.output) == (ExitCode.MISFIT, None)
    assert "$.number: Value error, it has to be even" in (result.error or "")


def test_incomplete_task_has_no_output(project: Project) -> None:
    result = ask(project, City)
    assert not result.success
    assert result.output is None


class Opaque:
    """Nothing that JSON could hold."""


@pytest.mark.parametrize("output_type", [Opaque, type, "City"])
def test_type_without_a_schema_is_refused_by_name(project: Project, output_type: Any) -> None:
    with pytest.raises(UsageError, match=r"^output_type .*(Opaque|type|City)") as caught:
        ask(project, output_type, "x")
    assert "pydantic model, a dataclass, a TypedDict" in str(caught.value)


def test_schema_together_with_a_type_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="give one"):
        ask(project, City, "x", output_schema={"type": "object"})


def test_type_instead_of_a_schema_names_the_right_argument(project: Project) -> None:
    worker = Worker.of(name="asker")
    with pytest.raises(UsageError, match="output_type=City"), project.environment():
        WorkerRuntime(worker=worker, output_schema=City)  # type: ignore[call-overload]
    with (
        pytest.raises(ForgeError, match="must be the path of a JSON Schema"),
        project.environment(),
    ):
        Worker.of(name="asker", output_schema=City)
