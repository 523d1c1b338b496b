"""The handlers of an editor's requests, and the sessions that it has open."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import anyio
from acp import PROTOCOL_VERSION, RequestError, schema
from acp.agent.router import build_agent_router
from anyio import to_thread
from anyio.abc import TaskGroup
from pydantic import ValidationError

from forge_cli import __version__
from forge_cli.apps.acp.asking import LEFT
from forge_cli.apps.acp.channel import CLOSE_TIMEOUT, EditorChannel, EditorClient
from forge_cli.apps.acp.convert import modes_of, options_of
from forge_cli.apps.acp.given import Block, Servers, read_prompt, takes_servers
from forge_cli.apps.acp.session import EditorSession
from forge_cli.core.approval import ApprovalMode
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.errors import ExitCode, ForgeError, ModelError, UsageError
from forge_cli.core.events import CLIENTS
from forge_cli.core.interrupt import Interrupted
from forge_cli.core.text import visible
from forge_cli.core.wire import error_text
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.files.home import forge_home
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import load_worker
from forge_cli.process.client_lines import ClientLines, own_input
from forge_cli.process.signals import interruptible
from forge_cli.process.watchdog import say_fault
from forge_cli.record.log import session_files
from forge_cli.record.overview import Overview, readable_sessions
from forge_cli.sandbox.zones.declared import added_zone

MAX_LISTED = 50
"""Sessions in one answer; the editor asks for more."""


class EditorRequests:
    """The handler of one editor's requests; ``asked`` are the options of the command line."""

    def __init__(self, asked: RunOptions, channel: EditorChannel, tasks: TaskGroup) -> None:
        self._asked = asked
        self._channel = channel
        self._tasks = tasks
        self.live: dict[str, EditorSession] = {}
        self._starting: list[EditorSession] = []
        self._unanswered = 0
        self._answered = anyio.Event()
        self._router = build_agent_router(self, use_unstable_protocol=True)  # type: ignore[arg-type]
        self._editor = EditorClient(channel, self._handle)

    async def serve(self) -> None:
        """Handle requests until the editor leaves; then end its sessions."""
        await self._editor.connection.main_loop()
        self.stop(LEFT)
        for session in (*self.live.values(), *self._starting):
            await session.ended.wait()
        with anyio.move_on_after(CLOSE_TIMEOUT):
            while self._unanswered:  # their sessions have ended, so they end, too
                await self._answered.wait()
        await self._editor.connection.close()

    def stop(self, reason: str) -> None:
        """End every session and stop reading."""
        for session in (*self.live.values(), *self._starting):
            session.stop(reason)
        self._channel.stop()

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Call the package's router, and turn errors into one-sentence messages."""
        self._unanswered += 1
        try:
            return await self._router(method, params, is_notification)
        except (RequestError, ValidationError) as error:
            if not is_notification:
                raise
            sys.stderr.write(f"forge: {visible(method)} is invalid: {visible(error_text(error))}\n")
        except ForgeError as error:
            raise _refusal(error) from None
        except Exception as error:
            # the outermost frame of a request: an error must not end the other requests
            sys.stderr.write(
                f"forge: internal error in {visible(method)}: {visible(error_text(error))}\n"
            )
            raise RequestError.internal_error({"details": error_text(error)}) from None
        finally:
            self._unanswered -= 1
            self._answered.set()
            self._answered = anyio.Event()  # an event cannot be cleared
        return None

    # --- the connection

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        **more: Any,
    ) -> schema.InitializeResponse:
        self._editor.capabilities = client_capabilities or self._editor.capabilities
        worker = load_worker(self._asked.worker)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(
                name="forge", title=f"forge: {worker.name}", version=__version__
            ),
            auth_methods=_auth_methods(missing_keys(self._asked)),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                mcp_capabilities=schema.McpCapabilities(http=takes_servers(worker)),
                prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
        )

    async def authenticate(self, method_id: str, **more: Any) -> schema.AuthenticateResponse:
        """Report whether the key is set by now; the editor sets it in the environment."""
        if keys := missing_keys(self._asked):
            # -32000 is the protocol's code for "authentication required"
            raise RequestError(
                -32000, f"{keys[0]} is not set", {"hint": "set it in the settings of the editor"}
            )
        return schema.AuthenticateResponse()

    # --- sessions

    async def new_session(self, **folder: Any) -> schema.NewSessionResponse:
        session = await self._start(None, **folder)
        return schema.NewSessionResponse(session_id=session.id, **_choices(session))

    async def load_session(self, session_id: str, **folder: Any) -> schema.LoadSessionResponse:
        session = await self._resume(session_id, **folder)
        session.replay()
        return schema.LoadSessionResponse(**_choices(session))

    async def resume_session(self, session_id: str, **folder: Any) -> schema.ResumeSessionResponse:
        session = await self._resume(session_id, **folder)
        return schema.ResumeSessionResponse(**_choices(session))

    async def fork_session(self, session_id: str, **folder: Any) -> schema.ForkSessionResponse:
        session = await self._start(_kept(session_id).stem, fork=True, **folder)
        return schema.ForkSessionResponse(session_id=session.id, **_choices(session))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **more: Any
    ) -> schema.ListSessionsResponse:
        worker = load_worker(self._asked.worker).name
        found = await to_thread.run_sync(lambda: list(_sessions_of(worker, cwd)))
        ids = [seen.session for seen in found]
        if cursor is not None and cursor not in ids:
            raise RequestError.invalid_params({"details": "unknown cursor"})
        first = 0
        if cursor is not None:  # the last session of the page before
            first = ids.index(cursor) + 1
        page = found[first : first + MAX_LISTED]
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=seen.session,
                    cwd=seen.workspace,
                    title=visible(seen.title or seen.task[:80]) or None,
                    updated_at=seen.ended,
                )
                for seen in page
            ],
            next_cursor=page[-1].session if first + MAX_LISTED < len(found) else None,
        )

    async def close_session(self, session_id: str, **more: Any) -> schema.CloseSessionResponse:
        session = self._find(session_id)
        session.stop("closed in the editor")
        await session.ended.wait()
        return schema.CloseSessionResponse()

    # --- work

    async def prompt(
        self, session_id: str, prompt: list[Block], **more: Any
    ) -> schema.PromptResponse:
        session = self._find(session_id)
        text, attachments = read_prompt(prompt, session.asked.workspace)
        result = await session.prompt(text, attachments)
        stop = session.stop_reason(result)
        if result and result.error and result.status == "limit":
            session.say(result.error)
        elif result and not result.success and stop != "cancelled":
            raise RequestError(-32603, result.error or result.status)
        return schema.PromptResponse(stop_reason=stop, usage=_usage(result) if result else None)

    async def cancel(self, session_id: str, **more: Any) -> None:
        self._find(session_id).cancel()

    async def set_session_mode(
        self, session_id: str, mode_id: str, **more: Any
    ) -> schema.SetSessionModeResponse:
        self._find(session_id).set_mode(mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **more: Any
    ) -> schema.SetSessionConfigOptionResponse:
        session = self._find(session_id)
        match config_id, value:
            case "mode", str():
                session.set_mode(value)
            case "model", str():
                await session.set_model(value)
            case _:
                raise UsageError(f"no option '{visible(config_id)}' with this value")
        return schema.SetSessionConfigOptionResponse(config_options=options_of(session.facts))

    # --- finding and starting

    def _find(self, session_id: str) -> EditorSession:
        if session_id not in self.live:
            raise RequestError.resource_not_found(session_id)
        return self.live[session_id]

    def _in_folder(self, cwd: str, more: Sequence[str]) -> RunOptions:
        folder = Path(cwd)
        if not folder.is_absolute() or not folder.is_dir():
            raise UsageError(
                f"the working directory {visible(cwd)} is not the absolute path of a folder"
            )
        zones = (*self._asked.zones, *map(added_zone, more))
        asked = replace(self._asked, workspace=folder.resolve(), zones=zones)
        return replace(asked, mode=asked.mode or _mode_without_flag(asked))

    async def _resume(self, session_id: str, **folder: Any) -> EditorSession:
        if open_already := self.live.get(session_id):
            open_already.stop("loaded again in the editor")
            await open_already.ended.wait()
        return await self._start(_kept(session_id).stem, **folder)

    async def _start(
        self,
        resume: str | None,
        cwd: str,
        additional_directories: Sequence[str] | None = None,
        mcp_servers: Servers | None = None,
        fork: bool = False,
        **more: Any,
    ) -> EditorSession:
        asked = replace(
            self._in_folder(cwd, additional_directories or ()), resume=resume, fork=fork
        )
        session = EditorSession(asked, self._editor, self._tasks, mcp_servers or ())
        self._starting.append(session)
        try:
            await self._tasks.start(session.run)
        except ModelError as error:
            if missing_keys(asked):
                raise RequestError(-32000, str(error)) from None  # authentication required
            raise error from None
        finally:
            self._starting.remove(session)
        self.live[session.id] = session
        self._tasks.start_soon(self._forget, session)
        # in the next step, when the answer to this request is on its way
        asyncio.get_running_loop().call_soon(session.show)
        return session

    async def _forget(self, session: EditorSession) -> None:
        await session.ended.wait()
        with suppress(KeyError):
            del self.live[session.id]


