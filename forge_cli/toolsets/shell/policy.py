"""The policy of the toolset ``shell``: the rules of a worker and of its user, and their verdict on a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from forge_cli.bashrules.face import (
    CommandPart,
    Decision,
    FileNames,
    FileUse,
    OptInSet,
    Place,
    ReadLine,
    RuleList,
    Rules,
    check_examples,
    judge,
    lint_rules,
)
from forge_cli.bashrules.face import Verdict as LineVerdict
from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.errors import Mark, ToolError, WorkerError
from forge_cli.core.zones import Access, ZoneMode
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.names import folded
from forge_cli.sandbox.protected import DOT_ENV, PACKAGES, is_protected, is_secret
from forge_cli.toolsets.shell.config import ShellConfig, TrySetting, UserRules
from forge_cli.toolsets.shell.opt_in import OPT_IN, is_settled, rules_in, set_rule

_WORKER, _USER, _FOLDERS = "toolsets.shell", "policy.shell", "policy.shell.folders"
_STARTED = "on a copy it started a command that is blocked"

WITHOUT_EFFECT = frozenset(("reading", "linting"))
"""The rule sets of lines that change nothing."""


def _is_of_packages(name: str) -> bool:
    return folded(name) in PACKAGES


_NAMES = FileNames(DOT_ENV, is_secret, is_protected, _is_of_packages)


class ShellPolicy:
    """The policy on command lines for one worker; blocked by anybody wins, and the strictest match counts."""

    def __init__(
        self,
        worker: ShellConfig,
        user: UserRules,
        sandbox: Sandbox,
        workspace: Path,
        *,
        held: bool = True,
    ) -> None:
        """``held`` says whether what confines commands holds lines that only rule sets allow to what these promise."""
        self.worker = worker
        self.user = user
        self.sandbox = sandbox
        self.workspace = workspace
        self.held = held

    def held_to_sets(self, held: bool) -> ShellPolicy:
        """Return the policy on lines that something holds to what rule sets promise, or nothing does."""
        return ShellPolicy(self.worker, self.user, self.sandbox, self.workspace, held=held)

    def with_folder(self, says: object) -> ShellPolicy:
        """Return the policy with sets that the person uses here from now on."""
        user = self.user.with_folder(says)
        return ShellPolicy(self.worker, user, self.sandbox, self.workspace, held=self.held)

    @cached_property
    def plain(self) -> ShellPolicy:
        """The policy on lines that nothing holds to what rule sets promise: of these, only plain forms count."""
        return self.held_to_sets(False) if self.held else self

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
                yield Verdict(
                    rule.approval,
                    what,
                    f"{name}.rules[{index}]",
                    section.where("rules", index),
                    by="rule",
                )
        where = self.worker.where("default") if "default" in self.worker.model_fields_set else None
        yield Verdict(
            self.worker.default, "what no rule covers", f"{_WORKER}.default", where, by="rule"
        )

    @cached_property
    def others_used(self) -> list[OptInSet]:
        """The sets to opt in to that are not used here, unless the person has said which ones are."""
        if is_settled(self.user.folders, self.workspace):
            return []
        used = {rule.use for rule in (*self.worker.rules, *self.user.rules)}
        return [name for name in OPT_IN if name not in used]

    @cached_property
    def with_all_sets(self) -> ShellPolicy:
        """The policy of a person who uses every set to opt in to."""
        rules = [*self.worker.rules, *map(set_rule, self.others_used)]
        worker = self.worker.model_copy(update={"rules": rules})
        return ShellPolicy(worker, self.user, self.sandbox, self.workspace, held=self.held)

    def judge(
        self, line: ReadLine, moved: ReadLine | None = None, *, any_grammar: bool = False
    ) -> LineVerdict:
        """Return the verdict of the rules on a line, which runs in the working directory.

        ``moved`` are the lines by which the shell that reads it has changed its folder. In ``any_grammar``, what could
        be a blocked command is one, wherever it stands.
        """
        return judge(line, self.rules, self.place, before=moved, any_grammar=any_grammar)

    def is_allowed_otherwise(self, line: ReadLine) -> bool:
        """Return True if rules other than the sets that promise no effect allow a line."""
        place = self.place
        by_rules = self._rules_with_effect.judge_at(place)
        found = by_rules.judge(line, writable=place.writable, is_link=place.is_link)
        return found.decision is Decision.PRE_APPROVED

    @property
    def blocked_programs(self) -> frozenset[str]:
        """The names of the programs that rules block, in lower case."""
        return self.rules.judge_at(self.place).blocked_names

    @property
    def blocks_unseen(self) -> bool:
        """Whether a rule blocks what a shell may do without starting a program."""
        return self.rules.judge_at(self.place).blocks_unseen

    def verdict_on_started(self, commands: Iterable[Sequence[str]]) -> Verdict | None:
        """The verdict on programs that a trial has started, if a rule blocks one of them."""
        found = next(
            filter(None, map(self.rules.judge_at(self.place).blocked_command, commands)), None
        )
        if found is None:
            return None
        rule, where = self.rule_of(found)
        approval = approval_of(found.decision)
        return Verdict(
            approval,
            f"{_STARTED}: {found.reason}",
            rule,
            where,
            by="rule",
            details=details_of(found),
        )

    @property
    def place(self) -> Place:
        """The working directory, with the zones as they are now."""
        zones = self.sandbox.zones
        unasked = [
            zone.path
            for zone in zones
            if zone.mode is ZoneMode.RW and zone.write is Approval.PRE_APPROVED
        ]
        return Place(
            folder=self.workspace,
            readable=tuple(zone.path for zone in zones),
            written=tuple(unasked),
            held=self.held,
            names=_NAMES,
            hides=self.sandbox.hides,
        )

    @cached_property
    def rules(self) -> Rules:
        """The rules of the worker and of its user, and the sets that the person uses here."""
        of_folders = [rule.as_rule() for rule in rules_in(self.user.folders, self.workspace)]
        lists = [RuleList(_FOLDERS, of_folders), *self._lists]  # before the sets of the worker
        return Rules(lists, Decision(self.worker.default.value))

    @cached_property
    def _rules_with_effect(self) -> Rules:
        """The rules but the sets that promise no effect."""
        lists: list[RuleList] = []
        for each in self._lists:
            lists.append(
                RuleList(each.name, [rule for rule in each.rules if rule.use not in WITHOUT_EFFECT])
            )
        return Rules(lists, Decision(self.worker.default.value))

    @cached_property
    def _lists(self) -> list[RuleList]:
        """The rules of the worker and of its user, as the judge of lines takes them."""
        return [
            RuleList(name, [rule.as_rule() for rule in section.rules])
            for name, section in self._sections()
        ]

    @property
    def try_first(self) -> TrySetting:
        """Whether commands are tried: what the user says counts unless that is nothing."""
        return self.worker.try_first if self.user.try_first == "auto" else self.user.try_first

    def _sections(self) -> Iterator[tuple[str, ShellConfig | UserRules]]:
        yield from ((_WORKER, self.worker), (_USER, self.user))

    def rule_of(self, found: LineVerdict) -> tuple[str | None, Mark | None]:
        """The rule that decides, if it is one, or the default."""
        if found.match:
            return found.match.name, found.match.rule.where
        deciding = [part for part in found.parts if part.decision is found.decision]
        if deciding and not any(part.why for part in found.parts):
            return f"{_WORKER}.default", self.worker.where("default")
        return None, None

    def zone_verdict(self, file: FileUse) -> Verdict:
        """Return what the zones say of a file that a redirection opens.

        A relative path stays one: a real path could begin like that of another zone.
        """
        try:
            return self.sandbox.judge(file.path, Access.WRITE if file.writes else Access.READ)
        except ToolError as error:
            if not file.writes and not self._leads_elsewhere(file.path):
                return Verdict(
                    Approval.PRE_APPROVED, str(error)
                )  # below the working directory, with or without a zone
            return Verdict(Approval.ASK, str(error))

    def _leads_elsewhere(self, target: str) -> bool:
        """Whether there is a link on the way to a file."""
        try:
            return (self.workspace / target).resolve() != self.workspace.resolve() / target
        except (OSError, RuntimeError):
            return True


def details_of(found: LineVerdict) -> tuple[str, ...]:
    """Return each simple command of a line with what is said of it, and the rule that would cover the one that asks."""
    details = tuple(map(_detail, found.parts))
    if not found.suggestion:
        return details
    return (*details, f"cover:  {{pattern: {json.dumps(found.suggestion)}, approval: preApproved}}")


def _detail(part: CommandPart) -> str:
    match = part.match
    rule = match.name if match else "no rule"
    if match and match.row:
        rule += f" {' '.join(match.tokens)}"
    why = part.why or (None if match else part.misfit)
    if why:
        rule += f"; {why}"
    return f"part:   {part.text} -> {part.decision.value} ({rule})"


def approval_of(decision: Decision) -> Approval:
    """Return the answer of a judge of lines in the words of all tools."""
    return Approval(decision.value)
