"""The folders and files of a command, as far as the text of the line can tell."""

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
    """Why a redirection is not harmless; once a line has ``moved``, no relative name is known to be in ``writable``.

    ``unsure`` is a command of the line that may have made links, so that no name is known to be what it was.
    """
    operator, target = redirect.operator, redirect.target.text
    if operator in _DATA or target == "/dev/null":
        return None
    if operator in ("<&", ">&") and _DESCRIPTOR.fullmatch(target):
        return None
    if redirect.target.glob:
        return f"the target of {operator} is a glob"
    if operator in _WRITES:
        inside = any(is_inside(target, folder) for folder in writable) and not (
            moved and below(target)
        )
        if inside and unsure and not names.keep_from_writing(target):
            return f"{unsure} may have made links, so that {operator} {target} may write elsewhere"
        return (
            None
            if inside and not names.keep_from_writing(target)
            else f"{operator} {target} writes a file"
        )
    if any(map(names.is_secret, target.split("/"))):
        return f"{target} may hold secrets"
    if operator != "<" or not below(target):
        return f"{operator} {target} reads outside the working directory"
    return (
        f"{unsure} may have made links, so that < {target} may read elsewhere" if unsure else None
    )


def secret_hazard(
    words: Sequence[ShellWord], reach: int, names: FileNames, scripts: Sequence[int] = ()
) -> str | None:
    """Why a command may read secrets: it names a file that holds some, and no rule of ``reach`` tokens does.

    The words at the places ``scripts`` are patterns or programs, and no names of files.
    """
    if "prints" in program_named(program(words[0].text)).kind and not any(
        word.glob for word in words
    ):
        return None
    if reads_no_content([word.text for word in words]):
        return None
    operands = (word for at, word in enumerate(words) if at >= max(reach, 1) and at not in scripts)
    named = next(
        (word.text for word in operands if names.named_secret(word.text, glob=word.glob)), None
    )
    return f"{named} may hold secrets" if named else None


def reads_no_content(words: Sequence[str]) -> bool:
    """Whether a command looks at names, sizes and dates of the files that its words name, and at nothing in them."""
    if words[0] == "find":
        return _FIND_ACTIONS.isdisjoint(words)
    return words[0] in _LOOKERS or tuple(words[:2]) in _GIT_LOOKERS


def is_inside(path: str, folder: str) -> bool:
    """Whether a file is below a folder, by their names alone."""
    if ".." in path.split("/") or path.endswith("/"):
        return False
    path, folder = posixpath.normpath(path), posixpath.normpath(folder)
    if folder == ".":
        return below(path) and path != "."
    return path.startswith(folder.rstrip("/") + "/")
