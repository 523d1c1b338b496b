"""The policy of the toolset ``shell``: the rules of a worker and of its user, and their verdict on a line."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.bashrules.allow.find_exec import with_found_names
from forge_cli.bashrules.allow.folders import CommandPlace, Folders
from forge_cli.bashrules.allow.parser import read_line
from forge_cli.bashrules.allow.values import Simple
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import CommandPart, LineJudge, LineVerdict, starts_any
from forge_cli.bashrules.lint import check_examples, lint_rules
from forge_cli.bashrules.names import FileNames
from forge_cli.bashrules.programs.discarding import commands_of, possible_files
from forge_cli.bashrules.programs.readers import leaves_operands_alone, only_reads
from forge_cli.bashrules.rules import Rule, RuleList
from forge_cli.bashrules.sets.folders import unmet_need
from forge_cli.bashrules.sets.rows import OptInSet
from forge_cli.bashrules.sets.secrets import hook_folders
from forge_cli.core.approval import NEW_ENTRY, PRE_APPROVED, Approval, GrantRule, JudgedPart, Needs, Verdict
from forge_cli.core.errors import Mark, ToolError, WorkerError
from forge_cli.core.zones import Access, ZoneMode
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.names import folded
from forge_cli.sandbox.protected import DOT_ENV, PACKAGES, is_protected, is_secret, protected_among
from forge_cli.schema.paths import PathUse
from forge_cli.toolsets.shell.config import ShellConfig, TrySetting, UserRules
from forge_cli.toolsets.shell.opt_in import OPT_IN, is_settled, offer_of, opt_in_programs, rules_in, set_rule
from forge_cli.toolsets.shell.reads import Placed, ReadFiles, innermost_words, is_in_any

_NAMES = FileNames(DOT_ENV, is_secret, is_protected, lambda name: folded(name) in PACKAGES)
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")
_WORKER, _USER, _FOLDERS = "toolsets.shell", "policy.shell", "policy.shell.folders"
_RULES = ("rules", NEW_ENTRY)
_HIDDEN_GLOB = re.compile(r"\.[^/]*[*?\[]")
_BESIDE = {"git add": "git commit", "git commit": "git add"}
"""Beginnings of commands that people mostly allow together."""
_STARTED = "on a copy it started a command that is blocked"

_WITHOUT_EFFECT = frozenset(("reading", "linting"))
"""The rule sets of lines that change nothing."""


class ShellPolicy(Struct, frozen=True, dict=True):
    """The policy on command lines for one worker; blocked by anybody wins, and the strictest match counts."""

    worker: ShellConfig
    user: UserRules
    sandbox: Sandbox
    workspace: Path
    held: bool = True
    """Whether lines that only rule sets allow are held to what these promise, by what confines commands."""

    @cached_property
    def plain(self) -> ShellPolicy:
        """The policy on lines that nothing holds to what rule sets promise: of these, only plain forms count."""
        return replace(self, held=False) if self.held else self

    def check(self) -> Iterator[str]:
        """Warnings about the rules, a sentence each; an example that does not do what it says is an error."""
        for (name, section), each in zip(self._sections(), self._lists, strict=True):
            for wrong in check_examples(each.rules):
                where = section.where("rules", wrong.rule, wrong.key, wrong.item)
                raise WorkerError(where, f"{name}.rules[{wrong.rule}].{wrong.key}: {wrong.message}")
            for odd in lint_rules(each.rules):
                where = section.where("rules", odd.rule)
                yield f"{f'{where}: ' if where else ''}{name}: {odd.message}"

    def stated(self) -> Iterator[Verdict]:
        """The rules, one by one, without a command: the reason of each is its pattern, and why."""
        for name, section in self._sections():
            for index, rule in enumerate(section.rules):
                title = rule.as_rule().title
                what = f"{title} ({rule.reason})" if rule.reason else title
                yield Verdict(rule.approval, what, f"{name}.rules[{index}]", section.where("rules", index), by="rule")
        where = self.worker.where("default") if "default" in self.worker.model_fields_set else None
        yield Verdict(self.worker.default, "what no rule covers", f"{_WORKER}.default", where, by="rule")

    def verdict(self, command: str, *, moved: str = "", any_grammar: bool = False) -> Verdict:
        """The verdict on a line; ``moved`` are the lines by which the shell that reads it has changed its folder.

        In ``any_grammar``, what could be a blocked command is one, wherever it stands.
        """
        found = self._judged(command, moved=moved, any_grammar=any_grammar)
        rule, where = self._rule(found)
        parts = tuple(dict.fromkeys(map(self._judged_part, found.parts)))
        plain = found.decision is Decision.PRE_APPROVED or found.grantable
        placed = list(self._placed(command, moved)) if plain else []
        files = [file for simple, places in placed for file in _redirected(simple, places)]
        writes = not plain or any(file.access is Access.WRITE for file in files)
        verdict = Verdict(
            approval_of(found.decision),
            found.reason,
            rule,
            where,
            by="rule",
            details=_details(found),
            parts=parts,
            risk="low" if self._only_reads(found.parts) and not writes else None,
            grants=self._grants(files, found, placed),
            unruled=self._is_unruled(command, found),
        )
        if found.decision is not Decision.PRE_APPROVED:
            return self._with_opt_in(command, verdict) if found.decision is Decision.ASK and not moved else verdict
        for file in files:
            word = self._zone_verdict(file)
            if word.approval is not Approval.PRE_APPROVED:
                approval = Approval.strictest(word.approval, self.worker.default)
                reason = f"it {'writes' if file.access is Access.WRITE else 'reads'} {file.path}: {word.reason}"
                return replace(verdict, approval=approval, reason=reason, rule=word.rule, where=word.where)
        uses_set = any(part.match and part.match.row for part in found.parts)
        doubts = chain(
            self._reads.doubts(placed, {part.words: part.match for part in found.parts}, of_set=uses_set),
            self._written(placed),
            self._checked_out(placed),
            self._unmet(found.parts, placed),
        )
        if (doubt := next(doubts, None)) is None:
            return verdict
        unsure = Approval.strictest(Approval.ASK, self.worker.default)
        return replace(verdict, approval=unsure, reason=doubt, rule=None, where=None)

    def _with_opt_in(self, command: str, verdict: Verdict) -> Verdict:
        """The verdict on a line that asks, with the offer of the sets to opt in to, if they would cover all of it."""
        if opt_in_programs().isdisjoint(re.findall(r"[\w-]+", command)) or not self._others_used:
            return verdict
        other = self._with_all_sets
        if other.verdict(command).approval is not Approval.PRE_APPROVED:
            return verdict
        used = [name for name in self._others_used if name in other._used(command)]
        if len(used) != 1 or (used == ["building"] and self.try_first == "off"):
            return verdict
        offer = offer_of(used[0], self._others_used, self.workspace)
        return replace(verdict, grants=[[offer, *need] for need in verdict.grants] or [[offer]])

    @cached_property
    def _others_used(self) -> list[OptInSet]:
        """The sets to opt in to that are not used here, unless the person has said which ones are."""
        if is_settled(self.user.folders, self.workspace):
            return []
        used = {rule.use for rule in (*self.worker.rules, *self.user.rules)}
        return [name for name in OPT_IN if name not in used]

    @cached_property
    def _with_all_sets(self) -> ShellPolicy:
        rules = [*self.worker.rules, *map(set_rule, self._others_used)]
        return replace(self, worker=self.worker.model_copy(update={"rules": rules}))

    def builds(self, command: str) -> bool:
        """Whether a line is allowed as a build, which is only done on a copy."""
        return "building" in self._used(command)

    def looks_at_containers(self, command: str) -> bool:
        """Whether all of a line that it does not only read is to look at containers."""
        used = self._used(command)
        return "containers" in used and used <= {"containers", "reading"}

    def is_of_sets(self, command: str) -> bool:
        """Whether rule sets alone cover a line, such as a run of tests."""
        used = self._used(command)
        return bool(used) and None not in used

    def _used(self, command: str) -> set[str | None]:
        """The sets that cover the commands of a line; None is among them for any other rule, or none."""
        return {part.match.rule.use if part.match else None for part in self._judged(command).parts}

    def _judged(self, command: str, *, moved: str = "", any_grammar: bool = False) -> LineVerdict:
        return self._judge.judge(
            command, writable=self._writable(), is_link=self._is_link, before=moved, any_grammar=any_grammar
        )

    def _only_reads(self, parts: Sequence[CommandPart]) -> bool:
        """Whether every command is one of the rule set that only reads, and nothing speaks against it."""
        return bool(parts) and all(part.match and part.match.rule.use == "reading" and not part.why for part in parts)

    def sets_needed(self, command: str) -> frozenset[str]:
        """The rule sets that a pre-approved line needs, if nothing but sets that promise no effect allows it."""
        parts = self._judged(command).parts
        used = frozenset(part.match.rule.use or "" for part in parts if part.match)
        if not used or not used <= _WITHOUT_EFFECT or not all(part.match for part in parts):
            return frozenset()
        other = self._judge_of_others.judge(command, writable=self._writable(), is_link=self._is_link)
        return frozenset() if other.decision is Decision.PRE_APPROVED else used

    def is_run_as_reading(self, command: str) -> bool:
        """Whether nothing but the set that only reads allows a line, and it writes nothing by a redirection."""
        return self.sets_needed(command) == {"reading"} and not self.written_by(command)

    def written_by(self, command: str) -> frozenset[str]:
        """The files that the redirections of a plain line write."""
        files = (file for simple, places in self._placed(command, "") for file in _redirected(simple, places))
        written = (self.workspace / file.path for file in files if file.access is Access.WRITE)
        return frozenset(os.path.realpath(path) for path in written)

    def _is_unruled(self, command: str, found: LineVerdict) -> bool:
        """Whether a line asks although no rule says so of any command in it, and it names no file of secrets."""
        if found.decision is not Decision.ASK or DOT_ENV in folded(command):
            return False
        if any(part.match and part.match.rule.decision is Decision.ASK for part in found.parts):
            return False
        asking = tuple(rule.tokens for rule in self._stating(Decision.ASK) if rule.tokens)
        unsaid = (shlex.join(part.words) for part in found.parts if part.match is None)
        return not asking or not (_hides(found) or any(starts_any(line, asking) for line in unsaid))

    def may_hide_blocked(self, command: str) -> str | None:
        """Why a line, as far as it can be read, may run a command that a rule blocks; None if it does not."""
        return _hides(self._judge.judge(command)) if any(self._stating(Decision.BLOCKED)) else None

    def may_block_unseen(self, command: str) -> str | None:
        """Why a line may run a blocked command that is no program, so that a trial does not show it."""
        return self.may_hide_blocked(command) if self._judge.blocks_unseen else None

    @property
    def blocked_programs(self) -> frozenset[str]:
        """The names of the programs that rules block, in lower case."""
        return self._judge.blocked_names

    def verdict_on_started(self, commands: Iterable[Sequence[str]]) -> Verdict | None:
        """The verdict on programs that a trial has started, if a rule blocks one of them."""
        found = next(filter(None, map(self._judge.blocked_command, commands)), None)
        if found is None:
            return None
        rule, where = self._rule(found)
        approval = approval_of(found.decision)
        return Verdict(approval, f"{_STARTED}: {found.reason}", rule, where, by="rule", details=_details(found))

    def _stating(self, decision: Decision) -> Iterator[Rule]:
        for each in self._lists:
            yield from (rule for rule in each.rules if rule.decision is decision)

    def names_git(self, command: str) -> bool:
        """Is git one of the simple commands of a line, as far as the line can be read?"""
        parts = self._judge.judge(command).parts
        return any(part.words and os.path.basename(part.words[0]) == "git" for part in parts)

    @cached_property
    def _reads(self) -> ReadFiles:
        return ReadFiles(self.workspace, self.sandbox, _NAMES, self.held)

    @cached_property
    def _judge(self) -> LineJudge:
        of_folders = [rule.as_rule() for rule in rules_in(self.user.folders, self.workspace)]
        lists = [RuleList(_FOLDERS, of_folders), *self._lists]  # before the sets of the worker
        readable = [str(zone.path) for zone in self.sandbox.zones]
        default = Decision(self.worker.default.value)
        root = str(self.workspace)
        return LineJudge(lists, default, readable=readable, root=root, held=self.held, names=_NAMES)

    @cached_property
    def _judge_of_others(self) -> LineJudge:
        """The judge by all rules but the sets that promise no effect."""
        lists = [
            RuleList(each.name, [rule for rule in each.rules if rule.use not in _WITHOUT_EFFECT])
            for each in self._lists
        ]
        return LineJudge(lists, Decision(self.worker.default.value), names=_NAMES)

    @cached_property
    def _lists(self) -> list[RuleList]:
        """The rules of the worker and of its user, as the judge of lines takes them."""
        return [RuleList(name, [rule.as_rule() for rule in section.rules]) for name, section in self._sections()]

    @property
    def try_first(self) -> TrySetting:
        """Whether commands are tried: what the user says counts unless that is nothing."""
        return self.worker.try_first if self.user.try_first == "auto" else self.user.try_first

    def _sections(self) -> Iterator[tuple[str, ShellConfig | UserRules]]:
        yield from ((_WORKER, self.worker), (_USER, self.user))

    def _rule(self, found: LineVerdict) -> tuple[str | None, Mark | None]:
        """The rule that decides, if it is one, or the default."""
        if found.match:
            return found.match.name, found.match.rule.where
        deciding = [part for part in found.parts if part.decision is found.decision]
        if deciding and not any(part.why for part in found.parts):
            return f"{_WORKER}.default", self.worker.where("default")
        return None, None

    def _judged_part(self, part: CommandPart) -> JudgedPart:
        """One command of a line, with the rule that it met."""
        match, but = part.match, f", but {part.why}" if part.why else ""
        reason = f"{match.described}{but}" if match else part.why or part.misfit or "no rule"
        met = (each.rule.where for each in self._judge.matching(part.words))
        rule, where = (match.name, match.rule.where) if match else (None, None)
        return JudgedPart(part.text, part.decision.value, reason, rule, where, tuple(filter(None, met)))

    def _writable(self) -> list[str]:
        """Folders in the working directory that a redirection may write to without asking."""
        inside = [root for root in self._written_unasked() if root.is_relative_to(self.workspace)]
        return [str(root.relative_to(self.workspace)) for root in inside]

    def _written_unasked(self) -> Iterator[Path]:
        for zone in self.sandbox.zones:
            if zone.mode is ZoneMode.RW and zone.write is Approval.PRE_APPROVED:
                yield zone.path

    def _is_link(self, folder: str) -> bool:
        """Whether a folder is reached through a link, or is not there yet and may become one."""
        path = self.workspace / folder
        return not os.path.isdir(path) or path.resolve() != self.workspace.resolve() / folder

    def _unmet(self, parts: Sequence[CommandPart], placed: Iterable[Placed]) -> Iterator[str]:
        """Reasons why rows of rule sets that need something of the folders do not cover a command there."""
        matches = {part.words: part.match for part in parts if part.match and part.match.row}
        for simple, places in placed:
            match = matches.get(simple.with_assigned)
            if match is None or match.row is None or not match.row.needs:
                continue
            for place in places:
                if why := unmet_need(
                    match.row, match.tokens, simple.texts[match.start :], self.workspace / place, self.workspace
                ):
                    yield why

    def _written(self, placed: Iterable[Placed]) -> Iterator[str]:
        """Files that a command runs or loads, by a link or as a hook, and that were written without asking."""
        around = os.path.realpath(self.workspace)
        written = [real for root in self._written_unasked() if (real := os.path.realpath(root)) != around]
        for simple, places in placed if written else ():
            if not (words := innermost_words(simple)):
                continue
            git = words[0] == "git" and not only_reads(words)
            paths = [str(folder) for folder in hook_folders(self.workspace)] if git else []
            if not leaves_operands_alone(words):
                named = (word for word in words[1:] if self._reads.may_name_file(word))
                joined = (self.workspace / place / word for word in named for place in places)
                paths += [str(path) for path in joined if os.path.lexists(path)]
            if found := next((path for path in paths if is_in_any(os.path.realpath(path), written)), None):
                path = os.path.relpath(found, self.workspace)
                yield f"'{words[0]}' may run {path}, which is written without asking"

    def _checked_out(self, placed: Iterable[Placed]) -> Iterator[str]:
        """Files for which git checkout takes a word that could be a branch."""
        for simple, places in placed:
            for word in possible_files(innermost_words(simple)):
                if any(os.path.lexists(self.workspace / place / word) for place in places):
                    yield f"{word} is a file here, whose changes git checkout may throw away"

    def _placed(self, command: str, moved: str) -> Iterator[Placed]:
        """The commands of a plain line, with the folders in which each may run."""
        place = CommandPlace(folders=Folders(root=str(self.workspace)), is_link=self._is_link)
        place = place.after_lines(read_line(moved))
        for simple in with_found_names(read_line(command)):
            yield simple, sorted(folder for folder in place.folders.possible if folder is not None)
            place = place.after(simple)

    def _operands(self, placed: Iterable[Placed]) -> Iterator[str]:
        """The words of a plain line that may name files in the zones, wherever it may run."""
        for simple, places in placed:
            yield from self._reads.operands(simple.texts[1:], places)

    def _grants(self, files: Iterable[PathUse], found: LineVerdict, placed: Sequence[Placed]) -> Needs:
        """The rules that would pre-approve a line; none for what is protected, or where zones ask for a file."""
        if not found.grantable or any(map(_is_protected, (word for part in found.parts for word in part.words))):
            return ()
        if any(map(self._always_asks, self._operands(placed))) or any(self._checked_out(placed)):
            return ()
        if any(self._zone_verdict(file).approval is not Approval.PRE_APPROVED for file in files):
            return ()
        patterns = zip(found.grantable, found.shorter, strict=True)
        return [[_pattern_rule(one), *(_pattern_rule(each, implied=True) for each in more)] for one, more in patterns]

    def _always_asks(self, path: str) -> bool:
        """Whether more than its zone asks before a file is written: it is protected, or one of the worker's own."""
        try:
            verdict = self.sandbox.judge(path, Access.WRITE)
        except ToolError:
            return False
        return verdict.approval is Approval.ASK and not verdict.grants

    def _zone_verdict(self, file: PathUse) -> Verdict:
        """A relative target stays one: a real path could begin like that of another zone."""
        try:
            return self.sandbox.judge(file.path, file.access)
        except ToolError as error:
            if file.access is Access.READ and not self._leads_elsewhere(file.path):
                return Verdict(Approval.PRE_APPROVED, str(error))  # below the working directory, with or without a zone
            return Verdict(Approval.ASK, str(error))

    def _leads_elsewhere(self, target: str) -> bool:
        """Whether there is a link on the way to a file."""
        try:
            return (self.workspace / target).resolve() != self.workspace.resolve() / target
        except (OSError, RuntimeError):
            return True


