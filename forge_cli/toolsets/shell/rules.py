"""One rule of the sections ``toolsets.shell`` and ``policy.shell``."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from forge_cli.bashrules.face import Decision, Rule, SetName
from forge_cli.core.approval import Approval
from forge_cli.schema.config import Config


class ShellRule(Config):
    """One rule: what to say of the simple commands whose words start with the tokens of ``pattern``.

    Or a set of them that forge keeps, by its name, all of which pre-approve.
    """

    pattern: str = ""
    """The first tokens of a simple command."""
    approval: Approval = Approval.PRE_APPROVED
    """The approval of commands that match it."""
    use: SetName | None = None
    """A rule set that forge keeps: reading, testing or linting; it stands alone."""
    reason: str | None = None
    """Shown in the refusal or the prompt."""
    match: list[str] = Field(default=[])
    """Command lines that it must match, checked at load."""
    not_match: list[str] = Field(default=[])
    """Command lines that it must not match."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        given = self.model_fields_set
        if self.use and len(given) > 1:
            raise ValueError(
                "'use' stands alone: a rule set has its own patterns, which pre-approve"
            )
        if not self.use and (
            missing := [name for name in ("pattern", "approval") if name not in given]
        ):
            raise ValueError(f"'{missing[0]}' is required; or name a rule set: {{use: reading}}")
        return self

    def as_rule(self) -> Rule:
        """Return the rule as the judge of lines takes it, with its place in the file."""
        return Rule(
            pattern=self.pattern,
            decision=Decision(self.approval.value),
            use=self.use,
            reason=self.reason,
            match=self.match,
            not_match=self.not_match,
            where=self.where(),
        )
