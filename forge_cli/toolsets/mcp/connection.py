"""A connection to an MCP server for one session, with a time limit for every step."""

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
"""The SDK's message for an unknown session, for example after the server was restarted."""
NO_BACK_CHANNEL = "no back-channel"
"""The SDK's message if a server sends a request during a call, but the protocol has none."""
FIRST_PAUSE, MAX_PAUSE = 0.5, 60.0
"""Seconds before a restart, doubled after each failure, and their maximum."""
MAX_STARTS, PERIOD = 10, 60.0
"""The maximum number of starts in a period of seconds."""


class Unreachable(Exception):
    """Raised if a server cannot be connected to; the message is the reason."""


class ConnectionLost(Exception):
    """Raised if the connection was lost before the answer.

    ``refused`` is True if the server has not processed the request.
    """

    def __init__(self, *, refused: bool) -> None:
        self.refused = refused


class Connection:
    """A connection to a server; ``own`` opens and closes it, in a task of its own."""

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
        """Prepare a connection without opening it.

        ``keep`` is called with the server's offer whenever it changes. ``settle`` raises ToolError
        if the server must not be started. ``sample`` and ``elicit`` answer its requests; if None,
        the server is told that they are not supported.
        """
        self.name = name
        self.server = server
        self.offer = ServerOffer()
        self.prompts: list[mcp_types.Prompt] = []
        self.needs_login = False
        """True if the server refused the connection because the user has not logged in."""
        self.forbidden = ""
        """The rights that the server asked for when it refused a request."""
        self.off = False
        """True if the person has turned the server off."""
        self.changed = False
        """True if the server has announced that its tools changed."""
        self.failure: str | None = None
        self._failure_before: str | None = None
        self.last_words = ""
        """The end of the server's standard error."""
        self.connecting = self.latency = 0.0
        """Seconds until the connection was open, and from then until the tools were listed."""
        self._transport = transport
        self._roots = roots
        self._log = log
        self._tell = tell
        self._keep = keep
        self._settle = settle
        self._refused = ""
        """The last reported reason for not starting the server."""
        self._settling = False
        """True while a person may be asked about starting the server."""
        self._decided = anyio.Event()
        """Set when the server is connected or was refused."""
        self._sample = sample
        self._elicit = elicit
        self._limits = RequestLimits(server.timeout)
        self._client: Client | None = None
        self._settled = anyio.Event()
        self._ready = anyio.Event()
        """Set while the server is connected and its tools are listed."""
        self._wake = anyio.Event()
        self._closing = self._wanted = False
        self._opening: asyncio.Timeout | None = None
        """The time limit of the connection attempt."""
        self.ended = anyio.Event()
        """Set when the connection is closed for good."""

    @property
    def connected(self) -> bool:
        return self._ready.is_set()

    @property
    def why_not(self) -> str:
        """Why the server is not connected, also during the next attempt."""
        return self.failure or self._failure_before or "starting"

    def describe(self) -> str:
        """Describe the state of the server in one line."""
        if self.off:
            return f"{self.name}: off"
        if not self.connected:
            return f"{self.name}: not connected: {visible(self.why_not)}"
        return f"{self.name}: connected, {counted(len(self.offer.tools), 'tool')}"

    @property
    def protocol(self) -> str:
        return self._client.protocol_version if self._client else ""

    async def own(self) -> None:
        """Connect, and reconnect after every loss or failure, until ``close`` is called."""
        try:
            await self._stay_connected()
        finally:
            self._settled.set()
            self.ended.set()

    async def _stay_connected(self) -> None:
        starts: deque[float] = deque(maxlen=MAX_STARTS)
        failed = 0
        lost = False
        while not self._closing:
            if self.off:
                self._wake = anyio.Event()
                await self._wake.wait()
                continue
            starts.append(anyio.current_time())
            self._wanted = False
            was_connected = await self._connect(again=lost)
            if self._closing or self.off or self._wanted:
                failed = 0
                lost = False
                continue
            self._settled.set()
            if was_connected:
                lost = True
                why = f"{self.failure}{self._quote()}"
                problem = f"MCP server {self.name} disconnected: {why}; restarting it"
                self._tell("warning", StatusNotice(problem, "server", urgent=True))
            failed = 0 if was_connected else failed + 1
            # The exponent is limited, because a server may fail for days.
            pause = min(FIRST_PAUSE * 2 ** min(failed, 10), MAX_PAUSE)
            if len(starts) == MAX_STARTS:
                pause = max(pause, starts[0] + PERIOD - anyio.current_time())
            self._wake = anyio.Event()
            with anyio.move_on_after(pause):
                await self._wake.wait()

    async def _connect(self, *, again: bool) -> bool:
        """Connect and wait until the connection ends; return True if it was established."""
        self._failure_before = self.failure or self._failure_before
        self._wake = anyio.Event()
        self.failure = None
        self.last_words = ""
        self.needs_login = False
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
                        "info", StatusNotice(f"MCP server {self.name} reconnected", "server")
                    )
                await self._wake.wait()
        except Unreachable as error:
            self.failure = str(error)
        except Exception as error:  # the SDK may raise anything while it closes a broken connection
            self.failure = self.failure or first_line(error)
        self._drop()
        return was_connected

    async def _check_start(self) -> None:
        """Ask whether the server may be started; raise Unreachable if not."""
        if self._settle is None:
            return
        problem = ""
        self._settling = True
        async with anyio.create_task_group() as tasks:
            # The session may be closed while a person is asked.
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
                StatusNotice(f"MCP server {self.name}: {problem}", "server", urgent=True),
            )
        self._refused = problem
        if problem:
            self._decided.set()
        if problem or self._wake.is_set():
            raise Unreachable(problem or "closed before it was started")

    def _drop(self) -> None:
        self._client = None
        if self._ready.is_set():
            self._ready = anyio.Event()
        if self._decided.is_set():
            self._decided = anyio.Event()

    async def settled(self) -> None:
        """Wait until the server is connected, or the attempt has failed."""
        await self._settled.wait()

    def remember(self, offer: ServerOffer | None, otherwise: str) -> None:
        """Use an earlier offer instead of connecting; ``otherwise`` explains a missing one."""
        if offer is None:
            self.failure = otherwise
        else:
            self.offer = offer
            self.failure = None
        self._settled.set()
        self.ended.set()

    def close(self) -> None:
        self._closing = True
        self._disconnect()

    def _disconnect(self) -> None:
        """End the connection or the current attempt, which a silent server would delay."""
        self._wake.set()
        if self._opening and not self._opening.expired():
            self._opening.reschedule(anyio.current_time())

    def turn_off(self) -> None:
        """Close the connection until ``reconnect`` is called."""
        self.off = True
        self.failure = None
        self._drop()
        self._disconnect()

    async def reconnect(self) -> None:
        """Close the connection, open it again, and wait for the result."""
        self.off = False
        self._wanted = True
        self._settled = anyio.Event()
        self._drop()
        self._disconnect()
        await self._settled.wait()

    def lost(self, why: str) -> None:
        """Mark the connection as lost."""
        if not self._closing and not self.off:
            self.failure = self.failure or why
            self._drop()
            self._wake.set()

    async def refresh(self) -> None:
        """List the tools again if the server has announced a change."""
        if self.changed and self._client:
            self.changed = False
            # If it fails, the tools that are known stay.
            with suppress(Exception), anyio.fail_after(self.server.connect_timeout):
                await self._look(self._client)

    async def call(
        self, tool: str, args: dict[str, Any], report: Progress
    ) -> mcp_types.CallToolResult:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            fraction = progress / total if total else None
            text = message
            if not text:
                text = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            report(visible(cut(text, 300, "end")), fraction)

        return await self._ask(
            lambda client: client.call_tool(tool, args, progress_callback=on_progress)
        )

    async def list_resources(self) -> list[mcp_types.Resource]:
        return await self._ask(
            lambda client: all_pages(lambda at: client.list_resources(cursor=at), "resources")
        )

    async def read_resource(self, uri: str) -> mcp_types.ReadResourceResult:
        return await self._ask(lambda client: client.read_resource(uri))

    async def get_prompt(self, name: str, args: dict[str, str]) -> mcp_types.GetPromptResult:
        return await self._ask(lambda client: client.get_prompt(name, args))

    async def _ask(self, request: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request; every failure is a ToolError that names the server.

        A request that was not sent before the connection was lost is sent once more.
        """
        for _ in range(2):
            client = await self._when_ready()
            with noticing() as sent:
                self.forbidden = ""
                try:
                    return await self._within_limit(request(client))
                except (ConnectionLost, ToolError) as lost:
                    if self.forbidden:
                        problem = f"refused the call: it {self.forbidden}"
                        raise ToolError(f"MCP server {self.name} {problem}") from None
                    if isinstance(lost, ToolError):
                        raise
                    if self._client is client:
                        self.lost("the connection was closed")
                    if sent.is_set() and not lost.refused:
                        problem = f"ended the connection{self._quote()}; the call may have run"
                        raise ToolError(f"MCP server {self.name} {problem}") from None
        raise ToolError(
            f"MCP server {self.name} ended the connection{self._quote()}; nothing was sent"
        )

    async def _when_ready(self) -> Client:
        """Return the client, waiting for a restart if needed."""
        if self.off:
            raise ToolError(f"MCP server {self.name} is turned off")
        # A loop, because the connection may be lost again before this task continues.
        while self._client is None and not self._refused:
            with anyio.move_on_after(self.server.connect_timeout) as waiting:
                await self._decided.wait()
            if waiting.cancelled_caught and not self._settling:
                break
        if self._client is None:
            raise ToolError(
                f"MCP server {self.name} is not connected, so nothing was sent: {self.why_not}"
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
                f"MCP server {self.name} did not answer within {self.server.timeout:g} s"
            ) from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or error.message == TERMINATED:
                raise ConnectionLost(refused=error.message == TERMINATED) from None
            is_invalid = error.code == PARSE_ERROR
            problem = "sent an invalid answer" if is_invalid else "refused the call"
            message = f"MCP server {self.name} {problem}: {_one_line(error.message)}"
            if NO_BACK_CHANNEL in error.message:
                message += "; set 'protocol: legacy' in its definition to let it ask"
            raise ToolError(message) from None
        except Exception as error:  # the SDK reports an invalid answer in many ways
            problem = f"MCP server {self.name} sent an invalid answer: {first_line(error)}"
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
            # Not a cancel scope of anyio, because contexts opened in it could not stay open.
            async with asyncio.timeout(self.server.connect_timeout) as self._opening:
                await stack.enter_async_context(client)
                self.connecting = time.monotonic() - started
                tasks = await stack.enter_async_context(anyio.create_task_group())
                stack.callback(tasks.cancel_scope.cancel)
                tasks.start_soon(self._listen, client)
                await self._look(client)
                self.latency = time.monotonic() - started - self.connecting
                if client.server_capabilities.prompts is not None:
                    # A server that cannot list its prompts is treated as having none.
                    with suppress(MCPError, ValueError):
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
            why = self.failure or first_line(error)
            if self.forbidden:
                why = f"it {self.forbidden}"
            if self.server.url:
                why = f"{visible(self.server.url)}: {why}"
            raise self._fail(f"{why}{self._quote()}") from None
        finally:
            self._opening = None

    async def _listen(self, client: Client) -> None:
        """Listen for changes of the tools, as servers since protocol 2026-07-28 expect."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        tools = client.server_capabilities.tools
        with suppress(ListenNotSupportedError):
            while tools and tools.list_changed:
                # A server that ends every subscription at once gets one a minute.
                next_time = anyio.current_time() + MAX_PAUSE
                with suppress(SubscriptionLost, MCPError, TimeoutError):
                    async with client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            self.changed = True
                await anyio.sleep_until(next_time)
                self.changed = True  # changes in between were not reported

    def _fail(self, why: str) -> Unreachable:
        """Record why the connection failed, because closing it may raise a less useful error."""
        self.failure = why
        return Unreachable(why)

    def _quote(self) -> str:
        lines = self.last_words.strip().splitlines()
        return f"; its last output: {_one_line(lines[-1])}" if lines else ""

    async def _look(self, client: Client) -> None:
        """List the tools of the server, and keep them with its instructions."""
        has = client.server_capabilities
        tools: list[mcp_types.Tool] = []
        if has.tools is not None:
            tools = await all_pages(
                lambda at: client.list_tools(cursor=at, cache_mode="refresh"), "tools"
            )
        described = tuple(ServerTool.of(tool, self.server.identity) for tool in tools)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.offer = ServerOffer(described, client.instructions, has.resources is not None, now)
        self._keep(self.offer)


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def first_line(error: BaseException) -> str:
    """Return the message of an error, or of the first one in a group, as one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return _one_line(str(error) or type(error).__name__)


def _one_line(text: str) -> str:
    return visible(cut(" ".join(text.split()), 300, "end"))
