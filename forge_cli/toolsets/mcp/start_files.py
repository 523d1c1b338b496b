"""The files that an MCP server is started from: those that were there first, or that a person has agreed to since."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from forge_cli.core.errors import LockError, ToolError
from forge_cli.core.requests import AgreeRequest
from forge_cli.core.text import cut, visible
from forge_cli.core.zones import ZoneMode
from forge_cli.files.mcp import McpServer
from forge_cli.files.started import hashes_of, started_code
from forge_cli.schema.toolset import ToolsetEnv

NAMED = 5
"""Changed files that are named one by one."""
SHOWN = 2000
"""Characters of their names for a person."""


class StartFiles:
    """Those of one server in one session: a command, or another program, may change them while it works."""

    def __init__(self, name: str, server: McpServer, env: ToolsetEnv) -> None:
        self._name, self._server, self._env = name, server, env
        self._zones = [zone.path for zone in env.sandbox.zones if zone.mode is ZoneMode.RW]
        self._known = self._look()
        self._refused: Mapping[Path, str] | None = None
        self.broken: LockError | None = None
        """Why a worker that keeps to its lock cannot go on."""

    def _look(self) -> dict[Path, str]:
        command, folder = self._server.command, self._env.workspace
        if command is None:
            return {}
        found = started_code([command, *self._server.args], folder, self._server.env, self._zones)
        program = shutil.which(os.path.expanduser(command)) if os.sep not in command else None
        if program and any(Path(program).is_relative_to(zone) for zone in self._zones):
            found.append(Path(program))
        return hashes_of(found)

    def check(self) -> None:
        """Refuse to start it from other files than those that are known."""
        if changed := self._changed(self._look()):
            raise ToolError(self._sentence(changed))

    async def settle(self) -> None:
        """Ask about files that are not as they were; a ToolError where the answer is no."""
        now = self._look()
        changed = self._changed(now)
        if not changed:
            return
        sentence = self._sentence(changed)
        if self._env.check_code is not None:
            self.broken = LockError(
                None, sentence, hint="review what changed, then: forge lock WORKER --update"
            )
            raise ToolError(sentence)
        if now != self._refused and await self._env.session.agree(self._request(changed)):
            self._known = now
            return
        self._refused = now
        raise ToolError(sentence)

    def ask_again(self) -> None:
        """Forget that the answer was no."""
        self._refused = None

    def _changed(self, now: Mapping[Path, str]) -> list[str]:
        """The files that are others, new or gone, as people spell them."""
        paths = sorted(path for path, _ in {*now.items()} ^ {*self._known.items()})
        folder = self._env.workspace
        spelled = (
            path.relative_to(folder) if path.is_relative_to(folder) else path for path in paths
        )
        return list(dict.fromkeys(visible(str(path)) for path in spelled))

    def _sentence(self, changed: list[str]) -> str:
        more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
        return f"it is not started: {', '.join(changed[:NAMED])}{more} changed since it was started first"

    def _request(self, changed: list[str]) -> AgreeRequest:
        return AgreeRequest(
            kind="server",
            asker=f"the MCP server {self._name}",
            question=f"start the MCP server {self._name} from changed files: {cut(', '.join(changed), SHOWN)}",
            reason="they are not what they were when it was started first, and it runs with your rights",
            args={"server": self._name, "changed": list(changed)},
        )
