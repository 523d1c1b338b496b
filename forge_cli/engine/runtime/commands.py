"""Commands of a conversation, and their effects on the session: model, zones, prompts, edits."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from forge_cli.core.actions import CommandEvent, UserInput
from forge_cli.core.approval import MODE_TITLES, SessionMode, Verdict, modes_within
from forge_cli.core.bounds import LOAD_LIMIT
from forge_cli.core.bus import new_id
from forge_cli.core.errors import ForgeError, StatusLevel, ToolError, UsageError
from forge_cli.core.events import SessionGrant, SessionUpdate, StatusEvent
from forge_cli.core.interrupt import Ended
from forge_cli.core.text import counted, did_you_mean, visible
from forge_cli.core.trial import DraftEvent
from forge_cli.engine.plugins.local import plugin_files
from forge_cli.engine.plugins.scan import file_stamp
from forge_cli.engine.runtime.going_back import GoingBack
from forge_cli.engine.runtime.prompts import Prompts
from forge_cli.engine.runtime.reopening import CurrentWorker
from forge_cli.engine.runtime.wiring import OpenWorker, Wiring
from forge_cli.engine.turns.limits import deadline
from forge_cli.engine.turns.loop import Tally
from forge_cli.engine.turns.summary import ask_for_title, clean_title
from forge_cli.files.worker import Worker, load_worker
from forge_cli.record.log import find_own_session
from forge_cli.record.overview import session_overview
from forge_cli.sandbox.zones.declared import added_zone

if TYPE_CHECKING:
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.policy import Policy

Command = Callable[[Sequence[str]], Awaitable[None]]
MAX_SHOWN = 20
"""Changes of a draft that are listed."""
_NO_DRAFT = "this session works on the real files, not in a draft"
_HOW_TO_DRAFT = "forge chat WORKER --draft begins one"
TITLE_TIMEOUT = 20.0
"""Seconds that a model has to find a title."""


class SessionCommands:
    """The commands of a session, run between tasks; errors become statuses."""

    def __init__(self, current: CurrentWorker, leave: Callable[[], None]) -> None:
        """Take the function that ends the conversation as ``leave``."""
        self._current = current
        self._leave = leave
        self.next_session: str | None = None
        """The session that continues: another one, or this one after a command on its draft."""
        self.wants_draft = False
        """True if this session continues in a new draft."""
        opened = current.opened
        self._stamps = _stamps(opened.worker)
        self._titled = bool(opened.wiring.resume and opened.wiring.resume.title)
        self._going_back = GoingBack(current)
        self._commands: Mapping[str, Command] = {
            "add-dir": self._add_dir,
            "clear": self._clear,
            "apply": partial(self._leave_for_draft, "apply"),
            "compact": self._compact,
            "draft": self._draft,
            "drop": partial(self._leave_for_draft, "drop"),
            "exit": self._exit,
            "mcp": self._tell_mcp,
            "model": self._model,
            "name": self._name,
            "reload": self._reload,
            "resume": self._resume,
            "review": partial(self._leave_for_draft, "review"),
            "revoke": self._revoke,
            "rewind": self._going_back.rewind,
            "undo": self._going_back.undo,
        }

    async def handle_command(self, command: CommandEvent) -> UserInput | None:
        """Run a command; the name of a prompt returns the prompt's message for the model."""
        try:
            if handle_command := self._commands.get(command.name):
                await handle_command(command.args)
                return None
            message = await Prompts(self._current.opened.loop.toolbox).fill(
                command.name, command.args
            )
        except (ForgeError, ToolError, Ended) as error:
            self._say(str(error), "error")
            return None
        if message is None:
            hint = did_you_mean(command.name, self._commands)
            self._say(f"there is no command '{command.name}'; {hint}", "warning")
            return None
        self._say(f"/{command.name}: {message}")
        return UserInput(new_id("prompt"), message)

    def obey_at_once(self, command: CommandEvent) -> bool:
        """Run a command that does not wait for the task: a mode applies from the next call on."""
        if command.name != "mode":
            return False
        try:
            self._controller.change_session_mode(self._find_mode(" ".join(command.args)))
        except UsageError as error:
            self._say(str(error), "error")
        return True

    def _find_mode(self, name: str) -> SessionMode:
        """Return the mode of that name; raise UsageError if the session may not have it."""
        known = next((mode for mode in MODE_TITLES if _letters(mode) == _letters(name)), None)
        if known is None:
            raise UsageError(
                f"there is no mode '{visible(name)}'",
                hint=f"/mode {'|'.join(MODE_TITLES.values())}",
            )
        if known not in self._modes:
            why = f"its approval mode is {self._controller.mode.value}"
            if self._current.opened.wiring.read_only:
                why = "it is read-only"
            raise UsageError(f"this session cannot have the mode '{MODE_TITLES[known]}': {why}")
        return known

    @property
    def _modes(self) -> tuple[SessionMode, ...]:
        return modes_within(
            self._controller.mode.value, read_only=self._current.opened.wiring.read_only
        )

    @property
    def _controller(self) -> ApprovalController:
        return self._current.opened.assembly.guard.controller

    async def notice_edits(self) -> None:
        """Open an edited worker again before a task; keep the old one if that fails."""
        worker = self._current.opened.worker
        before = self._stamps
        self._stamps = _stamps(worker)
        if before == self._stamps:
            return
        try:
            await self._open_edited()
        except ForgeError as error:
            name = worker.path.name
            self._say(f"{name} was edited, but the worker stays as it was: {error}", "error")

    def _say(self, sentence: str, level: StatusLevel = "info") -> None:
        self._current.bus.emit(StatusEvent(level, sentence))

    async def _exit(self, args: Sequence[str]) -> None:
        self._leave()

    async def _clear(self, args: Sequence[str]) -> None:
        self._current.opened.loop.forget()
        self._say("the model starts over; the session keeps everything")

    async def _compact(self, args: Sequence[str]) -> None:
        opened = self._current.opened
        budget = opened.new_budget()
        opened.wiring.interrupt_signal.reset()
        with deadline(budget, opened.wiring.interrupt_signal):
            messages = await opened.loop.compact(Tally(), budget)
        if messages:
            self._say(f"Compacted: {counted(messages, 'message')} replaced by a summary.")
        else:
            self._say("nothing to compact yet")

    async def _model(self, args: Sequence[str]) -> None:
        opened = self._current.opened
        name = _one(args, "model NAME")
        changed = self._current.change_model(dataclasses.replace(opened.wiring, model=name))
        self._say(f"the model is {changed.model.provider.name} from the next turn on")

    async def _name(self, args: Sequence[str]) -> None:
        title = clean_title(" ".join(args))
        if not title:
            raise UsageError("a session needs a title", hint="/name TITLE")
        self._titled = True
        self._current.bus.emit(SessionUpdate(title=title))
        self._say(f"this session is called: {title}")

    async def find_title(self) -> None:
        """Ask the model for a title of the session, unless it has one; ignore failures."""
        opened = self._current.opened
        if self._titled or not opened.folder.settings.titles:
            return
        with suppress(Exception), anyio.fail_after(TITLE_TIMEOUT):  # third-party code: a model
            title, usage = await ask_for_title(opened.loop.model, opened.loop.history)
            # The user may have named the session in the meantime.
            if title and not self._titled:
                self._titled = True
                self._current.bus.emit(
                    SessionUpdate(title=opened.loop.redactor.redact_text(title), usage=usage)
                )

    async def _reload(self, args: Sequence[str]) -> None:
        self._stamps = _stamps(self._current.opened.worker)
        try:
            await self._open_edited()
        except ForgeError as error:
            self._say(f"the worker stays as it was: {error}", "error")

    async def _open_edited(self) -> None:
        old = self._current.opened
        worker = old.worker
        # A worker that a program makes has no places in a file.
        if not worker.path.is_file() and worker.config.where("name") is None:
            raise UsageError(f"the worker '{worker.name}' has no file that could be read again")
        new = dataclasses.replace(
            load_worker(worker.path), toolsets=worker.toolsets, sandbox=worker.sandbox
        )
        if new.name != worker.name:
            raise UsageError(
                f"the worker is called '{new.name}' now", hint="start a new session for it"
            )
        opened = await self._reopen(new, old.wiring)
        model = new.config.model
        if model and model != worker.config.model and old.wiring.model is None:
            opened = self._current.change_model(opened.wiring)
        changes = "; ".join(describe_edit(old, opened)) or "nothing has changed"
        self._say(f"{worker.path.name} was read again: {changes}")

    async def _reopen(self, worker: Worker, wiring: Wiring) -> OpenWorker:
        """Open the worker again, and drop grants that were given under another policy."""
        old = self._current.opened
        controller = self._controller
        mode = controller.mode
        opened = await self._current.reopen(worker, wiring)
        before = old.loop.guard.judge
        now = opened.loop.guard.judge
        digests = {name: offer.tool.digest for name, offer in before.offers.items()}

        def is_other(number: int, grant: SessionGrant) -> bool:
            offer = now.offers.get(grant.tool_name)
            changed = grant.tool_name in digests and (
                offer is None or offer.tool.digest != digests[grant.tool_name]
            )
            return before.worker.setting != now.worker.setting or changed

        if dropped := controller.revoke(is_other):
            self._say(f"{counted(len(dropped), 'grant')} dropped: the policy has changed")
        if (opened.zones, opened.isolation) != (old.zones, old.isolation):
            self._current.bus.emit(SessionUpdate(zones=opened.zones, isolation=opened.isolation))
        if controller.mode is not mode:
            self._current.bus.emit(SessionUpdate(approval_mode=controller.mode.value))
            if controller.session_mode not in self._modes:
                controller.change_session_mode("ask")
        return opened

    async def _add_dir(self, args: Sequence[str]) -> None:
        old = self._current.opened
        zone = added_zone(_one(args, "add-dir DIR[:ro]"), old.folder.workspace)
        await self._reopen(
            old.worker, dataclasses.replace(old.wiring, zones=(*old.wiring.zones, zone))
        )
        rights = "read only" if zone.mode.value == "ro" else "writing asks"
        self._say(f"/{zone.name} is {zone.path}, {rights}")

    async def _revoke(self, args: Sequence[str]) -> None:
        controller = self._controller
        which = _one(args, "approvals revoke N|all")
        if which != "all" and not (which.isdecimal() and 1 <= int(which) <= len(controller.grants)):
            count = len(controller.grants)
            known = "nothing has been allowed"
            if count:
                known = f"there are {count}"
            raise UsageError(
                f"there is no grant '{which}': {known}", hint="/approvals revoke N|all"
            )
        gone = controller.revoke(lambda number, _: which == "all" or number == int(which))
        self._say(f"{counted(len(gone), 'grant')} revoked")

    async def _tell_mcp(self, args: Sequence[str]) -> None:
        opened = next(
            (each for each in self._current.opened.loop.toolbox.toolsets if each.name == "mcp"),
            None,
        )
        if opened is None:
            raise UsageError("this worker has no toolset 'mcp'")
        run = opened.toolset.handle_command
        for line in await opened.ask(
            "its command failed", "handle_command()", run, args, seconds=LOAD_LIMIT
        ):
            self._say(line)

    async def _resume(self, args: Sequence[str]) -> None:
        opened = self._current.opened
        path = find_own_session(_one(args, "resume ID"))
        seen = session_overview(path)
        if path.stem == opened.wiring.session_id:
            raise UsageError("this is the session that you are in")
        if seen.worker != opened.worker.name:
            raise UsageError(f"session {path.stem} belongs to worker '{seen.worker}'")
        if seen.pid is not None:
            raise UsageError(f"session {path.stem} is open in another forge (pid {seen.pid})")
        if opened.wiring.draft is not None:
            opened.wiring.draft.leave_for(("resume", path.stem))
        self.next_session = path.stem
        self._leave()

    async def _draft(self, args: Sequence[str]) -> None:
        """Show the changes of the draft; without one, continue the session in a new draft."""
        wiring = self._current.opened.wiring
        if wiring.draft is not None:
            found = await anyio.to_thread.run_sync(wiring.draft.show)
            self._say("\n".join(_describe_draft(found)))
        elif wiring.can_begin_draft:
            self.wants_draft = True
            self.next_session = wiring.session_id
            self._leave()
        else:
            raise UsageError(_NO_DRAFT, hint=_HOW_TO_DRAFT)

    async def _leave_for_draft(self, name: str, args: Sequence[str]) -> None:
        """End the conversation, so that the process outside of the view can use the terminal."""
        wiring = self._current.opened.wiring
        if wiring.draft is None:
            hint = "/draft begins one" if wiring.can_begin_draft else _HOW_TO_DRAFT
            raise UsageError(_NO_DRAFT, hint=hint)
        wiring.draft.leave_for((name, *args))
        self.next_session = wiring.session_id
        self._leave()


