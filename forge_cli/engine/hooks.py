"""Hooks of the user, which can make a verdict stricter.

Each runs within its time, and its answer is recorded.

The hooks in the user's own config run as the user; those of a project are confined like the
worker's commands.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import Approval, ApprovalDecision, ApprovalRequest, Verdict
from forge_cli.core.bounds import call_within, fault_text
from forge_cli.core.bus import EventBus
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.errors import ExitCode, ForgeError, Mark, StatusLevel, ToolError, WorkerError
from forge_cli.core.events import StatusEvent
from forge_cli.core.observers import HookAnswer, HookCall, Observer
from forge_cli.core.processes import Finished
from forge_cli.core.source import HookName
from forge_cli.core.text import counted, cut, did_you_mean, nearest, readable, visible
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.engine.gate.execution import perform_within
from forge_cli.engine.gate.steps import Judged
from forge_cli.files.settings import HookConfig
from forge_cli.files.trust import TrustStore
from forge_cli.record.line import Line
from forge_cli.sandbox.worker_processes import WorkerProcesses

if TYPE_CHECKING:
    from forge_cli.engine.gate.protocols import Given
    from forge_cli.engine.plugins.host import PluginHost

TIMEOUT = 10.0
"""Seconds that a hook may take."""
MAX_OUTPUT = 64 * 1024
"""The most characters that a hook may print."""
MAX_NOTE = 1000
"""The most characters of a hook's note that are recorded."""
BLOCK_EXIT_CODE = 2
"""The exit code that blocks a call."""
MAX_KEY = 50
"""The most characters of an unknown key in a message."""
MAX_KEYS = 3
"""The most unknown keys that a message names."""
_KEYS = ("verdict", "note")
_FOREIGN_KEYS = {
    "decision": "verdict",
    "permissiondecision": "verdict",
    "action": "verdict",
    "result": "verdict",
    "reason": "note",
    "message": "note",
    "permissiondecisionreason": "note",
    "why": "note",
}
"""Keys that hooks of other tools use, with ours for the same."""
NO_REASON = "it gives no reason"
_SHAPE = '{"verdict": "ask"|"blocked", "note": "..."}'


class HookFailed(Exception):
    """A hook gave no valid answer; the message contains the reason."""


class HookResult(Struct, frozen=True):
    """The result of one hook: an answer, or the reason why there is none."""

    answer: HookAnswer
    failure: str | None = None


def read_finished(done: Finished) -> HookAnswer:
    """Return the answer of a command by its exit code and output.

    Raise HookFailed if the answer is invalid.
    """
    if done.timed_out:
        raise HookFailed(f"it did not end within {counted(TIMEOUT, 'second')}")
    if done.exit_code == BLOCK_EXIT_CODE:
        return HookAnswer("blocked", _readable_note(done.stderr))
    if done.exit_code != 0:
        problem = f"it ended with signal {done.signal}"
        if done.signal is None:
            problem = f"it ended with exit code {done.exit_code}"
        words = _readable_note(done.stderr)
        raise HookFailed(f"{problem}: {words}" if words else problem)
    text = done.stdout.strip()
    if done.truncated or len(text) > MAX_OUTPUT:
        raise HookFailed(f"it printed more than {MAX_OUTPUT // 1024} KiB")
    return HookAnswer() if not text else _read_json(text)


def _read_json(text: str) -> HookAnswer:
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return checked(said)
    unknown = _unknown_keys(said)
    if unknown and said.get("verdict") is None:
        raise HookFailed(f"it did not answer with {_SHAPE}: {unknown}")
    answer = checked(HookAnswer(said.get("verdict"), said.get("note")))
    if unknown:
        # A verdict counts in spite of unknown keys: a typing error must not let a call through.
        return replace(answer, note=_readable_note("; ".join(filter(None, (answer.note, unknown)))))
    return answer


def _unknown_keys(said: JsonObject) -> str:
    """Name the unknown keys of an answer, with suggestions.

    Return an empty text if there are none.
    """
    problems: list[str] = []
    for key in said.keys() - set(_KEYS):
        meant = _FOREIGN_KEYS.get(key.lower()) or nearest(key, _KEYS)
        hint = "there are: verdict, note"
        if meant:
            hint = f"did you mean '{meant}'?"
        problems.append(f"unknown key '{visible(cut(key, MAX_KEY, 'end'))}'; {hint}")
    return "; ".join(sorted(problems)[:MAX_KEYS])


