"""Programs whose words can be a program themselves: what makes a call of one more than its name says."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from forge_cli.core.values import dataclass
from forge_cli.toolsets.shell.allow.redirects import directory_hazard
from forge_cli.toolsets.shell.programs.containers import PLAIN
from forge_cli.toolsets.shell.programs.git import git_hazard
from forge_cli.toolsets.shell.programs.named import PYTHONS
from forge_cli.toolsets.shell.programs.names import names
from forge_cli.toolsets.shell.programs.readers import READERS
from forge_cli.toolsets.shell.programs.runners import RUNNERS
from forge_cli.toolsets.shell.programs.subcommands import BUILT_IN, STARTING, UNLESS_SPELLED, subcommand_hazard
from forge_cli.toolsets.shell.programs.tables import OPTIONS
from forge_cli.toolsets.shell.programs.unknown import unknown_option
from forge_cli.toolsets.shell.programs.wrappers import ANYWHERE, SHELLS, WRAPPERS, program


@dataclass(frozen=True)
class Argv:
    """The words of a command; ``globs`` are the places where file names may come in."""

    words: list[str]
    globs: frozenset[int] = frozenset()


HazardCheck = Callable[[Argv], str | None]

SHELL_STATE = names(
    """alias unalias export declare typeset local readonly unset set shopt hash enable bind complete compopt compgen
    trap source . let read readarray mapfile getopts ulimit umask pushd popd dirs history fc shift return disown
    suspend"""
)
INTERACTIVE = names(
    """vi vim nvim view vimdiff ex ed emacs nano dc socat gdb lldb sqlite sqlite3 psql mysql mariadb mongo mongosh
    redis-cli sudoedit visudo expect tclsh wish osascript m4 at batch crontab ftp telnet screen tmux gnuplot octave
    matlab iex irb ghci jshell scala erl csi guile racket sbcl clisp nix sftp lftp ncftp smbclient mail mailx mutt tig
    lynx w3m links elinks ranger nnn mc cscope"""
)

_INLINE = "it is given code as words, which is not analysed"
_STDIN = "it would read its code from its input"
_SCRIPT = "its script can start programs or write files"

_SAFE_LETTERS = {"perl": "wvct", "ruby": "wvc", "php": "vl", "node": "v", "lua": "v", "rscript": "", "julia": "v"}
_INTERPRETERS = (*_SAFE_LETTERS, "nodejs", "luajit", "jruby", "r", "deno", "bun", "groovy")
INTERPRETERS = PYTHONS.union(_INTERPRETERS, names("java ts-node tsx raku elixir swift dotnet awk gawk mawk nawk"))
"""Programs that run whatever file they are given."""

_SED_FLAGS = re.compile(r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|separate|unbuffered|null-data|posix|debug)")
_SED_EXPRESSION = re.compile(r"-[nErsuz]*e|--expression")
_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n[]|\\[^\n]|\[[^]/\\\n]+\])*/I?)"
_SED_COMMAND = re.compile(
    rf"[\s;]*(?:{_SED_ADDRESS}(?:\s*,\s*[+~]?{_SED_ADDRESS})?)?\s*(?:!\s*)?"
    r"(?:[pdPDgGhHxnN=]|q\d*"
    r"|s([/|,#:@!])(?:(?!\1)[^\\\n[]|\\[^\n]|\[(?:(?!\1)[^]\\\n])+\])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI0-9]*"
    r")\s*(?:;|\n|\Z)"
)
_AWK_HAZARD = re.compile(r"system|getline|(?<!\|)\|(?!\|)|>|@|\bclose\b|\bfflush\b|\\\n")
_CURL_FILE = re.compile(
    r"(?i:\A@.|=[@<]|\A-[a-z#0-9]*[dfh]@|\A--[a-z-]+=@|(?:\A|=)file:)"
    r"|\A[^:/\"'\s]*[{\[][^\"'\s]*://"
)
_CURL_COOKIE = re.compile(r"-[A-Za-z#0-9]*b|--cook?i?e?")
_ON_A_HOST = re.compile(r"(?:--file=|-[A-Za-z]*f)?[^-/=][^/=]*:")
_CURL_FORMAT = re.compile(r"-[A-Za-z#0-9]*w|--w[a-z-]*=?")
_LAUNCHER_VERSION = re.compile(r"-[23][.0-9]*(?:-\d+)?")
_PYTEST_CLUSTER = re.compile(r"-[hlqsvxV]*[cop]")
_INLINE_MODULES = frozenset({""}) | names(
    "timeit code asyncio pdb sqlite3 pickle webbrowser idlelib turtledemo imaplib"
)
_SECOND_WRITES = names("json.tool json uu quopri base64 xmlrpc")
_OPTION_WRITES = names("cProfile profile zipapp trace")
_MINDS_NAMES = names("printf make gmake bmake dd terraform tofu").union(
    STARTING, BUILT_IN, RUNNERS, PLAIN, UNLESS_SPELLED
)
"""Programs that take an operand for a format, an assignment or a subcommand, so that the name of a file may be one."""
_NO_FILE = ("/dev/", "/proc/")
_PRINTF_DIRECTIVE = re.compile(r"%%|%[^A-Za-z%]*[hjlLtz]*n")


def program_hazard(name: str, argv: Argv, reach: int) -> str | None:
    """Why this call is not covered by a rule with ``reach`` tokens of it; None when nothing speaks against it."""
    if name in SHELL_STATE:
        return f"{name} changes the state of the shell"
    if name in INTERACTIVE:
        return f"{name} can start other programs on its own"
    if argv.globs and name in _MINDS_NAMES:
        return f"file names may become words that tell {name} something else"
    if name in OPTIONS and (why := OPTIONS[name].used(argv.words[1:])):
        return why
    if why := subcommand_hazard(name, argv.words, reach):
        return why
    if check := CHECKS.get(name):
        return check(argv)
    return None if name in OPTIONS or name in READERS else unknown_option(argv.words, reach)


def is_checked(name: str) -> bool:
    """Whether what the program does depends on its words, so that unknown words must not be added."""
    tables = (CHECKS, OPTIONS, SHELL_STATE, INTERACTIVE, RUNNERS, BUILT_IN, STARTING, PLAIN, UNLESS_SPELLED)
    return any(name in table for table in tables)


def is_known(word: str) -> bool:
    """Whether a program is in one of the tables, so that its words are not commands unless the tables say so."""
    name = program(word)
    return is_checked(name) or any(name in table for table in (READERS, WRAPPERS, ANYWHERE, SHELLS))


def _git(argv: Argv) -> str | None:
    return git_hazard(argv.words, globs=bool(argv.globs))


def _cd(argv: Argv) -> str | None:
    return "cd may go anywhere" if argv.globs else directory_hazard(argv.words)


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
                return _module(word[place:] or next(values, ""), list(values), globs=bool(argv.globs))
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
    operands = [word for word in rest if not word.startswith("-") or word == "-"]
    if (name in _SECOND_WRITES and (globs or len(operands) > 1)) or (name in _OPTION_WRITES and _has_letter(rest, "o")):
        return f"python -m {name} would write a file"
    return None


def _has_letter(words: Sequence[str], letter: str) -> bool:
    return any(word.startswith("-") and letter in word for word in words)


def _interpreter(argv: Argv) -> str | None:
    name = argv.words[0].rsplit("/", 1)[-1].lower()
    letters = next((safe for known, safe in _SAFE_LETTERS.items() if name.startswith(known)), "")
    for word in argv.words[1:]:
        if word in ("--version", "--help"):
            return None
        if not word.startswith("-"):
            inline = word in ("eval", "repl") and name == "deno"
            return _INLINE if inline else _STDIN if word.startswith(_NO_FILE) else None
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
    texts = [argv.words[place] for place in scripts if place < len(argv.words) and place not in argv.globs]
    return None if texts and len(texts) == len(scripts) and all(map(_reads_only, texts)) else _SCRIPT


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
    operands = [place for place, word in enumerate(argv.words) if place and (word == "-" or not word.startswith("-"))]
    if len(operands) > 1 or not argv.globs.isdisjoint(operands):
        return "its second file name is written"
    return None


def _printf(argv: Argv) -> str | None:
    if "".join(argv.words[1:2]).startswith("-v") or any(map(_stores, argv.words)):
        return "printf would set a variable, and evaluate its subscript"
    return None


def _stores(text: str) -> bool:
    """Whether a format has a directive ``%n``, with whatever bash skips in front of the letter."""
    return any(directive != "%%" for directive in _PRINTF_DIRECTIVE.findall(text))


def _test(argv: Argv) -> str | None:
    return "a subscript would be evaluated" if "-v" in argv.words or "-R" in argv.words else None


def _make(argv: Argv) -> str | None:
    setting = next((word for word in argv.words[1:] if "=" in word and not word.startswith("-")), None)
    return f"{setting} changes what make starts" if setting else None


def _pager(argv: Argv) -> str | None:
    return "a command is given to the pager" if any(word.startswith("+") for word in argv.words[1:]) else None


def _tar(argv: Argv) -> str | None:
    bundle = "".join(argv.words[1:2])
    if not bundle.startswith("-") and (1 in argv.globs or not set("IFCgP").isdisjoint(bundle)):
        return f"tar {bundle} starts a program, goes elsewhere or writes"
    remote = next((word for word in argv.words[1:] if _ON_A_HOST.match(word)), None)
    return f"{remote} may be on another machine, which tar starts a program to reach" if remote else None


def _pytest(argv: Argv) -> str | None:
    loads = next(filter(_PYTEST_CLUSTER.match, argv.words[1:]), None)
    return f"{loads} starts or loads something" if loads else None


def _go(argv: Argv) -> str | None:
    linked = next((word for word in argv.words if "-ext" in word or "-linkmode" in word or "-plugin" in word), None)
    return f"{linked} changes what go starts" if linked else None


def _curl(argv: Argv) -> str | None:
    """Data may be a file; ``-w`` prints by a format, which may come from a file, and may name a file to print to."""
    if sent := next((word for word in argv.words[1:] if _CURL_FILE.search(word)), None):
        return f"{sent} may be a file that is read and sent"
    for option, word in zip(argv.words, argv.words[1:], strict=False):
        cookies = _CURL_COOKIE.fullmatch(option) and "=" not in word
        if cookies or (option.startswith("--data-u") and "@" in word):
            return f"{word} may be a file that is read and sent"
    values = [word for option, word in zip(argv.words, argv.words[1:], strict=False) if _CURL_FORMAT.fullmatch(option)]
    values += [word[found.end() :] for word in argv.words if (found := _CURL_FORMAT.match(word))]
    if any("%output{" in word for word in argv.words) or any(value.startswith("@") for value in values):
        return "its format may write a file"
    return None


CHECKS: dict[str, HazardCheck] = {
    **dict.fromkeys(PYTHONS, _python),
    **dict.fromkeys(_INTERPRETERS, _interpreter),
    **dict.fromkeys(names("sed gsed"), _sed),
    **dict.fromkeys(names("awk gawk mawk nawk original-awk busybox-awk"), _awk),
    **dict.fromkeys(names("uniq guniq xxd"), _second_operand),
    **dict.fromkeys(names("make gmake bmake"), _make),
    **dict.fromkeys(names("test ["), _test),
    **dict.fromkeys(names("less more most"), _pager),
    **dict.fromkeys(names("tar gtar bsdtar"), _tar),
    "git": _git,
    "cd": _cd,
    "printf": _printf,
    "go": _go,
    "curl": _curl,
    **dict.fromkeys(names("pytest py.test"), _pytest),
}
