"""The side effects of git's commands, and the place of its subcommand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from forge_cli.bashrules.programs.options import KnownOptions, Options, options_of
from forge_cli.bashrules.programs.table import ProgramRow, below, program, program_named

_CONFIG_READS = frozenset({"--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l"})
_CONFIG_SCOPES = frozenset(
    {
        "--global",
        "--system",
        "--local",
        "--worktree",
        "--show-origin",
        "--show-scope",
        "--name-only",
        "-z",
        "--null",
    }
)
_MAKES_FOLDERS = frozenset({"clone", "init", "worktree"})
_SENDS = frozenset({"push"})
_PUSH_VALUE = re.compile(r"-[A-Za-z]*o|--(?:pus|rep)[a-z-]*")
_FOLDER = re.compile(r"(?i:file:)|[./~]|[^:/]+/")
_STARTS = {"bisect": "run", "submodule": "foreach"}
_OPTIONS_MAX = 64
_STARTING_LETTER = re.compile("[xO]")
_FILTER = re.compile(r"--[a-z]+-filter(?:=|\Z)")


class GitWords:
    """Places of subcommands in a list of words that may hold ``git`` several times."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._ends: dict[int, int] = {}

    def subcommand(self, git: int) -> int:
        """The place after ``git`` and its global options; walked once, however many walks meet."""
        pos = git + 1
        if pos < len(self._words) and not self._words[pos].startswith("-"):
            return pos
        passed, values = [], _global_values()
        while pos < len(self._words) and self._words[pos].startswith("-") and pos not in self._ends:
            passed.append(pos)
            pos += 2 if self._words[pos] in values else 1
        end = self._ends.get(pos, min(pos, len(self._words)))
        self._ends.update(dict.fromkeys(passed, end))
        return end


def git_folders(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The folders that ``git -C`` goes to, one after the other, and where they stand."""
    if words and program(words[0]) == "git":
        end = GitWords(words).subcommand(0)
        yield from ((pos, words[pos]) for pos in range(2, end) if words[pos - 1] == "-C")


@lru_cache(maxsize=1)
def _global_values() -> frozenset[str]:
    """Global options that take a value."""
    return program_named("git").names("values") | program_named("git").names("takes")


def git_rows(subcommand: str) -> Iterator[ProgramRow]:
    """Knowledge of one of git's commands."""
    return (row for row in program_named("git").below if subcommand in row.below)


def git_is(subcommand: str, kind: str) -> bool:
    return any(kind in row.kind for row in git_rows(subcommand))


def git_options(words: Sequence[str]) -> KnownOptions:
    """The options of git and of the subcommand among these words that do nothing but what it is for."""
    subcommand = "".join(words[(place := GitWords(words).subcommand(0)) : place + 1])
    return KnownOptions.of((*program_named("git").rows, *git_rows(subcommand)))


def git_hazard(words: Sequence[str], *, globs: bool = False) -> str | None:
    """Why ``git`` with these words is not what its subcommand is for; ``globs`` when file names may be among them."""
    place = GitWords(words).subcommand(0)
    subcommand, rest = "".join(words[place : place + 1]), words[place + 1 :]
    if globs and git_is(subcommand, "minds_names"):
        return f"file names may become words that tell git {subcommand} something else"
    if outside := next((folder for _, folder in git_folders(words) if not below(folder)), None):
        return f"-C {outside} may leave the working directory"
    if words[place - 1] == "-C":
        return "-C needs a directory"
    if subcommand == "help" and next(
        (word for word in rest if not word.startswith("-")), ""
    ) != "".join(rest):
        return "git help with options can start a browser"
    if subcommand == "config" and not _reads_config(rest):
        return "git config can set what git starts"
    return _place_hazard(subcommand, rest) or Options.of(tuple(git_rows(subcommand))).used(
        list(dict.fromkeys(rest))
    )


def _place_hazard(subcommand: str, words: Sequence[str]) -> str | None:
    """Why a command writes elsewhere, or into a repository in a folder, whose hooks would run."""
    operands = [
        word for at, word in enumerate(words) if not word.startswith("-") or "--" in words[:at]
    ]
    made = operands[1:][-1:] if subcommand == "clone" else operands
    if subcommand in _MAKES_FOLDERS and (
        outside := next((word for word in made if not below(word)), None)
    ):
        return f"{outside} is outside of the working directory"
    if subcommand in _SENDS:
        values = [word.partition("=")[2] for word in words if word.startswith("--")]
        if folder := next(filter(_is_folder, [*_repositories(words), *values]), None):
            return f"{folder} may be a folder, and hooks in it would run"
    set_up = (
        operands[1:] if subcommand == "remote" and operands[:1] in (["add"], ["set-url"]) else ()
    )
    folder = next(filter(_is_folder, set_up), None)
    return f"{folder} may be a folder, and hooks in it would run" if folder else None


def _repositories(words: Sequence[str]) -> Iterator[str]:
    """The words that may be the repository: the first operand, and the next where an option may have taken that."""
    after_option = False
    for word in words:
        if word.startswith("-"):
            after_option = _PUSH_VALUE.fullmatch(word) is not None
            continue
        yield word
        if not after_option:
            return
        after_option = False


def _is_folder(word: str) -> bool:
    """Whether a word that may be the name of a remote or an address is rather a path on this machine."""
    return _FOLDER.match(word) is not None


def _reads_config(words: Sequence[str]) -> bool:
    operands = [word for word in words if not word.startswith("-")]
    known = all(
        word in _CONFIG_READS or word in _CONFIG_SCOPES for word in words if word.startswith("-")
    )
    return known and (
        len(operands) <= 1 or operands[0] in ("get", "list") or not _CONFIG_READS.isdisjoint(words)
    )


def scripts_in_git(words: Sequence[str], place: int) -> Iterator[str]:
    """The commands that git is told to start, as text for a shell."""
    options = {word for word in words if word.startswith("-")}
    starts = options_of("git").starts
    starting = {word for word in options if starts.has(word) or _FILTER.match(word)}
    for pos, word in enumerate(words if options else ()):
        if word not in options:
            continue
        after = words[pos + 1] if pos + 1 < len(words) else ""
        if word in ("-c", "--config", "--config-env"):
            yield from _configured(after)
        elif word.startswith(("-c", "--config=", "--config-env=")):
            yield from _configured(
                word.removeprefix("--config-env=").removeprefix("--config=").removeprefix("-c")
            )
        elif word in starting:
            yield word.partition("=")[2] or after
        elif word[1:2] != "-" and (letter := _STARTING_LETTER.search(word)):
            yield word[letter.end() :] or after
    yield from _started(list(words[place : place + 1]), words[place + 1 :])


def _started(subcommand: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    """Commands that ``git bisect run`` and the like start, with options anywhere between their parts."""
    mark = _STARTS.get("".join(subcommand))
    if mark in words[:_OPTIONS_MAX]:
        behind = words[words.index(mark) + 1 :]
        yield " ".join(behind[_options(behind) :])
    elif subcommand == ["for-each-repo"]:
        start = _options(words)
        yield from (" ".join(["git", *words[pos:]]) for pos in (start, start + 1))


def _options(words: Sequence[str]) -> int:
    """How many words at the start are options."""
    return next((pos for pos, word in enumerate(words) if not word.startswith("-")), len(words))


def _configured(setting: str) -> Iterator[str]:
    key, _, value = setting.partition("=")
    if key.lower().startswith("alias.") and not value.startswith("!"):
        yield f"git {value}"
    else:
        yield value.removeprefix("!")
