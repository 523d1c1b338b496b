"""Programs whose words can be a program themselves: what makes a call of one more than its name says."""

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
_TELLS_WHAT_TO_START = re.compile(
    r"exec|cmd|command|program|plugin|hook|script|shell|pager|editor|browser|load|module|library|config|rcfile|init"
    r"|require|import|eval|wrapper|helper|output|file|dir\b|prefix|root|path",
    re.IGNORECASE,
)
_URL = re.compile(r"https?://[^;|&`$()<>]*")
_STARTED_OFTEN = word_set(
    """python python3 perl ruby node php lua vi vim nano emacs less more sudo env xargs make curl wget ssh nc id rm"""
)


class Argv(Struct, frozen=True):
    """The words of a command; ``globs`` are the places where file names may come in."""

    words: list[str]
    globs: frozenset[int] = frozenset()


HazardCheck = Callable[[Argv], str | None]

_INLINE = "it is given code as words, which is not analysed"
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
    r"|s([/|,#:@!])(?:(?!\1)[^\\\n[]|\\[^\n]|\[(?:(?!\1)[^]\\\n])+\])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI0-9]*"
    r")\s*(?:;|\n|\Z|(?=\})))"
)
_AWK_HAZARD = re.compile(
    r"system|getline|(?<!\|)\|(?!\|)|print.*>|@|\bclose\b|\bfflush\b|\\\n", re.DOTALL
)
"""Behind ``print`` an angle bracket may open a file; before it, it compares."""
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
    """Why this call is not covered by a rule with ``reach`` tokens of it; None when nothing speaks against it."""
    found = program_named(name)
    if "state" in found.kind:
        return f"{name} changes the state of the shell"
    if "interactive" in found.kind:
        return f"{name} can start other programs on its own"
    if argv.globs and _minds_names(name, found) and not _format_is_given(found, argv):
        return f"file names may become words that tell {name} something else"
    why = options_of(name).used(argv.words[1:]) or subcommand_hazard(name, argv.words, reach)
    why = why or discard_hazard(name, argv.words, reach)
    why = why or _runner_hazard(name, found, argv.words, reach, known_only=known_only)
    for row in () if why else found.rows:
        why = why or (CHECKS[row.check](argv) if row.check else None)
    return why if why or found.judged else unknown_option(argv.words, reach)


def _runner_hazard(
    name: str, found: KnownProgram, words: list[str], reach: int, *, known_only: bool
) -> str | None:
    """Why a rule for a program that runs or loads files does not cover words that it does not spell."""
    known = git_options(words) if name == "git" and known_only else known_options(name)
    if (known_only or "runner" in found.kind) and (
        other := known.unknown(words, reach, numbers=known_only)
    ):
        return f"{other} is none of the options of {name} that are known to start and write nothing; a rule can spell it"
    if (
        "runner" in found.kind
        and "--" in words[reach:]
        and (other := passed_on(words[words.index("--") + 1 :]))
    ):
        return f"{other} is passed on, and may name a file or a program; a rule can spell it"
    targets = list(known.operands(words)) if "targets" in found.kind else []
    if targets and targets[0] < reach <= targets[-1]:
        return f"{words[targets[-1]]} is another target, which no rule spells"
    return None


def _minds_names(name: str, found: KnownProgram) -> bool:
    """Whether a program takes an operand for a format, an assignment or a subcommand, as a file may be called."""
    if "minds_names" in found.kind:
        return True
    has_subcommands = (
        any(map(found.says, ("known", "never", "spelled"))) or runner_named(name) is not None
    )
    return has_subcommands and not found.says("only_known")


def _format_is_given(found: KnownProgram, argv: Argv) -> bool:
    """Whether the word that tells the program something else is none of the file names."""
    return "format" in found.kind and 1 not in argv.globs and not argv.words[1].startswith("-")


