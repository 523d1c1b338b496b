"""Commands that print names of files, and the files that their output can name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from itertools import chain, pairwise

from forge_cli.bashrules.allow.lexer import Unknown
from forge_cli.bashrules.programs.table import below, word_set
from forge_cli.bashrules.sets.secrets import FilesBelow

_GLOB = re.compile(r"[*?\[]")
_SUFFIX = re.compile(r"(?:[A-Za-z0-9_./-]*/)?(\*[A-Za-z0-9_.-]+)")
"""A pathspec of git. Its star crosses folders, so only the part after it is certain."""
_PLAIN = re.compile(r"(?!-)[A-Za-z0-9_./*?\[\]-]+")
"""Words that the shell and xargs leave unchanged if no file fits them."""
_FIND_TESTS = word_set(
    "-name -iname -path -ipath -wholename -type -maxdepth -mindepth -size -mtime -mmin -newer "
    "-perm -user -group"
)
"""Tests that take a value."""
_FIND_WORDS = word_set("-print -print0 -prune -a -and -empty -xdev -mount ( )")
_FIND_OR = word_set("-o -or ,")
_FIND_NOT = word_set("! -not")
_FIND_NAMES = word_set("-name -iname")
_GIT_LISTS = {
    ("git", "ls-files"): word_set("-z -m -o -c --cached --others --modified --exclude-standard --"),
    ("git", "grep", "-l"): word_set("-i -w -F -E -z --"),
}
_RG = word_set("--files -l --files-with-matches -i -w -F -s -S -0 --null")
_GREP = re.compile(r"-[rRlniEFwIsZ]*l[rRlniEFwIsZ]*")
_COUNT = re.compile(r"-?[0-9]+|-n[0-9]*")
_PASSES = {
    "head": _COUNT,
    "tail": _COUNT,
    "sort": re.compile(r"-[urnfV]+"),
    "uniq": re.compile(r"(?!)"),  # fits nothing, so that no argument is allowed
    "grep": re.compile(r"-[viEFw]+|[^-].*"),
}
"""Programs that print some lines of their input unchanged, and the arguments that allow that."""
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./~^@{}-]*|--short|--tags|--abbrev=0|--abbrev-ref")


def listed(unknown: Unknown) -> FilesBelow | None:
    """Return the files that an unknown word can name; None if it can be any word."""
    if unknown.glob:
        return _fitting([unknown.glob]) if _PLAIN.fullmatch(unknown.glob) else None
    if not unknown.printed_by:
        return None
    first, *others = unknown.printed_by
    return _lists(first) if all(map(_passes_lines, others)) else None


def lists_disk(unknown: Unknown) -> bool:
    """Return True if only files on disk are listed; git also lists files that were deleted."""
    return bool(unknown.printed_by) and unknown.printed_by[0][0] != "git"


def is_revision(unknown: Unknown) -> bool:
    """Return True if it is the name or the hash of a commit."""
    if len(unknown.printed_by) != 1:
        return False
    words = unknown.printed_by[0]
    asked = words[:2] in (("git", "rev-parse"), ("git", "merge-base"), ("git", "describe"))
    return asked and all(map(_REVISION.fullmatch, words[2:]))


def _passes_lines(words: Sequence[str]) -> bool:
    plain = _PASSES.get(words[0])
    operands = [word for word in words[1:] if not word.startswith("-")]
    return plain is not None and all(map(plain.fullmatch, words[1:])) and len(operands) <= 1


def _lists(words: Sequence[str]) -> FilesBelow | None:
    lister = _LISTERS.get(words[0])
    return lister(words) if lister else None


def _find(words: Sequence[str]) -> FilesBelow | None:
    start = 1
    while start < len(words) and words[start][:1] not in ("-", "(", "!"):
        start += 1
    roots = tuple(words[1:start])
    globs = _find_names(words[start:])
    if globs is None or not all(map(_is_plain, roots)):
        return None
    return FilesBelow(roots, tuple(globs))


def _find_names(tests: Sequence[str]) -> list[str] | None:
    """Return globs of which one fits every name found; none for all names, None if unknown.

    Whatever the parentheses, without a negation a file fits the tests between two ``-o``.
    """
    named: list[str] = []
    branch: list[str] = []
    finds_all = False
    rest = iter((*tests, "-o"))
    for word in rest:
        if word in _FIND_TESTS:
            value = next(rest)
            if word in _FIND_NAMES:
                branch.append(value)
        elif word in _FIND_OR:
            finds_all = finds_all or not branch
            named += branch[:1]
            branch = []
        elif word in _FIND_NOT:
            finds_all = True
        elif word not in _FIND_WORDS:
            return None
    return [] if finds_all else named


def _git(words: Sequence[str]) -> FilesBelow | None:
    for prefix, options in _GIT_LISTS.items():
        if tuple(words[: len(prefix)]) != prefix:
            continue
        rest = words[len(prefix) :]
        if not all(word in options or not word.startswith("-") for word in rest):
            return None
        if prefix[1] != "ls-files":  # to git grep, operands are patterns
            return FilesBelow()
        specs = [word for word in rest if not word.startswith("-")]
        found = [_SUFFIX.fullmatch(spec) for spec in specs]
        if not found or not all(found):
            return FilesBelow()
        return FilesBelow(globs=tuple(suffix[1] for suffix in found if suffix))
    return None


def _rg(words: Sequence[str]) -> FilesBelow | None:
    globs: list[str] = []
    operands: list[str] = []
    options: list[str] = []
    for before, word in pairwise(words):
        if before in ("-g", "--glob"):
            globs.append(word)
        elif word.startswith("--glob="):
            globs.append(word.partition("=")[2])
        elif word.startswith("-") and word not in ("-g", "--glob"):
            options.append(word)
        elif not word.startswith("-") and before not in ("-t", "--type"):
            operands.append(word)
    options = [word for word in options if word not in ("-t", "--type")]
    files = "--files" in options
    # Otherwise the first operand is the text to search for.
    roots = operands if files else operands[1:]
    prints = files or "-l" in options or "--files-with-matches" in options
    if not prints or not set(options) <= _RG or not all(map(_is_plain, roots)):
        return None
    positive = tuple(glob for glob in globs if not glob.startswith("!"))
    return FilesBelow(tuple(roots), positive, hidden=bool(globs))


def _grep(words: Sequence[str]) -> FilesBelow | None:
    options = [word for word in words[1:] if word.startswith("-")]
    # The first operand is the text to search for.
    _, *operands = [word for word in words[1:] if not word.startswith("-")] or [""]
    includes = [word.partition("=")[2] for word in options if word.startswith("--include=")]
    if not any(map(_GREP.fullmatch, options)):
        return None
    if not all(_GREP.fullmatch(word) or word.startswith("--include=") for word in options):
        return None
    if not any("r" in word.lower() for word in options if not word.startswith("--")):
        return _fitting(operands)
    if not all(map(_is_plain, operands)):
        return None
    return FilesBelow(tuple(operands), tuple(includes))


def _ls(words: Sequence[str]) -> FilesBelow | None:
    operands = [word for word in words[1:] if word != "-1"]
    if not operands:
        return FilesBelow(deep=False, hidden=False)
    return _fitting(operands) if all(map(_GLOB.search, operands)) else None


def _fitting(globs: Sequence[str]) -> FilesBelow | None:
    """Return the files that fit globs below the working directory; None for other globs."""
    if not globs or not all(glob.startswith(("*", "?", "[")) or below(glob) for glob in globs):
        return None
    return fitting(globs)


def fitting(globs: Sequence[str]) -> FilesBelow:
    """Return the files that fit globs, each in one folder."""
    folders = {posixpath.dirname(glob) or "." for glob in globs}
    parts = {*chain.from_iterable(glob.split("/") for glob in globs)} - {".", ".."}
    # the star of a shell does not fit a dot at the start of a name
    hidden = any(part[:1] in (".", "?", "[") for part in parts)
    if any(map(_GLOB.search, folders)):
        first = {_GLOB.split(folder)[0].rpartition("/")[0] or "." for folder in folders}
        return FilesBelow(tuple(first), hidden=hidden)
    names = tuple(map(posixpath.basename, globs))
    return FilesBelow(tuple(folders), names, deep=False, hidden=hidden)


def _is_plain(root: str) -> bool:
    """Return True for one word below the working directory, or an absolute path."""
    if _GLOB.search(root) or not _PLAIN.fullmatch(root):
        return False
    # whether an absolute path is inside is checked once the working directory is known
    return below(root) or (root.startswith("/") and ".." not in root.split("/"))


_LISTERS: dict[str, Callable[[Sequence[str]], FilesBelow | None]] = {
    "find": _find,
    "git": _git,
    "rg": _rg,
    "grep": _grep,
    "ls": _ls,
}