def approval_of(decision: Decision) -> Approval:
    """Return the answer of a judge of lines in the words of all tools."""
    return Approval(decision.value)


def _redirected(simple: Simple, places: Sequence[str]) -> Iterator[PathUse]:
    """The files that the redirections of a command open, in each folder where it may run."""
    for operator, target, _ in simple.redirects:
        copies = operator.endswith("&") and _DESCRIPTOR.fullmatch(target.text)
        if not copies and operator not in ("<<", "<<<") and target.text != "/dev/null":
            access = Access.WRITE if ">" in operator else Access.READ
            yield from (PathUse(os.path.normpath(os.path.join(place, target.text)), access) for place in places)


def _pattern_rule(pattern: str, *, implied: bool = False, with_beside: bool = True) -> GrantRule:
    says = {"pattern": pattern, "approval": PRE_APPROVED}
    beside = _BESIDE.get(pattern) if with_beside else None
    more = _pattern_rule(beside, with_beside=False) if beside else None
    return GrantRule(_RULES, says, commands_of(pattern), _RULES, implied=implied, beside=more)


def _is_protected(word: str) -> bool:
    """Whether a word of a command names, or could become the name of, a file that always asks."""
    pieces = re.split(r"[/=:,]", word)
    return protected_among(pieces) is not None or any(map(_HIDDEN_GLOB.match, pieces))


def _hides(found: LineVerdict) -> str | None:
    """Why a line may run other commands than those that were judged; None if it does not."""
    if not found.parts:
        return found.reason
    hiding = next((part for part in found.parts if part.hides), None)
    return f"'{hiding.text}': {hiding.hides}" if hiding else None


def _details(found: LineVerdict) -> tuple[str, ...]:
    """Each simple command of a line with what is said of it, and the rule that would cover the one that asks."""
    cover = f"cover:  {{pattern: {json.dumps(found.suggestion)}, approval: preApproved}}"
    return (*map(_detail, found.parts), *([cover] if found.suggestion else []))


def _detail(part: CommandPart) -> str:
    match = part.match
    rule = match.name if match else "no rule"
    rule += f" {' '.join(match.tokens)}" if match and match.row else ""
    why = part.why or (None if match else part.misfit)
    return f"part:   {part.text} -> {part.decision.value} ({rule}{f'; {why}' if why else ''})"
