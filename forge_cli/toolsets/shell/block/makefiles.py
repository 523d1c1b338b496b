"""Makefiles as text for a shell: their recipes, with what only make understands put into the shell's words."""

from __future__ import annotations

import re

_SHELL = re.compile(r"\$[({]shell\s")
_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_ASSIGNMENT = re.compile(r"^ *(?:(?:export|override)\s+)*(\w+)\s*[:?+!]*=[ \t]*(.*)$", re.MULTILINE)
_PREFIX = re.compile(r"(^[ \t]*|[;:][ \t]*)[@+-]+", re.MULTILINE)


def makefile_script(text: str) -> str:
    text = _VARIABLE.sub(r"${\1}", _SHELL.sub("$(", text))
    text = _ASSIGNMENT.sub(lambda found: f"{found[1]}='{found[2]}'\n{found[2]}", text)
    return _PREFIX.sub(r"\1", text).replace("$$", "$")
