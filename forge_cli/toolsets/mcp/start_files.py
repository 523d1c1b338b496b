"""The files that an MCP server is started from, which may change only with consent."""

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

MAX_NAMED = 5
"""Changed files that are listed by name."""
MAX_SHOWN = 2000
"""Characters of their names in a question."""


class StartFiles:
    """The start files of one server in one session.

    Commands and other programs may change them while the session runs.
    """

    def __init__(self, name: str, server: McpServer, env: ToolsetEnv) -> None:
        self._name = name
        self._server = server
        self._env = env
        self._zones = [zone.path for zone in env.sandbox.zones if zone.mode is ZoneMode.RW]
        self._known = self._look()
        self._refused: Mapping[Path, str] | None = None
        self.broken: LockError | None = None
        """The error that ends a locked worker, whose files must not change."""

    def _look(self) -> dict[Path, str]:
        command = self._server.command
        folder = self._env.workspace
        if command is None:
            return {}
        found = started_code([command, *self._server.args], folder, self._server.env, self._zones)
        program = None
        if os.sep not in command:
            program = shutil.which(os.path.expanduser(command))
        if program and any(Path(program).is_relative_to(zone) for zone in self._zones):
            found.append(Path(program))
        return hashes_of(found)

    def check(self) -> None:
        """Raise ToolError if the files differ from the approved ones."""
        if changed := self._changed(self._look()):
            raise ToolError(self._sentence(changed))

    async def settle(self) -> None:
        """Ask about changed files; raise ToolError if the answer is no."""
        now = self._look()
        changed = self._changed(now)
        if not changed:
            return
        sentence = self._sentence(changed)
        if self._env.check_code is not None:
            self.broken = LockError(
                None, sentence, hint="review the changes, then run: forge lock WORKER --update"
            )
            raise ToolError(sentence)
        if now != self._refused and await self._env.session.agree(self._request(changed)):
            self._known = now
            return
        self._refused = now
        raise ToolError(sentence)

    def ask_again(self) -> None:
        """Ask again about changes that were refused."""
        self._refused = None

    def _changed(self, now: Mapping[Path, str]) -> list[str]:
        """Return the changed, new and deleted files, relative to the working directory."""
        paths = sorted(path for path, _ in {*now.items()} ^ {*self._known.items()})
        folder = self._env.workspace
        # A changed file is in both sets of pairs, so it comes twice.
        names: dict[str, None] = {}
        for path in paths:
            spelled = path.relative_to(folder) if path.is_relative_to(folder) else path
            names[visible(str(spelled))] = None
        return list(names)

    def _sentence(self, changed: list[str]) -> str:
        names = ", ".join(changed[:MAX_NAMED])
        if len(changed) > MAX_NAMED:
            names += f" and {len(changed) - MAX_NAMED} more"
        return f"not started: {names} changed since its first start"

    def _request(self, changed: list[str]) -> AgreeRequest:
        files = cut(", ".join(changed), MAX_SHOWN)
        return AgreeRequest(
            kind="server",
            asker=f"the MCP server {self._name}",
            question=f"start the MCP server {self._name} from changed files: {files}",
            reason="they changed since its first start, and it runs with your rights",
            args={"server": self._name, "changed": list(changed)},
        )
