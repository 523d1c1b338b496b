"""One connection to one server for one session: opened, used and closed, with a time limit on everything."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from pydantic import FileUrl

from forge_cli.core.errors import ToolError
from forge_cli.core.notify import Notify, StatusNotice
from forge_cli.core.text import counted, cut, visible
from forge_cli.files.mcp import McpServer
from forge_cli.toolsets.mcp.offer import ServerOffer, ServerTool, all_pages
from forge_cli.toolsets.mcp.request_limits import Callback, RequestLimits
from forge_cli.toolsets.mcp.transports import mended, noticing

if TYPE_CHECKING:
    import mcp_types
    from mcp import Client
    from mcp.client._transport import TransportStreams

T = TypeVar("T")
Progress = Callable[[str, float | None], None]
OpenTransport = Callable[[], "AbstractAsyncContextManager[TransportStreams]"]

TERMINATED = "Session terminated"
"""The words of the SDK for a server that does not know the session of a request, as one that was started again."""
NO_BACK_CHANNEL = "no back-channel"
"""The words of the SDK for a server that asks in the middle of a call, where the protocol has no such requests."""
BACK_OFF, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a server is started again, doubled as long as it cannot be connected to."""
STARTS, PERIOD = 10, 60.0
"""How often it is started in so many seconds, at most."""


class Unreachable(Exception):
    """The server cannot be connected to; the sentence says why."""


class ConnectionLost(Exception):
    """The connection was lost before an answer came; ``refused`` says that the server took nothing over it."""

    def __init__(self, *, refused: bool) -> None:
        self.refused = refused


