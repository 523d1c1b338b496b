"""Programs whose arguments can start other programs, or write or send files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from forge_cli.bashrules.programs.discarding import discard_hazard
from forge_cli.bashrules.programs.git import git_hazard, git_options
from forge_cli.bashrules.programs.options import known_options, options_of
from forge_cli.bashrules.programs.subcommands import (
    runner_named,
    starts_commands,
    subcommand_hazard,
)
from forge_cli.bashrules.programs.table import KnownProgram, program, program_named, word_set

_NAMES_A_FILE = re.compile(r"[/~]|\A[.@]|\.[A-Za-z][A-Za-z0-9]{0,9}\Z")
_IS_CODE = re.compile(r"[;|&`$()<>]")
_NAMES_SOMETHING_STARTED = re.compile(
    r"exec|cmd|command|program|plugin|hook|script|shell|pager|editor|browser|load|module|library"
    r"|config|rcfile|init|require|import|eval|wrapper|helper|output|file|dir\b|prefix|root|path",
    re.IGNORECASE,
)
_URL = re.compile(r"https?://[^;|&`$()<>]*")
_OFTEN_STARTED = word_set(
    "python python3 perl ruby node php lua vi vim nano emacs less more sudo env xargs make curl "
    "wget ssh nc id rm"
)


class Argv(Struct, frozen=True):
    """The words of a command, and the places of the globs among them."""

    words: list[str]
    globs: frozenset[int] = frozenset()


HazardCheck = Callable[[Argv], str | None]

_INLINE = "code in its arguments is not analysed"
_STDIN = "it would read its code from its input"
_SCRIPT = "its script can start programs or write files"

_SED_FLAGS = re.compile(
    r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|separate|unbuffered|null-data|posix|debug)"
)
_SED_EXPRESSION = re.compile(r"-[nErsuz]*e|--expression")
_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n[]|\\[^\n]|\[[^]/\\\n]+\])*/I?)"
_SED_COMMAND = re.compile(
    rf"[\s;]*(?:{_SED_ADDRESS}(?:\s*,\s*[+~]?{_SED_ADDRESS})?)?\s*(?:!\s*)?"
    r"(?:\{|(?:\}|[pdPDgGhHxnN=]|q\d*"
    r"|s([/|,#:@!])(?:(?!\1)[^\\\n[]|\\[^\n]|\[(?:(?!\1)[^]\\\n])+\])*\1"
    r"(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI0-9]*"
    r")\s*(?:;|\n|\Z|(?=\})))"
)
_AWK_HAZARD = re.compile(
    r"system|getline|(?<!\|)\|(?!\|)|print.*>|@|\bclose\b|\bfflush\b|\\\n", re.DOTALL
)
"""After ``print``, an angle bracket may open a file; before it, it compares."""
_CURL_COOKIE = re.compile(r"-[A-Za-z#0-9]*b|--cook?i?e?")
_CURL_FORMAT = re.compile(r"-[A-Za-z#0-9]*w|--w[a-z-]*=?")
_DENO_PERMITS = re.compile(
    r"-[AcP].*|--(?:allow|perm|preload|require|import-map|config|unstable|env-file).*"
)
_LAUNCHER_VERSION = re.compile(r"-[23][.0-9]*(?:-\d+)?")
_INLINE_MODULES = frozenset({""}) | word_set(
    "timeit code asyncio pdb sqlite3 pickle webbrowser idlelib turtledemo imaplib"
)
_SECOND_WRITES = word_set("json.tool json uu quopri base64 xmlrpc")
_OPTION_WRITES = word_set("cProfile profile zipapp trace")
_NO_FILE = ("/dev/", "/proc/")


def program_hazard(name: str, argv: Argv, reach: int, *, known_only: bool = False) -> str | None:
    """Return why a rule of ``reach`` tokens does not cover this call, or None if it does."""
    found = program_named(name)
    if "state" in found.kind:
        return f"{name} changes the state of the shell"
    if "interactive" in found.kind:
        return f"{name} can start other programs on its own"
    if argv.globs and _minds_names(name, found) and not _format_is_given(found, argv):
        return f"{name} may read file names that the glob finds as something else"
    words = argv.words
    why = (
        options_of(name).used(words[1:])
        or subcommand_hazard(name, words, reach)
        or discard_hazard(name, words, reach)
        or _runner_hazard(name, found, words, reach, known_only=known_only)
    )
    for row in found.rows:
        if why is None and row.check:
            why = CHECKS[row.check](argv)
    if why or found.judged:
        return why
    return unknown_option(words, reach)


def _runner_hazard(
    name: str, found: KnownProgram, words: list[str], reach: int, *, known_only: bool
) -> str | None:
    """Return why a rule for a program that runs or loads files does not cover other words."""
    known = git_options(words) if name == "git" and known_only else known_options(name)
    is_runner = "runner" in found.kind
    if known_only or is_runner:
        other = known.unknown(words, reach, numbers=known_only)
        if other:
            return f"{other} is not known as a harmless option of {name}; a rule can name it"
    if is_runner and "--" in words[reach:]:
        other = passed_on(words[words.index("--") + 1 :])
        if other:
            return f"{other} is passed on and may name a file or a program; a rule can name it"
    targets = list(known.operands(words)) if "targets" in found.kind else []
    # `make test deploy`: a rule for `make test` must not run another target as well
    if targets and targets[0] < reach <= targets[-1]:
        return f"{words[targets[-1]]} is another target, which no rule names"
    return None


def _minds_names(name: str, found: KnownProgram) -> bool:
    """Return True if the program may take the name of a file for a format or a subcommand."""
    if "minds_names" in found.kind:
        return True
    if found.says("only_known"):
        return False
    return any(map(found.says, ("known", "never", "spelled"))) or runner_named(name) is not None


def _format_is_given(found: KnownProgram, argv: Argv) -> bool:
    """Return True if the first argument, which decides, is not one of the file names."""
    return "format" in found.kind and 1 not in argv.globs and not argv.words[1].startswith("-")


def is_known(word: str) -> bool:
    """Return True if a table describes the program, so that its words are not commands."""
    found = program_named(program(word))
    return found.minds_words or "reader" in found.kind or starts_commands(found)


def _git(argv: Argv) -> str | None:
    return git_hazard(argv.words, globs=bool(argv.globs))


def _python(argv: Argv) -> str | None:
    values = iter(argv.words[1:])
    for word in values:
        if word in ("-V", "-VV", "--version", "-h", "--help"):
            return None
        if not word.startswith("-"):
            return _STDIN if word.startswith(_NO_FILE) else None
        if _LAUNCHER_VERSION.fullmatch(word) and argv.words[0] == "py":
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter == "m":
                module = word[place:] or next(values, "")
                return _module(module, list(values), globs=bool(argv.globs))
            if letter in "WX":
                if place == len(word):
                    next(values, "")
                break
            if letter not in "bBdEhIOPqsSuvx":
                return _INLINE
        if word == "-":
            return _STDIN
    return _STDIN


def _module(name: str, rest: Sequence[str], *, globs: bool) -> str | None:
    """Return why a module of Python's own library runs or writes what its arguments say."""
    if name.partition(".")[0] in _INLINE_MODULES:
        return _INLINE
    has_second = len(rest) > _first_operand([name, *rest])
    writes_second = name in _SECOND_WRITES and (globs or has_second)
    if writes_second or (name in _OPTION_WRITES and _has_letter(rest, "o")):
        return f"python -m {name} would write a file"
    return None


