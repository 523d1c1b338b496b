"""A conversation line by line: through a pipe, or on a terminal that cannot move its cursor."""

from __future__ import annotations

import anyio

from forge_cli.ui.chat.drawing import ChatUI
from forge_cli.ui.chat.talk import Talk
from forge_cli.ui.terminal.input import PlainInput

PROMPT = "> "


class PlainLines:
    """Reads a line when everything before it is done."""

    def __init__(self, talk: Talk, ui: ChatUI, *, interactive: bool) -> None:
        self._talk, self._ui, self._interactive = talk, ui, interactive
        self._input = PlainInput()
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Read until the end of input, or until ``end`` is called."""
        with self._scope:
            await self._talk.wait_until_idle()
            while (line := await self._read()) is not None:
                await self._talk.enter(line)
                await self._talk.wait_until_idle()
        if not self._talk.leaving:
            self._talk.leave()

    async def _read(self) -> str | None:
        return await (self._ui.read_line(PROMPT) if self._interactive else self._input.read())

    def hint(self, text: str) -> None:
        if self._interactive:
            self._ui.show(text)

    def clear_input(self) -> bool:
        return False

    def redraw(self) -> None:
        """Nothing stands below the text."""

    def end(self) -> None:
        self._scope.cancel()