class Connection:
    """A server; ``own`` has to run in a task of its own, which opens and closes the connection."""

    def __init__(
        self,
        name: str,
        server: McpServer,
        *,
        transport: OpenTransport,
        roots: Callable[[], list[str]],
        log: Callable[[str], None],
        tell: Notify,
        keep: Callable[[ServerOffer], None],
        settle: Callable[[], Awaitable[None]] | None = None,
        sample: Callback | None = None,
        elicit: Callback | None = None,
    ) -> None:
        """``keep`` gets what it offers, whenever that changes. ``settle`` raises a ToolError if it must not be started.

        ``sample`` and ``elicit`` answer its requests of that kind; without them it is told that there are none.
        """
        self.name = name
        self.server = server
        self.offer = ServerOffer()
        self.prompts: list[mcp_types.Prompt] = []
        self.needs_login = False
        """Whether it was refused because the user has not logged in."""
        self.forbidden = ""
        """The rights that it wanted for a request that it did not carry out."""
        self.off = False
        """Whether the person has turned it off."""
        self.changed = False
        """Whether the server has said that its tools are others now."""
        self.failure: str | None = None
        self._failure_before: str | None = None
        self.last_words = ""
        """The end of what it wrote to standard error."""
        self.connecting = self.latency = 0.0
        """Seconds until it was connected, and until it had listed its tools after that."""
        self._transport = transport
        self._roots = roots
        self._log = log
        self._tell = tell
        self._keep = keep
        self._settle = settle
        self._refused = ""
        """Why it was not started, as it was told."""
        self._settling = False
        """Whether a person is perhaps being asked."""
        self._decided = anyio.Event()
        """Set once it is connected, or was refused."""
        self._sample = sample
        self._elicit = elicit
        self._limits = RequestLimits(server.timeout)
        self._client: Client | None = None
        self._settled = anyio.Event()
        self._ready = anyio.Event()
        """Set as long as it is connected, with its tools listed."""
        self._wake = anyio.Event()
        self._closing = self._wanted = False
        self._opening: asyncio.Timeout | None = None
        """The time limit of a connection that is being made."""
        self.ended = anyio.Event()
        """Set once it is closed for good."""

    @property
    def connected(self) -> bool:
        return self._ready.is_set()

    @property
    def why_not(self) -> str:
        """Why it is not connected, also while that is tried again."""
        return self.failure or self._failure_before or "it is being started"

    def describe(self) -> str:
        """How it is with the server, in one line."""
        if self.off:
            return f"{self.name}: off"
        connected = f"connected, {counted(len(self.offer.tools), 'tool')}"
        return f"{self.name}: {connected if self.connected else f'not connected: {visible(self.why_not)}'}"

    @property
    def protocol(self) -> str:
        return self._client.protocol_version if self._client else ""

    async def own(self) -> None:
        """Connect, and connect again whenever the connection is lost or cannot be made, until it is closed."""
        try:
            await self._stay_connected()
        finally:
            self._settled.set()
            self.ended.set()

    async def _stay_connected(self) -> None:
        starts: deque[float] = deque(maxlen=STARTS)
        failed, lost = 0, False
        while not self._closing:
            if self.off:
                self._wake = anyio.Event()
                await self._wake.wait()
                continue
            starts.append(anyio.current_time())
            self._wanted = False
            was_connected = await self._connect(again=lost)
            if self._closing or self.off or self._wanted:
                failed, lost = 0, False
                continue
            self._settled.set()
            if was_connected:
                lost = True
                problem = f"the MCP server {self.name} is not there: {self.failure}{self._quote()}; it is started again"
                self._tell("warning", StatusNotice(problem, "server", urgent=True))
            failed = 0 if was_connected else failed + 1
            pause = min(BACK_OFF * 2 ** min(failed, 10), LONGEST_PAUSE)
            if len(starts) == STARTS:
                pause = max(pause, starts[0] + PERIOD - anyio.current_time())
            self._wake = anyio.Event()
            with anyio.move_on_after(pause):
                await self._wake.wait()

    async def _connect(self, *, again: bool) -> bool:
        """Connect, and stay so until the connection is lost or closed; returns whether it was connected at all."""
        self._failure_before = self.failure or self._failure_before
        self._wake, self.failure, self.last_words, self.needs_login = anyio.Event(), None, "", False
        was_connected = False
        try:
            await self._check_start()
            async with AsyncExitStack() as stack:
                await self._open(stack)
                was_connected = True
                self._ready.set()
                self._decided.set()
                self._settled.set()
                if again:
                    self._tell(
                        "info", StatusNotice(f"the MCP server {self.name} is there again", "server")
                    )
                await self._wake.wait()
        except Unreachable as error:
            self.failure = str(error)
        except Exception as error:  # anything the SDK raises while a broken connection is closed
            self.failure = self.failure or first_line(error)
        self._drop()
        return was_connected

    async def _check_start(self) -> None:
        """See to it that it may be started; a person who is asked has all the time until it is closed."""
        if self._settle is None:
            return
        problem, self._settling = "", True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_after, self._wake, tasks.cancel_scope)
            try:
                await self._settle()
            except ToolError as error:
                problem = str(error)
            tasks.cancel_scope.cancel()
        self._settling = False
        if problem and problem != self._refused:
            self._tell(
                "warning",
                StatusNotice(f"the MCP server {self.name}: {problem}", "server", urgent=True),
            )
        self._refused = problem
        if problem:
            self._decided.set()
        if problem or self._wake.is_set():
            raise Unreachable(problem or "it was closed before it was started")

    def _drop(self) -> None:
        self._client = None
        if self._ready.is_set():
            self._ready = anyio.Event()
        if self._decided.is_set():
            self._decided = anyio.Event()

    async def settled(self) -> None:
        """Wait until it is connected, or is known not to be."""
        await self._settled.wait()

    def remember(self, offer: ServerOffer | None, otherwise: str) -> None:
        """Offer what is known from before, in the place of connecting to it; ``otherwise`` is why it offers nothing."""
        self.offer, self.failure = offer or self.offer, None if offer else otherwise
        self._settled.set()
        self.ended.set()

    def close(self) -> None:
        self._closing = True
        self._disconnect()

    def _disconnect(self) -> None:
        """End the connection, or the attempt to make one, which a server that says nothing would hold for long."""
        self._wake.set()
        if self._opening and not self._opening.expired():
            self._opening.reschedule(anyio.current_time())

    def turn_off(self) -> None:
        """Close it, and leave it closed until it is to be connected to again."""
        self.off, self.failure = True, None
        self._drop()
        self._disconnect()

    async def reconnect(self) -> None:
        """Connect to it again, whether or not it is connected, and wait for the result."""
        self.off, self._wanted, self._settled = False, True, anyio.Event()
        self._drop()
        self._disconnect()
        await self._settled.wait()

    def lost(self, why: str) -> None:
        """The connection is of no use any more."""
        if not self._closing and not self.off:
            self.failure = self.failure or why
            self._drop()
            self._wake.set()

    async def refresh(self) -> None:
        """Ask again for the tools, where the server has said that they changed."""
        if self.changed and self._client:
            self.changed = False
            with (
                suppress(Exception),
                anyio.fail_after(self.server.connect_timeout),
            ):  # the tools that were there stay
                await self._look(self._client)

    async def call(
        self, tool: str, args: dict[str, Any], report: Progress
    ) -> mcp_types.CallToolResult:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            text = message or f"{progress:g}{f' of {total:g}' if total else ''}"
            report(visible(cut(text, 300, "end")), progress / total if total else None)

        return await self._ask(lambda client: client.call_tool(tool, args, progress_callback=tell))

    async def list_resources(self) -> list[mcp_types.Resource]:
        return await self._ask(
            lambda client: all_pages(lambda at: client.list_resources(cursor=at), "resources")
        )

    async def read_resource(self, uri: str) -> mcp_types.ReadResourceResult:
        return await self._ask(lambda client: client.read_resource(uri))

    async def get_prompt(self, name: str, args: dict[str, str]) -> mcp_types.GetPromptResult:
        return await self._ask(lambda client: client.get_prompt(name, args))

    async def _ask(self, request: Callable[[Client], Awaitable[T]]) -> T:
        """Ask the server for something; every failure is a ToolError that names the server.

        What could not be sent before the connection was lost is sent over the next one.
        """
        for _ in range(2):
            client = await self._when_ready()
            with noticing() as sent:
                self.forbidden = ""
                try:
                    return await self._within_limit(request(client))
                except (ConnectionLost, ToolError) as lost:
                    if self.forbidden:
                        problem = f"did not carry out the call: it {self.forbidden}"
                        raise ToolError(f"the MCP server {self.name} {problem}") from None
                    if isinstance(lost, ToolError):
                        raise
                    if self._client is client:
                        self.lost("the connection was closed")
                    if sent.is_set() and not lost.refused:
                        problem = f"ended the connection{self._quote()}; the call may have been carried out"
                        raise ToolError(f"the MCP server {self.name} {problem}") from None
        raise ToolError(
            f"the MCP server {self.name} ended the connection{self._quote()}; nothing was sent to it"
        )

    async def _when_ready(self) -> Client:
        """The connection, which is waited for where the server is being started again."""
        if self.off:
            raise ToolError(f"the MCP server {self.name} is turned off")
        while (
            self._client is None and not self._refused
        ):  # it may be lost again before a waiting task gets a turn
            with anyio.move_on_after(self.server.connect_timeout) as waiting:
                await self._decided.wait()
            if waiting.cancelled_caught and not self._settling:
                break
        if self._client is None:
            raise ToolError(
                f"the MCP server {self.name} is not connected, and nothing was sent to it: {self.why_not}"
            )
        return self._client

    async def _within_limit(self, answer: Awaitable[T]) -> T:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, PARSE_ERROR

        try:
            with self._limits.started():
                return await answer
        except TimeoutError:
            raise ToolError(
                f"the MCP server {self.name} did not answer within {self.server.timeout:g} s"
            ) from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or error.message == TERMINATED:
                raise ConnectionLost(refused=error.message == TERMINATED) from None
            problem = (
                "gave an answer that is invalid"
                if error.code == PARSE_ERROR
                else "refused the call"
            )
            remedy = (
                "; 'protocol: legacy' in its definition lets it ask"
                if NO_BACK_CHANNEL in error.message
                else ""
            )
            raise ToolError(
                f"the MCP server {self.name} {problem}: {_one_line(error.message)}{remedy}"
            ) from None
        except Exception as error:  # an answer that is not what it has to be
            problem = (
                f"the MCP server {self.name} gave an answer that is invalid: {first_line(error)}"
            )
            raise ToolError(problem) from None

    async def _open(self, stack: AsyncExitStack) -> None:
        from mcp import Client, MCPError
        from mcp_types import Implementation, ListRootsResult, Root

        async def list_roots(context: Any) -> ListRootsResult:
            return ListRootsResult(roots=[Root(uri=FileUrl(uri)) for uri in self._roots()])

        async def hear(message: Any) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                self.changed = True

        async def log(params: mcp_types.LoggingMessageNotificationParams) -> None:
            self._log(f"{params.level}: {_one_line(str(params.data))}")

        client = Client(
            mended(self._transport(), lambda: client.protocol_version),
            list_roots_callback=list_roots,
            sampling_callback=self._limits.stopped(self._sample),
            elicitation_callback=self._limits.stopped(self._elicit),
            message_handler=hear,
            logging_callback=log,
            log_level="info",
            client_info=Implementation(name="forge", version="1"),
            mode=self.server.protocol,
        )
        started = time.monotonic()
        try:
            # not a cancel scope: what is opened in one cannot stay open
            async with asyncio.timeout(self.server.connect_timeout) as self._opening:
                await stack.enter_async_context(client)
                self.connecting = time.monotonic() - started
                tasks = await stack.enter_async_context(anyio.create_task_group())
                stack.callback(tasks.cancel_scope.cancel)
                tasks.start_soon(self._listen, client)
                await self._look(client)
                self.latency = time.monotonic() - started - self.connecting
                if client.server_capabilities.prompts is not None:
                    with suppress(
                        MCPError, ValueError
                    ):  # a server that cannot list prompts has none
                        self.prompts = await all_pages(
                            lambda at: client.list_prompts(cursor=at), "prompts"
                        )
                self._client = client
        except TimeoutError:
            problem = f"it did not answer within {self.server.connect_timeout:g} s"
            raise self._fail(f"{problem}{self._quote()}") from None
        except (ToolError, Unreachable) as error:
            raise self._fail(str(error)) from None
        except Exception as error:
            place = f"{visible(self.server.url)}: " if self.server.url else ""
            wish = f"it {self.forbidden}" if self.forbidden else ""
            raise self._fail(
                f"{place}{wish or self.failure or first_line(error)}{self._quote()}"
            ) from None
        finally:
            self._opening = None

    async def _listen(self, client: Client) -> None:
        """Hear that its tools change: since protocol 2026-07-28, a server tells only those who listen for it."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        tools = client.server_capabilities.tools
        with suppress(ListenNotSupportedError):
            while tools and tools.list_changed:
                next_time = anyio.current_time() + LONGEST_PAUSE
                with suppress(SubscriptionLost, MCPError, TimeoutError):
                    async with client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            self.changed = True
                await anyio.sleep_until(next_time)
                self.changed = True

    def _fail(self, why: str) -> Unreachable:
        """Keep why it could not be opened: what closing it brings, such as the end of its process, is not a reason."""
        self.failure = why
        return Unreachable(why)

    def _quote(self) -> str:
        lines = self.last_words.strip().splitlines()
        return f"; its last words: {_one_line(lines[-1])}" if lines else ""

    async def _look(self, client: Client) -> None:
        """Ask for what it offers, and keep that."""
        has, tools = client.server_capabilities, []
        if has.tools is not None:
            tools = await all_pages(
                lambda at: client.list_tools(cursor=at, cache_mode="refresh"), "tools"
            )
        told = tuple(ServerTool.of(tool, self.server.identity) for tool in tools)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.offer = ServerOffer(told, client.instructions, has.resources is not None, now)
        self._keep(self.offer)


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def first_line(error: BaseException) -> str:
    """The error in one line; of a group, the first of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return _one_line(str(error) or type(error).__name__)


def _one_line(text: str) -> str:
    return visible(cut(" ".join(text.split()), 300, "end"))
