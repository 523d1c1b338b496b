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
_STARTERS = {"bisect": "run", "submodule": "foreach"}
_MAX_OPTIONS = 64
_STARTING_LETTER = re.compile("[xO]")
_FILTER = re.compile(r"--[a-z]+-filter(?:=|\Z)")


class GitWords:
    """The places of subcommands in words that may contain ``git`` several times."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._ends: dict[int, int] = {}

    def subcommand(self, git: int) -> int:
        """Return the place after ``git`` and its global options; each option is walked once."""
        pos = git + 1
        if pos < len(self._words) and not self._words[pos].startswith("-"):
            return pos
        passed: list[int] = []
        values = _global_values()
        while pos < len(self._words) and self._words[pos].startswith("-") and pos not in self._ends:
            passed.append(pos)
            pos += 2 if self._words[pos] in values else 1
        end = self._ends.get(pos, min(pos, len(self._words)))
        self._ends.update(dict.fromkeys(passed, end))
        return end


def git_folders(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the folders that ``git -C`` changes to in turn, each with its place."""
    if words and program(words[0]) == "git":
        end = GitWords(words).subcommand(0)
        for pos in range(2, end):
            if words[pos - 1] == "-C":
                yield pos, words[pos]


@lru_cache(maxsize=1)
def _global_values() -> frozenset[str]:
    """Return the global options that take a value."""
    return program_named("git").names("values") | program_named("git").names("takes")


def git_rows(subcommand: str) -> Iterator[ProgramRow]:
    """Return the rows of one of git's commands."""
    return (row for row in program_named("git").below if subcommand in row.below)


def git_is(subcommand: str, kind: str) -> bool:
    """Return True if one of git's commands is of this kind."""
    return any(kind in row.kind for row in git_rows(subcommand))


def git_options(words: Sequence[str]) -> KnownOptions:
    """Return the harmless options of git and of the subcommand among these words."""
    place = GitWords(words).subcommand(0)
    subcommand = "".join(words[place : place + 1])
    return KnownOptions.of((*program_named("git").rows, *git_rows(subcommand)))


def git_hazard(words: Sequence[str], *, globs: bool = False) -> str | None:
    """Return why ``git`` with these words does more than its subcommand is for, or None."""
    place = GitWords(words).subcommand(0)
    subcommand = "".join(words[place : place + 1])
    rest = words[place + 1 :]
    if globs and git_is(subcommand, "minds_names"):
        return f"git {subcommand} may read file names that the glob finds as something else"
    for _, folder in git_folders(words):
        if not below(folder):
            return f"-C {folder} may leave the working directory"
    if words[place - 1] == "-C":
        return "-C needs a directory"
    if subcommand == "help" and (len(rest) > 1 or "".join(rest).startswith("-")):
        return "git help with options can start a browser"
    if subcommand == "config" and not _reads_config(rest):
        return "git config can set a program that git starts"
    if why := _place_hazard(subcommand, rest):
        return why
    return Options.of(tuple(git_rows(subcommand))).used(list(dict.fromkeys(rest)))


def _place_hazard(subcommand: str, words: Sequence[str]) -> str | None:
    """Return why a command writes elsewhere, or into a repository whose hooks would run."""
    operands: list[str] = []
    for at, word in enumerate(words):
        if not word.startswith("-") or "--" in words[:at]:
            operands.append(word)
    if subcommand in _MAKES_FOLDERS:
        made = operands
        if subcommand == "clone":
            made = operands[1:][-1:]  # the folder behind the repository, if any
        for word in made:
            if not below(word):
                return f"{word} is outside of the working directory"
    remotes: list[str] = []
    if subcommand in _SENDS:
        remotes = list(_repositories(words))
        remotes += [word.partition("=")[2] for word in words if word.startswith("--")]
    elif subcommand == "remote" and operands[:1] in (["add"], ["set-url"]):
        remotes = operands[1:]
    for remote in remotes:
        if _is_folder(remote):
            return f"{remote} may be a folder, and hooks in it would run"
    return None


def _repositories(words: Sequence[str]) -> Iterator[str]:
    """Yield the words that may be the repository: any operand up to the first sure one."""
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
    """Return True if the name or address of a remote is rather a path on this machine."""
    return _FOLDER.match(word) is not None


def _reads_config(words: Sequence[str]) -> bool:
    options = [word for word in words if word.startswith("-")]
    if not all(option in _CONFIG_READS or option in _CONFIG_SCOPES for option in options):
        return False
    operands = [word for word in words if not word.startswith("-")]
    if len(operands) <= 1 or operands[0] in ("get", "list"):
        return True
    return not _CONFIG_READS.isdisjoint(options)


def scripts_in_git(words: Sequence[str], place: int) -> Iterator[str]:
    """Yield the commands that git would start because of its words, as text for a shell."""
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
            setting = word.removeprefix("--config-env=").removeprefix("--config=")
            yield from _configured(setting.removeprefix("-c"))
        elif word in starting:
            yield word.partition("=")[2] or after
        elif word[1:2] != "-" and (letter := _STARTING_LETTER.search(word)):
            yield word[letter.end() :] or after
    yield from _started(list(words[place : place + 1]), words[place + 1 :])


def _started(subcommand: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    """Yield the commands that ``git bisect run`` and the like start."""
    mark = _STARTERS.get("".join(subcommand))
    if mark in words[:_MAX_OPTIONS]:
        behind = words[words.index(mark) + 1 :]
        yield " ".join(behind[_options(behind) :])
    elif subcommand == ["for-each-repo"]:
        # whether the last option takes a value is unknown: try both
        start = _options(words)
        for pos in (start, start + 1):
            yield " ".join(["git", *words[pos:]])


def _options(words: Sequence[str]) -> int:
    """Return how many words at the start are options."""
    return next((pos for pos, word in enumerate(words) if not word.startswith("-")), len(words))


def _configured(setting: str) -> Iterator[str]:
    key, _, value = setting.partition("=")
    # alias.x=push is git push, alias.x=!cmd a shell command, and core.pager and others start one
    if key.lower().startswith("alias.") and not value.startswith("!"):
        yield f"git {value}"
    else:
        yield value.removeprefix("!")
