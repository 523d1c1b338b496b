"""Unwrapping for the block side: where in the words of a command other commands could start, and which are scripts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
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
_SHELL_OPTIONS_MAX = 64
_FED_MAX, _CANDIDATES_MAX = 64, 8
_SUBCOMMANDS_MAX, _ENTRYPOINT_WORDS = 4, 16
_OPTIONS_UNKNOWN = [Wrapper(operands=operands) for operands in (0, 1)]
_SUBSCRIPT = re.compile(r"\[[^]]*[$`]")
_ONLY_ASKS = re.compile(r"-p*[vV]")
_RESERVED = frozenset({"time", "then", "do", "else", "!", "{", "if", "while", "until", "elif"})

_SHELL = re.compile(r"\$[({]shell\s")
_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_ASSIGNMENT = re.compile(r"^ *(?:(?:export|override)\s+)*(\w+)\s*[:?+!]*=[ \t]*(.*)$", re.MULTILINE)
_PREFIX = re.compile(r"(^[ \t]*|[;:][ \t]*)[@+-]+", re.MULTILINE)


class Fed(NamedTuple):
    """A command that gets words from elsewhere, behind its own or in place of those that hold ``replaced``."""

    words: tuple[str, ...]
    replaced: str

    def given(self, data: str) -> str:
        """The command with this for its input, as text for a shell."""
        given = " ".join(data.split())
        if not any(self.replaced in word for word in self.words):
            return " ".join([*self.words, given])
        return " ".join(word.replace(self.replaced, given) for word in self.words)


@dataclass
class Unwrapped:
    """Texts in the words of one command."""

    starts: list[int] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    """Words that are expanded once more, as subscripts of variables."""
    reads_script: bool = False
    """Whether some command in it may take its standard input for a script."""
    reads_makefile: bool = False
    fed: list[Fed] = field(default_factory=list)
    doubt: bool = False


def unwrap(words: Sequence[str], git: GitWords) -> Unwrapped:
    """Follow wrappers, shells, ``find -exec`` and the like through the words of one command."""
    return _Unwrapper(words, git).all()


class _Unwrapper:
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
        return next(
            (
                pos + 1
                for pos in reversed(range(len(self._words)))
                if not _PLAIN.fullmatch(self._words[pos])
            ),
            0,
        )

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
        kind, wrapper, runner = program_named(name).kind, wrapper_named(name), runner_named(name)
        if ASSIGNMENT.match(word) or word in _RESERVED:
            self._todo.append(start + 1)
        if "reads_script" in kind:
            self._result.reads_script = True
        if "shell" in kind:
            self._shell(start)
        elif wrapper:
            self._wrapper(start, name, wrapper)
        elif "starter" in kind:
            self._once("anywhere", self._anywhere, start)
        elif runner:
            self._runner(start, name, runner)
        else:
            self._other(start, name)

    def _other(self, start: int, name: str) -> None:
        match name:
            case "find" | "gfind":
                self._once("find", self._after, *FIND_ACTIONS)
            case "fd" | "fdfind":
                self._once("fd", self._after_options, name)
            case "git":
                self._once(
                    "git", self._scripts, scripts_in_git(self._words, self._git.subcommand(start))
                )
            case "make" | "gmake" | "bmake":
                self._once("make", self._make, start)
            case _ if "python" in program_named(name).kind:
                self._module(start)
            case "trap":
                self._once(
                    "trap",
                    self._scripts,
                    (w for w in self._words[start + 1 : start + 4] if w[:1] != "-"),
                )
            case "alias":
                self._once("alias", self._aliases, start)
            case "." | "source":
                self._todo.append(start + 1)
            case "function" | "coproc":
                self._todo += [start + 1, start + 2, start + 3]
            case "hash":
                self._once("hash", self._after, "-p")
            case "for" | "select":
                self._once("for", self._after, "do", "{")
            case "[[":
                self._once("subscripts", self._subscripts)
                self._once("[[", self._after, "]]")
            case _ if "subscripts" in program_named(name).kind:
                self._once("subscripts", self._subscripts)
                self._once(name, self._programs, start, name)
            case _:
                self._once(name, self._programs, start, name)

    def _module(self, start: int) -> None:
        """``python -m pip`` is pip."""
        if found := python_module(self._words[start : start + 1 + _SHELL_OPTIONS_MAX]):
            place, module = start + found[0], found[1]
            if module == self._words[place]:
                self._todo.append(place)
            else:
                self._once("-m", self._joined, module, place + 1)

    def _joined(self, module: str, start: int) -> None:
        self._scripts(iter([" ".join([module, *self._words[start:]])]))

    def _aliases(self, start: int) -> None:
        self._scripts(word.partition("=")[2] for word in self._words[start + 1 :])

    def _programs(self, start: int, name: str) -> None:
        self._scripts(options_of(name).arguments(self._words[start + 1 :]))

    def _make(self, start: int) -> None:
        words = self._words[start + 1 :]
        values = [word.partition("=")[2] for word in words if "=" in word]
        self._scripts(map(makefile_script, [*values, *options_of("make").arguments(words)]))
        self._result.reads_makefile = any(
            word[:1] == "-" and ("f" in word or word == "-") for word in words
        )

    def _once(self, key: str, action: Callable[..., None], *args: object) -> None:
        """Do what looks at all the words only once, or many such commands in one would take quadratic time."""
        if key not in self._done:
            self._done.add(key)
            action(*args)

    def _subscripts(self) -> None:
        self._result.bodies.extend(filter(_SUBSCRIPT.search, self._words))

    def _scripts(self, scripts: Iterator[str]) -> None:
        self._result.scripts.extend(script for script in scripts if script)

    def _anywhere(self, start: int) -> None:
        self._todo.extend(range(start + 1, len(self._words)))
        for word in self._words[start + 1 :]:
            if not _PLAIN.fullmatch(word):
                option = _SCRIPT_OPTION.fullmatch(word)
                self._result.scripts += [word, option[1]] if option else [word]

    def _after(self, *marks: str) -> None:
        self._todo.extend(pos + 1 for pos, word in enumerate(self._words) if word in marks)

    def _after_options(self, name: str) -> None:
        starts = options_of(name).starts
        self._todo.extend(pos + 1 for pos, word in enumerate(self._words) if starts.has(word))

    def _wrapper(self, start: int, name: str, wrapper: Wrapper) -> None:
        if name == "env":
            self._once("env", self._scripts, self._split_strings(start))
        after = "".join(self._words[start + 1 : start + 2])
        if after in ("-s", "-i") or (name == "eval" and not after):
            self._result.reads_script = True
        if name == "command" and _ONLY_ASKS.match(after):
            return
        self._once(f"{name} options", self._programs, start, name)
        if wrapper.feeds:
            self._once("feeds", self._feeds, start, wrapper)
        if wrapper.reparses and start + 1 < self._plain_from:
            self._once("reparse", self._reparse, start, wrapper)
        elif name == "flock":
            self._once("anywhere", self._anywhere, start)
        else:
            self._todo.extend(wrapper.candidates(self._words, start, self._walked[name]))

    def _feeds(self, start: int, wrapper: Wrapper) -> None:
        """``xargs`` and ``parallel`` give words to the command inside: from their input, or from behind ``:::``."""
        words = self._words[start + 1 : start + 1 + _FED_MAX]
        given = words.index(":::") if ":::" in words else len(words)
        options = [
            (word, after)
            for word, after in zip(words, [*words[1:], ""], strict=True)
            if word[:2] == "-I"
        ]
        replaced = next((word[2:] or after for word, after in options), "{}")
        for place in list(wrapper.candidates(self._words, start))[:_CANDIDATES_MAX]:
            fed = Fed(tuple(self._words[place : start + 1 + given]), replaced)
            self._result.fed.append(fed)
            self._scripts(map(fed.given, words[given + 1 :]))

    def _reparse(self, start: int, wrapper: Wrapper) -> None:
        places = list(wrapper.candidates(self._words, start)) or [start + 1]
        self._todo.extend(places)
        self._scripts(
            iter([" ".join(self._words[start + 1 :]), " ".join(self._words[places[-1] :])])
        )
        if wrapper.feeds:
            self._scripts(word for word in self._words[start + 1 :] if not _PLAIN.fullmatch(word))

    def _split_strings(self, start: int) -> Iterator[str]:
        """The words that ``env -S`` takes apart."""
        for pos in range(start + 1, len(self._words)):
            word = self._words[pos]
            letters, found, attached = word.partition("S")
            if word.startswith("--s"):
                yield word.partition("=")[2]
                yield from self._words[pos + 1 : pos + 2]
            elif found and letters.startswith("-") and not letters.startswith("--"):
                yield attached
                yield from self._words[pos + 1 : pos + 2]

    def _runner(self, start: int, name: str, runner: SubcommandRunner) -> None:
        """The first words that may be its subcommand: options with values stand before it as well as behind it."""
        places, operands = self._ends_of(name, runner), runner.wrapper.operands
        first = bisect_right(places, start)
        ends = [
            end
            for end in places[first : first + _SUBCOMMANDS_MAX]
            if end <= start + _SHELL_OPTIONS_MAX
        ]
        for end in ends:
            if runner.wrapper.command:
                self._todo.append(end)
            elif (end, operands) not in self._runs:
                self._runs.add((end, operands))
                self._inside(end, _OPTIONS_UNKNOWN[operands])
        if ends:
            self._once("runner", self._behind_options, ends[0])

    def _behind_options(self, end: int) -> None:
        self._after("--")
        self._scripts(self._option_values(end))

    def _inside(self, end: int, wrapper: Wrapper) -> None:
        for pos in wrapper.candidates(self._words, end, self._walked["runner"]):
            self._todo.append(pos)
            if pos < self._plain_from and not _PLAIN.fullmatch(self._words[pos]):
                self._result.scripts.append(self._words[pos])

    def _ends_of(self, name: str, runner: SubcommandRunner) -> list[int]:
        """Ends, in all the words, of the path of subcommands of a program."""
        if name not in self._ends:
            last = {word for word in self._distinct if runner.may_end_at(word)}
            self._ends[name] = [pos for pos, word in enumerate(self._words) if word in last]
        return self._ends[name]

    @cached_property
    def _distinct(self) -> set[str]:
        return set(self._words)

    def _option_values(self, start: int) -> Iterator[str]:
        """Values of options, such as ``-c`` and ``--command``, that may be scripts; ``--entrypoint`` is a program."""
        for pos in range(start + 1, len(self._words)):
            word = self._words[pos]
            before = self._words[pos - 1]
            if word.startswith("-"):
                name, _, value = word.partition("=")
            else:
                name = before.partition("=")[0]
                value = word if before.startswith("-") else ""
            if name == "--entrypoint" and value:
                rest = self._words[pos + 1 : pos + 1 + _ENTRYPOINT_WORDS]
                yield from (" ".join([value, *rest[skipped:]]) for skipped in range(len(rest) + 1))
            elif not _PLAIN.fullmatch(value):
                yield value

    def _shell(self, start: int) -> None:
        """Options, then a script file, or with ``-c`` a script; to most shells but bash ``&>`` ends a command."""
        script, stdin, values, pos = False, False, [], start + 1
        while (
            pos < len(self._words)
            and self._words[pos][:1] in ("-", "+")
            and len(self._words[pos]) > 1
        ):
            option = self._words[pos]
            if pos - start > _SHELL_OPTIONS_MAX:
                self._result.doubt = True
                return
            if option.startswith("--"):
                script = script or option.startswith("--c")
                values.append(option.partition("=")[2])
            else:
                script, stdin = script or "c" in option.lower(), stdin or "s" in option
            pos += 1
            if option[-1] in "oO" or option in ("--rcfile", "--init-file"):
                values += self._words[pos : pos + 1]
                pos += 1
        operand = "".join(self._words[pos : pos + 1])
        if script and operand:
            self._scripts(iter([*values, operand, operand.replace("&>", "& >")]))
        else:
            self._todo.append(pos)
        if (
            stdin
            or operand in ("", "{}")
            or (not script and operand in ("-", "/dev/stdin", "/dev/fd/0"))
        ):
            self._result.reads_script = True


def makefile_script(text: str) -> str:
    text = _VARIABLE.sub(r"${\1}", _SHELL.sub("$(", text))
    text = _ASSIGNMENT.sub(lambda found: f"{found[1]}='{found[2]}'\n{found[2]}", text)
    return _PREFIX.sub(r"\1", text).replace("$$", "$")
