"""What git starts or writes beside what its commands are for, and where its subcommand stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from forge_cli.toolsets.shell.programs.names import below, names

_GLOBAL_VALUES = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"}
    | {"--attr-source", "--shallow-file"}
)
_GLOBAL_HARMLESS = frozenset(
    {"--no-pager", "-P", "--version", "-v", "--help", "-h", "--no-optional-locks", "--no-replace-objects"}
    | {"--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs", "--no-lazy-fetch"}
    | {"--html-path", "--man-path", "--info-path", "--exec-path"}
)

_SUBCOMMANDS = names(
    """add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap
    check-ref-format checkout cherry cherry-pick clean clone column commit commit-tree config count-objects describe
    diff diff-files diff-index diff-tree fetch fmt-merge-msg for-each-ref format-patch fsck gc get-tar-commit-id grep
    hash-object help init log ls-files ls-remote ls-tree merge merge-base merge-tree mktag mktree mv name-rev notes
    pack-refs patch-id prune pull push range-diff read-tree rebase reflog remote repack rerere reset restore rev-list
    rev-parse revert rm shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace
    submodule switch symbolic-ref tag update-index update-ref var verify-commit verify-pack verify-tag version
    whatchanged worktree write-tree"""
)
"""Git's own commands that start nothing but what a repository is set up to start."""

_LONG_RUNS = ("upload-pack", "receive-pack", "exec", "open-files-in-pager", "ext-diff", "config", "strategy")
_LONG_WRITES = ("output", "output-directory", "template", "unsafe-paths", "build-fake-ancestor", "index-output")
_LONG_WRITES_OF = {"repack": ("filter-to",), "clone": ("separate-git-dir",), "init": ("separate-git-dir",)}
_SHORT = {"archive": "o", "format-patch": "o", "rebase": "xs", "merge": "s", "pull": "s", "grep": "O", "clone": "cu"}
_INNER = {
    "bisect": frozenset({"run", "visualize", "view"}),
    "submodule": frozenset({"foreach"}),
    "bundle": frozenset({"create"}),
    "config": frozenset({"edit", "set", "unset", "rename-section", "remove-section"}),
}
_CONFIG_READS = frozenset({"--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l"})
_CONFIG_SCOPES = frozenset(
    {"--global", "--system", "--local", "--worktree", "--show-origin", "--show-scope", "--name-only", "-z", "--null"}
)
_HELPER = re.compile(r"(?:\A|=)[A-Za-z0-9+.-]+::")
_TALKS_TO_REMOTES = frozenset({"clone", "fetch", "pull", "push", "ls-remote", "remote", "submodule", "archive"})
_MAKES_FOLDERS = frozenset({"clone", "init", "worktree"})
_SENDS = frozenset({"push"})
_PUSH_VALUE = re.compile(r"-[A-Za-z]*o|--(?:pus|rep)[a-z-]*")
_FOLDER = re.compile(r"(?i:file:)|[./~]|[^:/]+/")
_STARTS = {"bisect": "run", "submodule": "foreach"}
_OPTIONS_MAX = 64
_FILTER = re.compile(r"--[a-z]+-filter(?:=|\Z)")


class GitWords:
    """Where the subcommands stand in a list of words that may hold many a ``git``."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._ends: dict[int, int] = {}

    def subcommand(self, git: int) -> int:
        """The place after ``git`` and its global options; walked once, however many walks meet."""
        pos = git + 1
        if pos < len(self._words) and not self._words[pos].startswith("-"):
            return pos
        passed = []
        while pos < len(self._words) and self._words[pos].startswith("-") and pos not in self._ends:
            passed.append(pos)
            pos += 2 if self._words[pos] in _GLOBAL_VALUES else 1
        end = self._ends.get(pos, min(pos, len(self._words)))
        self._ends.update(dict.fromkeys(passed, end))
        return end


def git_folders(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The folders that ``git -C`` goes to, one after the other, and where they stand."""
    if words[:1] == ["git"]:
        end = GitWords(words).subcommand(0)
        yield from ((pos, words[pos]) for pos in range(2, end) if words[pos - 1] == "-C")


def git_hazard(words: Sequence[str], *, globs: bool = False) -> str | None:
    """Why ``git`` with these words is not what its subcommand is for; ``globs`` when file names may be among them."""
    place = GitWords(words).subcommand(0)
    if globs and not {*_TALKS_TO_REMOTES, "config"}.isdisjoint(words[place : place + 1]):
        return f"file names may become words that tell git {words[place]} something else"
    return _global_hazard(words[1:place]) or (_hazard(words[place], words[place + 1 :]) if place < len(words) else None)


