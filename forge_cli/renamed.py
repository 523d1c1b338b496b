"""Names that the public API does not have, and what they are called in it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.util import find_spec

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


def not_found(name: str, known: Iterable[str]) -> ImportError | AttributeError:
    """The error of a name that the package does not have; Python says nothing of an AttributeError at an import."""
    meant = _called_here(name, known)
    if meant and _is_imported(name):
        return ImportError(f"cannot import name {name!r} from {__package__!r}; {meant}", name=__package__)
    return AttributeError(f"module {__package__!r} has no attribute {name!r}{f'; {meant}' if meant else ''}")


def _called_here(name: str, known: Iterable[str]) -> str | None:
    """The name that somebody may have meant, as the end of a sentence."""
    names = {_plain(each): each for each in known}
    plain, bare = _plain(name), _plain(_MAKERS.sub("", name))
    if said := _IN_FILES.get(plain):
        return said
    if found := names.get(plain) or names.get(bare) or _CALLED.get(plain) or _CALLED.get(bare):
        return f"here it is called '{found}'"
    near = nearest(name, names.values())
    return f"did you mean '{near}'?" if near else None


def _is_imported(name: str) -> bool:
    """Does ``from forge_cli import name`` ask, for what is not a module?"""
    asks = sys._getframe(3).f_code
    return asks.co_name == "_handle_fromlist" and find_spec(f"{__package__}.{name}") is None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