def _describe_draft(draft: DraftEvent) -> Iterator[str]:
    """Yield lines about a draft: its changes, its conflicts, and the next commands."""
    if not draft.changes:
        yield f"draft {draft.id}: nothing has changed yet"
        return
    yield f"draft {draft.id}: {counted(len(draft.changes), 'change')}, not applied"
    for each in draft.changes[:MAX_SHOWN]:
        yield f"  {each.change:<8} {each.path}"
    if len(draft.changes) > MAX_SHOWN:
        yield f"  and {len(draft.changes) - MAX_SHOWN} more"
    for path in draft.conflicts:
        yield f"  conflict: {path} was changed outside of the draft, too"
    yield "/review goes through them, /apply [PATH]... takes them, /drop forgets them"


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name)).lower()


def _one(args: Sequence[str], usage: str) -> str:
    if len(args) != 1:
        problem = f"'{usage.split()[0]}' takes one argument, but got {len(args)}"
        raise UsageError(problem, hint=f"/{usage}")
    return args[0]


def _stamps(worker: Worker) -> dict[Path, list[int] | None]:
    """Return the files that define a worker, with their stamps; tools.py is checked each turn."""
    found: dict[Path, list[int] | None] = {}
    for pattern in {worker.path, *plugin_files(worker)}:
        names = pattern.relative_to(pattern.anchor).as_posix()
        paths: Iterable[Path] = [pattern]  # a missing file has a stamp, too
        if "*" in names:
            paths = Path(pattern.anchor).glob(names)
        for path in paths:
            found[path] = file_stamp(path)
    return found