def _has_letter(words: Sequence[str], letter: str) -> bool:
    return any(word.startswith("-") and letter in word for word in words)


def _interpreter(argv: Argv) -> str | None:
    name = program(argv.words[0])
    letters = {flag[1:] for flag in program_named(name).words("flags")}
    for place, word in enumerate(argv.words[1:], 2):
        if word in ("--version", "--help"):
            return None
        if not word.startswith("-"):
            permits = next(filter(_DENO_PERMITS.fullmatch, argv.words[place:]), None)
            if name == "deno" and word != "run" and permits:
                return f"{permits} lets what it finds do more, or loads something"
            if word in ("eval", "repl") and name == "deno":
                return _INLINE
            return _STDIN if word.startswith(_NO_FILE) else None
        if word == "-" or not all(letter in letters for letter in word[1:]):
            return _INLINE
        if word in ("-v", "-V"):
            return None
    return _STDIN


def _sed(argv: Argv) -> str | None:
    scripts: list[int] = []
    has_option = False
    pos = 1
    while pos < len(argv.words):
        word = argv.words[pos]
        if _SED_EXPRESSION.fullmatch(word):
            has_option = True
            scripts.append(pos + 1)
            pos += 1
        elif word == "--help" or word == "--version":
            return None
        elif word.startswith("-") and word != "-":
            if not _SED_FLAGS.fullmatch(word):
                return f"sed {word} writes or reads a script"
        elif not has_option:  # without -e, the first operand is the script
            has_option = True
            scripts.append(pos)
        pos += 1
    for place in scripts:
        if place >= len(argv.words) or place in argv.globs or not _reads_only(argv.words[place]):
            return _SCRIPT
    return None if scripts else _SCRIPT


