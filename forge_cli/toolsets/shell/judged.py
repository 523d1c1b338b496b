"""One line that is read once and judged once, with all that its call asks of it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from functools import cached_property

from msgspec.structs import replace

from forge_cli.bashrules.face import CommandPart, Decision, ReadLine, commands_of, starts_any
from forge_cli.bashrules.face import Verdict as LineVerdict
from forge_cli.core.approval import (
    NEW_ENTRY,
    PRE_APPROVED,
    Approval,
    GrantRule,
    JudgedPart,
    Needs,
    Verdict,
)
from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Access
from forge_cli.sandbox.names import folded
from forge_cli.sandbox.protected import DOT_ENV, protected_among
from forge_cli.toolsets.shell.opt_in import offer_of, opt_in_programs
from forge_cli.toolsets.shell.policy import WITHOUT_EFFECT, ShellPolicy, approval_of, details_of

_RULES = ("rules", NEW_ENTRY)
_HIDDEN_GLOB = re.compile(r"\.[^/]*[*?\[]")
_BESIDE = {"git add": "git commit", "git commit": "git add"}
"""Beginnings of commands that people mostly allow together."""


class JudgedLine:
    """A line under one policy; each answer is found once, by one verdict of the rules."""

    def __init__(
        self,
        policy: ShellPolicy,
        line: ReadLine,
        moved: ReadLine | None = None,
        *,
        any_grammar: bool = False,
    ) -> None:
        self.policy = policy
        self.line = line
        self._moved = moved
        self._any_grammar = any_grammar

    @cached_property
    def plain(self) -> JudgedLine:
        """The line under the policy on lines that nothing holds to what rule sets promise."""
        policy = self.policy.plain
        return self if policy is self.policy else self.under(policy)

    def under(self, policy: ShellPolicy) -> JudgedLine:
        """Return the line under another policy, without reading it again."""
        return JudgedLine(policy, self.line, self._moved, any_grammar=self._any_grammar)

    @cached_property
    def found(self) -> LineVerdict:
        """The verdict of the rules."""
        return self.policy.judge(self.line, self._moved, any_grammar=self._any_grammar)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict of rules, zones and files."""
        found = self.found
        verdict = self._of_rules()
        if found.by_rules is not Decision.PRE_APPROVED:
            return (
                self._with_opt_in(verdict)
                if found.decision is Decision.ASK and not self._moved
                else verdict
            )
        for file in found.files:
            word = self.policy.zone_verdict(file)
            if word.approval is not Approval.PRE_APPROVED:
                approval = Approval.strictest(word.approval, self.policy.worker.default)
                reason = f"it {'writes' if file.writes else 'reads'} {file.path}: {word.reason}"
                return replace(
                    verdict, approval=approval, reason=reason, rule=word.rule, where=word.where
                )
        if found.doubt is None:
            return verdict
        return replace(verdict, reason=found.doubt, rule=None, where=None)

    def _of_rules(self) -> Verdict:
        found = self.found
        rule, where = self.policy.rule_of(found)
        is_plain = found.by_rules is Decision.PRE_APPROVED or found.grantable
        writes = not is_plain or any(file.writes for file in found.files)
        return Verdict(
            approval_of(found.decision),
            found.reason,
            rule,
            where,
            by="rule",
            details=details_of(found),
            parts=tuple(dict.fromkeys(map(self._judged_part, found.parts))),
            risk="low" if _only_reads(found) and not writes else None,
            grants=self._grants(),
            unruled=self._is_unruled(),
        )

    def _judged_part(self, part: CommandPart) -> JudgedPart:
        """One command of a line, with the rule that it met."""
        matches = self.policy.rules.judge_at(self.policy.place).matching(part.words)
        met = tuple(match.rule.where for match in matches if match.rule.where)
        rule, where = (part.match.name, part.match.rule.where) if part.match else (None, None)
        return JudgedPart(part.text, part.decision.value, part.reason, rule, where, met)

    def _with_opt_in(self, verdict: Verdict) -> Verdict:
        """The verdict on a line that asks, with the offer of the sets to opt in to, if they would cover all of it."""
        policy = self.policy
        if (
            opt_in_programs().isdisjoint(re.findall(r"[\w-]+", self.line.text))
            or not policy.others_used
        ):
            return verdict
        other = JudgedLine(policy.with_all_sets, self.line)
        if other.verdict.approval is not Approval.PRE_APPROVED:
            return verdict
        used = [name for name in policy.others_used if name in other.used]
        if len(used) != 1 or (used == ["building"] and policy.try_first == "off"):
            return verdict
        offer = offer_of(used[0], policy.others_used, policy.workspace)
        return replace(verdict, grants=[[offer, *need] for need in verdict.grants] or [[offer]])

    @cached_property
    def used(self) -> set[str | None]:
        """The sets that cover the commands of the line; None is among them for any other rule, or none."""
        return {part.match.rule.use if part.match else None for part in self.found.parts}

    @property
    def builds(self) -> bool:
        """Whether the line is allowed as a build, which is only done on a copy."""
        return "building" in self.used

    @property
    def is_of_sets(self) -> bool:
        """Whether rule sets alone cover the line, such as a run of tests."""
        return bool(self.used) and None not in self.used

    @property
    def looks_at_containers(self) -> bool:
        """Whether all of the line that it does not only read is to look at containers."""
        return "containers" in self.used and self.used <= {"containers", "reading"}

    @cached_property
    def sets_needed(self) -> frozenset[str]:
        """The rule sets that a pre-approved line needs, if nothing but sets that promise no effect allows it."""
        parts = self.found.parts
        used = frozenset(part.match.rule.use or "" for part in parts if part.match)
        if not used or not used <= WITHOUT_EFFECT or not all(part.match for part in parts):
            return frozenset()
        return frozenset() if self.policy.is_allowed_otherwise(self.line) else used

    @property
    def is_run_as_reading(self) -> bool:
        """Whether nothing but the set that only reads allows the line, and it writes nothing by a redirection."""
        return self.sets_needed == {"reading"} and not self.written

    @cached_property
    def written(self) -> frozenset[str]:
        """The files that the redirections of a plain line write."""
        paths = (self.policy.workspace / file.path for file in self.found.files if file.writes)
        return frozenset(os.path.realpath(path) for path in paths)

    @property
    def names_git(self) -> bool:
        """Whether git is one of the simple commands of the line, as far as it can be read."""
        return any(
            part.words and os.path.basename(part.words[0]) == "git" for part in self.found.parts
        )

    @property
    def may_hide_blocked(self) -> str | None:
        """Why the line, as far as it can be read, may run a command that a rule blocks; None if it does not."""
        return _hides(self.found) if self.policy.rules.stating(Decision.BLOCKED) else None

    @property
    def may_block_unseen(self) -> str | None:
        """Why the line may run a blocked command that is no program, so that a trial does not show it."""
        return self.may_hide_blocked if self.policy.blocks_unseen else None

    def _is_unruled(self) -> bool:
        """Whether the line asks although no rule says so of any command in it, and it names no file of secrets."""
        found = self.found
        if found.by_rules is not Decision.ASK or DOT_ENV in folded(self.line.text):
            return False
        if any(part.match and part.match.rule.decision is Decision.ASK for part in found.parts):
            return False
        asking = tuple(
            rule.tokens for rule in self.policy.rules.stating(Decision.ASK) if rule.tokens
        )
        if not asking:
            return True
        unsaid = (shlex.join(part.words) for part in found.parts if part.match is None)
        return not (_hides(found) or any(starts_any(line, asking) for line in unsaid))

    def _grants(self) -> Needs:
        """The rules that would pre-approve the line; none for what is protected, or where zones ask for a file."""
        found = self.found
        if not found.grantable or any(map(_is_protected, _words(found))):
            return ()
        if any(map(self._always_asks, found.operands)):
            return ()
        if any(
            self.policy.zone_verdict(file).approval is not Approval.PRE_APPROVED
            for file in found.files
        ):
            return ()
        patterns = zip(found.grantable, found.shorter, strict=True)
        return [
            [_pattern_rule(one), *(_pattern_rule(each, implied=True) for each in more)]
            for one, more in patterns
        ]

    def _always_asks(self, path: str) -> bool:
        """Whether more than its zone asks before a file is written: it is protected, or one of the worker's own."""
        try:
            verdict = self.policy.sandbox.judge(path, Access.WRITE)
        except ToolError:
            return False
        return verdict.approval is Approval.ASK and not verdict.grants


def _only_reads(found: LineVerdict) -> bool:
    """Whether every command is one of the rule set that only reads, and nothing speaks against it."""
    parts = found.parts
    return bool(parts) and all(
        part.match and part.match.rule.use == "reading" and not part.why for part in parts
    )


def _words(found: LineVerdict) -> Iterator[str]:
    for part in found.parts:
        yield from part.words


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