def is_known(word: str) -> bool:
    """Whether a program is in one of the tables, so that its words are not commands unless the tables say so."""
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
                return _module(
                    word[place:] or next(values, ""), list(values), globs=bool(argv.globs)
                )
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
    """Modules of Python itself that take code or a second file name as words."""
    if name.partition(".")[0] in _INLINE_MODULES:
        return _INLINE
    second = len(rest) > _first_operand([name, *rest])
    if (name in _SECOND_WRITES and (globs or second)) or (
        name in _OPTION_WRITES and _has_letter(rest, "o")
    ):
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
    scripts, explicit, pos = [], False, 1
    while pos < len(argv.words):
        word = argv.words[pos]
        if _SED_EXPRESSION.fullmatch(word):
            explicit = True
            scripts.append(pos + 1)
            pos += 1
        elif word == "--help" or word == "--version":
            return None
        elif word.startswith("-") and word != "-":
            if not _SED_FLAGS.fullmatch(word):
                return f"sed {word} writes or reads a script"
        elif not explicit:
            explicit = True
            scripts.append(pos)
        pos += 1
    texts = [
        argv.words[place]
        for place in scripts
        if place < len(argv.words) and place not in argv.globs
    ]
    return (
        None if texts and len(texts) == len(scripts) and all(map(_reads_only, texts)) else _SCRIPT
    )


def _reads_only(script: str) -> bool:
    """Whether a sed script is made of commands that print and edit, and of nothing else."""
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
    """The place of the first operand behind a program; some take each word behind it for one, as behind ``--``."""
    operands = (
        at
        for at, word in enumerate(words)
        if at and (word in ("-", "--") or not word.startswith("-"))
    )
    first = next(operands, len(words))
    return first + 1 if words[first : first + 1] == ["--"] else first


def _tar(argv: Argv) -> str | None:
    """The first word may be options without a dash."""
    bundle = "".join(argv.words[1:2])
    if bundle.startswith("-") or (
        1 not in argv.globs and options_of("tar").used([f"-{bundle}"]) is None
    ):
        return None
    return f"tar {bundle} starts a program, goes elsewhere or writes"


def _gh(argv: Argv) -> str | None:
    """Words behind ``--`` are for git."""
    if "--" in argv.words and not {"clone", "fork"}.isdisjoint(argv.words[:4]):
        return git_hazard(["git", "clone", *argv.words[argv.words.index("--") + 1 :]])
    return None


def _curl(argv: Argv) -> str | None:
    """Data may be a file; ``-w`` prints by a format, which may come from a file, and may name a file to print to."""
    for option, word in zip(argv.words, argv.words[1:], strict=False):
        cookies = _CURL_COOKIE.fullmatch(option) and "=" not in word
        if cookies or (option.startswith(("--data-u", "--url-q")) and "@" in word):
            return f"{word} may be a file that is read and sent"
    values = [
        word
        for option, word in zip(argv.words, argv.words[1:], strict=False)
        if _CURL_FORMAT.fullmatch(option)
    ]
    values += [word[found.end() :] for word in argv.words if (found := _CURL_FORMAT.match(word))]
    if any("%output{" in word for word in argv.words) or any(
        value.startswith("@") for value in values
    ):
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
"""Checks that rows ask for by name, because data cannot express them."""


def unknown_option(words: Sequence[str], reach: int) -> str | None:
    """An option with a value in one word with it that may be a file or a program, and that no rule spells."""
    for place, word in enumerate(words[1:], 1):
        if word == "--":
            return None
        if place >= reach and word.startswith("-") and _may_start(word):
            return f"{words[0]} is not known here, and {word} may name a file or a program; a rule can spell it"
    return None


def passed_on(words: Sequence[str]) -> str | None:
    """An option among words for another program that may name a file or a program, in this word or the next."""
    for word in words:
        if word.startswith("-") and (
            _may_start(word) or _TELLS_WHAT_TO_START.search(word.partition("=")[0])
        ):
            return word
    return None


def _may_start(option: str) -> bool:
    name, equals, value = option.partition("=")
    if not equals:
        return not option.startswith("--") and _looks_odd(option[2:])
    return value != "" and (_TELLS_WHAT_TO_START.search(name) is not None or _looks_odd(value))


def _looks_odd(value: str) -> bool:
    if _URL.fullmatch(value):
        return False
    first = value.split(maxsplit=1)[0] if value.strip() else ""
    return bool(_NAMES_A_FILE.search(value) or _IS_CODE.search(value)) or _is_often_started(first)


def _is_often_started(name: str) -> bool:
    return name in _STARTED_OFTEN or "shell" in program_named(name).kind
