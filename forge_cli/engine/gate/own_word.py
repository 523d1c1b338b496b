"""What a tool itself says of a call, whatever it says it with; what goes wrong in that never opens the gate."""

from __future__ import annotations

import inspect
import reprlib
from functools import partial
from typing import Any

from anyio.lowlevel import checkpoint

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.bounds import CALL_LIMIT, call_within, fault_text
from forge_cli.core.context import CallContext
from forge_cli.core.errors import ToolError
from forge_cli.core.tool import Args
from forge_cli.engine.gate.performing import perform_within
from forge_cli.schema.tool import Tool
from forge_cli.schema.tool_fields import positional_count


async def own_verdict(tool: Tool, args: Args, context: CallContext) -> Verdict | None:
    """The tool's own verdict on a call. A ToolError refuses the call; any other failure, or nonsense, means ask."""
    said: Any = tool.needs_approval
    if said is None:
        return None
    if callable(said):
        try:
            given = (args, context) if positional_count(said) == 2 else (args,)
            said = call_within(CALL_LIMIT, f"the check of {tool.name}", said, *given)
            if inspect.isawaitable(said):
                said = await perform_within(CALL_LIMIT, f"the check of {tool.name}", partial(_itself, said))
        except ToolError:
            raise
        except Exception as error:  # third-party code: whatever goes wrong in it must not open the gate
            await checkpoint()  # whoever ended its time may want the whole call to end
            return Verdict(Approval.ASK, f"the tool's own check failed ({fault_text(error)}), so it asks")
    return as_verdict(said)


def _itself(said: Any) -> Any:
    return said


def as_verdict(said: Any) -> Verdict:
    """What a tool says, as a verdict; nonsense asks."""
    match said:
        case Verdict():
            return said
        case Approval():
            return Verdict(said, f"the tool says {said.value}")
        case True:
            return Verdict(Approval.ASK, "the tool wants this call approved")
        case False:
            return Verdict(Approval.PRE_APPROVED, "the tool needs no approval for this call")
        case _:
            given = reprlib.repr(said)
            return Verdict(Approval.ASK, f"the tool's own check gave {given}, which is not an approval, so it asks")
