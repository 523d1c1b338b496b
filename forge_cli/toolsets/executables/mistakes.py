"""Why a program failed, where a common mistake of its ``tool.yaml`` explains it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from forge_cli.core.processes import Finished
from forge_cli.core.tool import Args
from forge_cli.core.zones import Zone
from forge_cli.sandbox.names import shown
from forge_cli.toolsets.executables.manifest import FILE, Manifest

_MISSING = re.compile(r"no such file|not found|does(?: not|n't) exist|cannot find|ENOENT", re.IGNORECASE)


def find_mistake(manifest: Manifest, args: Args, zones: Iterable[Zone], done: Finished) -> str | None:
    """A virtual path that a program got as text and did not find; None where nothing suggests that."""
    if not _MISSING.search(f"{done.stderr}\n{done.stdout}"):
        return None
    names = {zone.name for zone in zones}
    for parameter in manifest.parameters:
        value = args.get(parameter.name)
        if parameter.type == "string" and isinstance(value, str) and _is_virtual(value, names):
            remedy = f"with 'type: path' for '{parameter.name}' in {FILE} it gets the real path"
            return f"{shown(value)} is a path of a zone, and the program got it as it is; {remedy}"
    return None


def _is_virtual(text: str, zones: set[str]) -> bool:
    root, _, rest = text.partition("/")
    return root == "" and rest.partition("/")[0] in zones and not os.path.lexists(text)
