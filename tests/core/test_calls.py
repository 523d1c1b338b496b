"""Args as deep as they may be, and one level more."""

from typing import Any

import pytest

from forge_cli.core.calls import read_args
from forge_cli.core.wire import NESTING
from forge_cli.events import ToolCall
from forge_cli.hooks import TextDelta, TurnEnd
from forge_cli.testing import Project

from ..rows import each_row


def nested(levels: int) -> dict[str, Any]:
    """An object with as many levels of nesting."""
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"value": value}


@each_row("levels", [NESTING + 1, 500, 985, 100_000])
def test_text_that_is_nested_too_deeply(levels: int) -> None:
    with pytest.raises(ValueError, match="is nested too deeply"):
        read_args('{"value": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}")


@pytest.mark.parametrize("levels", [NESTING + 1, 500, 900, 5000])
def test_a_call_that_is_nested_too_deeply_is_invalid(project: Project, levels: int) -> None:
    project.write("tools.py", "def act(value: list) -> str: return 'never'\n")
    project.write(
        "worker.yaml",
        "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [act], approval: {default: preApproved}}}\n",
    )
    seen = project.run(model=Deep(nested(levels)))
    assert seen.statuses == ["invalid"]
    assert seen.outcomes[0].error == "the input of act is nested too deeply"
    assert seen.result.status == "completed"


class Deep:
    """A model of somebody else, which makes one call."""

    name, context_window = "deep:x", None

    def __init__(self, args: dict[str, Any]) -> None:
        self.args = args

    async def stream(self, request: Any) -> Any:
        if any(message.role == "tool" for message in request.messages):
            yield TextDelta("done")
            yield TurnEnd("end")
        else:
            yield ToolCall("1", "act", self.args)
            yield TurnEnd("tool_use")

    async def aclose(self) -> None:
        pass
