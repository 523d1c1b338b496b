"""``forge tools remove``: a tool and what was approved of it, gone."""

from __future__ import annotations

import shutil
import sys

from forge_cli.cli.options import new_app
from forge_cli.cli.tools.programs import NameArgument, folder_of
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.toolsets.executables.approved import Approved
from forge_cli.toolsets.executables.uv import forget_environments

app = new_app()


@app.command()
def remove(name: NameArgument) -> None:
    """Delete a tool, without asking.

    A link is deleted, and not what it leads to.
    """
    folder = folder_of(name)
    linked = folder.is_symlink()
    try:
        if linked:
            folder.unlink()
        else:
            shutil.rmtree(folder)
    except OSError as error:
        raise ForgeError(f"{folder} cannot be removed: {error.strerror or error}", hint=f"rm -r {folder}") from None
    Approved(forge_home()).forget(name)
    forget_environments(forge_home(), name)
    sys.stdout.write(visible(f"{'removed the link' if linked else 'removed'} {folder}") + "\n")