def _rules(policy: Policy) -> list[Verdict | None]:
    """Return the worker's policy for a tool, without its place in the file."""
    return [rule and replace(rule, where=None) for rule in (policy.named, policy.default)]


def describe_edit(old: OpenWorker, new: OpenWorker) -> list[str]:
    """Return short descriptions of the changes of a worker that was opened again."""
    before = old.loop.toolbox.offers
    now = new.loop.toolbox.offers
    both = [name for name in now if name in before]
    policies = [name for name in both if _rules(now[name].policy) != _rules(before[name].policy)]
    schemas: list[str] = []
    for name in both:
        if now[name].tool.digest != before[name].tool.digest and name not in policies:
            schemas.append(name)
    lists = {
        "added": [name for name in now if name not in before],
        "removed": [name for name in before if name not in now],
        "with another policy": policies,
        "changed": schemas,
    }
    said: list[str] = []
    for how, names in lists.items():
        if names:
            said.append(f"{counted(len(names), 'tool')} {how} ({', '.join(names)})")
    facts = {
        "instructions": old.loop.system != new.loop.system,
        "zones": old.zones != new.zones,
        "isolation": old.isolation != new.isolation,
        "approval mode": old.worker.config.approval != new.worker.config.approval,
        "limits": old.worker.config.limits != new.worker.config.limits,
    }
    changed = [name for name, differs in facts.items() if differs]
    if old.model.provider.name != new.model.provider.name:
        said.append(f"the model is {new.model.provider.name}")
    if changed:
        said.append(f"other {', '.join(changed)}")
    return said
