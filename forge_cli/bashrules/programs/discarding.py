"""Commands that discard or rewrite work, which a rule covers only if it names that form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import dropwhile

from forge_cli.bashrules.programs.git import GitWords, git_folders, git_rows
from forge_cli.bashrules.programs.options import OptionNames
from forge_cli.bashrules.programs.subcommands import ASSIGNMENT, path_ends
from forge_cli.bashrules.programs.table import program, program_named

_PATH = re.compile(r"\.|:|.*/\Z|\.\.?/|.*[*?\[]")
"""Words that are files to git, and never a branch."""
_NEW_BRANCH = re.compile(r"-[a-zA-Z]*b")


def discard_hazard(name: str, words: Sequence[str], reach: int) -> str | None:
    """Return why a rule of ``reach`` tokens does not cover words that discard something."""
    place = next((at for at in discarding_words(words) if at >= reach), None)
    if place is None:
        return None
    form = words[place]
    if not form.startswith("-"):
        form = f"{name} {' '.join(words[1 : place + 1])}"
    return f"{form} may discard or rewrite work; a rule can name it"


def discards(words: Sequence[str]) -> bool:
    """Return True if a command may discard or rewrite something, judging by its words."""
    return next(discarding_words(words), None) is not None


def commands_of(pattern: str) -> str:
    """Return a description of the commands that a rule with this pattern covers."""
    said = f"commands that begin with {pattern}"
    words = list(dropwhile(ASSIGNMENT.match, pattern.split()))
    if words == ["git", "stash", "push"]:
        return f"{said}, or with git stash and no subcommand"
    if _may_come_to_discard(words):
        return f"{said}, but for forms that discard or rewrite"
    return said


def _may_come_to_discard(words: Sequence[str]) -> bool:
    """Return True if more words could make these a form that the same rule does not cover."""
    name = program(words[0])
    for paths, _ in _discarding_options(name):
        if not paths or any(path_ends(words, 0, paths)):
            return True
    beginning = "/".join(words[1:])
    if not beginning:
        return False
    paths = program_named(name).words("discarding")
    return any(path.startswith(f"{beginning}/") for path in paths)


def discarding_words(words: Sequence[str]) -> Iterator[int]:
    """Yield the places of words by which a command discards or rewrites something."""
    name = program(words[0])
    yield from path_ends(words, 0, program_named(name).words("discarding"))
    for paths, options in _discarding_options(name):
        for end in path_ends(words, 0, paths) if paths else (0,):
            for at in range(end + 1, len(words)):
                if options.has(words[at]):
                    yield at
    if name == "git":
        yield from _checked_out_files(words)


@lru_cache(maxsize=256)
def _discarding_options(name: str) -> tuple[tuple[tuple[str, ...], OptionNames], ...]:
    """Return the options by which a program discards something, with their subcommands."""
    found = program_named(name)
    rows = [row for row in (*found.rows, *found.below) if row.discards or row.discards_like]
    return tuple((row.below, OptionNames.of((row,), "discards")) for row in rows)


def _checked_out_files(words: Sequence[str]) -> Iterator[int]:
    """Yield the places of the files of ``git checkout``, whose changes it throws away."""
    place = GitWords(words).subcommand(0)
    if words[place : place + 1] != ["checkout"]:
        return
    operands = [at for at in range(place + 1, len(words)) if not words[at].startswith("-")]
    if any(_NEW_BRANCH.match(word) for word in words[place + 1 :]):
        yield from operands[2:]  # after the new branch and the commit it starts from
        return
    yield from operands[1:]
    if operands and _PATH.match(words[operands[0]]):
        yield operands[0]


def bare_stash(words: Sequence[str]) -> int | None:
    """Return where git reads ``push`` into a ``git stash`` alone or with options only."""
    if len(words) < len(("git", "stash")) or program(words[0]) != "git":
        return None
    place = GitWords(words).subcommand(0)
    behind = words[place + 1 : place + 2]
    if words[place : place + 1] != ["stash"] or (behind and not behind[0].startswith("-")):
        return None
    return place + 1


def git_form(words: Sequence[str], nested: Callable[[Sequence[str]], int]) -> int:
    """Return how many words after ``git`` name its task, such as ``checkout -b``."""
    place = GitWords(words).subcommand(0)
    if place >= len(words):
        return 0
    forms = frozenset[str]().union(*(row.forms for row in git_rows(words[place])))
    if not forms:
        return place - 1 + nested(words[place:])
    if words[place + 1 : place + 2] and words[place + 1] in forms:
        return place + 1
    return len(words) - 1


def possible_files(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of ``git checkout`` that are a branch, unless a file has that name."""
    if not words or program(words[0]) != "git":
        return
    place = GitWords(words).subcommand(0)
    if words[place : place + 1] != ["checkout"]:
        return
    operands = [word for word in words[place + 1 :] if not word.startswith("-")]
    if len(operands) == 1 and not any(_NEW_BRANCH.match(word) for word in words[place + 1 :]):
        yield "/".join([*(folder for _, folder in git_folders(words)), *operands])
