"""The public interface: read a line of bash and judge it by rules, before anything runs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import CommandPart, LineJudge, Verdict, starts_any
from forge_cli.bashrules.line import ReadLine, read
from forge_cli.bashrules.lint import (
    OddRule,
    WrongExample,
    check_examples,
    granting_rules,
    lint_rules,
)
from forge_cli.bashrules.looks import FileLooks
from forge_cli.bashrules.names import FileNames
from forge_cli.bashrules.place import FileUse, Place
from forge_cli.bashrules.programs.discarding import commands_of
from forge_cli.bashrules.rules import Match, Rule, RuleList
from forge_cli.bashrules.sets.rows import SET_NAMES, OptInSet, SetName

__all__ = [
    "CommandPart",
    "Decision",
    "FileNames",
    "FileUse",
    "Match",
    "OddRule",
    "OptInSet",
    "Place",
    "ReadLine",
    "Rule",
    "RuleList",
    "Rules",
    "SetName",
    "Verdict",
    "WrongExample",
    "check_examples",
    "commands_of",
    "granting_rules",
    "judge",
    "lint_rules",
    "read",
    "starts_any",
]

_NOWHERE = Place()


class Rules:
    """Lists of rules, indexed for many lines; a blocking rule of any list wins."""

    def __init__(self, rules: Iterable[Rule | RuleList], default: Decision = Decision.ASK) -> None:
        """Take single rules as one list without a name.

        ``default`` is the decision on commands that no rule covers.
        """
        given = list(rules)
        single = [each for each in given if isinstance(each, Rule)]
        self.lists: Sequence[RuleList] = [each for each in given if isinstance(each, RuleList)]
        if single:
            self.lists = [RuleList("", single), *self.lists]
        self.default = default
        for each in self.lists:
            for rule in each.rules:
                if rule.use and rule.use not in SET_NAMES:
                    known = ", ".join(sorted(SET_NAMES))
                    raise ValueError(f"no rule set '{rule.use}'; available: {known}")
        self._judges: dict[tuple[object, ...], LineJudge] = {}

    def stating(self, decision: Decision) -> list[Rule]:
        """Return the rules with this decision."""
        found: list[Rule] = []
        for each in self.lists:
            found += [rule for rule in each.rules if rule.decision is decision]
        return found

    def judge_at(self, place: Place) -> LineJudge:
        """Return the judge by these rules in a place, which is kept for later lines."""
        readable = tuple(map(str, place.readable))
        root = str(place.folder or "")
        key = (readable, root, place.held, place.names)
        judge = self._judges.get(key)
        if judge is None:
            judge = LineJudge(
                self.lists,
                self.default,
                readable=readable,
                root=root,
                held=place.held,
                names=place.names,
            )
            self._judges[key] = judge
        return judge


def judge(
    line: ReadLine | str,
    rules: Rules,
    place: Place = _NOWHERE,
    *,
    before: ReadLine | None = None,
    any_grammar: bool = False,
) -> Verdict:
    """Return the verdict of rules on a line that would run in a place. Nothing is run.

    ``before`` are the lines that the same shell has run already. With ``any_grammar``, a blocked
    command counts wherever its words are, because another shell than bash may read the line.
    """
    if isinstance(line, str):
        line = read(line)
    by_rules = rules.judge_at(place)
    writable = place.writable
    if place.folder is None:
        return by_rules.judge(line, writable=writable, before=before, any_grammar=any_grammar)
    verdict = by_rules.judge(
        line, writable=writable, looks=place.looks, before=before, any_grammar=any_grammar
    )
    # a doubt never makes a line looser than the default
    unsure = Decision.strictest(Decision.ASK, rules.default)
    return FileLooks(place, place.folder).looked(verdict, line, before, unsure)
