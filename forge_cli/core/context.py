"""Contexts of calls: the sandbox of a tool, its interrupt, and the ways to report and to delegate."""

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

_CALL: ContextVar[str | None] = ContextVar("call", default=None)


def current_call() -> str | None:
    """The id of the call that is executed here, or that started this task or thread."""
    return _CALL.get()


@contextmanager
def executing(call_id: str) -> Iterator[None]:
    """Inside of this a call is executed."""
    before = _CALL.set(call_id)
    try:
        yield
    finally:
        _CALL.reset(before)


class Delegation(Struct, frozen=True, kw_only=True):
    """A task for a child worker: its file, what it is to do, and its attachments."""

    worker: Path
    input: str
    instructions: str | None = None
    attachments: tuple[Attachment, ...] = ()


class CallContext(Struct, frozen=True, kw_only=True):
    """The facts that a tool's own check may know of a call before anybody has consented to it."""

    call_id: str
    tool: str
    worker: str
    caller: str
    """``model``, ``person``, ``operator``, or ``tool:NAME`` where a tool makes the call."""
    workspace: Path
    sandbox: SandboxView
    """Files as they are: the paths that the call declares can be read, and nothing can be changed yet."""


class InnerCalls(Protocol):
    """The calls that the tool of one call makes itself."""

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolOutcome:
        """Call another tool of the worker, through the same gate."""

    def schema(self, name: str) -> JsonObject | None:
        """The JSON Schema of what a tool is called with; None where there is no such tool."""
        ...


AskPerson = Callable[[str, "JsonObject | type[BaseModel]"], Awaitable[JsonObject | None]]
AnswerT = TypeVar("AnswerT", bound="BaseModel")


@dataclass(frozen=True, kw_only=True, eq=False)
class ToolContext:
    """The facts that a tool may know of the call it serves; a function gets them through a parameter of this type."""

    call_id: str
    tool: str
    worker: str
    workspace: Path
    sandbox: SandboxView
    interrupt: InterruptSignal
    paths: Mapping[str, str] = field(default_factory=dict)
    """The places to which the paths among the args led when the call was judged."""
    stamp: str | None = None
    """The stamp of the preview that was approved; None where nothing was shown."""
    basis: Any = None
    """The findings that the tool's own check put into its Verdict."""
    report: Callable[[str, float | None], None] = field(
        default=lambda message, fraction: None, repr=False
    )
    show: Callable[[str], None] = field(default=lambda text: None, repr=False)
    """Shows what a command has printed last while it runs; for the event loop, and not kept."""
    delegation: Callable[[Delegation], Awaitable[str]] | None = field(default=None, repr=False)
    inner: InnerCalls | None = field(default=None, repr=False)
    """None in a preview, and where no gate is around the tool."""
    questions: AskPerson | None = field(default=None, repr=False)
    """None in a preview, and where no session is around the tool."""

    async def delegate(
        self,
        worker: str | Path,
        input: str,
        *,
        instructions: str | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> str:
        """Give a task to a child worker and wait for its answer; one that fails is a ToolError.

        The child sees nothing but this, and can do nothing that its parent could not.
        """
        if self.delegation is None:
            problem = f"{self.tool} was not called by a running worker, so it cannot delegate"
            raise ToolError(f"{problem}; to have the task done: forge run {worker}")
        task = Delegation(
            worker=Path(worker),
            input=input,
            instructions=instructions,
            attachments=tuple(attachments),
        )
        return await self.delegation(task)

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolOutcome:
        """Call another tool of the worker, through the same gate; a refusal is an outcome as well.

        The outer call's approval does not cover it: it has a verdict of its own, and asks where that says so.
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
        """Ask the person something in the middle of the call, as a form with the fields of a model or a JSON Schema.

        What comes back fits the schema, and is a model where one was given; None where the person declines. With
        no person there it is a ToolError. The usual time limit stands still then; a ``timeout`` of the tool does not.
        """
        if self.questions is None:
            raise ToolError(f"{self.tool} cannot ask anybody here: {question}")
        answer = await self.questions(question, schema)
        if answer is None or isinstance(schema, dict):
            return answer
        return schema.model_validate(answer)

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Report how far the work is; may be called from a thread."""
        self.report(message, fraction)
