"""A tool as one worker offers it to whoever may call it."""

from __future__ import annotations

from forge_cli.core.tool import Tool
from forge_cli.core.values import dataclass
from forge_cli.engine.gate.policy import Policy


@dataclass(frozen=True)
class Offer:
    """A tool as one worker offers it: under its name here, with the worker's policy for it."""

    tool: Tool
    toolset: str
    policy: Policy
    original: str = ""
    """The tool's name before ``prefix:``."""
