"""``forge trust``: consent to use the workers, settings and code of a folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.errors import UsageError
from forge_cli.core.text import visible
from forge_cli.files.bringing import describe_capabilities, find_brought, hash_brought
from forge_cli.files.home import forge_home
from forge_cli.files.mcp_project import PROJECT_FILES
from forge_cli.files.repository import NAMES as GUIDANCE
from forge_cli.files.trust import TrustStore
from forge_cli.ui.table import print_json

app = new_app()


@app.command()
def trust(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A folder or a file. Default: the working directory."),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List everything that is trusted.")
    ] = False,
    as_json: JsonOption = False,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Revoke trust in PATH and everything below it.")
    ] = False,
    print_hash: Annotated[
        bool,
        typer.Option(
            "--print-hash", help="Print the hash for FORGE_TRUST, without trusting anything."
        ),
    ] = False,
) -> None:
    """Trust the workers, settings, skills and other files of a folder.

    Read the files first: each is trusted as it is now. If one changes, trust it again.
    """
    store = TrustStore(forge_home())
    place = Path(os.path.abspath(path or "."))
    ways = {
        "--list": list_all,
        "--revoke": revoke,
        "--print-hash": print_hash,
        "PATH": list_all and path is not None,
    }
    if len(chosen := [name for name, given in ways.items() if given]) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} contradict each other; keep one")
    if as_json and not list_all:
        raise UsageError("--json needs --list", hint="forge trust --list --json")
    if as_json:
        print_json([{"path": path} for path in store.trusted()])
        return
    if list_all:
        lines = store.trusted()
        if not lines:
            sys.stderr.write(
                "nothing is trusted yet; forge trust PATH trusts the files of a folder\n"
            )
    elif revoke:
        lines = [f"no longer trusted: {gone}" for gone in store.revoke(place)]
        if not lines:
            sys.stderr.write(f"nothing was trusted in {visible(str(place))}\n")
    else:
        found = find_brought(place)  # all of them first: an error must not leave some trusted
        if print_hash:
            lines = [hash_brought(found, place)]
        else:
            for each in found:
                each.trust(store)
            lines = [f"trusted: {each.title}" for each in found]
        if found:
            sys.stderr.write(f"It would: {visible(describe_capabilities(found))}.\n")
        else:
            known = (
                ".forge/workers",
                ".forge/skills",
                ".forge/config.yaml",
                *GUIDANCE,
                *PROJECT_FILES,
            )
            hint = f"trust covers {', '.join(known[:-1])} or {known[-1]}"
            raise UsageError(f"{place}: nothing here needs trust", hint=hint)
    sys.stdout.writelines(f"{visible(line)}\n" for line in lines)
