"""Doubts about command lines that another program runs, in its own environment and unconfined."""

from __future__ import annotations

import os
import re
from pathlib import Path

SHOWS_ENVIRONMENT = "it may show what your environment holds, such as keys"
BARE_REPOSITORY = (
    "git treats the folder as a bare repository, and starts programs that its file 'config' names"
)
_VARIABLE = re.compile(r"\$\{?[!#]?([A-Za-z_]\w*)")
_HARMLESS = re.compile(
    r"HOME|PWD|OLDPWD|USER|LOGNAME|PATH|SHELL|TERM|LANG|LC_\w+|HOSTNAME|TMPDIR|TZ"
    r"|EDITOR|PAGER|VIRTUAL_ENV|CI"
    r"|UID|EUID|PPID|RANDOM|SECONDS|LINENO|COLUMNS|LINES|IFS|SHLVL|BASH_VERSION|BASHPID"
    r"|PIPESTATUS|REPLY|OPTARG|OPTIND"
)
_SECRET = re.compile(r"auth|cred|key|pass|proxy|secret|token", re.IGNORECASE)
_END = r"\s*(?:\Z|[;&|)<>\n])"
_ALL_OF_IT = re.compile(
    rf"(?<![\w./-])env{_END}|\bprintenv\b(?!(?:[ \t]+(?:{_HARMLESS.pattern}))+{_END})|\bENVIRON\b"
    r"|\bjq\b.*\b(?:env|ENV)\b",
    re.DOTALL,
)
_MARKS_OF_QUOTES = re.compile(r"\\\n|[\\'\"]")
_QUOTED = re.compile(r"\\.|'[^']*'|(\"(?:\\.|[^\"\\])*\")", re.DOTALL)


def doubt_elsewhere(command: str, folder: Path) -> str | None:
    """Return why a pre-approved line asks if another program runs it in a folder."""
    if may_show(command):
        return SHOWS_ENVIRONMENT
    # git wants a file HEAD as well, which the same line could write
    names = ("objects", "refs") if ">" in command else ("HEAD", "objects", "refs")
    if all(os.path.lexists(folder / name) for name in names):
        return BARE_REPOSITORY
    return None


def may_show(command: str) -> bool:
    """Return True if a line names the environment, or a variable that may be a key."""
    if _ALL_OF_IT.search(command) or _ALL_OF_IT.search(_MARKS_OF_QUOTES.sub("", command)):
        return True
    names = _VARIABLE.findall(_without_single_quotes(command))
    return any(
        not _HARMLESS.fullmatch(name) and (name != name.lower() or _SECRET.search(name))
        for name in names
    )


def _without_single_quotes(command: str) -> str:
    """Return a line without its single-quoted parts; those in double quotes or comments stay."""
    if "#" in command or "<<" in command:
        return command
    return _QUOTED.sub(lambda found: found[1] or "", command)
