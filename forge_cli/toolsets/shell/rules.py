"""A rule of the sections ``toolsets.shell`` and ``policy.shell``."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from forge_cli.bashrules.face import Decision, Rule, SetName
from forge_cli.core.approval import Approval
from forge_cli.schema.config import Config


class ShellRule(Config):
    """A rule for simple commands that start with the words of ``pattern``, or a rule set.

    A rule set is named by ``use``; all of its patterns pre-approve.
    """

    pattern: str = ""
    """The first words of a simple command."""
    approval: Approval = Approval.PRE_APPROVED
    """The approval of commands that match."""
    use: SetName | None = None
    """A rule set of forge, such as reading or testing; no other key goes with it."""
    reason: str | None = None
    """Shown when the rule blocks or asks."""
    match: list[str] = Field(default=[])
    """Command lines that the rule must match, checked when it is loaded."""
    not_match: list[str] = Field(default=[])
    """Command lines that the rule must not match."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        given = self.model_fields_set
        if self.use and len(given) > 1:
            raise ValueError(
                "'use' takes no other key: a rule set has its own patterns, which pre-approve"
            )
        if not self.use and (
            missing := [name for name in ("pattern", "approval") if name not in given]
        ):
            raise ValueError(f"'{missing[0]}' is required; or name a rule set: {{use: reading}}")
        return self

    def as_rule(self) -> Rule:
        """Convert the rule for the library, with its place in the file."""
        return Rule(
            pattern=self.pattern,
            decision=Decision(self.approval.value),
            use=self.use,
            reason=self.reason,
            match=self.match,
            not_match=self.not_match,
            where=self.where(),
        )
