"""A command line that is parsed and judged once for its call."""

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
"""Commands that people usually allow together."""


class JudgedLine:
    """A line under one policy; every property is computed once, from one verdict of the rules."""

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
        """The line under the policy for lines that no confinement limits to their rule sets."""
        policy = self.policy.plain
        return self if policy is self.policy else self.under(policy)

    def under(self, policy: ShellPolicy) -> JudgedLine:
        """Return the line under another policy, without parsing it again."""
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
            if found.decision is Decision.ASK and not self._moved:
                return self._with_opt_in(verdict)
            return verdict
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
            # Each round of a loop has the same commands.
            parts=tuple(dict.fromkeys(map(self._judged_part, found.parts))),
            risk="low" if _only_reads(found) and not writes else None,
            grants=self._grants(),
            unruled=self._is_unruled(),
            sets=tuple(sorted(self._sets())),
            writes=any(file.writes for file in found.files),
        )

    def _judged_part(self, part: CommandPart) -> JudgedPart:
        """Return the verdict on one command of the line."""
        matches = self.policy.rules.judge_at(self.policy.place).matching(part.words)
        met = tuple(match.rule.where for match in matches if match.rule.where)
        rule, where = None, None
        if part.match:
            rule, where = part.match.name, part.match.rule.where
        return JudgedPart(part.text, part.decision.value, part.reason, rule, where, met)

    def _with_opt_in(self, verdict: Verdict) -> Verdict:
        """Offer an opt-in rule set with a verdict that asks, if the set covers the line."""
        policy = self.policy
        # The words are a quick test: most lines need not be judged a second time.
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
        """The rule sets that cover the commands of the line; None for another rule or no rule."""
        return {part.match.rule.use if part.match else None for part in self.found.parts}

    @property
    def builds(self) -> bool:
        """True if the line is allowed as a build, which runs on a copy only."""
        return "building" in self.used

    @property
    def is_of_sets(self) -> bool:
        """True if only rule sets cover the line, such as a run of tests."""
        return bool(self.used) and None not in self.used

    def _sets(self) -> Iterator[str]:
        yield from filter(None, self.used)
        matches = (part.match for part in self.found.parts if part.match)
        if any(match.row and match.tokens[0] in match.row.code for match in matches):
            yield "code"

    @property
    def looks_at_containers(self) -> bool:
        """True if the line only reads, and looks at containers."""
        return "containers" in self.used and self.used <= {"containers", "reading"}

    @cached_property
    def sets_needed(self) -> frozenset[str]:
        """The rule sets without effect that a pre-approved line needs; empty if others allow it."""
        parts = self.found.parts
        used = frozenset(part.match.rule.use or "" for part in parts if part.match)
        if not used or not used <= WITHOUT_EFFECT or not all(part.match for part in parts):
            return frozenset()
        if self.policy.is_allowed_otherwise(self.line):
            return frozenset()
        return used

    @property
    def is_run_as_reading(self) -> bool:
        """True if only the set ``reading`` allows the line, and no redirection writes a file."""
        return self.sets_needed == {"reading"} and not self.written

    @cached_property
    def written(self) -> frozenset[str]:
        """The files that redirections of a simple line write."""
        paths = (self.policy.workspace / file.path for file in self.found.files if file.writes)
        return frozenset(os.path.realpath(path) for path in paths)

    @property
    def names_git(self) -> bool:
        """True if git is one of the commands, as far as the line can be parsed."""
        return any(
            part.words and os.path.basename(part.words[0]) == "git" for part in self.found.parts
        )

    @property
    def may_hide_blocked(self) -> str | None:
        """Why the line may run a blocked command that cannot be seen; None if it does not."""
        return _hides(self.found) if self.policy.rules.stating(Decision.BLOCKED) else None

    @property
    def may_block_unseen(self) -> str | None:
        """Why the line may run a blocked shell builtin, which a trial cannot detect."""
        return self.may_hide_blocked if self.policy.blocks_unseen else None

    def _is_unruled(self) -> bool:
        """Return True if only a missing rule makes the line ask, and it names no secret file."""
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
        """Return rules that would pre-approve the line; none if protected files or zones ask."""
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
        """Return True if writing a file asks for reasons besides its zone."""
        try:
            verdict = self.policy.sandbox.judge(path, Access.WRITE)
        except ToolError:
            return False
        return verdict.approval is Approval.ASK and not verdict.grants


def _only_reads(found: LineVerdict) -> bool:
    """Return True if the set ``reading`` covers every command, without any objection."""
    parts = found.parts
    return bool(parts) and all(
        part.match and part.match.rule.use == "reading" and not part.why for part in parts
    )


def _words(found: LineVerdict) -> Iterator[str]:
    for part in found.parts:
        yield from part.words


def _pattern_rule(pattern: str, *, implied: bool = False, with_beside: bool = True) -> GrantRule:
    says = {"pattern": pattern, "approval": PRE_APPROVED}
    more = None
    if with_beside and pattern in _BESIDE:
        # Two commands that are allowed together name each other.
        more = _pattern_rule(_BESIDE[pattern], with_beside=False)
    return GrantRule(_RULES, says, commands_of(pattern), _RULES, implied=implied, beside=more)


def _is_protected(word: str) -> bool:
    """Return True if a word may name a protected file."""
    pieces = re.split(r"[/=:,]", word)
    return protected_among(pieces) is not None or any(map(_HIDDEN_GLOB.match, pieces))


def _hides(found: LineVerdict) -> str | None:
    """Return why a line may run other commands than the judged ones; None if it does not."""
    if not found.parts:
        return found.reason
    hiding = next((part for part in found.parts if part.hides), None)
    return f"'{hiding.text}': {hiding.hides}" if hiding else None
