"""``forge keys list``: which keys there are, and where each comes from."""

from __future__ import annotations

import os
from typing import Any

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.table import print_json, print_table
from forge_cli.files.home import forge_home
from forge_cli.files.key_store import PROVIDERS, KeyStore, ProviderKey

app = new_app()


@app.command("list")
def list_keys(as_json: JsonOption = False) -> None:
    """List keys, and where each comes from.

    Those that are stored, and those of known providers in the environment; no more than their last four characters.
    """
    stored = KeyStore(forge_home()).all()
    names = dict.fromkeys([*PROVIDERS.values(), *(key.variable for key in stored)])
    given = [ProviderKey(name, value, "environment") for name in names if (value := os.environ.get(name, "").strip())]
    rows = [_row(key, used=True) for key in given]
    rows += [_row(key, used=key.variable not in {each.variable for each in given}) for key in stored]
    if as_json:
        print_json(rows)
    else:
        print_table(["name", "key", "used", "from"], [{**row, "used": "yes" if row["used"] else "no"} for row in rows])


def _row(key: ProviderKey, *, used: bool) -> dict[str, Any]:
    shown = key.shown if key.value else "(the keyring does not give it)"
    return {"name": key.variable, "key": shown, "used": used and bool(key.value), "from": key.origin}
