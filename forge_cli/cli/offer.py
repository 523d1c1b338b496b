"""The questions of ``forge`` without arguments: which worker and which model to chat with."""

from __future__ import annotations

import sys

from forge_cli.cli.notices import ask, near, warn
from forge_cli.core.approval import GrantRule
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import visible
from forge_cli.files.edit import CannotEditError, plan_edit
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import FOLDER_FILES
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import load_worker
from forge_cli.inspection.defaults import default_worker, missing_of, model_of
from forge_cli.inspection.providers import ready_models
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive

MAX_SHOWN = 9
"""Models that are listed at once."""


def offer_talk() -> list[str]:
    """Return the arguments that start a chat; empty if no model is ready or the user declines.

    The user has not named the worker of the folder, so forge asks first.
    """
    if not is_interactive():
        return []
    try:
        named = default_worker()
        chosen = _ready_model(named)
    except ForgeError:
        return []
    if chosen is None:
        return []
    if named in FOLDER_FILES:
        name = load_worker(named).name
        if ask(f"Chat with {name}? [Y/n] > ", at_end="n").lower() not in ("", "y", "yes"):
            return []
    return ["chat", *chosen]


def _ready_model(named: str) -> list[str] | None:
    """Return options that name a ready model, if the worker and the settings name none.

    None means that no model is ready.
    """
    model = model_of(named)
    if model:
        return [] if missing_of(model.partition(":")[0]) is None else None
    picked = pick_model()
    return ["-m", picked] if picked else None


def pick_model() -> str | None:
    """Ask which of the ready models to use; return None if there is none, or none is chosen."""
    names = in_loop(ready_models)
    aliases = load_settings(forge_home()).aliases
    if not names:
        return None
    for number, name in enumerate(names[:MAX_SHOWN], 1):
        sys.stderr.write(f"{number:3}  {visible(name)}\n")
    more = ""
    if len(names) > MAX_SHOWN:
        more = f" ({len(names) - MAX_SHOWN} more: forge models list)"
    # "-" means no model: at the end of input, or if it is typed
    while (typed := ask(f"Which model? A number or a name{more} [1] > ", at_end="-") or "1") != "-":
        matching = [name for name in names if typed in (name, name.partition(":")[2])]
        if typed.isascii() and typed.isdecimal() and int(typed):
            # a slice, which is empty if the number is too large
            matching = names[int(typed) - 1 : int(typed)] + matching
        if not matching and (":" in typed or typed in aliases):
            matching = [typed]  # a name that no provider lists may exist all the same
        if matching:
            picked = matching[0]
            _keep_model(picked)
            return picked
        sys.stderr.write(
            f"  {visible(typed)} is not in the list; enter a number, or PROVIDER:MODEL\n"
        )
    return None


def _keep_model(name: str) -> None:
    """Offer to write the model to config.yaml, so that forge need not ask again."""
    if ask("Use it by default? [Y/n] > ", at_end="n").lower() not in ("", "y", "yes"):
        return
    file = forge_home() / "config.yaml"
    try:
        plan_edit(file, [GrantRule(("model",), name, "", user_at=("model",))], user=True).write()
    except CannotEditError as error:
        warn(str(error))
    else:
        sys.stderr.write(f"{near(file)} now sets this model; -m overrides it.\n")
