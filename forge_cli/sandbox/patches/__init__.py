"""Patches: text that a model wrote, read, planned on every file it names, and carried out as a whole or not at all.

``parse_patch`` reads it, ``accesses`` says what it wants of which path, ``plan`` says what every file would become,
and ``apply`` makes it so. Only ``apply`` writes. ``replace_text`` is for a text in one file.
"""

from forge_cli.sandbox.patches.model import Add, Change, Delete, Hunk, HunkLine, Patch, Update, accesses, recap
from forge_cli.sandbox.patches.parse import parse_patch
from forge_cli.sandbox.patches.plan import apply, plan, reader, stamp
from forge_cli.sandbox.patches.replace import Replaced, replace_text

__all__ = [
    "Add",
    "Change",
    "Delete",
    "Hunk",
    "HunkLine",
    "Patch",
    "Replaced",
    "Update",
    "accesses",
    "apply",
    "parse_patch",
    "plan",
    "reader",
    "recap",
    "replace_text",
    "stamp",
]