def missing_keys(asked: RunOptions) -> tuple[str, ...]:
    """Return the variables of which the model's provider needs one, if none is set."""
    settings = load_settings(forge_home(), asked.workspace)
    worker = load_worker(asked.worker)
    model = asked.model or worker.config.model or os.environ.get("FORGE_MODEL") or settings.model
    try:
        factory = PluginHost(worker=worker).model(settings.resolve(model or "").partition(":")[0])
    except ForgeError:
        return ()
    return factory.keys if factory.missing() else ()


def _auth_methods(keys: Sequence[str]) -> list[schema.EnvVarAuthMethod | Any]:
    return [
        schema.EnvVarAuthMethod(
            type="env_var",
            id=key,
            name=key,
            description="The key of the model",
            vars=[schema.AuthEnvVar(name=key)],
        )
        for key in keys
    ]


def _choices(session: EditorSession) -> dict[str, Any]:
    """Return the modes and options of an open session."""
    return {"modes": modes_of(session.facts), "config_options": options_of(session.facts)}


def _refusal(error: ForgeError) -> RequestError:
    """Return a user's error as an error of the protocol."""
    code = -32602 if isinstance(error, UsageError) else -32603
    return RequestError(code, str(error), {"exitCode": int(error.exit_code)})


def _kept(session_id: str) -> Path:
    """Return the log of the session with this complete id."""
    path = next((path for path in session_files() if path.stem == session_id), None)
    if path is None:
        raise RequestError.resource_not_found(session_id)
    return path


