"""The policy of the toolset ``shell``: rules of a worker and its user, and their verdicts."""

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
_STARTED = "on a copy it started a blocked command"

WITHOUT_EFFECT = frozenset(("reading", "linting"))
"""Rule sets for lines that change nothing."""


def _is_of_packages(name: str) -> bool:
    return folded(name) in PACKAGES


_NAMES = FileNames(DOT_ENV, is_secret, is_protected, _is_of_packages)


class ShellPolicy:
    """The policy on command lines for one worker: the strictest match counts."""

    def __init__(
        self,
        worker: ShellConfig,
        user: UserRules,
        sandbox: Sandbox,
        workspace: Path,
        *,
        held: bool = True,
    ) -> None:
        """Combine the rules; if ``held``, a confinement limits lines that only rule sets allow."""
        self.worker = worker
        self.user = user
        self.sandbox = sandbox
        self.workspace = workspace
        self.held = held

    def held_to_sets(self, held: bool) -> ShellPolicy:
        """Return the policy with another value of ``held``."""
        return ShellPolicy(self.worker, self.user, self.sandbox, self.workspace, held=held)

    def with_folder(self, says: object) -> ShellPolicy:
        """Return the policy with the rule sets that the person has just chosen."""
        user = self.user.with_folder(says)
        return ShellPolicy(self.worker, user, self.sandbox, self.workspace, held=self.held)

    @cached_property
    def plain(self) -> ShellPolicy:
        """The policy without a confinement: rule sets cover plain forms of commands only."""
        return self.held_to_sets(False) if self.held else self

    def check(self) -> Iterator[str]:
        """Yield warnings about rules; raise WorkerError for an example that does not match."""
        for (name, section), each in zip(self._sections(), self._lists, strict=True):
            for wrong in check_examples(each.rules):
                where = section.where("rules", wrong.rule, wrong.key, wrong.item)
                raise WorkerError(where, f"{name}.rules[{wrong.rule}].{wrong.key}: {wrong.message}")
            for odd in lint_rules(each.rules):
                where = section.where("rules", odd.rule)
                place = f"{where}: " if where else ""
                yield f"{place}{name}: {odd.message}"

    def stated(self) -> Iterator[Verdict]:
        """Yield every rule as a verdict, with its pattern as the reason."""
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
        where = None
        if "default" in self.worker.model_fields_set:
            where = self.worker.where("default")
        yield Verdict(
            self.worker.default, "what no rule covers", f"{_WORKER}.default", where, by="rule"
        )

    @cached_property
    def others_used(self) -> list[OptInSet]:
        """The opt-in sets to offer here; none if the person has chosen already."""
        if is_settled(self.user.folders, self.workspace):
            return []
        used = {rule.use for rule in (*self.worker.rules, *self.user.rules)}
        return [name for name in OPT_IN if name not in used]

    @cached_property
    def with_all_sets(self) -> ShellPolicy:
        """The policy of a person who uses all opt-in sets."""
        rules = [*self.worker.rules, *map(set_rule, self.others_used)]
        worker = self.worker.model_copy(update={"rules": rules})
        return ShellPolicy(worker, self.user, self.sandbox, self.workspace, held=self.held)

    def judge(
        self, line: ReadLine, moved: ReadLine | None = None, *, any_grammar: bool = False
    ) -> LineVerdict:
        """Judge a line by the rules.

        ``moved`` are earlier lines of the same shell that may have changed its folder. With
        ``any_grammar``, every word that could be a blocked command counts as one.
        """
        return judge(line, self.rules, self.place, before=moved, any_grammar=any_grammar)

    def is_allowed_otherwise(self, line: ReadLine) -> bool:
        """Return True if rules other than the sets without effect allow a line."""
        place = self.place
        by_rules = self._rules_with_effect.judge_at(place)
        found = by_rules.judge(line, writable=place.writable, looks=place.looks)
        return found.decision is Decision.PRE_APPROVED

    @property
    def blocked_programs(self) -> frozenset[str]:
        """The names of blocked programs, in lower case."""
        return self.rules.judge_at(self.place).blocked_names

    @property
    def blocks_unseen(self) -> bool:
        """True if a rule blocks shell builtins, which no trial can detect."""
        return self.rules.judge_at(self.place).blocks_unseen

    def verdict_on_started(self, commands: Iterable[Sequence[str]]) -> Verdict | None:
        """Return the verdict on programs that a trial started if one of them is blocked."""
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
        """The working directory and the zones, as they are now."""
        zones = self.sandbox.zones
        unasked: list[Path] = []
        for zone in zones:
            if zone.mode is ZoneMode.RW and zone.write is Approval.PRE_APPROVED:
                unasked.append(zone.path)
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
        """The rules of the worker and its user, and the sets that the person uses here."""
        of_folders = [rule.as_rule() for rule in rules_in(self.user.folders, self.workspace)]
        # The sets of the folder come first, so that a verdict names them and not the worker's.
        lists = [RuleList(_FOLDERS, of_folders), *self._lists]
        return Rules(lists, Decision(self.worker.default.value))

    @cached_property
    def _rules_with_effect(self) -> Rules:
        """The rules without the sets that have no effect."""
        lists: list[RuleList] = []
        for each in self._lists:
            lists.append(
                RuleList(each.name, [rule for rule in each.rules if rule.use not in WITHOUT_EFFECT])
            )
        return Rules(lists, Decision(self.worker.default.value))

    @cached_property
    def _lists(self) -> list[RuleList]:
        """The rules of the worker and its user, converted for the library."""
        return [
            RuleList(name, [rule.as_rule() for rule in section.rules])
            for name, section in self._sections()
        ]

    @property
    def try_first(self) -> TrySetting:
        """Whether commands are tried; a setting of the user has priority."""
        if self.user.try_first == "auto":
            return self.worker.try_first
        return self.user.try_first

    def _sections(self) -> Iterator[tuple[str, ShellConfig | UserRules]]:
        yield from ((_WORKER, self.worker), (_USER, self.user))

    def rule_of(self, found: LineVerdict) -> tuple[str | None, Mark | None]:
        """Return the rule or the default that decides, with its place."""
        if found.match:
            return found.match.name, found.match.rule.where
        deciding = [part for part in found.parts if part.decision is found.decision]
        if deciding and not any(part.why for part in found.parts):
            return f"{_WORKER}.default", self.worker.where("default")
        return None, None

    def zone_verdict(self, file: FileUse) -> Verdict:
        """Return the verdict of the zones on a file that a redirection opens.

        The path stays relative: as a real path, it could start like that of another zone.
        """
        try:
            return self.sandbox.judge(file.path, Access.WRITE if file.writes else Access.READ)
        except ToolError as error:
            if not file.writes and not self._leads_elsewhere(file.path):
                # The working directory can be read even if it is not in a zone.
                return Verdict(Approval.PRE_APPROVED, str(error))
            return Verdict(Approval.ASK, str(error))

    def _leads_elsewhere(self, target: str) -> bool:
        """Return True if a link is on the way to a file."""
        try:
            return (self.workspace / target).resolve() != self.workspace.resolve() / target
        except (OSError, RuntimeError):
            return True


def details_of(found: LineVerdict) -> tuple[str, ...]:
    """Return a line for each command with its rule, and the rule that would cover the line."""
    details = tuple(map(_detail, found.parts))
    if not found.suggestion:
        return details
    return (*details, f"cover:  {{pattern: {json.dumps(found.suggestion)}, approval: preApproved}}")


def _detail(part: CommandPart) -> str:
    match = part.match
    rule = match.name if match else "no rule"
    if match and match.row:
        rule += f" {' '.join(match.tokens)}"
    why = part.why
    if not why and not match:
        why = part.misfit
    if why:
        rule += f"; {why}"
    return f"part:   {part.text} -> {part.decision.value} ({rule})"


def approval_of(decision: Decision) -> Approval:
    """Convert a decision of the library to an Approval."""
    return Approval(decision.value)
