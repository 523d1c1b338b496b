"""What the events of a conversation have told so far, for its status line and its commands."""

from __future__ import annotations

from dataclasses import dataclass

from forge_cli.core.events import Event, SessionStart


@dataclass
class Facts:
    """Kept up by ``note``, which is given every event."""

    model: str = ""
    workspace: str = ""
    approval_mode: str = ""

    def note(self, event: Event) -> None:
        match event:
            case SessionStart():
                self.model, self.workspace = event.model, event.workspace
                self.approval_mode = event.approval_mode
            case _:
                pass
