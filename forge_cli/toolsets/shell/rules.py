"""A rule of the sections ``toolsets.shell`` and ``policy.shell``."""

from __future__ import annotations

from typing import Literal, Self

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
    """A rule set of forge, such as reading or testing; only the key forms goes with it."""
    forms: Literal["plain", "checked"] = "plain"
    """What a rule set covers if nothing confines a line; checked adds names from listings."""
    reason: str | None = None
    """Shown when the rule blocks or asks."""
    match: list[str] = Field(default=[])
    """Command lines that the rule must match, checked when it is loaded."""
    not_match: list[str] = Field(default=[])
    """Command lines that the rule must not match."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        given = self.model_fields_set
        if self.use and not given <= {"use", "forms"}:
            raise ValueError(
                "'use' takes no other key than 'forms': "
                "a rule set has its own patterns, which pre-approve"
            )
        if "forms" in given and not self.use:
            raise ValueError("'forms' is for rule sets: {use: reading, forms: checked}")
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
            checked=self.forms == "checked",
            reason=self.reason,
            match=self.match,
            not_match=self.not_match,
            where=self.where(),
        )