def _sessions_of(worker: str, cwd: str | None) -> Sequence[Overview]:
    return [
        seen
        for _, seen in readable_sessions()
        if seen.worker == worker and seen.model != CLIENTS and cwd in (None, seen.workspace)
    ]


def _usage(result: WorkerResult) -> schema.Usage:
    usage = result.usage
    return schema.Usage(
        total_tokens=usage.sent_tokens + usage.output_tokens,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_read_tokens=usage.cache_read_tokens,
        cached_write_tokens=usage.cache_write_tokens,
    )


def _mode_without_flag(asked: RunOptions) -> ApprovalMode | None:
    """Return the interactive mode if only the user's config would approve everything.

    An editor can ask its user instead.
    """
    config = load_settings(forge_home(), asked.workspace).approval.mode
    worker = load_worker(asked.worker)
    mode = ApprovalMode.strictest(worker.config.approval.mode, config)
    return ApprovalMode.INTERACTIVE if mode is ApprovalMode.APPROVE_ALL else None


async def serve(asked: RunOptions, out: TextIO) -> ExitCode:
    """Serve until the editor leaves, or until a signal arrives."""
    reasons = list[str]()

    def end(reason: str) -> None:
        reasons.append(reason)
        requests.stop(reason)

    def leave(end: ForcedEnd) -> int:
        """Finish without the event loop, because third-party code blocks the process."""
        for session in requests.live.values():
            session.end_now(end)
        return say_fault(end) if end.fault else end.exit_code

    with own_input() as descriptor:
        async with anyio.create_task_group() as tasks:
            channel = EditorChannel(ClientLines(descriptor, out))
            requests = EditorRequests(asked, channel, tasks)
            with interruptible(end, leave=leave):
                tasks.start_soon(channel.read)
                tasks.start_soon(channel.write)
                await requests.serve()
            tasks.cancel_scope.cancel()  # the writer may wait for an editor that does not read
    return Interrupted(reasons[0]).exit_code if reasons else ExitCode.DONE
