"""Commands and scripts inside the words of another command, for the blocking side."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from forge_cli.bashrules.programs.git import GitWords, scripts_in_git
from forge_cli.bashrules.programs.options import options_of
from forge_cli.bashrules.programs.subcommands import (
    ASSIGNMENT,
    FIND_ACTIONS,
    SubcommandRunner,
    Walked,
    Wrapper,
    python_module,
    runner_named,
    wrapper_named,
)
from forge_cli.bashrules.programs.table import program, program_named

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]*")
_SCRIPT_OPTION = re.compile(r"(?:--[a-z-]+=|-[A-Za-z]*?c)(.*)", re.DOTALL)
_MAX_SHELL_OPTIONS = 64
_MAX_FED_WORDS = 64
_MAX_CANDIDATES = 8
_MAX_SUBCOMMANDS = 4
_MAX_ENTRYPOINT_WORDS = 16
_UNKNOWN_OPTIONS = [Wrapper(operands=operands) for operands in (0, 1)]
_SUBSCRIPT = re.compile(r"\[[^]]*[$`]")
_ONLY_LOOKS_UP = re.compile(r"-p*[vV]")
_RESERVED = frozenset({"time", "then", "do", "else", "!", "{", "if", "while", "until", "elif"})

# Make's spelling of what a shell spells otherwise; see makefile_script.
_MAKE_SHELL = re.compile(r"\$[({]shell\s")
_MAKE_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_MAKE_ASSIGNMENT = re.compile(
    r"^ *(?:(?:export|override)\s+)*(\w+)\s*[:?+!]*=[ \t]*(.*)$", re.MULTILINE
)
_MAKE_PREFIX = re.compile(r"(^[ \t]*|[;:][ \t]*)[@+-]+", re.MULTILINE)


class Fed(NamedTuple):
    """A command that gets more words from its input.

    They come after its own words, or replace ``replaced`` in them.
    """

    words: tuple[str, ...]
    replaced: str

    def given(self, data: str) -> str:
        """Return the command with ``data`` as its input, as text for a shell."""
        given = " ".join(data.split())
        if not any(self.replaced in word for word in self.words):
            return " ".join([*self.words, given])
        return " ".join(word.replace(self.replaced, given) for word in self.words)


@dataclass
class Unwrapped:
    """Commands and texts inside the words of one command."""

    starts: list[int] = field(default_factory=list)
    """The places in the words where a command could start."""
    scripts: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    """Words that bash expands a second time, such as subscripts of variables."""
    reads_script: bool = False
    """True if a command may read its standard input as a script."""
    reads_makefile: bool = False
    """True if a command may read its standard input as a makefile."""
    fed: list[Fed] = field(default_factory=list)
    doubt: bool = False
    """True if the words were not followed to the end, so that the bare text must be searched."""


def unwrap(words: Sequence[str], git: GitWords) -> Unwrapped:
    """Follow wrappers, shells, ``find -exec`` and the like through the words of one command."""
    return _Unwrapper(words, git).all()


class _Unwrapper:
    """A queue of places where commands could start; each one may add more places."""

    def __init__(self, words: Sequence[str], git: GitWords) -> None:
        self._words = words
        self._git = git
        self._result = Unwrapped()
        self._todo = deque([0])
        self._seen: set[int] = set()
        self._done: set[str] = set()
        self._walked: defaultdict[str, Walked] = defaultdict(set)
        self._ends: dict[str, list[int]] = {}
        self._runs: set[tuple[int, int]] = set()

    @cached_property
    def _plain_from(self) -> int:
        """The place from which on all words are plain."""
        for pos in reversed(range(len(self._words))):
            if not _PLAIN.fullmatch(self._words[pos]):
                return pos + 1
        return 0

    def all(self) -> Unwrapped:
        while self._todo:
            start = self._todo.popleft()
            if start < len(self._words) and start not in self._seen:
                self._seen.add(start)
                self._result.starts.append(start)
                self._follow(start)
        return self._result

    def _follow(self, start: int) -> None:
        word = self._words[start]
        name = program(word)
        kind = program_named(name).kind
        wrapper = wrapper_named(name)
        runner = runner_named(name)
        # `FOO=1 git push` and `then git push` start a command at the next word
        if ASSIGNMENT.match(word) or word in _RESERVED:
            self._todo.append(start + 1)
        if "reads_script" in kind:
            self._result.reads_script = True
        if "shell" in kind:
            self._follow_shell(start)
        elif wrapper:
            self._follow_wrapper(start, name, wrapper)
        elif "starter" in kind:
            self._once("anywhere", self._start_anywhere, start)
        elif runner:
            self._follow_runner(start, name, runner)
        else:
            self._follow_other(start, name)

    def _follow_other(self, start: int, name: str) -> None:
        match name:
            case "find" | "gfind":
                self._once("find", self._start_after, *FIND_ACTIONS)
            case "fd" | "fdfind":
                self._once("fd", self._start_after_options, name)
            case "git":
                scripts = scripts_in_git(self._words, self._git.subcommand(start))
                self._once("git", self._add_scripts, scripts)
            case "make" | "gmake" | "bmake":
                self._once("make", self._follow_make, start)
            case _ if "python" in program_named(name).kind:
                self._follow_module(start)
            case "trap":
                # options, then the script, then signals: one of the next three words
                behind = self._words[start + 1 : start + 4]
                scripts = (word for word in behind if word[:1] != "-")
                self._once("trap", self._add_scripts, scripts)
            case "alias":
                self._once("alias", self._follow_aliases, start)
            case "." | "source":
                self._todo.append(start + 1)
            case "function" | "coproc":
                # `coproc NAME { git push; }`: with or without a name and a brace
                self._todo += [start + 1, start + 2, start + 3]
            case "hash":
                # `hash -p /usr/bin/git ls` makes a later `ls` start git
                self._once("hash", self._start_after, "-p")
            case "for" | "select":
                self._once("for", self._start_after, "do", "{")
            case "[[":
                self._once("subscripts", self._add_subscripts)
                self._once("[[", self._start_after, "]]")
            case _:
                if "subscripts" in program_named(name).kind:
                    self._once("subscripts", self._add_subscripts)
                self._once(name, self._add_option_programs, start, name)

    def _follow_module(self, start: int) -> None:
        """Treat ``python -m pip`` as pip."""
        found = python_module(self._words[start : start + 1 + _MAX_SHELL_OPTIONS])
        if not found:
            return
        place = start + found[0]
        module = found[1]
        if module == self._words[place]:
            self._todo.append(place)
        else:  # -mpip: no word of its own starts there, so the command is text for a shell
            self._once("-m", self._add_joined, module, place + 1)

    def _add_joined(self, module: str, start: int) -> None:
        self._add_scripts([" ".join([module, *self._words[start:]])])

    def _follow_aliases(self, start: int) -> None:
        self._add_scripts(word.partition("=")[2] for word in self._words[start + 1 :])

    def _add_option_programs(self, start: int, name: str) -> None:
        self._add_scripts(options_of(name).arguments(self._words[start + 1 :]))

    def _follow_make(self, start: int) -> None:
        words = self._words[start + 1 :]
        # `make SHELL=...` and `make --eval=...`: text of a makefile, which make expands
        values = [word.partition("=")[2] for word in words if "=" in word]
        self._add_scripts(map(makefile_script, [*values, *options_of("make").arguments(words)]))
        for word in words:
            if word[:1] == "-" and ("f" in word or word == "-"):
                self._result.reads_makefile = True

    def _once(self, key: str, action: Callable[..., None], *args: object) -> None:
        """Run an action that looks at all words only once.

        Many such commands in one line would take quadratic time.
        """
        if key not in self._done:
            self._done.add(key)
            action(*args)

    def _add_subscripts(self) -> None:
        # bash evaluates subscripts as arithmetic: [[ -v 'a[$(git push)]' ]] runs git
        self._result.bodies.extend(filter(_SUBSCRIPT.search, self._words))

    def _add_scripts(self, scripts: Iterable[str]) -> None:
        self._result.scripts.extend(script for script in scripts if script)

    def _start_anywhere(self, start: int) -> None:
        self._todo.extend(range(start + 1, len(self._words)))
        for word in self._words[start + 1 :]:
            if _PLAIN.fullmatch(word):
                continue
            self._result.scripts.append(word)
            if option := _SCRIPT_OPTION.fullmatch(word):
                self._result.scripts.append(option[1])

    def _start_after(self, *marks: str) -> None:
        self._todo.extend(pos + 1 for pos, word in enumerate(self._words) if word in marks)

    def _start_after_options(self, name: str) -> None:
        starts = options_of(name).starts
        self._todo.extend(pos + 1 for pos, word in enumerate(self._words) if starts.has(word))

    def _follow_wrapper(self, start: int, name: str, wrapper: Wrapper) -> None:
        if name == "env":
            self._once("env", self._add_scripts, self._split_strings(start))
        after = "".join(self._words[start + 1 : start + 2])
        # `sudo -s` and `sudo -i` start a shell that reads its input
        if after in ("-s", "-i") or (name == "eval" and not after):
            self._result.reads_script = True
        if name == "command" and _ONLY_LOOKS_UP.match(after):
            return
        self._once(f"{name} options", self._add_option_programs, start, name)
        if wrapper.feeds:
            self._once("feeds", self._follow_fed, start, wrapper)
        if wrapper.reparses and start + 1 < self._plain_from:
            self._once("reparse", self._reparse, start, wrapper)
        elif name == "flock":
            self._once("anywhere", self._start_anywhere, start)
        else:
            self._todo.extend(wrapper.candidates(self._words, start, self._walked[name]))

    def _follow_fed(self, start: int, wrapper: Wrapper) -> None:
        """Keep the command that ``xargs`` or ``parallel`` adds words to.

        The words come from the input, or from the words after ``:::``.
        """
        words = self._words[start + 1 : start + 1 + _MAX_FED_WORDS]
        given = words.index(":::") if ":::" in words else len(words)
        replaced = "{}"
        for place, word in enumerate(words):
            if word[:2] == "-I":  # -I{} or -I {}
                replaced = word[2:] or "".join(words[place + 1 : place + 2]) or "{}"
                break
        for place in list(wrapper.candidates(self._words, start))[:_MAX_CANDIDATES]:
            fed = Fed(tuple(self._words[place : start + 1 + given]), replaced)
            self._result.fed.append(fed)
            self._add_scripts(map(fed.given, words[given + 1 :]))

    def _reparse(self, start: int, wrapper: Wrapper) -> None:
        """Keep the words of ``eval`` and the like as a script, joined as a shell joins them."""
        places = list(wrapper.candidates(self._words, start)) or [start + 1]
        self._todo.extend(places)
        # with and without the options before the command
        self._add_scripts([" ".join(self._words[start + 1 :]), " ".join(self._words[places[-1] :])])
        if wrapper.feeds:
            odd = (word for word in self._words[start + 1 :] if not _PLAIN.fullmatch(word))
            self._add_scripts(odd)

    def _split_strings(self, start: int) -> Iterator[str]:
        """Yield the words that ``env -S`` splits into a command."""
        for pos in range(start + 1, len(self._words)):
            word = self._words[pos]
            letters, found, attached = word.partition("S")
            if word.startswith("--s"):
                yield word.partition("=")[2]
                yield from self._words[pos + 1 : pos + 2]
            elif found and letters.startswith("-") and not letters.startswith("--"):
                yield attached
                yield from self._words[pos + 1 : pos + 2]

    def _follow_runner(self, start: int, name: str, runner: SubcommandRunner) -> None:
        """Follow ``docker exec`` and the like.

        Options with values come before the subcommand as well as after it, so that several words
        may be the subcommand. The first few are followed.
        """
        places = self._ends_of(name, runner)
        operands = runner.wrapper.operands
        first = bisect_right(places, start)
        ends: list[int] = []
        for end in places[first : first + _MAX_SUBCOMMANDS]:
            if end <= start + _MAX_SHELL_OPTIONS:
                ends.append(end)
        for end in ends:
            if runner.wrapper.command:
                self._todo.append(end)
            elif (end, operands) not in self._runs:
                self._runs.add((end, operands))
                self._follow_inside(end, _UNKNOWN_OPTIONS[operands])
        if ends:
            self._once("runner", self._follow_options, ends[0])

    def _follow_options(self, end: int) -> None:
        self._start_after("--")
        self._add_scripts(self._option_values(end))

    def _follow_inside(self, end: int, wrapper: Wrapper) -> None:
        for pos in wrapper.candidates(self._words, end, self._walked["runner"]):
            self._todo.append(pos)
            if pos < self._plain_from and not _PLAIN.fullmatch(self._words[pos]):
                self._result.scripts.append(self._words[pos])

    def _ends_of(self, name: str, runner: SubcommandRunner) -> list[int]:
        """Return the places where a path of subcommands of the program could end."""
        if name not in self._ends:
            last = {word for word in self._distinct if runner.may_end_at(word)}
            self._ends[name] = [pos for pos, word in enumerate(self._words) if word in last]
        return self._ends[name]

    @cached_property
    def _distinct(self) -> set[str]:
        return set(self._words)

    def _option_values(self, start: int) -> Iterator[str]:
        """Yield option values that may be scripts: of ``-c``, ``--command``, ``--entrypoint``."""
        for pos in range(start + 1, len(self._words)):
            word = self._words[pos]
            before = self._words[pos - 1]
            if word.startswith("-"):
                name, _, value = word.partition("=")
            else:
                name = before.partition("=")[0]
                value = word if before.startswith("-") else ""
            if name == "--entrypoint" and value:
                # docker passes the operands after the image to the entry point
                rest = self._words[pos + 1 : pos + 1 + _MAX_ENTRYPOINT_WORDS]
                for skipped in range(len(rest) + 1):
                    yield " ".join([value, *rest[skipped:]])
            elif not _PLAIN.fullmatch(value):
                yield value

    def _follow_shell(self, start: int) -> None:
        """Follow a shell: options, then a script file, or with ``-c`` a script."""
        has_script = False
        reads_stdin = False
        values: list[str] = []
        pos = start + 1
        while pos < len(self._words) and _is_shell_option(self._words[pos]):
            option = self._words[pos]
            if pos - start > _MAX_SHELL_OPTIONS:
                self._result.doubt = True
                return
            if option.startswith("--"):
                # fish spells it --command
                has_script = has_script or option.startswith("--c")
                values.append(option.partition("=")[2])
            else:
                has_script = has_script or "c" in option.lower()
                reads_stdin = reads_stdin or "s" in option
            pos += 1
            if option[-1] in "oO" or option in ("--rcfile", "--init-file"):
                values += self._words[pos : pos + 1]
                pos += 1
        operand = "".join(self._words[pos : pos + 1])
        if has_script and operand:
            # To dash and most other shells `a &>b` is two commands: `a &` and `>b`.
            self._add_scripts([*values, operand, operand.replace("&>", "& >")])
        else:
            self._todo.append(pos)
        names_stdin = not has_script and operand in ("-", "/dev/stdin", "/dev/fd/0")
        if reads_stdin or names_stdin or operand in ("", "{}"):
            self._result.reads_script = True


def _is_shell_option(word: str) -> bool:
    return len(word) > 1 and word[0] in "-+"


def makefile_script(text: str) -> str:
    """Return the text of a makefile as a shell script that would run the same commands."""
    text = _MAKE_VARIABLE.sub(r"${\1}", _MAKE_SHELL.sub("$(", text))
    # The value once as an assignment, once as a command: `SHELL = git push` may be run.
    text = _MAKE_ASSIGNMENT.sub(lambda found: f"{found[1]}='{found[2]}'\n{found[2]}", text)
    return _MAKE_PREFIX.sub(r"\1", text).replace("$$", "$")
