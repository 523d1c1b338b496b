"""Whether a command may read what is written to the shell that started it, and so take a piece of it away."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.toolsets.shell.allow.lexer import UnreadableLine
from forge_cli.toolsets.shell.allow.parser import Redirect, Simple, read_line
from forge_cli.toolsets.shell.programs.git import GitWords
from forge_cli.toolsets.shell.programs.names import names

_READS_NOTHING = names(
    """echo printf true false : test [ pwd cd type exit ls mkdir touch date id whoami uname hostname basename dirname
    seq sleep stat du df nproc uptime find"""
)
_GIT_READS_NOTHING = names(
    """blame describe diff log ls-files ls-tree merge-base remote rev-list rev-parse shortlog show status"""
)
_GIT_PLAIN_OPTIONS: dict[str, tuple[str, frozenset[str]]] = {
    "add": ("Aufnvq", names("--all --update --force --dry-run --verbose --intent-to-add --renormalize")),
    "branch": (
        "avrdDmMcCfqlu",
        names("--all --list --remotes --verbose --delete --move --show-current --merged --contains"),
    ),
    "checkout": ("bBfqdt", names("--force --quiet --detach --track --ours --theirs --no-track")),
    "fetch": (
        "aptvqfk",
        names("--all --prune --tags --verbose --quiet --force --dry-run --depth --unshallow --no-tags"),
    ),
    "pull": ("vqf", names("--ff-only --no-rebase --rebase --verbose --quiet --prune --tags --autostash")),
    "push": ("uvqfnd", names("--set-upstream --force --force-with-lease --tags --verbose --quiet --dry-run --delete")),
    "reset": ("qN", names("--hard --soft --mixed --keep --merge --quiet")),
    "restore": ("sSWq", names("--staged --worktree --source --quiet --ours --theirs")),
    "stash": ("quam", names("--quiet --include-untracked --all --keep-index --index --message")),
    "switch": ("cCdfqt", names("--create --force-create --detach --force --quiet --track")),
    "tag": ("lndf", names("--list --delete --force --sort --contains --merged --points-at")),
}
"""Commands that also have options by which they ask or start an editor: those that do not."""
_INPUT = frozenset({"<", "<<", "<<<", "<>"})
_OWN_INPUT = ("stdin", "/dev/", "/proc/")


def may_read(text: str) -> bool:
    """Whether a command of these lines may read what is written after them."""
    return _reader(text) is not None


def may_read_itself(text: str) -> bool:
    """Whether a command of these lines may read the lines after its own: bash has not read them when it starts."""
    reader = _reader(text)
    if reader is None:
        return False
    end = text.find("\n", reader)
    return end >= 0 and text[end:].strip() != ""


def _reader(text: str) -> int | None:
    """Where the first command stands that may read."""
    try:
        return next((command.at for command in read_line(text) if not _reads_nothing(command)), None)
    except UnreadableLine:
        return 0


def _reads_nothing(command: Simple) -> bool:
    if _has_own_input(command):
        return True
    name, *rest = [word.text for word in command.words] or [":"]
    if any(map(_names_input, rest)):
        return False
    if name == "git":
        return _git_reads_nothing(rest)
    if name == "cat":
        return any(not word.startswith("-") for word in rest)
    return name in _READS_NOTHING


def _has_own_input(command: Simple) -> bool:
    """Whether the input of a command is surely not that of the shell."""
    given = any(redirect.operator in _INPUT and redirect.descriptor.lstrip("0") == "" for redirect in command.redirects)
    copied = any(redirect.operator in ("<&", ">&") and _copies_input(redirect) for redirect in command.redirects)
    return (given or command.piped) and not copied


def _copies_input(redirect: Redirect) -> bool:
    """Whether a descriptor becomes the input, or a copy of the input another descriptor."""
    number, target = redirect.descriptor.lstrip("0"), redirect.target.text.rstrip("-").lstrip("0")
    implied = redirect.descriptor == "" and redirect.operator == ">&"
    return (number == "" and not implied) or target == ""


def _names_input(word: str) -> bool:
    """``-`` by itself, attached to an option or behind ``=``, and the files that stand for the input."""
    return (word.endswith("-") and (word == "-" or word[:1] == "-")) or any(name in word for name in _OWN_INPUT)


def _git_reads_nothing(words: Sequence[str]) -> bool:
    place = GitWords(words).subcommand(-1)
    subcommand, options = "".join(words[place : place + 1]), [word for word in words[place + 1 :] if word[:1] == "-"]
    if subcommand in _GIT_READS_NOTHING:
        return not any(word.startswith(("--edit", "--interactive", "--patch-")) for word in options)
    if subcommand not in _GIT_PLAIN_OPTIONS:
        return False
    letters, longs = _GIT_PLAIN_OPTIONS[subcommand]
    return all(_is_plain(word, letters, longs) for word in options)


def _is_plain(option: str, letters: str, longs: frozenset[str]) -> bool:
    if option.startswith("--"):
        return option == "--" or option.partition("=")[0] in longs
    return set(option[1:]) <= set(letters)
