"""Contexts of calls: facts for the tool, and its means to report, delegate and ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.core.wire import JsonObject

if TYPE_CHECKING:
    from pydantic import BaseModel

    from forge_cli.core.calls import ToolOutcome
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.core.messages import Attachment
    from forge_cli.core.sandbox import SandboxView
    from forge_cli.core.trial import CommandTried

_CALL: ContextVar[str | None] = ContextVar("call", default=None)


def current_call() -> str | None:
    """Return the id of the call that runs here, or that started this task or thread."""
    return _CALL.get()


@contextmanager
def executing(call_id: str) -> Iterator[None]:
    """Mark the code inside as part of a call."""
    before = _CALL.set(call_id)
    try:
        yield
    finally:
        _CALL.reset(before)


class Delegation(Struct, frozen=True, kw_only=True):
    """A task for a child worker."""

    worker: Path
    input: str
    instructions: str | None = None
    attachments: tuple[Attachment, ...] = ()


class CallContext(Struct, frozen=True, kw_only=True):
    """The facts about a call that a tool's own check gets before consent."""

    call_id: str
    tool: str
    worker: str
    caller: str
    """``model``, ``person``, ``operator``, or ``tool:NAME`` if a tool makes the call."""
    workspace: Path
    sandbox: SandboxView
    """The current files; declared paths can be read, and nothing can be changed yet."""


class InnerCalls(Protocol):
    """Calls that a tool makes itself while it runs."""

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolOutcome:
        """Call another tool of the worker through the same gate."""

    def schema(self, name: str) -> JsonObject | None:
        """Return the JSON Schema of a tool's args; None for an unknown tool."""
        ...


AskPerson = Callable[[str, "JsonObject | type[BaseModel]"], Awaitable[JsonObject | None]]
AnswerT = TypeVar("AnswerT", bound="BaseModel")


@dataclass(frozen=True, kw_only=True, eq=False)
class ToolContext:
    """The facts about a call for its tool, and its means to report, delegate and ask.

    A function receives it through a parameter of this type.
    """

    call_id: str
    tool: str
    worker: str
    workspace: Path
    sandbox: SandboxView
    interrupt: InterruptSignal
    paths: Mapping[str, str] = field(default_factory=dict)
    """The resolved form of each declared path among the args, as the gate judged it."""
    stamp: str | None = None
    """The stamp of the approved preview; None if nothing was shown."""
    basis: Any = None
    """Findings that the tool's own check put into its verdict."""
    report: Callable[[str, float | None], None] = field(
        default=lambda message, fraction: None, repr=False
    )
    show: Callable[[str], None] = field(default=lambda text: None, repr=False)
    """Show the latest output of a running command; call it in the event loop only. Not recorded."""
    applied: Callable[[CommandTried], None] = field(default=lambda tried: None, repr=False)
    """Records what a command on a copy changed and forge applied; for forge's own tools."""
    delegation: Callable[[Delegation], Awaitable[str]] | None = field(default=None, repr=False)
    inner: InnerCalls | None = field(default=None, repr=False)
    """None in a preview and outside of a gate."""
    questions: AskPerson | None = field(default=None, repr=False)
    """None in a preview and outside of a session."""

    async def delegate(
        self,
        worker: str | Path,
        input: str,
        *,
        instructions: str | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> str:
        """Give a task to a child worker and return its answer; raise ToolError if it fails.

        The child sees nothing else, and can do nothing that its parent cannot do.
        """
        if self.delegation is None:
            problem = f"{self.tool} was not called by a running worker, so it cannot delegate"
            raise ToolError(f"{problem}; to do the task, run: forge run {worker}")
        task = Delegation(
            worker=Path(worker),
            input=input,
            instructions=instructions,
            attachments=tuple(attachments),
        )
        return await self.delegation(task)

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolOutcome:
        """Call another tool of the worker through the same gate; a refusal is an outcome as well.

        The approval of the outer call does not cover it: it has its own verdict, and may ask.
        """
        if self.inner is None:
            raise ToolError(f"{self.tool} cannot call other tools here")
        return await self.inner.call(name, args)

    @overload
    async def ask(self, question: str, schema: type[AnswerT]) -> AnswerT | None: ...
    @overload
    async def ask(self, question: str, schema: JsonObject) -> JsonObject | None: ...
    async def ask(
        self, question: str, schema: type[BaseModel] | JsonObject
    ) -> BaseModel | JsonObject | None:
        """Ask the person during the call, with a form for a model or a JSON Schema.

        Return the valid answer, as a model if ``schema`` is one; None if the person declines. Raise
        ToolError if no person can be asked. The usual time limit is paused meanwhile, but not a
        ``timeout`` of the tool itself.
        """
        if self.questions is None:
            raise ToolError(f"{self.tool} cannot ask anybody here: {question}")
        answer = await self.questions(question, schema)
        if answer is None or isinstance(schema, dict):
            return answer
        return schema.model_validate(answer)

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Report the progress of the work; may be called from a thread."""
        self.report(message, fraction)
