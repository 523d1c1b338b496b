"""What a call does and whom it reaches: its deed and the words that have authority in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from forge_cli.bashrules.face import Decision, ReadLine, Rule, Rules, judge, read
from forge_cli.engine.provenance.data import Deeds, deeds, role_of, words_of_name
from forge_cli.engine.provenance.words import normalise, parts_of, reaches, stem

_PLAIN = re.compile(r"[a-z][a-z0-9-]*")
_ASSIGNED = re.compile(r"(--?[\w-]+)=(.*)", re.DOTALL)
_READING = Rules([Rule(use="reading")])
_HERE = Rules([Rule(use="localhost"), Rule(use="reading")])
"""Commands that look at servers of this machine."""
_FETCHING = {
    "curl": re.compile(
        r"-[sSfLIigO]+|-o|--output|--silent|--show-error|--fail|--location|--head|--include|--compressed"
    ),
    "wget": re.compile(r"-q|-qO-|-O|-nv|--quiet"),
}
"""Programs that fetch a page, and their options that send nothing of the session."""
MAX_DEPTH = 20


class Deed(Struct, frozen=True):
    """Something that a call does, with the stems of words that name it."""

    title: str
    stems: frozenset[str]
    """The person has to type one of these."""
    hard: tuple[str, ...] = ()
    """Stems of options that change what it does; the person has to type each of them."""


class Authority(Struct, frozen=True):
    """A part of a call that decides whom or what it reaches."""

    argument: str
    part: str
    """A normalised word or value."""


class NamedCall(Struct, frozen=True):
    """A call with its deeds and its authority words."""

    deeds: tuple[Deed, ...]
    """The person has to name each of them."""
    authority: tuple[Authority, ...]
    """The person has to name each of them, or a trusted source."""
    named_by_deed: bool = False
    """True if the deed itself is an authority word, as the program of a command is."""
    only_fetches: bool = False
    """True if every command of a line only reads, and sends nothing but its addresses."""
    unreadable: str | None = None
    """Why the words are unknown, so that the call asks."""


def name_call(
    tool: str, args: Mapping[str, Any], stated: Collection[str] = (), *, skip: Collection[str] = ()
) -> NamedCall:
    """Return the deed and the authority words of a tool's call.

    ``stated`` are the arguments with authority according to the policy; without them every argument
    has it that is no text, time or amount. If no other argument is left, all of them have it.
    ``skip`` are arguments with their default.
    """
    found = list(_flat({name: value for name, value in args.items() if name not in skip}))
    if stated:
        chosen = [each for each in found if each[0] in stated]
    else:
        chosen = [each for each in found if role_of(each[1]) == "destination"]
        if not any(parts_of(value) for _, _, value in chosen):
            chosen = found
    authority: list[Authority] = []
    for argument, _, value in chosen:
        authority += [Authority(argument, part) for part in parts_of(value)]
    return NamedCall((_deed_of(tool),), tuple(dict.fromkeys(authority)))


def _flat(
    args: Mapping[str, Any], outer: str = "", depth: int = 0
) -> Iterator[tuple[str, str, Any]]:
    """Yield top argument, nearest name and value of each leaf."""
    for name, value in args.items():
        top = outer or name
        match value:
            case Mapping() if depth < MAX_DEPTH:
                yield from _flat({str(key): item for key, item in value.items()}, top, depth + 1)
            case list() | tuple() if depth < MAX_DEPTH:
                for item in value:
                    yield from _flat({name: item}, top, depth + 1)
            case _:
                yield top, name, value


def _deed_of(tool: str) -> Deed:
    """Return what a tool does, by the verbs of its name; by all words of a name without one."""
    # The words before "__" name a server: "mail__send" is no message about mail.
    name = tool.rpartition("__")[2] or tool
    words = [stem(word) for word in words_of_name(name)]
    table = deeds()
    named: frozenset[str] = frozenset(words)
    for word in words:
        if word in table.classes:
            named = table.classes[word]
            break
    for word in words:
        named |= table.objects.get(word, frozenset())
    return Deed(tool, named)


def name_line(line: str, exists: Callable[[str], bool] = os.path.exists) -> NamedCall:
    """Return the deeds and the authority words of a shell line.

    Commands that only read are left out, and so are operands that are files: ``exists`` tells.
    """
    parsed = read(line)
    if parsed.unreadable is not None:
        return NamedCall((), (), unreadable=parsed.unreadable)
    found: list[Deed] = []
    authority: list[Authority] = []
    here = _covered_by(_HERE, parsed)
    looks = False
    for words in _effective(parsed):
        if words is None:
            return NamedCall((), (), unreadable="a word of it is unknown before it runs")
        if tuple(words) in here:
            continue
        if _only_fetches(words):
            authority += _addresses_in(words[1:])
            continue
        if _only_looks(words):
            looks = True
            authority += _addresses_in(words[1:])
            continue
        deed, parts = _named_command(words, exists)
        found.append(deed)
        authority += [Authority("command", part) for part in parts]
    unique = tuple(dict.fromkeys(authority))
    only_fetches = not (found or looks)
    return NamedCall(tuple(found), unique, named_by_deed=True, only_fetches=only_fetches)


def command_words(parsed: ReadLine) -> Iterator[list[str]]:
    """Yield the words of each command of a line, as far as they are known."""
    for command in parsed.commands:
        if words := [word.text for word in command.words]:
            yield words


def only_reads(parsed: ReadLine) -> bool:
    """Return True if every command of a line is one that only reads."""
    return parsed.unreadable is None and not any(True for _ in _effective(parsed))


def _effective(parsed: ReadLine) -> Iterator[Sequence[str] | None]:
    """Yield the words of each command that does more than read; None for unknown words."""
    reading = _covered_by(_READING, parsed)
    for command in parsed.commands:
        words = tuple(word.text for word in command.words)
        if any(word.unknown or word.pieces for word in command.words):
            yield None
        elif any(redirect.operator.startswith(">") for redirect in command.redirects):
            # Where it writes to, a trial shows.
            yield words or None
        elif words and words[0] != "cd" and words not in reading:
            yield words


def _only_looks(words: Sequence[str]) -> bool:
    """Return True for a command that reads from the network, such as ``gh issue view``."""
    table = deeds()
    program = os.path.basename(words[0])
    # Such options and addresses start programs.
    if any("::" in word or word.startswith(("--upload-pack", "--exec")) for word in words):
        return False
    rest = [word for word in words[1:] if not word.startswith("-")]
    return " ".join(rest[: table.subcommands.get(program, 1)]) in table.looks.get(program, ())


def _only_fetches(words: Sequence[str]) -> bool:
    """Return True for curl and wget with addresses, and options that send nothing."""
    plain = _FETCHING.get(os.path.basename(words[0]))
    if plain is None:
        return False
    is_file = False
    for word in words[1:]:
        if is_file:
            is_file = False
        elif word.startswith("-"):
            if not plain.fullmatch(word):
                return False
            is_file = word in ("-o", "-O", "--output") and not (word == "-O" and words[0] == "curl")
    return True


def _addresses_in(words: Iterable[str]) -> Iterator[Authority]:
    for word in words:
        for part in parts_of(word):
            if reaches(part):
                yield Authority("command", part)


def _covered_by(rules: Rules, parsed: ReadLine) -> set[tuple[str, ...]]:
    """Return the words of each command that rules allow."""
    parts = judge(parsed, rules).parts
    return {tuple(part.words) for part in parts if part.decision is Decision.PRE_APPROVED}


def _named_command(
    words: Sequence[str], exists: Callable[[str], bool]
) -> tuple[Deed, Iterator[str]]:
    table = deeds()
    program = normalise(os.path.basename(words[0]))
    subcommands: list[str] = []
    rest = list(words[1:])
    most = 0 if program in table.programs else table.subcommands.get(program, 1)
    while rest and len(subcommands) < most and _PLAIN.fullmatch(rest[0]):
        subcommands.append(normalise(rest.pop(0)))
    title = " ".join([program, *subcommands])
    stems = _stems_of_command(table, program, subcommands, rest)
    deed = Deed(title, stems, tuple(_hard(table, title, rest)))
    sends = table_sends(table) if program in table.senders else None
    return deed, _operands(table, rest, exists, sends)


def _stems_of_command(
    table: Deeds, program: str, subcommands: Sequence[str], rest: Sequence[str]
) -> frozenset[str]:
    if program in table.senders and any(map(table_sends(table), rest)):
        return table.sending_words
    if program in table.programs:
        return table.programs[program]
    if not subcommands:
        return frozenset([stem(program)])
    last = stem(subcommands[-1])
    return table.classes.get(last, frozenset()) | {last}


def table_sends(table: Deeds) -> Callable[[str], bool]:
    """Return a function that returns True for an option with which a program sends something."""

    def sends(word: str) -> bool:
        option = word.partition("=")[0]
        if option in table.sending_options:
            return True
        # Short options can be joined with their value: -XPOST, -d@file, -sd.
        short = re.match(r"-[A-Za-z]*", word)
        letters = {each[1] for each in table.sending_options if len(each) == 2}
        return bool(
            short and not word.startswith("--") and letters.intersection(short[0].removeprefix("-"))
        )

    return sends


def _hard(table: Deeds, title: str, rest: Sequence[str]) -> Iterator[str]:
    """Yield the stems of options that make the deed another one."""
    short = table.short_hard.get(title) or table.short_hard.get(title.partition(" ")[0]) or {}
    for word in rest:
        if word == "--":
            return
        option = word.partition("=")[0]
        if option.startswith("--"):
            yield from (stem(each) for each in option[2:].split("-") if each in table.hard)
        elif option in short:
            yield stem(short[option])
        elif title.startswith("git push") and word.startswith(("+", ":")):
            # A refspec with "+" overwrites, and one without a source deletes.
            yield stem("force" if word.startswith("+") else "delete")


def _operands(
    table: Deeds,
    rest: Sequence[str],
    exists: Callable[[str], bool],
    sends: Callable[[str], bool] | None,
) -> Iterator[str]:
    """Yield the parts of operands and of option values, except texts and files."""
    is_text = False
    only_operands = False
    for word in rest:
        if is_text:
            is_text = False
            continue
        if word == "--" and not only_operands:
            only_operands = True
            continue
        if word.startswith("-") and not only_operands:
            assigned = _ASSIGNED.fullmatch(word)
            name = assigned[1] if assigned else word
            is_content = name.startswith("--") and role_of(name) == "content"
            if sends is not None and sends(word):
                # What it sends; a method is a word like "POST" and reaches nobody.
                is_content = True
                is_text = word in table.sending_options
                continue
            is_text = is_content and assigned is None
            if assigned is None or is_content:
                # A short option may have its value joined: -oeval, -Hevil.example.
                if not name.startswith("--") and len(word) > 2 and not word[1:].isalpha():
                    yield from parts_of(word[2:])
                continue
            word = assigned[2]
        if exists(word) and not os.path.isabs(word) and "://" not in word:
            continue
        for part in parts_of(word):
            if part not in table.usual:
                yield part
