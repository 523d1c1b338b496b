"""The verdict of rules on a command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.bashrules.allow.folders import (
    IN_ANOTHER_FOLDER,
    CommandPlace,
    Folders,
    folder_hazard,
    links_beside,
    no_links,
    reading_for_sets,
)
from forge_cli.bashrules.allow.hazards import (
    command_hazard,
    grantable_pattern,
    innermost,
    suggestion_for,
)
from forge_cli.bashrules.allow.lexer import ASSIGNMENT, ShellWord, UnreadableLine
from forge_cli.bashrules.allow.programs import is_known
from forge_cli.bashrules.allow.redirects import CD_LEAVES, redirect_hazard, secret_hazard
from forge_cli.bashrules.allow.values import MAX_COMMANDS, Simple
from forge_cli.bashrules.block.frames import FoundCommand
from forge_cli.bashrules.block.patterns import CommandWords, Patterns
from forge_cli.bashrules.block.quoting import restore
from forge_cli.bashrules.block.search import Hit, Search
from forge_cli.bashrules.block.unwrap import unwrap
from forge_cli.bashrules.command_text import (
    PLAIN_WORD,
    found_text,
    in_quotes,
    quoted_word,
    shown_command,
    without_padding,
)
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.line import ReadLine, read
from forge_cli.bashrules.names import FileNames
from forge_cli.bashrules.place import FileUse
from forge_cli.bashrules.programs.discarding import bare_stash
from forge_cli.bashrules.programs.subcommands import starts_commands
from forge_cli.bashrules.programs.table import program, program_named, word_set
from forge_cli.bashrules.programs.variables import loading_name
from forge_cli.bashrules.rules import (
    Match,
    Rule,
    RuleList,
    fed_words,
    first_inside,
    first_of,
    timed_by_name,
    tokens_of,
)
from forge_cli.bashrules.sets.rows import SetRow, is_outside, rows_of
from forge_cli.bashrules.text import visible

_NOTHING = "there is no command in it"
_NAMES_BECOME_BLOCKED = "file names may become words that are blocked"
_NO_RULE_THERE = "no rule allows it, and it runs in another folder than rules are for"
_LINKERS = word_set("ln link cp mv rsync tar bsdtar unzip cpio 7z")
"""Programs that may make links; others that may do so run code, which could read by itself."""
_PUSH = ShellWord("push")
_NAMES = FileNames()
_OF_SHELLS = word_set(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo "
    "enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf "
    "pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit "
    "umask unalias unset wait case coproc do for function if select then time until while [[ ! { in elif else"
)
_CODE_WORD = re.compile(r"[\w./:@%+=-]+")


@lru_cache(maxsize=64)
def _patterns(patterns: tuple[tuple[str, ...], ...]) -> Patterns:
    return Patterns(patterns)


def starts_any(line: str, patterns: tuple[tuple[str, ...], ...]) -> bool:
    """Whether a line holds a command that one of the patterns is for, behind wrappers, paths and quotes as well."""
    return Search(line, _patterns(patterns)).hit() is not None


class CommandPart(Struct, frozen=True):
    """One simple command of a line, what is said of it, and the rule that says so."""

    text: str
    words: tuple[str, ...]
    match: Match | None
    decision: Decision
    why: str | None = None
    """The reason why it is more than its words say, if it is."""
    nested: bool = False
    hides: str | None = None
    """Why it may run another command than its words say, if it may."""
    misfit: str | None = None
    """Why a rule set that knows the command does not cover it."""

    @property
    def row(self) -> SetRow | None:
        """The row of the rule set that covers it."""
        return self.match.row if self.match else None

    @property
    def reason(self) -> str:
        """The rule that it met, and why it is more than its words say."""
        if self.match is None:
            return self.why or self.misfit or "no rule"
        return f"{self.match.described}, but {self.why}" if self.why else self.match.described


class Verdict(Struct, frozen=True):
    """The verdict of the rules on one line; ``suggestion`` is a pattern that would cover the part that asks."""

    decision: Decision
    reason: str
    match: Match | None = None
    parts: tuple[CommandPart, ...] = ()
    suggestion: str | None = None
    grantable: tuple[str, ...] = ()
    """For each part that asks, the pattern that a person may pre-approve."""
    shorter: tuple[tuple[str, ...], ...] = ()
    """For each of these, the beginnings of it that would cover the same parts as rules."""
    doubt: str | None = None
    """Why a line asks that the rules pre-approve: by the files that it would meet."""
    files: tuple[FileUse, ...] = ()
    """The files that redirections open, if the rules pre-approve the line or could do so."""
    operands: tuple[str, ...] = ()
    """The words that may name files, if rules could pre-approve the line."""

    @property
    def by_rules(self) -> Decision:
        """The decision without a look at the files."""
        return Decision.PRE_APPROVED if self.doubt else self.decision


def judge_line(
    command: str, rules: Sequence[Rule], default: Decision, *, writable: Sequence[str] = ()
) -> Verdict:
    """Judge a line by one list of rules; redirections may write below the folders ``writable`` without asking."""
    return LineJudge([RuleList("", rules)], default).judge(command, writable=writable)


class LineJudge:
    """Lists of rules, made ready for many lines: blocked in any wins, then the strictest match counts."""

    def __init__(
        self,
        lists: Sequence[RuleList],
        default: Decision,
        *,
        readable: Sequence[str] = (),
        root: str = "",
        held: bool = True,
        names: FileNames = _NAMES,
    ) -> None:
        """``readable`` are the real paths of zones, in which rule sets let files be read; in ``root`` a line runs.

        ``held`` says whether lines that rule sets allow are held to what these promise, ``names`` which files are
        secret or protected.
        """
        self._default, self._readable, self._folders = default, readable, Folders(root=root)
        self._unsure = Decision.strictest(Decision.ASK, default)
        self._held = held
        self._names = names
        self._blocked_rules: list[Match] = []
        self._by_name: list[dict[str, list[Match]]] = []
        self._asking: list[list[Match]] = []
        for origin in lists:
            self._by_name.append({})
            self._asking.append([])
            for index, rule in enumerate(origin.rules):
                if rule.tokens:
                    self._add(Match(origin.name, index, rule, rule.tokens))
                for row in rows_of(rule.use) if rule.use else ():
                    for tokens in row.tokens(held=held):
                        self._add(Match(origin.name, index, rule, tokens, row))
        self._patterns = _patterns(tuple(match.tokens for match in self._blocked_rules))
        self._blocked_names = {_base(match.tokens[0]) for match in self._blocked_rules}

    def _add(self, match: Match) -> None:
        """Index a rule by the name of its program; blocked ones come first, they win wherever they stand."""
        matches = self._by_name[-1].setdefault(match.tokens[0], [])
        if match.rule.decision is Decision.BLOCKED:
            self._blocked_rules.append(match)
            matches.insert(0, match)
        else:
            matches.append(match)
        if match.rule.decision is Decision.ASK:
            self._asking[-1].append(match)

    def judge(
        self,
        line: ReadLine | str,
        *,
        writable: Sequence[str] = (),
        is_link: Callable[[str], bool] = no_links,
        before: ReadLine | None = None,
        any_grammar: bool = False,
    ) -> Verdict:
        """The verdict on one line, whose redirections may write below the folders ``writable`` without asking.

        ``is_link`` tells of a folder whether it leads elsewhere; ``before`` are the lines of the same shell. In
        ``any_grammar`` a blocked command counts wherever its words stand: another shell than bash may start it.
        """
        line = read(line) if isinstance(line, str) else line
        if "\0" in line.text:
            return Verdict(Decision.BLOCKED, "a command cannot contain a NUL character")
        search = Search(line.text, self._patterns)
        hit = search.hit() if self._blocked_rules else None
        if any_grammar and self._blocked_rules:
            hit = hit or search.bare_hit()
        verdict = self._read(
            line, search, CommandPlace(writable, self._folders, is_link, names=self._names), before
        )
        return (
            self._blocked(hit, self._blocked_rules[hit.pattern], verdict.parts) if hit else verdict
        )

    def _read(
        self, line: ReadLine, search: Search, place: CommandPlace, before: ReadLine | None
    ) -> Verdict:
        """The verdict on a line in which nothing is blocked, as far as it can be read."""
        try:
            place = place.after_lines(before.require_commands()) if before else place
            commands = line.require_commands()
            if len(line.parted) > len(commands):
                found = self._combine(line.parted, place)
                if found.decision is Decision.PRE_APPROVED:
                    return found
            return self._combine(commands, place)
        except UnreadableLine as error:
            return self._unreadable(line.text, search, error)
        except Exception as error:  # a line that cannot be judged for any reason asks
            why = f"it cannot be analysed ({type(error).__name__})"
            return self._unreadable(line.text, search, UnreadableLine(why, 0))

    def blocked_command(self, words: Sequence[str]) -> Verdict | None:
        """The verdict on the words that a program was started with, if a rule blocks them; no shell reads them."""
        command = CommandWords(words)
        for start in unwrap(words, command).starts if words else ():
            pattern = self._patterns.match(command, start)
            if pattern is not None:
                return self._blocked(
                    Hit(pattern, tuple(words[start:]), nested=True),
                    self._blocked_rules[pattern],
                    (),
                )
        return None

    @property
    def blocked_names(self) -> frozenset[str]:
        """The programs of blocked rules, in lower case."""
        return frozenset(self._blocked_names)

    @property
    def blocks_unseen(self) -> bool:
        """Whether a rule blocks what a shell may do without starting a program: its own commands, and scripts."""
        return any(name in _OF_SHELLS or "." in name for name in self._blocked_names) or any(
            "/" in match.tokens[0] for match in self._blocked_rules
        )

    def matching(self, words: tuple[str, ...]) -> list[Match]:
        """The first match of each list that has one."""
        found = (self._first(words, at) for at in range(len(self._by_name)))
        return [match for match in found if match]

    def _first(self, words: tuple[str, ...], at: int, after: int = -1) -> Match | None:
        """The first match in the list ``at`` behind the rule ``after``.

        A rule before it that asks for the same command in another spelling counts instead: ``/bin/rm`` is ``rm``, and
        ``git --no-pager push`` is ``git push``.
        """
        if not words:
            return None
        by_name = self._by_name[at]
        first = first_of(by_name, words, after) or first_inside(by_name, words, after)
        if (first.rule.decision if first else self._default) is Decision.BLOCKED:
            return first
        before = [match for match in self._asking[at] if first is None or match.index < first.index]
        hit = (
            _patterns(tuple(match.tokens for match in before)).match(CommandWords(words), 0)
            if before
            else None
        )
        return first if hit is None else before[hit]

    def _fitting(self, command: Simple, folders: Folders) -> tuple[list[Match], str | None]:
        """The first match of each list without those rule sets that do not cover the command; and why one does not."""
        words, found, why = command.with_assigned, list[Match](), None
        if command.assigned:  # what asks without the assignments asks with them
            without = self.matching(tuple(command.texts))
            found += [
                match for match in without if match.rule.decision is not Decision.PRE_APPROVED
            ]
            why = ASSIGNMENT if len(found) < len(without) else None
        for at in range(len(self._by_name)):
            after = -1
            while match := self._first(words, at, after):
                if (misfit := self._misfit(command, match, folders)) is None:
                    found.append(match)
                    break
                why, after = why or misfit, match.index
        return found, why

    def _misfit(self, command: Simple, match: Match, folders: Folders) -> str | None:
        """Why the row of a rule set does not cover a command that begins as it says."""
        if match.row is None:
            return None
        fed = fed_words(command, match)
        why = timed_by_name(command, match) or match.row.misfit(
            fed, match.reach, self._readable, held=self._held, leads_inside=folders.leads_inside
        )
        if why or fed is command.words:
            return why
        strict = match.row.needs_known_options
        return command_hazard(fed[match.start :], match.reach - match.start, known_only=strict)

    def _part(self, command: Simple, place: CommandPlace) -> CommandPart:
        words = command.with_assigned
        if other := reading_for_sets(command, place):
            bare = self._part(*other)
            if bare.decision is Decision.PRE_APPROVED and bare.match and bare.match.row:
                return replace(bare, text=shown_command(command), words=words)
        matches, misfit = self._fitting(command, place.folders)
        match, decision = self._strictest(matches)
        why = None
        unknown = any(word.unknown for word in command.words)
        if matches or decision is Decision.PRE_APPROVED or not words or unknown:
            reach = max((match.reach for match in matches), default=0)
            why = None if matches else misfit
            why = why or self._hazard(command, reach, place, match.row if match else None)
        if why and decision is Decision.PRE_APPROVED:
            decision = self._unsure
        vouched = match is not None and match.row is not None and why is None
        hides = None if vouched else self._hides(command)
        return CommandPart(
            shown_command(command), words, match, decision, why, command.nested, hides, misfit
        )

    def _hides(self, command: Simple) -> str | None:
        """Why a command may run another than its words say: what a known program does itself is not a command."""
        words, texts = command.words, command.texts
        if name := loading_name(command.assigned):
            return f"{name} may change what runs"
        if not texts:
            return None
        if words[0].glob:
            return "the name of the program is a glob"
        if unknown := next(filter(None, (_unknown_command(word, texts) for word in words)), None):
            return unknown
        if why := innermost(texts, len(texts))[1]:
            return why
        code = (_CODE_WORD.findall(text) for text in texts[1:] if not PLAIN_WORD.fullmatch(text))
        if any(map(self._patterns.match_anywhere, code)):
            return "its code names a command that is blocked"
        if any(word.glob for word in words) and not self._blocked_names.isdisjoint(
            map(_base, texts[1:])
        ):
            return _NAMES_BECOME_BLOCKED
        return self._passes_blocked(texts)

    def _strictest(self, matches: Sequence[Match]) -> tuple[Match | None, Decision]:
        if not matches:
            return None, self._default
        decision = Decision.strictest(*(match.rule.decision for match in matches))
        return next(match for match in matches if match.rule.decision is decision), decision

    def _hazard(
        self, command: Simple, reach: int, place: CommandPlace, row: SetRow | None = None
    ) -> str | None:
        """The rest of a command that a pattern of ``reach`` tokens leaves; a ``row`` has judged unknown words."""
        if command.assigned:
            if (
                reach <= len(command.assigned)
                or not command.words
                or loading_name(command.assigned)
            ):
                return ASSIGNMENT
            reach -= len(command.assigned)
        if not command.words:
            return _NOTHING
        if row is None and (
            unknown := next((word.unknown for word in command.words if word.unknown), None)
        ):
            return unknown.why
        moved, unsure = place.folders.moved, place.unsure
        hazards = (
            redirect_hazard(redirect, place.writable, place.names, moved=moved, unsure=unsure)
            for redirect in command.redirects
        )
        starts_none = row is not None and (row.vouched or command.words[0].text == "xargs")
        strict = row is not None and row.needs_known_options
        why = None if starts_none else command_hazard(command.words, reach, known_only=strict)
        why = why or next(filter(None, hazards), None)
        words = command.texts
        why = why or secret_hazard(
            command.words, reach, place.names, row.script_places(words, reach) if row else ()
        )
        if row and row.operands in ("files", "script") and place.unsure in _LINKERS:
            why = why or f"{place.unsure} may have made links, so that it may read elsewhere"
        why = why or (CD_LEAVES if place.leaves(command) else None)
        return (
            why
            or folder_hazard(words, reach, place, of_set=row is not None)
            or self._near_blocked(command.words, words)
        )

    def _near_blocked(self, words: Sequence[ShellWord], texts: Sequence[str]) -> str | None:
        """Why a command that is not blocked, as far as it can be read, may still run one that is."""
        if not self._blocked_names:
            return None
        if any(word.glob or word.unknown for word in words) and not self._blocked_names.isdisjoint(
            map(_base, texts)
        ):
            return _NAMES_BECOME_BLOCKED
        return self._passes_blocked(texts)

    def _passes_blocked(self, texts: Sequence[str]) -> str | None:
        """Why a program that is not known here may run a blocked command that stands among its words."""
        if not self._blocked_names:
            return None
        if not is_known(texts[0]) and self._patterns.match_anywhere(texts[1:]) is not None:
            return (
                f"{texts[0]} is not known here, and some of its words are a command that is blocked"
            )
        return None

    def _combine(self, commands: Sequence[Simple], place: CommandPlace) -> Verdict:
        if not commands:
            return Verdict(self._unsure, _NOTHING)
        known: dict[tuple[object, ...], CommandPart] = {}
        parts, places = [], []
        written, commands = commands, [_with_push(command) for command in commands]
        for at, (command, beside) in enumerate(zip(commands, links_beside(commands), strict=True)):
            place = place.after(commands[at - 1]) if at else place
            here = replace(place, unsure=beside) if beside and not place.unsure else place
            assigned = tuple((word.text, bool(word.pieces)) for word in command.assigned)
            said = (
                assigned,
                *command.words,
                *command.redirects,
                command.fed,
                command.piped,
                command.nested,
            )
            key = (*said, here.folders.possible, here.unsure)
            if key not in known:
                known[key] = replace(self._part(command, here), text=shown_command(written[at]))
            parts.append(known[key])
            places.append(here)
        decision = Decision.strictest(*(part.decision for part in parts))
        at, part = next((at, part) for at, part in enumerate(parts) if part.decision is decision)
        suggestion = None
        if decision is Decision.ASK and part.match is None and part.why is None:
            if why := self._hazard(commands[at], len(part.words), places[at]):
                part = parts[at] = replace(
                    part, why=_NO_RULE_THERE if why == IN_ANOTHER_FOLDER else why
                )
            else:
                suggestion = None if self._leaves(part) else _spelled(commands[at], suggestion_for)
        reason = self._reason(part, len(parts))
        asking = [
            (commands[at], places[at])
            for at, each in enumerate(parts)
            if each.decision is Decision.ASK
        ]
        open_to_grants = (
            each.match is None and each.why is None and not self._leaves(each) for each in parts
        )
        judged = all(
            fine
            for fine, each in zip(open_to_grants, parts, strict=True)
            if each.decision is Decision.ASK
        )
        grantable = self._grantable(asking) if decision is Decision.ASK and judged else {}
        shorter = tuple(grantable.values())
        return Verdict(
            decision, reason, part.match, tuple(parts), suggestion, tuple(grantable), shorter
        )

    def _leaves(self, part: CommandPart) -> bool:
        """Whether a rule set does not cover a command for its files: a pattern would let it read all that there are."""
        return part.misfit is not None and any(
            is_outside(word, self._readable) for word in part.words[1:]
        )

    def _grantable(
        self, asking: Sequence[tuple[Simple, CommandPlace]]
    ) -> dict[str, tuple[str, ...]]:
        """Rules that would cover each of these commands, by the same look as at those that a rule matches.

        Each comes with its own beginnings that would cover the same commands.
        """
        found: dict[str, tuple[str, ...]] = {}
        for command, place in asking:
            pattern = _grantable_pattern(command)
            if pattern is None or self._hazard(command, len(tokens_of(pattern)), place):
                return {}
            shorter = self._shorter(pattern, command, place)
            found[pattern] = tuple(each for each in found.get(pattern, shorter) if each in shorter)
        return found

    def _shorter(self, pattern: str, command: Simple, place: CommandPlace) -> tuple[str, ...]:
        """The beginnings of a pattern, from the program on, that would cover a command as rules."""
        tokens = tokens_of(pattern)
        lengths = range(len(command.assigned) + 1, len(tokens))
        return tuple(
            " ".join(tokens[:length])
            for length in lengths
            if not self._hazard(command, length, place)
        )

    def _reason(self, part: CommandPart, parts: int) -> str:
        if part.why:
            return f"{in_quotes(part.text)}: {part.why}"
        if part.match is None:
            if part.misfit:
                return f"{in_quotes(part.text)}: {part.misfit}"
            if self._default is Decision.ASK:
                return f"no rule allows {in_quotes(part.text)}, so you are asked"
            return (
                f"no rule covers {in_quotes(part.text)}, and the default is {self._default.value}"
            )
        if part.decision is Decision.PRE_APPROVED and parts > 1:
            return f"each of its {parts} commands is pre-approved"
        return _because(part.text, part.match)

    def _blocked(self, hit: Hit, match: Match, parts: Sequence[CommandPart]) -> Verdict:
        """The verdict on a line that holds a blocked command, be it one of its parts or inside of one."""
        text = visible(" ".join(map(quoted_word, hit.words)))
        found = CommandPart(text, hit.words, match, Decision.BLOCKED, nested=hit.nested)
        shown = [found if part.words == hit.words else part for part in parts]
        shown += [] if any(part is found for part in shown) else [found]
        return Verdict(Decision.BLOCKED, _because(text, match), match, tuple(shown))

    def _unreadable(self, command: str, search: Search, error: UnreadableLine) -> Verdict:
        """A line that is not plain: its parts are what the generous search makes of it."""
        commands = search.commands()
        culprit = max((found.start for found in commands if found.start <= error.at), default=-1)
        shown = [
            found
            for place, found in enumerate(commands)
            if place < MAX_COMMANDS or found.start == culprit
        ]
        parts = [
            self._found_part(command, found, error.why if found.start == culprit else None)
            for found in shown
        ]
        text = next((part.text for part in parts if part.why), without_padding(command))
        return Verdict(self._unsure, f"{in_quotes(text)}: {error.why}", parts=tuple(parts))

    def _found_part(self, command: str, found: FoundCommand, why: str | None) -> CommandPart:
        words = tuple(map(restore, found.words))
        match, decision = self._strictest(self.matching(words))
        decision = Decision.strictest(decision, self._unsure) if why else decision
        return CommandPart(
            found_text(command, found), words, match, decision, why, found.nested, why
        )


def _grantable_pattern(command: Simple) -> str | None:
    return _spelled(command, grantable_pattern) if command.words else None


def _spelled(
    command: Simple, pattern_of: Callable[[Sequence[ShellWord]], str | None]
) -> str | None:
    """The pattern for a command with its assignments; none where they hold more than plain text."""
    if any(
        word.pieces or word.unknown or not PLAIN_WORD.fullmatch(word.text)
        for word in command.assigned
    ):
        return None
    pattern = pattern_of(command.words)
    return pattern and " ".join([*(word.text for word in command.assigned), pattern])


def _unknown_command(word: ShellWord, texts: Sequence[str]) -> str | None:
    """Why a word may become a command: operands do not, unless words of the program start others."""
    unknown = word.unknown
    if unknown is None:
        return None
    found = program_named(program(texts[0]))
    may_start = starts_commands(found) or any(map(found.says, ("starts", "starts_like", "check")))
    is_operand = bool(unknown.glob) or not found.kind.isdisjoint({"plain", "reader"})
    return None if is_operand and not may_start else unknown.why


def _with_push(command: Simple) -> Simple:
    """The command as git takes it: ``git stash -u`` is ``git stash push -u``."""
    at = None if any(word.unknown for word in command.words) else bare_stash(command.texts)
    return (
        command
        if at is None
        else replace(command, words=[*command.words[:at], _PUSH, *command.words[at:]])
    )


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1].casefold()


def _because(text: str, match: Match) -> str:
    rule = match.rule
    if match.row:
        return f"{in_quotes(text)} is {match.described}"
    said = {
        Decision.PRE_APPROVED: "pre-approved",
        Decision.ASK: "asking",
        Decision.BLOCKED: "blocked",
    }[rule.decision]
    reason = f": {rule.reason}" if rule.reason else ""
    return f"{in_quotes(text)} matches the {said} rule '{visible(rule.pattern.strip())}'{reason}"
