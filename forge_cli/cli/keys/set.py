"""``forge keys set``: store the key of a provider."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer

from forge_cli.cli.notices import warn
from forge_cli.cli.options import new_app
from forge_cli.core.errors import UsageError
from forge_cli.files.home import close_home, forge_home
from forge_cli.files.key_store import KeyStore, variable_for

app = new_app()

LONGEST = 16 * 1024

NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="anthropic, openai, or the variable whose place it takes."),
]


@app.command("set")
def set_key(name: NameArgument) -> None:
    """Store the key of a provider.

    It is asked for without echo, or read from standard input. It lies in the system's keyring where there is one, else
    in ~/.forge/keys.json, which is for you alone. A variable of the environment wins over a stored key.
    """
    variable, home = variable_for(name), forge_home()
    value = _read_value(variable)
    key = KeyStore(home).put(variable, value)
    if closed := close_home(home):
        warn(closed)
    place = "the keyring" if key.origin == "keyring" else key.origin
    sys.stderr.write(f"{variable} ({key.shown}) is stored in {place}\n")


def _read_value(variable: str) -> str:
    if sys.stdin.isatty():
        value = getpass.getpass(f"{variable}: ", stream=None)
    else:
        value = sys.stdin.read(LONGEST + 1)
    value = value.strip()
    if not value:
        raise UsageError("no key was given", hint=f"forge keys set {variable} < FILE, or type it when asked")
    if len(value) > LONGEST or not (value.isascii() and value.isprintable()) or " " in value:
        raise UsageError("this holds characters that no key has", hint="copy the key again, and nothing else")
    return value
