"""Command lines that may print the environment, which contains the keys of the tool."""

from __future__ import annotations

import re

DOUBT = "it may show what your environment holds, such as keys"
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