def _reads_only(script: str) -> bool:
    """Return True if all commands of a sed script only print and edit."""
    pos = 0
    while pos < len(script):
        command = _SED_COMMAND.match(script, pos)
        if command is None:
            return script[pos:].strip(" \t\n;") == "" and pos > 0
        pos = command.end()
    return script != ""


def _awk(argv: Argv) -> str | None:
    pos = 1
    while pos < len(argv.words) and argv.words[pos].startswith("-"):
        word = argv.words[pos]
        if word == "--version":
            return None
        if not re.fullmatch(r"-[Fv].*", word, re.DOTALL):
            return f"awk {word} reads a script or writes"
        pos += 2 if len(word) == 2 else 1
    if pos >= len(argv.words) or pos in argv.globs or _AWK_HAZARD.search(argv.words[pos]):
        return _SCRIPT
    return None


def _second_operand(argv: Argv) -> str | None:
    first = _first_operand(argv.words)
    if len(argv.words) > first + 1 or any(place >= first for place in argv.globs):
        return "its second file name is written"
    return None


def _first_operand(words: Sequence[str]) -> int:
    """Return the place of the first operand after the program; the word after ``--`` if any."""
    for at, word in enumerate(words):
        if at and (word in ("-", "--") or not word.startswith("-")):
            return at + 1 if word == "--" else at
    return len(words)


def _tar(argv: Argv) -> str | None:
    # The first word may be options without a dash: `tar xf a.tar`.
    bundle = "".join(argv.words[1:2])
    if bundle.startswith("-"):
        return None
    if 1 not in argv.globs and options_of("tar").used([f"-{bundle}"]) is None:
        return None
    return f"tar {bundle} starts a program, changes the folder or writes"


def _gh(argv: Argv) -> str | None:
    # `gh repo clone X -- OPTIONS`: words after `--` are for git
    if "--" in argv.words and not {"clone", "fork"}.isdisjoint(argv.words[:4]):
        return git_hazard(["git", "clone", *argv.words[argv.words.index("--") + 1 :]])
    return None


def _curl(argv: Argv) -> str | None:
    # Data may be a file. -w prints by a format, which may come from a file or write one.
    formats: list[str] = []
    for option, word in zip(argv.words, [*argv.words[1:], ""], strict=True):
        cookies = _CURL_COOKIE.fullmatch(option) and word and "=" not in word
        if cookies or (option.startswith(("--data-u", "--url-q")) and "@" in word):
            return f"{word} may be a file that is read and sent"
        if found := _CURL_FORMAT.match(option):
            formats.append(option[found.end() :] or word)
    if any("%output{" in word for word in argv.words):
        return "its format may write a file"
    if any(value.startswith("@") for value in formats):
        return "its format may write a file"
    return None


CHECKS: dict[str, HazardCheck] = {
    "python": _python,
    "interpreter": _interpreter,
    "sed": _sed,
    "awk": _awk,
    "second_operand": _second_operand,
    "tar": _tar,
    "git": _git,
    "gh": _gh,
    "curl": _curl,
}
"""Checks that rows ask for by name, because rows cannot express them."""


def unknown_option(words: Sequence[str], reach: int) -> str | None:
    """Return why an option that no table knows, with its value in the same word, may do more."""
    for place, word in enumerate(words[1:], 1):
        if word == "--":
            return None
        if place >= reach and word.startswith("-") and _may_start(word):
            return f"{words[0]} {word} may name a file or a program; a rule can name it"
    return None


def passed_on(words: Sequence[str]) -> str | None:
    """Return an option, among words for another program, that may name a file or a program."""
    for word in words:
        if not word.startswith("-"):
            continue
        # the value may also be the next word, so the name of the option counts alone
        if _may_start(word) or _NAMES_SOMETHING_STARTED.search(word.partition("=")[0]):
            return word
    return None


def _may_start(option: str) -> bool:
    name, equals, value = option.partition("=")
    if not equals:
        return not option.startswith("--") and _looks_odd(option[2:])
    if value == "":
        return False
    return _NAMES_SOMETHING_STARTED.search(name) is not None or _looks_odd(value)


def _looks_odd(value: str) -> bool:
    """Return True if the value of an option may be a path, code or a common program."""
    if _URL.fullmatch(value):
        return False
    if _NAMES_A_FILE.search(value) or _IS_CODE.search(value):
        return True
    return bool(value.strip()) and _is_often_started(value.split(maxsplit=1)[0])


def _is_often_started(name: str) -> bool:
    return name in _OFTEN_STARTED or "shell" in program_named(name).kind
