"""Names that the public API does not have, and what they are called in it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from forge_cli.core.text import nearest

_MAKERS = re.compile(r"^(?:create|get|make|new)_?(?=.)", re.IGNORECASE)
"""How makers and getters of other languages begin; here a class is called, and a function named after its value."""
_CALLED = {
    "calltoolresult": "ToolResult",
    "customresultvalue": "Custom",
    "customtoolsetconfig": "ToolsetConfig",
    "deletefiletool": "FilesystemToolset",
    "derivefieldsfromschema": "derive_fields",
    "eventcliadapter": "TerminalUI",
    "namedtool": "Tool",
    "readfiletool": "FilesystemToolset",
    "uieventbus": "EventBus",
    "wellknownresultvalue": "ResultValue",
    "wrapwithdefaultapproval": "ApprovalConfig",
    "writefiletool": "FilesystemToolset",
}
"""By names in small letters, without underscores."""
_IN_FILES = {
    "loadcustomtools": "a worker names its tools.py under toolsets.custom",
    "workercalltoolset": "a worker names others under toolsets.workers",
    "definemcptool": "a worker names servers under toolsets.mcp",
    "registertools": "a plugin returns its toolsets from the hook forge_toolsets",
}


def called_here(name: str, known: Iterable[str]) -> str | None:
    """The name that somebody may have meant, as the end of a sentence."""
    names = {_plain(each): each for each in known}
    plain, bare = _plain(name), _plain(_MAKERS.sub("", name))
    if said := _IN_FILES.get(plain):
        return said
    if found := names.get(plain) or names.get(bare) or _CALLED.get(plain) or _CALLED.get(bare):
        return f"here it is called '{found}'"
    near = nearest(name, names.values())
    return f"did you mean '{near}'?" if near else None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
