"""An editor for tests: the client of the protocol's own package, and forge as a real process."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import acp
import anyio
from acp import schema, text_block

from forge_cli.testing import Project

from .warm import Warm

Answer = Callable[[Any, list[schema.PermissionOption]], Awaitable[Any]]


@dataclass
class Person(acp.Client):
    """The person at the editor, who answers questions in order and sees the shown text."""

    answers: list[str] = field(default_factory=list)
    """Option ids, or ``cancelled``, ``error``, ``nonsense`` and ``silence``."""
    why: str = "use another name"
    updates: list[tuple[str, Any]] = field(default_factory=list)
    asked: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = field(
        default_factory=list
    )
    order: list[str] = field(default_factory=list)
    """One word for each message from forge, in order."""
    questions: list[str] = field(default_factory=list)
    heard: anyio.Event = field(default_factory=anyio.Event)

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append((session_id, update))
        self.order.append(update.session_update)
        self._news()

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **more: Any,
    ) -> Any:
        self.asked.append((tool_call, options))
        self.order.append("asked")
        self._news()
        match self.answers.pop(0):
            case "cancelled":
                return {"outcome": {"outcome": "cancelled"}}
            case "error":
                raise acp.RequestError.internal_error({"details": "no window"})
            case "nonsense":
                return {"outcome": {"outcome": "selected"}}
            case "silence":
                return await anyio.sleep_forever()
            case answer:
                return {"outcome": {"outcome": "selected", "optionId": answer}}

    async def create_elicitation(self, message: str, mode: Any, **more: Any) -> Any:
        self.questions.append(message)
        return schema.AcceptElicitationResponse(action="accept", content={"why": self.why})

    def _news(self) -> None:
        self.heard.set()
        self.heard = anyio.Event()

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await self.heard.wait()

    def of(self, kind: str, session: str | None = None) -> list[Any]:
        return [
            update
            for id, update in self.updates
            if update.session_update == kind and session in (None, id)
        ]

    def said(self, session: str | None = None) -> str:
        return "".join(update.content.text for update in self.of("agent_message_chunk", session))


@dataclass
class Opened:
    """An editor that has started forge."""

    person: Person
    connection: Any
    process: Any

    async def new(self, project: Project, **more: Any) -> str:
        session = await self.connection.new_session(cwd=str(project.folder), mcp_servers=[], **more)
        return str(session.session_id)

    async def say(self, session: str, *said: Any) -> Any:
        blocks = [text_block(each) if isinstance(each, str) else each for each in said]
        return await self.connection.prompt(session_id=session, prompt=blocks)


@asynccontextmanager
async def editor(
    project: Project,
    warm: Warm,
    *words: str,
    answers: tuple[str, ...] = (),
    elicitation: bool = False,
    env: dict[str, str] | None = None,
) -> AsyncIterator[Opened]:
    """Start ``forge serve acp`` as an editor does; the block may take a minute."""
    person = Person(list(answers))
    known = {**os.environ, "FORGE_HOME": str(project.home), **(env or {})}
    argv = [str(warm.forge), "serve", "acp", *(words or ("worker.yaml",))]
    form = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
    with anyio.fail_after(60):
        async with acp.spawn_agent_process(
            person, *argv, env=known, cwd=str(project.folder), use_unstable_protocol=True
        ) as (connection, process):
            capabilities = schema.ClientCapabilities(elicitation=form if elicitation else None)
            await connection.initialize(protocol_version=1, client_capabilities=capabilities)
            yield Opened(person, connection, process)