def checked(said: Any) -> HookAnswer:
    """Return a valid answer, with a note that can be shown.

    An unknown verdict blocks, because its author meant to stop the call.
    """
    problem = f"it did not answer with {_SHAPE}"
    if not isinstance(said, HookAnswer):
        raise HookFailed(problem)
    verdict: Any = said.verdict
    # A hook can only tighten, so an answer that approves is a mistake.
    if verdict == Approval.PRE_APPROVED.value:
        raise HookFailed(problem)
    if verdict is None and not isinstance(said.note, str | None):
        raise HookFailed(problem)
    if verdict not in (None, "ask", "blocked"):
        note = f"its verdict is {visible(str(verdict))}, neither ask nor blocked"
        return HookAnswer("blocked", _readable_note(note))
    return HookAnswer(verdict, None if said.note is None else _readable_note(str(said.note)))


def _readable_note(text: str) -> str | None:
    return cut(readable(text.strip()), MAX_NOTE, "end") or None


def tighten(
    verdict: Verdict, heard: HookResult, title: str, rule: str, where: Mark | None
) -> Verdict:
    """Return the verdict after a ``before_tool`` hook; one that failed means ask."""
    if heard.failure is None and heard.answer.verdict is None:
        return verdict
    if heard.failure is not None:
        wanted = Approval.ASK
        reason = f"the hook {title} failed ({heard.failure}), so it asks"
    else:
        wanted = Approval(heard.answer.verdict)
        note = ""
        if heard.answer.note:
            note = f": {heard.answer.note}"
        reason = f"the hook {title} says {wanted.value}{note}"
    if wanted.stricter_than(verdict.approval):
        return replace(
            verdict, approval=wanted, reason=reason, rule=rule, where=where, by="rule", grants=()
        )
    if wanted is verdict.approval:
        details = (*verdict.details, f"{where}: {reason}" if where else reason)
        return replace(verdict, reason=f"{verdict.reason}; {reason}", details=details, grants=())
    return verdict


class SessionRefused(ForgeError):
    """A ``session_start`` hook does not let the session begin."""

    exit_code = ExitCode.DENIED


class Hook(Struct, frozen=True):
    """A hook that applies to the worker."""

    config: HookConfig
    rule: str
    """Its name in its file, such as ``hooks[0]``."""
    where: Mark | None
    of_project: bool = False
    """True if it is confined, and its files count only as they were trusted."""

    @property
    def title(self) -> str:
        return self.config.title

    def message(self, sentence: str) -> str:
        """Return a message about the hook with its place."""
        where = f" ({self.where})" if self.where else ""
        return f"hook {self.title}{where}: {sentence}"

    def facts(self) -> JsonObject:
        return {
            "on": self.config.on,
            "match": self.config.match,
            "hook": self.title,
            "run": self.config.run,
            "where": str(self.where) if self.where else None,
        }


def hooks_of(entries: Iterable[HookConfig], home: Path) -> list[Hook]:
    """Return the hooks of all files, each with its place."""
    found: list[Hook] = []
    for entry in entries:
        where = entry.where()
        file = where.file if where else None
        same_file = sum(hook.where is not None and hook.where.file == file for hook in found)
        found.append(
            Hook(entry, f"hooks[{same_file}]", where, file not in (None, str(home / "config.yaml")))
        )
    return found


