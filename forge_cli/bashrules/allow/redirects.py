"""The files of a command: targets of redirections, and words that may name secrets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.allow.values import Redirect
from forge_cli.bashrules.names import FileNames
from forge_cli.bashrules.programs.table import below, program, program_named, word_set

CD_LEAVES = "cd may leave the working directory"
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")
_WRITES = frozenset({">", ">>", ">|", ">&", "&>", "&>>", "<>"})
_DATA = frozenset({"<<", "<<<"})
_LOOKERS = word_set("ls dir stat test [ basename dirname realpath readlink")
_GIT_LOOKERS = frozenset({("git", "ls-files"), ("git", "check-ignore"), ("git", "status")})
_FIND_ACTIONS = word_set("-exec -execdir -ok -okdir -files0-from")


def redirect_hazard(
    redirect: Redirect,
    writable: Sequence[str],
    names: FileNames,
    *,
    moved: bool,
    unsure: str | None = None,
) -> str | None:
    """Return why a redirection is not harmless, or None.

    Once a line has ``moved``, no relative name is known to be in ``writable``. ``unsure`` is a
    command of the line that may have made links, so that names may lead elsewhere.
    """
    operator, target = redirect.operator, redirect.target.text
    if operator in _DATA or target == "/dev/null":
        return None
    if operator in ("<&", ">&") and _DESCRIPTOR.fullmatch(target):
        return None
    if redirect.target.glob:
        return f"the target of {operator} is a glob"
    if operator in _WRITES:
        inside = any(is_inside(target, folder) for folder in writable)
        if not inside or (moved and below(target)) or names.keep_from_writing(target):
            return f"{operator} {target} writes a file"
        if unsure:
            return f"{unsure} may have made links, so {operator} {target} may write elsewhere"
        return None
    if any(map(names.is_secret, target.split("/"))):
        return f"{target} may hold secrets"
    if operator != "<" or not below(target):
        return f"{operator} {target} reads outside the working directory"
    if unsure:
        return f"{unsure} may have made links, so < {target} may read elsewhere"
    return None


def secret_hazard(
    words: Sequence[ShellWord], reach: int, names: FileNames, scripts: Sequence[int] = ()
) -> str | None:
    """Return the word by which a command may read secrets, unless a rule names it.

    The words at the places ``scripts`` are patterns or programs, and no names of files.
    """
    prints = "prints" in program_named(program(words[0].text)).kind
    if prints and not any(word.glob for word in words):
        return None
    if reads_no_content([word.text for word in words]):
        return None
    for at, word in enumerate(words):
        if at < max(reach, 1) or at in scripts:
            continue
        if names.named_secret(word.text, glob=word.glob):
            return f"{word.text} may hold secrets"
    return None


def reads_no_content(words: Sequence[str]) -> bool:
    """Return True if a command looks at names, sizes and dates of files, but not into them."""
    if words[0] == "find":
        return _FIND_ACTIONS.isdisjoint(words)
    return words[0] in _LOOKERS or tuple(words[:2]) in _GIT_LOOKERS


def is_inside(path: str, folder: str) -> bool:
    """Return True if a file is below a folder, by their names alone."""
    if ".." in path.split("/") or path.endswith("/"):
        return False
    path = posixpath.normpath(path)
    folder = posixpath.normpath(folder)
    if folder == ".":
        return below(path) and path != "."
    return path.startswith(folder.rstrip("/") + "/")
