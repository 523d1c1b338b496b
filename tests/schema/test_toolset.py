"""A toolset: its marked methods are its tools, with its section of the worker file and its resources.

Covers forge_cli.core.notify.
"""

from pathlib import Path

import anyio
import pytest

from forge_cli.core.errors import WorkerError
from forge_cli.files.document import parse_document
from forge_cli.schema.config import parse_config
from forge_cli.schema.tool import tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig, ToolsetEnv

ENV = ToolsetEnv(
    worker="w",
    worker_dir=Path("/"),
    workspace=Path("/"),
    home=Path("/"),
    open_sandbox=lambda: None,
    open_processes=lambda: None,
    notify=lambda level, message: None,
)


class Base(Toolset):
    name = "base"

    @tool
    def second(self) -> str:
        """Second in the alphabet."""
        return f"second of {self.env.worker}"

    @tool(name="renamed")
    async def first(self, n: int = 1) -> int:
        """First in the alphabet."""
        return n

    def no_tool(self) -> None: ...


class Derived(Base):
    name = "derived"

    @tool
    def third(self) -> None:
        """Only here."""

    @tool(description="Overridden.")
    def second(self) -> str:
        return "overridden"


def tools_of(cls: type[Toolset]) -> list[tuple[str, str]]:
    toolset = cls(ToolsetConfig(), ENV)
    return [(each.name, each.description) for each in anyio.run(toolset.tools)]


def test_marked_methods_are_tools_in_source_order() -> None:
    assert tools_of(Base) == [
        ("second", "Second in the alphabet."),
        ("renamed", "First in the alphabet."),
    ]
    assert tools_of(Derived) == [
        ("second", "Overridden."),
        ("renamed", "First in the alphabet."),
        ("third", "Only here."),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "approval: {default: yes}",
            "worker.yaml:1:21: toolsets.x.approval.default: must be 'preApproved', 'ask' or 'blocked', not 'yes'",
        ),
        (
            "approval:\n  tools: {push: pre_approved}",
            "worker.yaml:2:17: toolsets.x.approval.tools.push: must be 'preApproved', 'ask' or 'blocked', "
            "not 'pre_approved'",
        ),
        ("approval: ask", "worker.yaml:1:11: toolsets.x.approval: must be a mapping, not 'ask'"),
        (
            "aproval: {}",
            "worker.yaml:1:1: toolsets.x: unknown key 'aproval'; did you mean 'approval'?",
        ),
        ("tools: push", "worker.yaml:1:8: toolsets.x.tools: must be a list, not 'push'"),
    ],
)
def test_invalid_toolset_section_is_refused(text: str, problem: str) -> None:
    with pytest.raises(WorkerError) as caught:
        parse_config(ToolsetConfig, parse_document(text, "worker.yaml"), at=("toolsets", "x"))
    assert str(caught.value) == problem