class Hooks:
    """The hooks of one worker, and of its session if it is the root."""

    def __init__(
        self,
        *,
        stated: Sequence[HookConfig],
        host: PluginHost,
        home: Path,
        workspace: Path,
        worker: str,
        session: str,
        processes: WorkerProcesses,
        bus: EventBus,
    ) -> None:
        """Make the hooks of a worker; ``stated`` are those of the user and of the project."""
        self.host = host
        self.home = home
        self.workspace = workspace
        self.worker = worker
        self.session = session
        self.processes = processes
        self.bus = bus
        self.all = hooks_of(stated, home)
        self.heard: dict[str, list[tuple[Hook, HookResult]]] = {}
        """By call, the answers of its ``before_tool`` hooks.

        A call that is judged again does not run them again.
        """
        self._require_observers()

    def _require_observers(self) -> None:
        """Raise WorkerError if no plugin offers an observer, without loading one."""
        known = self.host.observer_names()
        for hook in self.all:
            name = hook.config.observer
            if name is not None and name not in known:
                hint = did_you_mean(name, known, f"installed are: {', '.join(known) or 'none'}")
                where = hook.config.where("observer")
                raise WorkerError(
                    where, f"{hook.rule}: there is no observer '{visible(name)}'", hint=hint
                )

    def matching(self, event: HookName, *names: str) -> list[Hook]:
        found = [hook for hook in self.all if hook.config.on == event]
        return [hook for hook in found if not names or hook.config.matches(*names)]

    def facts(self) -> list[JsonObject]:
        """Describe every hook that applies."""
        return [hook.facts() for hook in self.all]

    def facts_before(self, judged: Judged) -> list[JsonObject]:
        """Describe the hooks that a call would pass."""
        return [hook.facts() for hook in self._hooks_before(judged)]

    def _hooks_before(self, judged: Judged) -> list[Hook]:
        """Return the ``before_tool`` hooks that match a name of the call's tool or target."""
        return self.matching("before_tool", *judged.names)

    async def before(self, judged: Judged) -> Judged:
        """Return the call with a verdict that is at least as strict."""
        call = judged.call
        if call.id not in self.heard:
            told = self._call("before_tool", judged)
            heard = self.heard[call.id] = []
            for hook in self._hooks_before(judged):
                said = await self._ask(hook, told, call.id)
                heard.append((hook, said))
                if said.answer.verdict == "blocked":
                    break
        verdict = judged.verdict
        for hook, said in self.heard[call.id]:
            verdict = tighten(verdict, said, hook.title, hook.rule, hook.where)
        return replace(judged, verdict=verdict)

    async def after(self, outcome: ToolOutcome, judged: Judged | None) -> None:
        """Report the outcome of a call, which hooks cannot change any more."""
        self.heard.pop(outcome.call.id, None)
        call = outcome.call
        if judged:
            names: tuple[str, ...] = judged.names
            told = self._call("after_tool", judged, status=outcome.status)
        else:
            names = (call.name,)
            told = self._hook_call(
                "after_tool", tool=call.name, args=call.args, status=outcome.status
            )
        for hook in self.matching("after_tool", *names):
            self._warn_late(hook, await self._ask(hook, told, call.id), call.id)

    async def while_asked(
        self,
        request: ApprovalRequest,
        names: Sequence[str],
        ask: Callable[[], Awaitable[Given]],
        *,
        form: bool,
    ) -> Given | ApprovalDecision:
        """Return the answer to a request while ``approval`` hooks report it elsewhere.

        One may deny it.
        """
        hooks = self.matching("approval", *names)
        if not hooks:
            return await ask()
        answerable = None if form else request.request_id
        told = self._hook_call(
            "approval",
            tool=request.tool_name,
            args=request.args,
            verdict=Approval.ASK.value,
            request=answerable,
        )
        answers: list[Given] = []
        failures: list[Exception] = []
        denials: list[ApprovalDecision] = []

        async def tell() -> None:
            for hook in hooks:
                said = await self._ask(hook, told, request.tool_call_id)
                if said.answer.verdict == "blocked":
                    note = f"the hook {hook.title} says no: {said.answer.note or NO_REASON}"
                    denials.append(ApprovalDecision(False, note=note, by="rule"))
                    # The answer also closes the question in every display.
                    if self.bus.is_open(request.request_id):
                        self.bus.answer(request.request_id, denials[0])
                    prompt.cancel()
                    return

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as prompt:
                tasks.start_soon(tell)
                try:
                    answers.append(await ask())
                except Exception as failure:  # a task group would wrap it in an exception group
                    failures.append(failure)
        if denials:
            return denials[0]
        if failures:
            raise failures[0]
        return answers[0]

    async def session_starts(self) -> None:
        for hook in self.matching("session_start"):
            said = await self._ask(hook, self._hook_call("session_start"))
            if said.answer.verdict == "blocked":
                why = said.answer.note or NO_REASON
                problem = f"the hook {hook.title} does not let the session begin: {why}"
                raise SessionRefused(problem, where=hook.where)

    async def session_ends(self) -> None:
        for hook in self.matching("session_end"):
            self._warn_late(hook, await self._ask(hook, self._hook_call("session_end")))

    def _hook_call(self, event: HookName, **more: Any) -> HookCall:
        return HookCall(event=event, session=self.session, worker=self.worker, **more)

    def _call(self, event: HookName, judged: Judged, **more: Any) -> HookCall:
        verdict = judged.verdict.approval.value
        return self._hook_call(
            event, tool=judged.call.name, args=judged.args, verdict=verdict, **more
        )

    async def _ask(self, hook: Hook, told: HookCall, call_id: str | None = None) -> HookResult:
        """Run one hook; report a failure as a warning, and its note as a status."""
        try:
            run = self._observe if hook.config.observer else self._run
            heard = HookResult(await run(hook, told))
        except HookFailed as failure:
            self._say("warning", hook, str(failure), call_id)
            return HookResult(HookAnswer(), str(failure))
        if heard.answer.note and heard.answer.verdict is None:
            # Beside a prompt it is the progress of the call that asks.
            beside = call_id if told.event == "approval" else None
            self._say("info", hook, heard.answer.note, beside)
        return heard

    async def _run(self, hook: Hook, told: HookCall) -> HookAnswer:
        code = {}
        if hook.of_project:
            from forge_cli.files.project import hook_code

            code = hook_code(hook.config, self.workspace)
        for file in TrustStore(self.home).differing(code):
            raise HookFailed(f"{file} is not trusted as it is; forge trust changes that")
        text = json.dumps(jsonable(told.wire()), ensure_ascii=False) + "\n"
        try:
            if hook.of_project:
                done = await self.processes.run(
                    hook.config.argv, input=text, timeout=TIMEOUT, readable=hook.config.files
                )
            else:
                done = await self.processes.run_as_person(
                    hook.config.argv, input=text, timeout=TIMEOUT
                )
        except ToolError as error:
            raise HookFailed(str(error)) from None
        return read_finished(done)

    async def _observe(self, hook: Hook, told: HookCall) -> HookAnswer:
        try:
            observer = self.host.observer(str(hook.config.observer))
            what = f"the observer {hook.config.observer}"
            said = await perform_within(TIMEOUT, what, partial(_observe, observer, told))
        except ForgeError as error:
            raise HookFailed(str(error)) from None
        except Exception as error:  # third-party code
            raise HookFailed(fault_text(error)) from error
        return HookAnswer() if said is None else checked(said)

    def _warn_late(self, hook: Hook, said: HookResult, call_id: str | None = None) -> None:
        if said.answer.verdict is not None:
            note = f": {said.answer.note}" if said.answer.note else ""
            self._say(
                "warning", hook, f"it says {said.answer.verdict}, which is too late{note}", call_id
            )

    def _say(self, level: StatusLevel, hook: Hook, sentence: str, call_id: str | None) -> None:
        self.bus.emit(StatusEvent(level, hook.message(sentence), tool_call_id=call_id))


