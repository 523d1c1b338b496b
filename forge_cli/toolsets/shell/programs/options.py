"""Options by which otherwise harmless programs start other programs or write files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from forge_cli.toolsets.shell.programs.names import names

_CLUSTER_MAX = 8
"""The first letter that takes a value takes all behind it; a few more are looked at in case it is none."""


@dataclass(frozen=True)
class Options:
    """Long names without dashes and short letters; a name that starts with a dash has to stand there exactly.

    Long options may be abbreviated, short ones stand in clusters. A letter counts wherever it is in a word that starts
    with one dash, so that ``-to`` is taken for ``-t -o``: it asks once too often rather than once too little.
    """

    runs: tuple[str, ...] = ()
    runs_short: str = ""
    writes: tuple[str, ...] = ()
    writes_short: str = ""

    def used(self, words: Sequence[str]) -> str | None:
        """What is wrong with these arguments."""
        for word in words:
            if _is(word, self.runs, self.runs_short):
                return f"{word} starts a program"
            if _is(word, self.writes, self.writes_short):
                return f"{word} writes"
        return None

    def arguments(self, words: Sequence[str]) -> Iterator[str]:
        """The programs that these arguments start."""
        for place, word in enumerate(words):
            if _is(word, self.runs, self.runs_short):
                value = word.partition("=")[2]
                yield from (value, value.partition("=")[2])
                yield from islice(_behind_each(word, self.runs_short), _CLUSTER_MAX)
                yield from words[place + 1 : place + 2]


def _behind_each(word: str, letters: str) -> Iterator[str]:
    return (word[at + 1 :] for at, letter in enumerate(word) if letter in letters)


def _is(word: str, names: tuple[str, ...], letters: str) -> bool:
    if not word.startswith("-") or len(word) < 2:
        return False
    name = word.partition("=")[0]
    if any(name == exact or name[1:] == exact for exact in names if exact.startswith("-")):
        return True
    if word.startswith("--"):
        return len(name) > 2 and any(long.startswith(name[2:]) for long in names)
    return any(letter in word for letter in letters)


_SORT = Options(runs=("compress-program",), writes=("output", "temporary-directory"), writes_short="oT")
_TAR = Options(
    runs=("to-command", "checkpoint-action", "use-compress-program", "rsh-command", "info-script", "new-volume-script"),
    runs_short="IF",
)
_FIND = Options(
    runs=("-exec", "-execdir", "-ok", "-okdir"), writes=("-delete", "-fprint", "-fprint0", "-fprintf", "-fls")
)
_CURL = Options(
    runs_short="K",
    runs=("config",),
    writes=(
        *("output", "remote-name", "remote-name-all", "cookie-jar", "dump-header", "trace", "trace-ascii", "stderr"),
        *("libcurl", "etag-save", "hsts", "alt-svc", "create-dirs", "output-dir"),
    ),
    writes_short="oOcD",
)

OPTIONS: dict[str, Options] = {
    **dict.fromkeys(names("sort gsort"), _SORT),
    **dict.fromkeys(names("tar gtar bsdtar"), _TAR),
    **dict.fromkeys(names("find gfind"), _FIND),
    **dict.fromkeys(names("fd fdfind"), Options(runs=("exec", "exec-batch"), runs_short="xX")),
    **dict.fromkeys(names("nc ncat netcat"), Options(runs=("exec", "sh-exec", "lua-exec"), runs_short="ec")),
    **dict.fromkeys(names("scp sftp"), Options(runs_short="So")),
    "rg": Options(runs=("pre", "hostname-bin")),
    **dict.fromkeys(names("ag bat"), Options(runs=("pager",))),
    "fzf": Options(runs=("preview", "bind", "with-shell", "listen")),
    "split": Options(runs=("filter",)),
    "install": Options(runs=("strip-program",)),
    "nmap": Options(runs=("script",), writes_short="o"),
    "tcpdump": Options(runs_short="z", writes_short="w"),
    "xmllint": Options(runs=("shell",), writes=("output",), writes_short="o"),
    "curl": _CURL,
    "wget": Options(runs=("execute", "use-askpass", "config"), runs_short="e"),
    "rsync": Options(runs=("rsh", "rsync-path"), runs_short="e", writes=("log-file",)),
    "zip": Options(runs=("unzip-command",), runs_short="T"),
    "man": Options(runs=("pager", "html", "browser"), runs_short="PH"),
    "less": Options(runs=("lesskey-src", "lesskey-file", "lesskey-content"), writes=("log-file",), writes_short="oOk"),
    "tree": Options(writes=("output",), writes_short="o"),
    "iconv": Options(writes=("output",), writes_short="o"),
    "sdiff": Options(runs=("diff-program",), writes=("output",), writes_short="o"),
    "file": Options(writes=("compile",), writes_short="C"),
    "date": Options(writes=("set",), writes_short="s"),
    "yq": Options(writes=("inplace", "in-place", "split-exp"), writes_short="is"),
    "gofmt": Options(writes_short="w"),
    "go": Options(runs=("-exec", "-toolexec", "-vettool", "-overlay", "-modfile"), writes=("-w", "-o")),
    "cargo": Options(runs=("config",)),
    "npm": Options(runs=("script-shell", "node-options", "globalconfig", "userconfig")),
    "gcc": Options(runs=("-wrapper", "-B", "-fplugin")),
    "shuf": Options(writes=("output",), writes_short="o"),
    "patch": Options(writes=("output",), writes_short="o"),
    "wait": Options(writes_short="p"),
    "jobs": Options(runs_short="x"),
}
