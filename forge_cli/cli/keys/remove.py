"""``forge keys remove``: forget a stored key."""

from __future__ import annotations

import os
import sys

from forge_cli.cli.keys.set import NameArgument
from forge_cli.cli.options import new_app
from forge_cli.core.errors import UsageError
from forge_cli.files.home import forge_home
from forge_cli.files.key_store import KeyStore, variable_for

app = new_app()


@app.command()
def remove(name: NameArgument) -> None:
    """Forget a stored key, without asking."""
    variable = variable_for(name)
    if not KeyStore(forge_home()).remove(variable):
        more = "; it is set in the environment, which forge does not change" if os.environ.get(variable) else ""
        raise UsageError(f"no key is stored for {variable}{more}", hint="forge keys list shows those that are")
    sys.stderr.write(f"{variable} is no longer stored\n")
