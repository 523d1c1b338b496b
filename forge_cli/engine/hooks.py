"""Hooks for people, which may make a verdict stricter: each is run within its time, and what it says is recorded.

Those of the person's own config run as that person; those of a project are confined as the worker's commands are.
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

SECONDS = 10.0
"""That a hook has."""
LARGEST = 64 * 1024
"""Characters of what a hook prints."""
NOTE = 1000
"""Characters of its words that are kept."""
BLOCKS = 2
"""The exit code that blocks."""
KEY = 50
"""Characters of an unknown key that are told."""
KEYS_TOLD = 3
_KEYS = ("verdict", "note")
_MEANT = {
    "decision": "verdict",
    "permissiondecision": "verdict",
    "action": "verdict",
    "result": "verdict",
    "reason": "note",
    "message": "note",
    "permissiondecisionreason": "note",
    "why": "note",
}
"""Keys of the hooks of other tools, with ours for the same."""
_SHAPE = '{"verdict": "ask"|"blocked", "note": "..."}'


class HookFailed(Exception):
    """A hook has not said anything that could be understood; the sentence says why."""


class Heard(Struct, frozen=True):
    """The result of one hook: an answer, or why there is none."""

    answer: HookAnswer
    failure: str | None = None


def read_finished(done: Finished) -> HookAnswer:
    """The answer of a command by its exit code and its output; HookFailed where it has no meaning."""
    if done.timed_out:
        raise HookFailed(f"it did not end within {counted(SECONDS, 'second')}")
    if done.exit_code == BLOCKS:
        return HookAnswer("blocked", _words(done.stderr))
    if done.exit_code != 0:
        how = f"exit code {done.exit_code}" if done.signal is None else f"signal {done.signal}"
        words = _words(done.stderr)
        raise HookFailed(f"it ended with {how}{f': {words}' if words else ''}")
    text = done.stdout.strip()
    if done.truncated or len(text) > LARGEST:
        raise HookFailed(f"it printed more than {LARGEST // 1024} KiB")
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
        raise HookFailed(f"it said something else than {_SHAPE}: {unknown}")
    answer = checked(HookAnswer(said.get("verdict"), said.get("note")))
    if unknown:
        # a verdict counts whatever stands beside it: a call that was to be held must not go through for a typing error
        return replace(answer, note=_words("; ".join(filter(None, (answer.note, unknown)))))
    return answer


def _unknown_keys(said: JsonObject) -> str:
    """Name the keys that mean nothing, with those that are meant; empty where all are known."""
    problems: list[str] = []
    for key in said.keys() - set(_KEYS):
        meant = _MEANT.get(key.lower()) or nearest(key, _KEYS)
        hint = f"did you mean '{meant}'?" if meant else "there are: verdict, note"
        problems.append(f"unknown key '{visible(cut(key, KEY, 'end'))}'; {hint}")
    return "; ".join(sorted(problems)[:KEYS_TOLD])


def checked(said: Any) -> HookAnswer:
    """An answer that is one, with a note that can be shown; a verdict in other words is meant to hold the call."""
    verdict: Any = said.verdict if isinstance(said, HookAnswer) else Approval.PRE_APPROVED.value
    if verdict == Approval.PRE_APPROVED.value or (
        verdict is None and not isinstance(said.note, str | None)
    ):
        raise HookFailed(f"it said something else than {_SHAPE}")
    if verdict not in (None, "ask", "blocked"):
        return HookAnswer(
            "blocked", _words(f"its verdict is {visible(str(verdict))}, neither ask nor blocked")
        )
    return HookAnswer(verdict, None if said.note is None else _words(str(said.note)))


def _words(text: str) -> str | None:
    return cut(readable(text.strip()), NOTE, "end") or None


def tighten(verdict: Verdict, heard: Heard, title: str, rule: str, where: Mark | None) -> Verdict:
    """The verdict after a ``before_tool`` hook; one that failed means ask."""
    if heard.failure is None and heard.answer.verdict is None:
        return verdict
    wanted = Approval.ASK if heard.failure is not None else Approval(heard.answer.verdict)
    note = f": {heard.answer.note}" if heard.answer.note else ""
    reason = f"the hook {title} says {wanted.value}{note}"
    if heard.failure is not None:
        reason = f"the hook {title} failed ({heard.failure}), so it asks"
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
    """One hook that holds here."""

    config: HookConfig
    rule: str
    """``hooks[0]``, as it stands in its file."""
    where: Mark | None
    of_project: bool = False
    """Then its files count only as they were trusted, and it is confined."""

    @property
    def title(self) -> str:
        return self.config.title

    def message(self, sentence: str) -> str:
        """The settings of it, with their place."""
        return f"hook {self.title}{f' ({self.where})' if self.where else ''}: {sentence}"

    def facts(self) -> JsonObject:
        config, where = self.config, str(self.where) if self.where else None
        return {
            "on": config.on,
            "match": config.match,
            "hook": self.title,
            "run": config.run,
            "where": where,
        }


def hooks_of(entries: Iterable[HookConfig], home: Path) -> list[Hook]:
    """The entries of all files, with where each stands."""
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
    """Hears of the calls of one worker, and of its session if it is the root."""

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
        """``stated`` are the hooks of the user and of the project."""
        self.host = host
        self.home = home
        self.workspace = workspace
        self.worker = worker
        self.session = session
        self.processes = processes
        self.bus = bus
        self.all = hooks_of(stated, home)
        self.heard: dict[str, list[tuple[Hook, Heard]]] = {}
        """By call, what its ``before_tool`` hooks have said: a call that is judged again runs them only once."""
        self._require_observers()

    def _require_observers(self) -> None:
        """Refuse observers that no plugin offers, without loading one."""
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
        """Describe every hook that holds here."""
        return [hook.facts() for hook in self.all]

    def facts_before(self, judged: Judged) -> list[JsonObject]:
        """Describe the hooks that a call would be put to."""
        return [hook.facts() for hook in self._hooks_before(judged)]

    def _hooks_before(self, judged: Judged) -> list[Hook]:
        """Return the ``before_tool`` hooks of a call, by any name of its tool, and of the tool that it stands for."""
        return self.matching("before_tool", *judged.names)

    async def before(self, judged: Judged) -> Judged:
        """The call with a verdict that is at least as strict, as its hooks say."""
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
        """Tell the outcome of a call; it is too late to change that."""
        self.heard.pop(outcome.call.id, None)
        names = judged.names if judged else (outcome.call.name,)
        verdict = judged.verdict.approval.value if judged else None
        for hook in self.matching("after_tool", *names):
            args = judged.args if judged else outcome.call.args
            told = self._told(
                "after_tool",
                tool=outcome.call.name,
                args=args,
                verdict=verdict,
                status=outcome.status,
            )
            self._warn_late(hook, await self._ask(hook, told, outcome.call.id), outcome.call.id)

    async def while_asked(
        self,
        request: ApprovalRequest,
        names: Sequence[str],
        ask: Callable[[], Awaitable[Given]],
        *,
        form: bool,
    ) -> Given | ApprovalDecision:
        """The answer to a request, while ``approval`` hooks tell of it elsewhere; one of them may deny it."""
        hooks = self.matching("approval", *names)
        if not hooks:
            return await ask()
        answerable = None if form else request.request_id
        told = self._told(
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
                    note = f"the hook {hook.title} says no: {said.answer.note or 'it does not say why'}"
                    denials.append(ApprovalDecision(False, note=note, by="rule"))
                    if self.bus.is_open(request.request_id):
                        self.bus.answer(request.request_id, denials[0])
                    prompt.cancel()
                    return

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as prompt:
                tasks.start_soon(tell)
                try:
                    answers.append(await ask())
                except Exception as failure:  # raised below as it is, and not as one of a group
                    failures.append(failure)
        if denials:
            return denials[0]
        if failures:
            raise failures[0]
        return answers[0]

    async def session_starts(self) -> None:
        for hook in self.matching("session_start"):
            said = await self._ask(hook, self._told("session_start"))
            if said.answer.verdict == "blocked":
                why = said.answer.note or "it does not say why"
                raise SessionRefused(
                    f"the hook {hook.title} does not let the session begin: {why}", where=hook.where
                )

    async def session_ends(self) -> None:
        for hook in self.matching("session_end"):
            self._warn_late(hook, await self._ask(hook, self._told("session_end")))

    def _told(self, event: HookName, **more: Any) -> HookCall:
        return HookCall(event=event, session=self.session, worker=self.worker, **more)

    def _call(self, event: HookName, judged: Judged) -> HookCall:
        return self._told(
            event, tool=judged.call.name, args=judged.args, verdict=judged.verdict.approval.value
        )

    async def _ask(self, hook: Hook, told: HookCall, call_id: str | None = None) -> Heard:
        """Run one hook; what goes wrong is a warning, and what it notes is told, beside a prompt as progress."""
        try:
            heard = Heard(await (self._observe if hook.config.observer else self._run)(hook, told))
        except HookFailed as failure:
            self._say("warning", hook, str(failure), call_id)
            return Heard(HookAnswer(), str(failure))
        if heard.answer.note and heard.answer.verdict is None:
            self._say(
                "info", hook, heard.answer.note, call_id if told.event == "approval" else None
            )
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
                    hook.config.argv, input=text, timeout=SECONDS, readable=hook.config.files
                )
            else:
                done = await self.processes.run_as_person(
                    hook.config.argv, input=text, timeout=SECONDS
                )
        except ToolError as error:
            raise HookFailed(str(error)) from None
        return read_finished(done)

    async def _observe(self, hook: Hook, told: HookCall) -> HookAnswer:
        try:
            observer = self.host.observer(str(hook.config.observer))
            what = f"the observer {hook.config.observer}"
            said = await perform_within(SECONDS, what, partial(_observe, observer, told))
        except ForgeError as error:
            raise HookFailed(str(error)) from None
        except Exception as error:  # third-party code
            raise HookFailed(fault_text(error)) from error
        return HookAnswer() if said is None else checked(said)

    def _warn_late(self, hook: Hook, said: Heard, call_id: str | None = None) -> None:
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
    """A sink of the record for one ``record`` hook; one that fails is told nothing more in this session."""

    skips_transient: ClassVar[bool] = True

    def __init__(self, hook: Hook, host: PluginHost, bus: EventBus) -> None:
        self._hook, self._host, self._bus = hook, host, bus
        self._observer: Observer | None = None
        self._over = False

    def __call__(self, line: Line) -> None:
        if self._over or line.transient:
            return
        try:
            note = self._tell(line)
        except HookFailed as failure:
            self._over = True
            note = f"{failure}; it is told nothing more in this session"
        if note:
            self._bus.emit(StatusEvent("warning", self._hook.message(note)))

    def _tell(self, line: Line) -> str | None:
        told = HookCall(event="record", session=line.session, worker=line.worker, line=line.data)
        try:
            self._observer = self._observer or self._host.observer(str(self._hook.config.observer))
            said = call_within(
                SECONDS, f"the observer {self._hook.title}", partial(self._observer.observe, told)
            )
        except ForgeError as error:
            raise HookFailed(str(error)) from None
        except Exception as error:  # third-party code
            raise HookFailed(fault_text(error)) from error
        if inspect.iscoroutine(said):
            said.close()
            raise HookFailed("it is async, and the record waits for no hook")
        answer = None if said is None else checked(said)
        if answer is not None and answer.verdict is not None:
            raise HookFailed(
                f"it says {answer.verdict}, and the record tells what has happened already"
            )
        return answer.note if answer else None


def followers(
    stated: Sequence[HookConfig], host: PluginHost, home: Path, bus: EventBus
) -> Iterator[Follower]:
    """A sink for each ``record`` hook."""
    for hook in hooks_of(stated, home):
        if hook.config.on == "record":
            yield Follower(hook, host, bus)
