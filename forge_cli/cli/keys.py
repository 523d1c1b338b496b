"""``forge keys set|list|remove``: API keys of providers, stored for this user."""

from __future__ import annotations

import getpass
import os
import sys
from typing import Annotated, Any

import typer

from forge_cli.cli.notices import warn
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.errors import UsageError
from forge_cli.files.home import close_home, forge_home
from forge_cli.files.keys import PROVIDERS, KeyStore, ProviderKey, variable_for
from forge_cli.ui.table import print_json, print_table

app = new_app()

MAX_KEY = 16 * 1024

NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="anthropic, openai, or the name of a variable."),
]


@app.command("set")
def set_key(name: NameArgument) -> None:
    """Store the API key of a provider.

    forge asks for it without echo, or reads it from standard input. It is stored in the system's
    keyring if there is one, else in ~/.forge/keys.json, which only you can read. An environment
    variable overrides a stored key.
    """
    variable = variable_for(name)
    home = forge_home()
    value = _read_value(variable)
    key = KeyStore(home).put(variable, value)
    if closed := close_home(home):
        warn(closed)
    place = "the keyring" if key.origin == "keyring" else key.origin
    sys.stderr.write(f"{variable} ({key.shown}) is stored in {place}\n")


def _read_value(variable: str) -> str:
    if sys.stdin.isatty():
        value = _ask_value(variable)
    else:
        value = sys.stdin.read(MAX_KEY + 1)  # one more than allowed, to notice a longer text
    value = value.strip()
    if not value:
        raise UsageError(
            "no key was given", hint=f"forge keys set {variable} < FILE, or run it in a terminal"
        )
    if len(value) > MAX_KEY or not (value.isascii() and value.isprintable()) or " " in value:
        raise UsageError(
            "not a valid key: it contains spaces or control characters",
            hint="copy the key again, without anything else",
        )
    return value


def _ask_value(variable: str) -> str:
    """Return the line that is typed without echo, or an empty text at the end of input."""
    try:
        return getpass.getpass(f"{variable}: ", stream=None)
    except (EOFError, KeyboardInterrupt) as left:
        sys.stderr.write("\n")  # the cursor is still behind the question
        if isinstance(left, EOFError):
            return ""
        raise


@app.command("list")
def list_keys(as_json: JsonOption = False) -> None:
    """List API keys, and where each comes from.

    Includes stored keys, and keys of known providers in the environment. At most the last four
    characters are shown.
    """
    stored = KeyStore(forge_home()).all()
    names = dict.fromkeys([*PROVIDERS.values(), *(key.variable for key in stored)])
    rows: list[dict[str, Any]] = []
    overridden: set[str] = set()
    for name in names:
        if value := os.environ.get(name, "").strip():
            overridden.add(name)
            rows.append(_row(ProviderKey(name, value, "environment"), used=True))
    rows += [_row(key, used=key.variable not in overridden) for key in stored]
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            row["used"] = "yes" if row["used"] else "no"
        print_table(["name", "key", "used", "from"], rows)


def _row(key: ProviderKey, *, used: bool) -> dict[str, Any]:
    shown = key.shown if key.value else "(the keyring does not return it)"
    return {
        "name": key.variable,
        "key": shown,
        "used": used and bool(key.value),
        "from": key.origin,
    }


@app.command()
def remove(name: NameArgument) -> None:
    """Delete a stored key, without asking."""
    variable = variable_for(name)
    if not KeyStore(forge_home()).remove(variable):
        more = ""
        if os.environ.get(variable):
            more = "; it comes from the environment, which forge cannot change"
        raise UsageError(
            f"no key is stored for {variable}{more}", hint="forge keys list shows those that are"
        )
    sys.stderr.write(f"{variable} is no longer stored\n")
