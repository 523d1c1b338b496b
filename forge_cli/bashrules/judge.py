"""The verdict of rules on a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.bashrules.allow.folders import (
    IN_ANOTHER_FOLDER,
    NO_LOOKS,
    CommandPlace,
    FolderLooks,
    Folders,
    folder_hazard,
    links_beside,
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

_NOTHING = "it contains no command"
_NAMES_BECOME_BLOCKED = "file names may become words that are blocked"
_NO_RULE_THERE = "no rule allows it outside of the working directory"
_LINKERS = word_set("ln link cp mv rsync tar bsdtar unzip cpio 7z")
"""Programs that may make links. Others that can do so run code, which could read files itself."""
_PUSH = ShellWord("push")
_NAMES = FileNames()
_SHELL_WORDS = word_set(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare "
    "dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill "
    "let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt "
    "source suspend test times trap true type typeset ulimit umask unalias unset wait case coproc "
    "do for function if select then time until while [[ ! { in elif else"
)
_CODE_WORD = re.compile(r"[\w./:@%+=-]+")


@lru_cache(maxsize=64)
def _patterns(patterns: tuple[tuple[str, ...], ...]) -> Patterns:
    return Patterns(patterns)


def starts_any(line: str, patterns: tuple[tuple[str, ...], ...]) -> bool:
    """Return True if a line contains a command that one of the patterns matches in any spelling."""
    return Search(line, _patterns(patterns)).hit() is not None


class CommandPart(Struct, frozen=True):
    """A simple command of a line, with its decision and the rule behind it."""

    text: str
    words: tuple[str, ...]
    match: Match | None
    decision: Decision
    why: str | None = None
    """Why the command may do more than its words say, or None."""
    nested: bool = False
    hides: str | None = None
    """Why the command may run another command than its words say, or None."""
    misfit: str | None = None
    """Why a rule set that knows the command does not cover it, or None."""

    @property
    def row(self) -> SetRow | None:
        """The row of the rule set that covers it."""
        return self.match.row if self.match else None

    @property
    def reason(self) -> str:
        """The rule that matched, and why the command may do more than its words say."""
        if self.match is None:
            return self.why or self.misfit or "no rule"
        if self.why:
            return f"{self.match.described}, but {self.why}"
        return self.match.described


class Verdict(Struct, frozen=True):
    """The verdict of rules on a line; ``suggestion`` is a pattern that would cover what asks."""

    decision: Decision
    reason: str
    match: Match | None = None
    parts: tuple[CommandPart, ...] = ()
    suggestion: str | None = None
    grantable: tuple[str, ...] = ()
    """For each part that asks, the pattern that a person may pre-approve."""
    shorter: tuple[tuple[str, ...], ...] = ()
    """For each of these patterns, its beginnings that would cover the same parts."""
    doubt: str | None = None
    """Why a line asks that the rules pre-approve: because of the files that it would use."""
    files: tuple[FileUse, ...] = ()
    """The files that redirections open, if the rules pre-approve the line or could do so."""
    operands: tuple[str, ...] = ()
    """The words that may name files, if rules could pre-approve the line."""

    @property
    def by_rules(self) -> Decision:
        """The decision before the files were looked at."""
        return Decision.PRE_APPROVED if self.doubt else self.decision


def judge_line(
    command: str, rules: Sequence[Rule], default: Decision, *, writable: Sequence[str] = ()
) -> Verdict:
    """Judge a line by one list of rules; redirections may write below ``writable`` folders."""
    return LineJudge([RuleList("", rules)], default).judge(command, writable=writable)


class LineJudge:
    """Lists of rules, indexed for many lines; a blocking rule of any list wins."""

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
        """Index the rules.

        ``readable`` are the real paths of zones, in which rule sets let files be read; a line runs
        in ``root``. ``held`` is True if lines that rule sets allow cannot do more than the sets
        promise. ``names`` decides which files are secret or protected.
        """
        self._default = default
        self._readable = readable
        self._folders = Folders(root=root)
        # a doubt never makes a line looser than the default
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
                    for tokens in row.tokens(held=held, checked=rule.checked):
                        self._add(Match(origin.name, index, rule, tokens, row))
        self._patterns = _patterns(tuple(match.tokens for match in self._blocked_rules))
        self._blocked_names = {_base(match.tokens[0]) for match in self._blocked_rules}

    def _add(self, match: Match) -> None:
        """Index a rule by the name of its program, blocking ones first."""
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
        looks: FolderLooks = NO_LOOKS,
        before: ReadLine | None = None,
        any_grammar: bool = False,
    ) -> Verdict:
        """Return the verdict on one line, as ``face.judge`` describes it.

        ``looks`` are the looks at the folders of the line.
        """
        if isinstance(line, str):
            line = read(line)
        if "\0" in line.text:
            return Verdict(Decision.BLOCKED, "a command cannot contain a NUL character")
        search = Search(line.text, self._patterns)
        hit = None
        if self._blocked_rules:
            hit = search.hit()
            if hit is None and any_grammar:
                hit = search.bare_hit()
        place = CommandPlace(writable, self._folders, looks, names=self._names)
        verdict = self._judge_read(line, search, place, before)
        if hit:
            return self._blocked(hit, self._blocked_rules[hit.pattern], verdict.parts)
        return verdict

    def _judge_read(
        self, line: ReadLine, search: Search, place: CommandPlace, before: ReadLine | None
    ) -> Verdict:
        """Return the verdict on a line in which nothing is blocked, as far as it can be read."""
        try:
            if before:
                place = place.after_lines(before.require_commands())
            commands = line.require_commands()
            if len(line.parted) > len(commands):
                # `find -exec cat {} +` is pre-approved if its two parts are
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
        """Return a verdict if a rule blocks the words that a program was started with.

        No shell reads these words.
        """
        command = CommandWords(words)
        for start in unwrap(words, command).starts if words else ():
            pattern = self._patterns.match(command, start)
            if pattern is not None:
                hit = Hit(pattern, tuple(words[start:]), nested=True)
                return self._blocked(hit, self._blocked_rules[pattern], ())
        return None

    @property
    def blocked_names(self) -> frozenset[str]:
        """The programs of blocked rules, in lower case."""
        return frozenset(self._blocked_names)

    @property
    def blocks_unseen(self) -> bool:
        """True if a rule blocks a command that a shell runs without starting a program."""
        if any(name in _SHELL_WORDS or "." in name for name in self._blocked_names):
            return True
        return any("/" in match.tokens[0] for match in self._blocked_rules)

    def matching(self, words: tuple[str, ...]) -> list[Match]:
        """Return the first match of each list that has one."""
        found = (self._first(words, at) for at in range(len(self._by_name)))
        return [match for match in found if match]

    def _first(self, words: tuple[str, ...], at: int, after: int = -1) -> Match | None:
        """Return the first match in the list ``at`` after the rule ``after``.

        An earlier rule that asks for the same command in another spelling counts instead:
        ``/bin/rm`` is ``rm``, and ``git --no-pager push`` is ``git push``.
        """
        if not words:
            return None
        by_name = self._by_name[at]
        first = first_of(by_name, words, after) or first_inside(by_name, words, after)
        decision = first.rule.decision if first else self._default
        if decision is Decision.BLOCKED:
            return first
        before = [match for match in self._asking[at] if first is None or match.index < first.index]
        if not before:
            return first
        patterns = _patterns(tuple(match.tokens for match in before))
        hit = patterns.match(CommandWords(words), 0)
        return first if hit is None else before[hit]

    def _fitting(self, command: Simple, folders: Folders) -> tuple[list[Match], str | None]:
        """Return the first match of each list that covers the command, and why a set does not."""
        words = command.with_assigned
        found: list[Match] = []
        why: str | None = None
        if command.assigned:
            # `CI=1 rm x` asks if `rm x` asks; but a rule that allows `x` does not allow `A=1 x`
            for bare in self.matching(tuple(command.texts)):
                if bare.rule.decision is Decision.PRE_APPROVED:
                    why = ASSIGNMENT
                else:
                    found.append(bare)
        for at in range(len(self._by_name)):
            after = -1
            while match := self._first(words, at, after):
                misfit = self._misfit(command, match, folders)
                if misfit is None:
                    found.append(match)
                    break
                why = why or misfit
                after = match.index
        return found, why

    def _misfit(self, command: Simple, match: Match, folders: Folders) -> str | None:
        """Return why the row of a rule set does not cover a command that begins like it."""
        if match.row is None:
            return None
        fed = fed_words(command, match)
        why = timed_by_name(command, match) or match.row.misfit(
            fed,
            match.reach,
            self._readable,
            held=self._held,
            looked=match.rule.checked and bool(self._folders.root),
            leads_inside=folders.leads_inside,
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
        has_unknown = any(word.unknown for word in command.words)
        if matches or decision is Decision.PRE_APPROVED or not words or has_unknown:
            if not matches:
                why = misfit
            if why is None:
                reach = max((match.reach for match in matches), default=0)
                why = self._hazard(command, reach, place, match.row if match else None)
        if why and decision is Decision.PRE_APPROVED:
            decision = self._unsure
        is_vouched = match is not None and match.row is not None and why is None
        hides = None if is_vouched else self._hides(command)
        return CommandPart(
            shown_command(command), words, match, decision, why, command.nested, hides, misfit
        )

    def _hides(self, command: Simple) -> str | None:
        """Return why a command may run another one than its words say, or None."""
        texts = command.texts
        if name := loading_name(command.assigned):
            return f"{name} may change what runs"
        if not texts:
            return None
        if command.words[0].glob:
            return "the name of the program is a glob"
        for word in command.words:
            if why := _unknown_command(word, texts):
                return why
        if why := innermost(texts, len(texts))[1]:
            return why
        for text in texts[1:]:
            # a script in any language: python -c 'os.system("git push")'
            is_code = not PLAIN_WORD.fullmatch(text)
            if is_code and self._patterns.match_anywhere(_CODE_WORD.findall(text)):
                return "its code contains a command that is blocked"
        has_glob = any(word.glob for word in command.words)
        if has_glob and not self._blocked_names.isdisjoint(map(_base, texts[1:])):
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
        """Return why a match of ``reach`` tokens does not cover the rest of the command, or None.

        A ``row`` of a rule set has judged unknown words already.
        """
        if command.assigned:
            covers_assigned = reach > len(command.assigned) and command.words
            if not covers_assigned or loading_name(command.assigned):
                return ASSIGNMENT
            reach -= len(command.assigned)
        if not command.words:
            return _NOTHING
        if row is None:
            for word in command.words:
                if word.unknown:
                    return word.unknown.why
        words = command.texts
        starts_nothing = row is not None and (row.vouched or words[0] == "xargs")
        if not starts_nothing:
            known_only = row is not None and row.needs_known_options
            if why := command_hazard(command.words, reach, known_only=known_only):
                return why
        moved = place.folders.moved
        for redirect in command.redirects:
            if why := redirect_hazard(
                redirect, place.writable, place.names, moved=moved, unsure=place.unsure
            ):
                return why
        scripts = row.script_places(words, reach) if row else ()
        if why := secret_hazard(command.words, reach, place.names, scripts):
            return why
        if row and row.operands in ("files", "script") and place.unsure in _LINKERS:
            return f"{place.unsure} may have made links, so it may read elsewhere"
        if place.leaves(command):
            return CD_LEAVES
        if why := folder_hazard(words, reach, place, of_set=row is not None):
            return why
        return self._near_blocked(command.words, words)

    def _near_blocked(self, words: Sequence[ShellWord], texts: Sequence[str]) -> str | None:
        """Return why a command that is not blocked itself may still run one that is."""
        if not self._blocked_names:
            return None
        varies = any(word.glob or word.unknown for word in words)
        if varies and not self._blocked_names.isdisjoint(map(_base, texts)):
            return _NAMES_BECOME_BLOCKED
        return self._passes_blocked(texts)

    def _passes_blocked(self, texts: Sequence[str]) -> str | None:
        """Return why an unknown program may run a blocked command among its words."""
        if not self._blocked_names or is_known(texts[0]):
            return None
        if self._patterns.match_anywhere(texts[1:]) is None:
            return None
        return f"{texts[0]} is an unknown program, and its words contain a blocked command"

    def _combine(self, commands: Sequence[Simple], place: CommandPlace) -> Verdict:
        """Return the verdict on commands, of which the strictest decision counts."""
        if not commands:
            return Verdict(self._unsure, _NOTHING)
        pushed = [_with_push(command) for command in commands]
        places = _places(pushed, place)
        parts = self._parts(commands, pushed, places)
        decision = Decision.strictest(*(part.decision for part in parts))
        at, part = next((at, part) for at, part in enumerate(parts) if part.decision is decision)
        suggestion = None
        if decision is Decision.ASK and part.match is None and part.why is None:
            if why := self._hazard(pushed[at], len(part.words), places[at]):
                why = _NO_RULE_THERE if why == IN_ANOTHER_FOLDER else why
                part = parts[at] = replace(part, why=why)
            elif not self._leaves(part):
                suggestion = _spelled(pushed[at], suggestion_for)
        grantable = {}
        if decision is Decision.ASK:
            grantable = self._grantable(pushed, places, parts)
        return Verdict(
            decision,
            self._reason(part, len(parts)),
            part.match,
            tuple(parts),
            suggestion,
            tuple(grantable),
            tuple(grantable.values()),
        )

    def _parts(
        self,
        written: Sequence[Simple],
        commands: Sequence[Simple],
        places: Sequence[CommandPlace],
    ) -> list[CommandPart]:
        # A loop over 64 values is 64 commands, often the same: each is judged once.
        known: dict[tuple[object, ...], CommandPart] = {}
        parts: list[CommandPart] = []
        for at, command in enumerate(commands):
            here = places[at]
            key = (
                tuple((word.text, bool(word.pieces)) for word in command.assigned),
                tuple(command.words),
                tuple(command.redirects),
                command.fed,
                command.piped,
                command.nested,
                here.folders.possible,
                here.unsure,
            )
            part = known.get(key)
            if part is None:
                part = replace(self._part(command, here), text=shown_command(written[at]))
                known[key] = part
            parts.append(part)
        return parts

    def _leaves(self, part: CommandPart) -> bool:
        """Return True if a rule set refuses a command for its files, which a pattern would not."""
        if part.misfit is None:
            return False
        return any(is_outside(word, self._readable) for word in part.words[1:])

    def _grantable(
        self,
        commands: Sequence[Simple],
        places: Sequence[CommandPlace],
        parts: Sequence[CommandPart],
    ) -> dict[str, tuple[str, ...]]:
        """Return patterns that would cover each command that asks, or none if one has no pattern.

        Each comes with its own beginnings that would cover the same commands.
        """
        found: dict[str, tuple[str, ...]] = {}
        for command, place, part in zip(commands, places, parts, strict=True):
            if part.decision is not Decision.ASK:
                continue
            if part.match or part.why or self._leaves(part):
                return {}
            pattern = _spelled(command, grantable_pattern) if command.words else None
            if pattern is None or self._hazard(command, len(tokens_of(pattern)), place):
                return {}
            shorter = self._shorter(pattern, command, place)
            found[pattern] = tuple(each for each in found.get(pattern, shorter) if each in shorter)
        return found

    def _shorter(self, pattern: str, command: Simple, place: CommandPlace) -> tuple[str, ...]:
        """Return the beginnings of a pattern that would cover a command as rules."""
        tokens = tokens_of(pattern)
        shorter: list[str] = []
        for length in range(len(command.assigned) + 1, len(tokens)):
            if not self._hazard(command, length, place):
                shorter.append(" ".join(tokens[:length]))
        return tuple(shorter)

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
        """Return the verdict on a line with a blocked command, as a part or inside of one."""
        text = visible(" ".join(map(quoted_word, hit.words)))
        found = CommandPart(text, hit.words, match, Decision.BLOCKED, nested=hit.nested)
        shown = [found if part.words == hit.words else part for part in parts]
        if found not in shown:
            shown.append(found)
        return Verdict(Decision.BLOCKED, _because(text, match), match, tuple(shown))

    def _unreadable(self, command: str, search: Search, error: UnreadableLine) -> Verdict:
        """Return the verdict on a line that is not plain, with the parts that the search found."""
        commands = search.commands()
        # the command in which the reader stopped
        culprit = max((found.start for found in commands if found.start <= error.at), default=-1)
        parts: list[CommandPart] = []
        for place, found in enumerate(commands):
            is_culprit = found.start == culprit
            if place < MAX_COMMANDS or is_culprit:
                why = error.why if is_culprit else None
                parts.append(self._found_part(command, found, why))
        text = next((part.text for part in parts if part.why), without_padding(command))
        return Verdict(self._unsure, f"{in_quotes(text)}: {error.why}", parts=tuple(parts))

    def _found_part(self, command: str, found: FoundCommand, why: str | None) -> CommandPart:
        words = tuple(map(restore, found.words))
        match, decision = self._strictest(self.matching(words))
        if why:
            decision = Decision.strictest(decision, self._unsure)
        return CommandPart(
            found_text(command, found), words, match, decision, why, found.nested, why
        )


def _places(commands: Sequence[Simple], place: CommandPlace) -> list[CommandPlace]:
    """Return the place of each command, which the commands before and beside it change."""
    places: list[CommandPlace] = []
    for at, beside in enumerate(links_beside(commands)):
        if at:
            place = place.after(commands[at - 1])
        is_unsure = beside and not place.unsure
        places.append(replace(place, unsure=beside) if is_unsure else place)
    return places


def _spelled(
    command: Simple, pattern_of: Callable[[Sequence[ShellWord]], str | None]
) -> str | None:
    """Return the pattern for a command with its assignments; None if these are not plain."""
    for word in command.assigned:
        if word.pieces or word.unknown or not PLAIN_WORD.fullmatch(word.text):
            return None
    pattern = pattern_of(command.words)
    return pattern and " ".join([*(word.text for word in command.assigned), pattern])


def _unknown_command(word: ShellWord, texts: Sequence[str]) -> str | None:
    """Return why an unknown word may become a command, which operands do not."""
    unknown = word.unknown
    if unknown is None:
        return None
    found = program_named(program(texts[0]))
    if starts_commands(found) or any(map(found.says, ("starts", "starts_like", "check"))):
        return unknown.why
    is_operand = bool(unknown.glob) or not found.kind.isdisjoint({"plain", "reader"})
    return None if is_operand else unknown.why


def _with_push(command: Simple) -> Simple:
    """Return the command as git reads it: ``git stash -u`` is ``git stash push -u``."""
    if any(word.unknown for word in command.words):
        return command
    at = bare_stash(command.texts)
    if at is None:
        return command
    return replace(command, words=[*command.words[:at], _PUSH, *command.words[at:]])


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
