"""Commands that print names of files: what of the working directory their output can name."""

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
"""A pathspec of git, whose star crosses folders: only what stands behind it is known of a name."""
_PLAIN = re.compile(r"(?!-)[A-Za-z0-9_./*?\[\]-]+")
"""Words that the shell and xargs leave as they are, should no file fit them."""
_FIND_TESTS = word_set(
    "-name -iname -path -ipath -wholename -type -maxdepth -mindepth -size -mtime -mmin -newer -perm -user -group"
)
"""Each of them takes a value."""
_FIND_WORDS = word_set("-print -print0 -prune -a -and -empty -xdev -mount ( )")
_OR, _NOT, _NAMES = word_set("-o -or ,"), word_set("! -not"), word_set("-name -iname")
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
    "uniq": re.compile(r"(?!)"),
    "grep": re.compile(r"-[viEFw]+|[^-].*"),
}
"""Programs that print some of the lines that they read, as they are, and the words that they may have for that."""
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./~^@{}-]*|--short|--tags|--abbrev=0|--abbrev-ref")


def listed(unknown: Unknown) -> FilesBelow | None:
    """The files that an unknown word can name; None where it can be any words."""
    if unknown.glob:
        return _fitting([unknown.glob]) if _PLAIN.fullmatch(unknown.glob) else None
    if not unknown.printed_by:
        return None
    first, *others = unknown.printed_by
    return _lists(first) if all(map(_passes_lines, others)) else None


def is_revision(unknown: Unknown) -> bool:
    """Is it the name or the number of a commit?"""
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
    start = next(
        (at for at, word in enumerate(words) if at and word[:1] in ("-", "(", "!")), len(words)
    )
    roots, globs = tuple(words[1:start]), _find_names(words[start:])
    return (
        FilesBelow(roots, tuple(globs))
        if globs is not None and all(map(_is_plain, roots))
        else None
    )


def _find_names(tests: Sequence[str]) -> list[str] | None:
    """The globs of which one fits every name that is found; none for all names, None where it is not known.

    However it is put in parentheses, without a negation a file fits what stands between two ``-o``.
    """
    named: list[str] = []
    branch: list[str] = []
    every, rest = False, iter((*tests, "-o"))
    for word in rest:
        if word in _FIND_TESTS:
            value = next(rest)
            branch += [value] if word in _NAMES else []
        elif word in _OR:
            every = every or not branch
            named, branch = [*named, *branch[:1]], []
        elif word in _NOT:
            every = True
        elif word not in _FIND_WORDS:
            return None
    return [] if every else named


def _git(words: Sequence[str]) -> FilesBelow | None:
    for prefix, options in _GIT_LISTS.items():
        if tuple(words[: len(prefix)]) != prefix:
            continue
        rest = words[len(prefix) :]
        if not all(word in options or not word.startswith("-") for word in rest):
            return None
        specs = (
            [word for word in rest if not word.startswith("-")] if prefix[1] == "ls-files" else []
        )
        suffixes = [found[1] for spec in specs if (found := _SUFFIX.fullmatch(spec))]
        return (
            FilesBelow(globs=tuple(suffixes))
            if suffixes and len(suffixes) == len(specs)
            else FilesBelow()
        )
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
    roots = operands if files else operands[1:]
    prints = files or "-l" in options or "--files-with-matches" in options
    if not prints or not set(options) <= _RG or not all(map(_is_plain, roots)):
        return None
    positive = tuple(glob for glob in globs if not glob.startswith("!"))
    return FilesBelow(tuple(roots), positive, hidden=bool(globs))


def _grep(words: Sequence[str]) -> FilesBelow | None:
    options = [word for word in words[1:] if word.startswith("-")]
    _, *operands = [word for word in words[1:] if not word.startswith("-")] or [""]
    includes = [word.partition("=")[2] for word in options if word.startswith("--include=")]
    if not any(map(_GREP.fullmatch, options)):
        return None
    if not all(_GREP.fullmatch(word) or word.startswith("--include=") for word in options):
        return None
    if any("r" in word.lower() for word in options if not word.startswith("--")):
        return (
            FilesBelow(tuple(operands), tuple(includes)) if all(map(_is_plain, operands)) else None
        )
    return _fitting(operands)


def _ls(words: Sequence[str]) -> FilesBelow | None:
    operands = [word for word in words[1:] if word != "-1"]
    if not operands:
        return FilesBelow(deep=False, hidden=False)
    return _fitting(operands) if all(map(_GLOB.search, operands)) else None


def _fitting(globs: Sequence[str]) -> FilesBelow | None:
    """The names that some globs find below the working directory."""
    return (
        fitting(globs)
        if globs and all(glob.startswith(("*", "?", "[")) or below(glob) for glob in globs)
        else None
    )


def fitting(globs: Sequence[str]) -> FilesBelow:
    """The names that some globs find, each in one folder; the shell's star fits no dot at the start of a name."""
    folders = {posixpath.dirname(glob) or "." for glob in globs}
    parts = {*chain.from_iterable(glob.split("/") for glob in globs)} - {".", ".."}
    hidden = any(part[:1] in (".", "?", "[") for part in parts)
    if any(map(_GLOB.search, folders)):
        first = {_GLOB.split(folder)[0].rpartition("/")[0] or "." for folder in folders}
        return FilesBelow(tuple(first), hidden=hidden)
    return FilesBelow(
        tuple(folders), tuple(map(posixpath.basename, globs)), deep=False, hidden=hidden
    )


def _is_plain(root: str) -> bool:
    """Whether it is one word, below the working directory; a whole path is looked at once it is known where that is."""
    inside = below(root) or (root.startswith("/") and ".." not in root.split("/"))
    return inside and _PLAIN.fullmatch(root) is not None and not _GLOB.search(root)


_LISTERS: dict[str, Callable[[Sequence[str]], FilesBelow | None]] = {
    "find": _find,
    "git": _git,
    "rg": _rg,
    "grep": _grep,
    "ls": _ls,
}