async def _observe(observer: Observer, told: HookCall) -> HookAnswer | None:
    said = observer.observe(told)
    return await said if inspect.isawaitable(said) else said


class Follower:
    """A sink of the record for one ``record`` hook; a hook that fails is not called again."""

    skips_transient: ClassVar[bool] = True

    def __init__(self, hook: Hook, host: PluginHost, bus: EventBus) -> None:
        self._hook = hook
        self._host = host
        self._bus = bus
        self._observer: Observer | None = None
        self._has_failed = False

    def __call__(self, line: Line) -> None:
        if self._has_failed or line.transient:
            return
        try:
            note = self._tell(line)
        except HookFailed as failure:
            self._has_failed = True
            note = f"{failure}; it is not called again in this session"
        if note:
            self._bus.emit(StatusEvent("warning", self._hook.message(note)))

    def _tell(self, line: Line) -> str | None:
        told = HookCall(event="record", session=line.session, worker=line.worker, line=line.data)
        try:
            self._observer = self._observer or self._host.observer(str(self._hook.config.observer))
            said = call_within(
                TIMEOUT, f"the observer {self._hook.title}", partial(self._observer.observe, told)
            )
        except ForgeError as error:
            raise HookFailed(str(error)) from None
        except Exception as error:  # third-party code
            raise HookFailed(fault_text(error)) from error
        if inspect.iscoroutine(said):
            said.close()  # or Python warns that it was never awaited
            raise HookFailed("it is async, and the record waits for no hook")
        answer = None if said is None else checked(said)
        if answer is not None and answer.verdict is not None:
            problem = f"it says {answer.verdict}, but a record hook cannot stop what has happened"
            raise HookFailed(problem)
        return answer.note if answer else None


def followers(
    stated: Sequence[HookConfig], host: PluginHost, home: Path, bus: EventBus
) -> Iterator[Follower]:
    """Yield a sink for each ``record`` hook."""
    for hook in hooks_of(stated, home):
        if hook.config.on == "record":
            yield Follower(hook, host, bus)
