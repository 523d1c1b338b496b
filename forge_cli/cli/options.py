"""The app class of commands, and options that several commands share."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from forge_cli.cli.parsing import HELP, PlainParser
from forge_cli.core.approval import ApprovalMode
from forge_cli.core.errors import UsageError
from forge_cli.files.places import require_folder

DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "-C", "--cd", metavar="DIR", help="Work in DIR; a worker is still looked up from here."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonInputOption = Annotated[
    str | None,
    typer.Option("--json-input", metavar="JSON", help="The complete input as a JSON object."),
]


class PlainCommand(PlainParser, TyperCommand):
    """A command whose help shows ``WORKER [TASK|-]`` without the types that typer would add."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return [
            piece[1:].replace("}", "", 1) if piece.startswith("{") else piece for piece in pieces
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        from forge_cli.cli.overview import write_parameters

        write_parameters(self.get_params(ctx), ctx, formatter)


class App(typer.Typer):
    """A typer app whose commands are ``PlainCommand`` by default."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Any:
        register = super().command(name, cls=cls or PlainCommand, context_settings=HELP, **settings)

        def resolve(function: Callable[..., Any]) -> Any:
            # typer inspects a function three times, and evaluates each hint twice every time
            function.__annotations__ = get_type_hints(function, include_extras=True)
            register(_spread(function))
            return function

        return resolve


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with an option for each field of a dataclass parameter."""
    signature = inspect.signature(function)
    bag = next(
        (each for each in signature.parameters.values() if is_dataclass(each.annotation)), None
    )
    if bag is None:
        return function
    kind = bag.annotation
    parameters = list(signature.parameters.values())
    options = inspect.signature(kind).parameters
    hints = get_type_hints(kind, include_extras=True)
    place = parameters.index(bag)
    parameters[place : place + 1] = [
        each.replace(annotation=hints[name]) for name, each in options.items()
    ]

    @wraps(function)
    def command(**given: Any) -> Any:
        chosen = kind(**{name: given.pop(name) for name in options})
        return function(**given, **{bag.name: chosen})

    command.__annotations__ = {each.name: each.annotation for each in parameters}
    # keywords may follow a default in any order, which positional parameters may not
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    command.__signature__ = signature.replace(parameters=keywords)  # type: ignore[attr-defined]
    return command


def new_app(**settings: object) -> typer.Typer:
    """Return an app with plain help and forge's own errors."""
    return App(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        **settings,  # type: ignore[arg-type]
    )


def work_folder(directory: Path | None) -> Path:
    """Return the folder that ``-C`` names, or the current one."""
    folder = Path.cwd() if directory is None else directory
    require_folder("-C", folder)
    if "FORGE_TRUST" in os.environ:
        from forge_cli.cli.ask_trust import trust_by_hash

        trust_by_hash(folder)
    return folder.resolve()


def chosen_mode(mode: ApprovalMode | None, yes: bool) -> ApprovalMode | None:
    """Return the approval mode; raise a UsageError if ``-y`` contradicts ``--approval-mode``."""
    if yes and mode not in (None, ApprovalMode.APPROVE_ALL):
        raise UsageError(f"-y and --approval-mode {mode.value} contradict each other; keep one")
    return ApprovalMode.APPROVE_ALL if yes else mode
