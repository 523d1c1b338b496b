"""What a command line gives to a command: the same as typer would, and pydantic only where a value needs it."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from forge_cli.cli.options import new_app

GIVEN: dict[str, list[str]] = {
    "nothing but what must be": ["a"],
    "texts": ["a", "b", "c", "--text", "x", "--texts", "y", "--texts", "z"],
    "an empty text": ["", "--text", ""],
    "a number": ["a", "--number", "7"],
    "a number that is none": ["a", "--number", "seven"],
    "a number that is too small": ["a", "--number", "0"],
    "a choice": ["a", "--choice", "one"],
    "a choice that there is not": ["a", "--choice", "two"],
    "a path": ["a", "--path", "some/where"],
    "a flag": ["a", "--flag"],
    "nothing at all": [],
}


def made(app: typer.Typer, seen: list[Any]) -> typer.Typer:
    @app.command()
    def command(
        first: str,
        rest: Annotated[list[str] | None, typer.Argument()] = None,
        text: Annotated[str | None, typer.Option()] = None,
        texts: Annotated[list[str] | None, typer.Option()] = None,
        number: Annotated[int | None, typer.Option(min=1)] = None,
        choice: Annotated[Literal["one"] | None, typer.Option()] = None,
        path: Annotated[Path | None, typer.Option()] = None,
        flag: bool = False,
    ) -> None:
        seen.append((first, rest, text, texts, number, choice, path, flag))

    return app


@pytest.mark.parametrize("args", GIVEN.values(), ids=GIVEN.keys())
def test_values_and_complaints_are_those_of_typer(args: list[str]) -> None:
    ours, theirs = list[Any](), list[Any]()
    plain = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
    done, expected = (CliRunner().invoke(made(app, seen), args) for app, seen in ((new_app(), ours), (plain, theirs)))
    assert (done.exit_code, ours) == (expected.exit_code, theirs)
    assert done.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]


def test_texts_and_what_is_not_given_need_no_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name == "pydantic" or name.startswith(("pydantic.", "typer._adapters"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic", None)
    seen: list[Any] = []
    assert CliRunner().invoke(made(new_app(), seen), GIVEN["texts"]).exit_code == 0
    assert seen == [("a", ["b", "c"], "x", ["y", "z"], None, None, None, False)]
