"""The toolset ``plan``: the steps of a longer task, for the model and the person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from forge_cli.core.errors import ToolError
from forge_cli.core.hookspecs import Renderer, hookimpl
from forge_cli.core.media import DisplayHints
from forge_cli.core.results import Custom, ResultValue, Text
from forge_cli.schema.tool import tool
from forge_cli.schema.toolset import Toolset

KIND = "plan.update"
BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class Step(BaseModel):  # noqa: D101 - a docstring would join the schema that the model reads
    model_config = ConfigDict(extra="forbid")

    step: Annotated[str, Field(min_length=1, description="What is to be done, in a few words")]
    status: Literal["pending", "in_progress", "completed"]


class PlanToolset(Toolset):
    """A tool to keep a plan with."""

    name = "plan"

    @tool(needs_approval=False, read_only=True, lasting=True)
    async def update_plan(
        self,
        plan: Annotated[
            list[Step], Field(description="All steps, in order; one at most is in progress")
        ],
        explanation: Annotated[str | None, Field(description="Why the plan changed")] = None,
    ) -> Custom:
        """Write or update the plan for a task with several steps."""
        if sum(entry.status == "in_progress" for entry in plan) > 1:
            raise ToolError("more than one step is in_progress; work on one step at a time")
        done = sum(entry.status == "completed" for entry in plan)
        data = {"explanation": explanation, "plan": [entry.model_dump() for entry in plan]}
        summary = f"Plan updated: {done} of {len(plan)} steps completed."
        return Custom(KIND, data, summary=summary, model_text=summary)

    def instructions(self) -> str:
        return (
            "For work with several steps, keep a plan with update_plan, "
            "and mark each step as soon as it is done."
        )


def checklist(value: Custom) -> ResultValue:
    """Return the plan for people."""
    entries: Sequence[dict[str, str]] = value.data["plan"]
    lines = [f"{BOXES.get(entry['status'], '[?]')} {entry['step']}" for entry in entries]
    why = [str(value.data["explanation"])] if value.data.get("explanation") else []
    return Text("\n".join([*why, *lines]), DisplayHints(language="checklist"))


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [PlanToolset]


@hookimpl
def forge_renderers() -> dict[str, Renderer]:
    """Offer the renderer for plans."""
    return {KIND: checklist}