def _global_hazard(options: Sequence[str]) -> str | None:
    directory = False
    for option in options:
        if directory:
            directory = False
            if not below(option):
                return f"-C {option} may leave the working directory"
        elif option == "-C":
            directory = True
        elif option not in _GLOBAL_HARMLESS:
            return f"{option} changes what git does or starts"
    return "-C needs a directory" if directory else None


def _hazard(subcommand: str, words: Sequence[str]) -> str | None:
    if subcommand not in _SUBCOMMANDS:
        return f"git {subcommand} is none of git's commands that are known to start nothing else"
    first = next((word for word in words if not word.startswith("-")), "")
    if first in _INNER.get(subcommand, ()):
        return f"git {subcommand} {first} starts or writes something else"
    if subcommand == "help" and first != "".join(words):
        return "git help with options can start a browser"
    if subcommand == "config" and not _reads_config(words):
        return "git config can set what git starts"
    return _place_hazard(subcommand, words) or next(
        (why for word in dict.fromkeys(words) if (why := _word_hazard(subcommand, word))), None
    )


def _place_hazard(subcommand: str, words: Sequence[str]) -> str | None:
    """Why a command writes elsewhere, or into a repository in a folder, whose hooks would run."""
    operands = [word for word in words if not word.startswith("-")]
    made = operands[1:][-1:] if subcommand == "clone" else operands
    if subcommand in _MAKES_FOLDERS and (outside := next((word for word in made if not below(word)), None)):
        return f"{outside} is outside of the working directory"
    if subcommand in _SENDS:
        values = [word.partition("=")[2] for word in words if word.startswith("--")]
        if folder := next(filter(_is_folder, [*_repositories(words), *values]), None):
            return f"{folder} may be a folder, and hooks in it would run"
    set_up = operands[1:] if subcommand == "remote" and operands[:1] in (["add"], ["set-url"]) else ()
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


def _word_hazard(subcommand: str, word: str) -> str | None:
    if subcommand in _TALKS_TO_REMOTES and _HELPER.search(word):
        return f"{word} names a helper that git starts"
    if _abbreviates(word, _LONG_RUNS):
        return f"{word} starts a program"
    if _abbreviates(word, (*_LONG_WRITES, *_LONG_WRITES_OF.get(subcommand, ()))):
        return f"{word} writes files"
    if word.startswith("-") and word[1:2] != "-" and any(letter in word for letter in _SHORT.get(subcommand, "")):
        return f"git {subcommand} {word} starts or writes something else"
    return None


def _abbreviates(word: str, options: Sequence[str]) -> bool:
    """Git takes any unique beginning of a long option for the option."""
    if not word.startswith("--"):
        return False
    name = word[2:].partition("=")[0]
    return name != "" and any(option.startswith(name) for option in options)


def _reads_config(words: Sequence[str]) -> bool:
    operands = [word for word in words if not word.startswith("-")]
    known = all(word in _CONFIG_READS or word in _CONFIG_SCOPES for word in words if word.startswith("-"))
    return known and (len(operands) <= 1 or operands[0] in ("get", "list") or not _CONFIG_READS.isdisjoint(words))


def scripts_in_git(words: Sequence[str], place: int) -> Iterator[str]:
    """The commands that git is told to start, as text for a shell."""
    options = {word for word in words if word.startswith("-")}
    starting = {word for word in options if _abbreviates(word, _LONG_RUNS) or _FILTER.match(word)}
    for pos, word in enumerate(words if options else ()):
        if word not in options:
            continue
        after = words[pos + 1] if pos + 1 < len(words) else ""
        if word in ("-c", "--config", "--config-env"):
            yield from _configured(after)
        elif word.startswith(("-c", "--config=", "--config-env=")):
            yield from _configured(word.removeprefix("--config-env=").removeprefix("--config=").removeprefix("-c"))
        elif word in starting:
            yield word.partition("=")[2] or after
        elif word[1:2] != "-" and "x" in word:
            yield word.partition("x")[2] or after
    yield from _started(list(words[place : place + 1]), words[place + 1 :])


def _started(subcommand: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    """What ``git bisect run`` and the like start, with options anywhere between their parts."""
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
