"""Instructions on the file tools: how paths are written in this worker, and how a patch is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge_cli.core.errors import ToolError
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.zones import Access, Zone, ZoneMode

PATCH = """Add, change, move and delete files by a patch: all of it, or nothing.
Below a header, "@@" begins each place in the file; of its lines " " stay, "-" go and "+" come. For example:
*** Begin Patch
*** Update File: src/app.py
@@
 def main():
-    run()
+    run(fast=True)
*** Add File: notes.txt
+A line of the new file.
*** Delete File: old.txt
*** End Patch
"*** Move to: PATH" below "*** Update File" renames the file. A unified diff is understood, too."""
_NAMED = 6


@dataclass(frozen=True)
class PathTexts:
    """How paths are described: by the zones that there are."""

    zones: Sequence[Zone] = ()
    here: Zone | None = None
    """The zone of the working directory."""

    @classmethod
    def of(cls, sandbox: SandboxView | None) -> PathTexts:
        return cls() if sandbox is None else cls(sandbox.zones, _working_zone(sandbox))

    @property
    def default(self) -> str:
        """The default folder to list and search: the working directory, or all zones."""
        return "/" if self.zones and self.here is None else "."

    def describe(self, access: Access) -> str:
        usable = [zone for zone in self.zones if zone.mode is ZoneMode.RW or not access.changes]
        if self.zones and not usable:
            return "No folder can be changed here"
        others = sorted(f"/{zone.name}/..." for zone in usable if zone != self.here)
        named = _either([*others[:_NAMED], *(["another zone"] if len(others) > _NAMED else [])])
        if not self.zones or self.here in usable:
            return "Relative to the working directory" + (f", or {named}" if others else "")
        return f"{named}; / lists these" if access is Access.LIST else named


def _working_zone(sandbox: SandboxView) -> Zone | None:
    try:
        _, name, *_ = sandbox.resolve(".").split("/")
    except ToolError:
        return None
    return next((zone for zone in sandbox.zones if zone.name == name), None)


def _either(names: Sequence[str]) -> str:
    *first, last = names or [""]
    return f"{', '.join(first)} or {last}" if first else last
