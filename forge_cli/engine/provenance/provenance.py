"""The rule about untrusted text for one worker: it judges calls, and takes what they brought."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import Approval, ApprovalDecision, Effect, ValueOrigin, Verdict
from forge_cli.core.text import visible
from forge_cli.engine.gate.consent import UNTRUSTED_RULE as RULE
from forge_cli.engine.gate.policy import SILENT
from forge_cli.engine.gate.steps import AnyCaller, Caller, CallingTool, Judged
from forge_cli.engine.provenance.index import Read, SessionWords
from forge_cli.sandbox.zones.zones import IsolationLevel

if TYPE_CHECKING:
    from forge_cli.core.calls import ToolOutcome
    from forge_cli.core.messages import Attachment
    from forge_cli.core.wire import JsonObject
    from forge_cli.core.zones import Zone
    from forge_cli.engine.gate.judge import JudgedWorker
    from forge_cli.engine.gate.offer import Offer
    from forge_cli.engine.provenance.named import NamedCall
    from forge_cli.engine.provenance.places import PlaceRead
    from forge_cli.engine.provenance.rule import Effect as CallEffect
    from forge_cli.engine.provenance.rule import Finding
    from forge_cli.engine.provenance.sources import ResultFacts
    from forge_cli.files.provenance import Provenance
    from forge_cli.sandbox.files.sandbox import JudgedPath
    from forge_cli.schema.tool import Tool

SHELL_TOOLS = ("shell", "exec_command", "write_stdin")
MAX_QUESTIONS = 5
"""Questions about untrusted words in one task; the next one ends it."""
_WHY = "cannot be undone, and this session has read untrusted text"
_WHY_TRIED = "this session has read untrusted text, so that it was tried first"
_WHY_ADDRESS = "sends an address that nobody named, and this session has read untrusted text"
_WHY_UNDOABLE = "this session has read untrusted text, and every effect asks then"
_EVERY_EFFECT = (ValueOrigin("", "an effect that can be undone"),)
_FLOOD = (
    "more than {most} questions about words of untrusted text in one task; "
    "the last was {tool}: something that was read may be steering the session"
)
_OWN_STORES = ("memory", "plan", "executables", "skills", "workers", "find_tools")
"""Toolsets of forge that write to its own home only, beside the zones."""
_LINE_ARGS = {"shell": "command", "exec_command": "command", "write_stdin": "chars"}
_NO_INPUT = ("", "\x03")


class CallFacts(Struct, frozen=True):
    """A call as the rule sees it."""

    effect: CallEffect
    named: NamedCall


class WorkerProvenance:
    """The rule of one worker over the words of its session."""

    def __init__(
        self,
        rule: Provenance,
        words: SessionWords,
        worker: JudgedWorker,
        *,
        confines: Callable[[], bool],
        is_root: bool = True,
    ) -> None:
        """Take the merged rule and the words that all workers of the session share.

        ``confines`` returns True if this machine can confine commands.
        """
        self.rule = rule
        self.words = words
        self._worker = worker
        self._confines = confines
        self._is_root = is_root

    def typed_by_author(self, instructions: str) -> None:
        """Take the instructions of the worker, whose words are trusted but name no deed."""
        self.words.trust(instructions)

    @property
    def flood(self) -> str | None:
        """Why the task has to end; None if it may go on."""
        return self.words.flood

    def begin_task(self, task: str, attachments: Sequence[Attachment]) -> bool:
        """Take the person's task; return False if no person wrote it, as for a prompt."""
        if not self._is_root:
            return True
        self.words.questions = 0
        self.words.flood = None
        typed = not self.words.foreign_task
        self.words.foreign_task = False
        if typed:
            self.typed(task)
        if "attached" in self.rule.counts_as_mine:
            for each in attachments:
                if each.media_type.startswith("text/"):
                    self.words.say(each.data.decode("utf-8", "replace"))
        return typed

    def begin_foreign_task(self) -> None:
        """Count the next task as nobody's words: a server wrote it."""
        self.words.foreign_task = True

    def typed(self, text: str) -> None:
        """Take words that the person typed."""
        if "typed" in self.rule.counts_as_mine:
            self.words.name_deeds(text)

    def judge(self, judged: Judged) -> Judged:
        """Return a call with the verdict that its words need; one that is blocked stays so."""
        rule = self.rule
        words = self.words
        if judged.verdict.approval is Approval.BLOCKED or not _is_of_model(judged.caller):
            return judged
        if rule.is_off or not (words.is_tainted or rule.from_person):
            return judged
        # Only sessions that read untrusted text need these.
        from forge_cli.engine.provenance.rule import decide
        from forge_cli.engine.provenance.words import text_of

        facts = self.facts_of(judged)
        finding = decide(facts.effect, facts.named, words)
        if not words.is_tainted:
            return self._loosened(judged, facts, finding)
        words.write(text_of(judged.args))
        if facts.effect == "undoable" and rule.undoable == "ask":
            return _asking(judged, _WHY_UNDOABLE, _EVERY_EFFECT, rule)
        if rule.other == "off":
            return judged
        if not finding.asks:
            return self._loosened(judged, facts, finding)
        if rule.undoable == "allow" and self._may_be_undone(judged, facts):
            if judged.verdict.approval is Approval.ASK:
                # As it would ask anyway: what its trial shows decides why.
                return replace(judged, verdict=replace(judged.verdict, provenance=finding.reasons))
            return _asking(judged, _WHY, finding.reasons, rule, undoable_if_tried=True)
        if rule.other == "blocked":
            return _blocked(judged, _why(facts), finding.reasons, rule)
        return _asking(judged, _why(facts), finding.reasons, rule)

    def after_trial(self, judged: Judged, *, undoable: bool) -> Judged:
        """Return a call with the verdict after its trial, which shows whether it can be undone."""
        verdict = judged.verdict
        if undoable:
            reason = _WHY_TRIED if verdict.rule == RULE else verdict.reason
            return replace(judged, verdict=replace(verdict, reason=reason, provenance=()))
        if self.rule.other == "blocked":
            return _blocked(judged, _WHY, verdict.provenance, self.rule)
        if verdict.rule == RULE:
            return replace(judged, verdict=replace(verdict, undoable_if_tried=False))
        return _asking(judged, _WHY, verdict.provenance, self.rule)

    def answered(self, judged: Judged, decision: ApprovalDecision) -> None:
        """Take the answer to a question about a call."""
        if decision.by == "user" and decision.note:
            self.typed(decision.note)
        if not decision.approved or not judged.verdict.provenance:
            return
        if decision.grant is not None and decision.grant.mine:
            self.endorse(decision.grant.mine)
        elif decision.remember == "session":
            self.words.approved.add(judged.fingerprint)

    def endorse(self, values: Iterable[str]) -> None:
        """Count values that the person approved as the person's."""
        if "approved" in self.rule.counts_as_mine:
            self.words.endorse(values)

    def is_approved(self, judged: Judged) -> bool:
        """Return True if the person allowed this exact call for the session, asked like this."""
        return judged.fingerprint in self.words.approved

    def count_question(self, judged: Judged) -> str | None:
        """Count a question; return why the task has to end instead of asking it."""
        if self.words.flood is None:
            self.words.questions += 1
            if self.words.questions > MAX_QUESTIONS:
                self.words.flood = _FLOOD.format(most=MAX_QUESTIONS, tool=judged.call.name)
        return self.words.flood

    def took(self, judged: Judged, outcome: ToolOutcome, *, tried: bool) -> None:
        """Take the result of a call; ``tried`` is True if all of it ran without a network."""
        if outcome.status in ("denied", "blocked", "invalid", "not_found"):
            return
        real = judged.target or judged
        self._note_writing(real.offer, real.args)
        if self._is_plain(real):
            self._read(Read(real.tool.name, outcome.text(), "neutral"), judged.call.id)
            return
        held = tried or judged.verdict.basis == "covered"
        facts = self._result_facts(
            real.offer, real.args, real.places, held=held, call=judged.call.id
        )
        self._take(facts, real.args, outcome.text(), judged.call.id)

    def take_recorded(
        self, offer: Offer | None, tool: str, args: JsonObject, text: str, call: str, **more: Any
    ) -> None:
        """Take a result from the record of the session; ``more`` are ``held``, ``line``, ``time``.

        A tool that this worker does not have belongs to a child: its results are a stranger's.
        """
        held = bool(more.pop("held", False))
        if offer is not None:
            self._note_writing(offer, args)
        from forge_cli.engine.provenance.sources import ResultFacts

        if offer is None:
            facts = ResultFacts(tool=tool, output=None if tool in _LOCAL_TOOLS else "untrusted")
            if tool in _LINE_ARGS:
                facts = replace(facts, command=str(args.get("command", "")), had_network=not held)
        else:
            facts = self._result_facts(
                offer, args, self._recorded_places(offer, args), held=held, call=call
            )
        self._take(facts, args, text, call, **more)

    def _take(
        self,
        facts: ResultFacts,
        args: Mapping[str, Any],
        text: str,
        call: str,
        *,
        line: int | None = None,
        time: str | None = None,
    ) -> None:
        from forge_cli.engine.provenance.sources import trust_in

        found = trust_in(facts, args, self.rule, self._zones, self._worker.workspace)
        trust = found.trust
        store = f"{facts.toolset}/{facts.server or ''}"
        if trust == "trusted" and not found.files and store in self.words.written:
            trust = "neutral"
        read = Read(
            facts.tool,
            text,
            trust,
            found.from_network,
            found.title,
            files=found.files,
            tracked=found.tracked,
        )
        self._read(read, call, line, time)

    def _read(
        self, read: Read, call: str, line: int | None = None, time: str | None = None
    ) -> None:
        line = self.words.line_of() if line is None else line
        self.words.take(replace(read, call=call, line=line, time=time or _now()))

    def _is_plain(self, judged: Judged) -> bool:
        """Return True if a result is neither trusted nor untrusted, whatever it says."""
        tool = judged.tool
        is_online = tool.effects is not None and Effect.NETWORK in tool.effects
        sources = (*self.rule.untrusted, *self.rule.trusted)
        is_named = any(each.startswith("tool:") for each in sources)
        return not (
            _server_of(tool) is not None
            or is_online
            or is_named
            or tool.output is not None
            or judged.places
            or judged.offer.toolset in ("web", "shell", "filesystem")
        )

    def _note_writing(self, offer: Offer, args: Mapping[str, Any]) -> None:
        """Note that the session may have written words of strangers to a store.

        What the tools of the same toolset or server bring from then on is not trusted.
        """
        tool = offer.tool
        if not self.words.is_tainted or tool.read_only:
            return
        if tool.effects is not None and tool.effects <= {Effect.READ, Effect.NETWORK}:
            return
        from forge_cli.engine.provenance.words import parts_of

        if not all(map(self.words.is_known, parts_of(list(args.values())))):
            self.words.written.add(f"{offer.toolset}/{_server_of(tool) or ''}")

    def facts_of(self, judged: Judged) -> CallFacts:
        """Return what a call can do, and its words."""
        from forge_cli.engine.provenance.named import NamedCall, name_call, name_line

        real = judged.target or judged
        tool = real.tool
        effect = self._effect_of(real)
        if effect in ("none", "undoable"):
            return CallFacts(effect, NamedCall((), ()))
        line = _line_of_call(real)
        if line is not None:
            named = name_line(line, self._exists)
            if named.only_fetches:
                effect = "reads"
            return CallFacts(effect, named)
        stated: tuple[str, ...] = ()
        for name in (tool.name, real.offer.original):
            stated = stated or self.rule.authority.get(name, ())
        skip = [name for name, value in real.args.items() if _is_default(tool, name, value)]
        return CallFacts(effect, name_call(tool.name, real.args, stated, skip=skip))

    def _effect_of(self, judged: Judged) -> CallEffect:
        tool = judged.tool
        if tool.delegates or tool.read_only:
            return "none"
        if _is_shell(judged):
            return self._effect_of_command(judged)
        effects = tool.effects
        if effects is None:
            return "lasting"
        if Effect.READ in effects and effects <= {Effect.READ, Effect.NETWORK}:
            return "reads"
        if Effect.NETWORK in effects:
            return "lasting"
        changed = any(path.use.access.changes for path in judged.places)
        if Effect.WRITE in effects and not changed and Effect.EXECUTE not in effects:
            return "undoable" if _is_own_store(judged) else "lasting"
        return "undoable"

    def _effect_of_command(self, judged: Judged) -> CallEffect:
        line = _line_of_call(judged) or ""
        name = judged.offer.original or judged.tool.name
        if name == "write_stdin" and line in _NO_INPUT:
            return "none"
        verdict = judged.verdict
        if verdict.risk == "low" or verdict.basis == "covered":
            return "none"
        if self._is_confined() and self._worker.isolation.network is False:
            return "undoable"
        return "command"

    def _may_be_undone(self, judged: Judged, facts: CallFacts) -> bool:
        """Return True if a trial can show whether a command can be undone."""
        real = judged.target or judged
        return facts.effect == "command" and real.verdict.tried_first

    def _loosened(self, judged: Judged, facts: CallFacts, finding: Finding) -> Judged:
        """Return a call that need not ask, because the person named all of it."""
        verdict = judged.verdict
        if (
            not self.rule.from_person
            or finding.asks
            or verdict.approval is not Approval.ASK
            or facts.effect not in ("lasting", "command")
            or not _asks_by_default(judged)
        ):
            return judged
        reason = f"you named it: {verdict.reason}"
        allowed = Verdict(
            Approval.PRE_APPROVED, reason, "provenance.unless", self.rule.where, by="rule"
        )
        return replace(judged, verdict=replace(allowed, basis=verdict.basis))

    def _result_facts(
        self,
        offer: Offer,
        args: Mapping[str, Any],
        places: Sequence[JudgedPath],
        *,
        held: bool,
        call: str,
    ) -> ResultFacts:
        tool = offer.tool
        command: str | None = None
        if offer.toolset == "shell" and (offer.original or tool.name) in SHELL_TOOLS:
            command = str(args.get("command") or args.get("chars") or "")
        network = self._worker.isolation.network
        had_network = command is not None and not held
        reached: bool | None = None
        if had_network and self._is_confined():
            had_network = network is not False
            if not isinstance(network, bool):
                reached = call in self.words.reached
        from forge_cli.engine.provenance.sources import ResultFacts

        return ResultFacts(
            tool=tool.name,
            toolset=offer.toolset,
            server=_server_of(tool),
            effects=tool.effects,
            output=tool.output,
            places=tuple(self._places_read(places)),
            command=command,
            had_network=had_network,
            reached=reached,
        )

    def _places_read(self, places: Sequence[JudgedPath]) -> Iterator[PlaceRead]:
        from forge_cli.engine.provenance.places import PlaceRead, zone_of

        for each in places:
            if each.use.access.changes:
                continue
            zone, _, rest = each.place.removeprefix("/").partition("/")
            folder = self._zones.get(zone)
            if folder is None:
                path = Path(each.place)
                yield PlaceRead(path, zone_of(path, self._zones))
            else:
                yield PlaceRead(folder / rest if rest else folder, zone)

    def _recorded_places(self, offer: Offer, args: JsonObject) -> list[JudgedPath]:
        from forge_cli.engine.provenance.places import zone_of
        from forge_cli.sandbox.files.sandbox import JudgedPath

        found: list[JudgedPath] = []
        try:
            uses = offer.tool.paths(args)
        except Exception:  # third-party code, or args of an earlier version
            return []
        for use in uses:
            real = self._worker.workspace / use.path
            for zone in self._worker.zones:
                rest = use.path.removeprefix(f"/{zone.name}/")
                if rest != use.path:
                    real = zone.path / rest
            name = zone_of(real, self._zones)
            place = str(real)
            if name is not None:
                place = f"/{name}/{real.relative_to(self._zones[name])}"
            verdict = Verdict(Approval.PRE_APPROVED, "recorded")
            found.append(JudgedPath(use, place, None, verdict))
        return found

    @property
    def _zones(self) -> Mapping[str, Path]:
        zones: Sequence[Zone] = self._worker.zones
        return {zone.name: zone.path for zone in zones}

    def _is_confined(self) -> bool:
        return self._worker.isolation.level is not IsolationLevel.OFF and self._confines()

    def _exists(self, word: str) -> bool:
        from forge_cli.engine.provenance.places import zone_of

        try:
            path = (self._worker.workspace / word).resolve()
            return path.exists() and zone_of(path, self._zones) is not None
        except (OSError, ValueError, RuntimeError):
            return False


_LOCAL_TOOLS = frozenset(
    (
        "read_file",
        "write_file",
        "edit_file",
        "list_files",
        "delete_file",
        "file_exists",
        "file_info",
        "list_dir",
        "grep_files",
        "apply_patch",
        "update_plan",
        "get_memory",
        "save_memory",
        "load_skill",
        "find_tools",
        *SHELL_TOOLS,
    )
)
"""Tools of forge that bring no text of strangers by themselves."""


def _server_of(tool: Tool) -> str | None:
    """Return the name of the MCP server of a tool, if it has one."""
    source = tool.source
    return source.origin if source is not None and source.kind == "mcp" else None


def _is_of_model(caller: AnyCaller) -> bool:
    if isinstance(caller, CallingTool):
        caller = caller.root
    return caller is Caller.MODEL


def _is_shell(judged: Judged) -> bool:
    name = judged.offer.original or judged.tool.name
    return judged.offer.toolset == "shell" and name in SHELL_TOOLS


def _line_of_call(judged: Judged) -> str | None:
    if not _is_shell(judged):
        return None
    name = judged.offer.original or judged.tool.name
    return str(judged.args.get(_LINE_ARGS[name]) or "")


def _is_own_store(judged: Judged) -> bool:
    source = judged.tool.source
    is_built_in = source is None or source.kind == "builtin"
    return is_built_in and judged.offer.toolset in _OWN_STORES


def _is_default(tool: Any, name: str, value: object) -> bool:
    known = tool.schema.json_schema.get("properties", {}).get(name)
    return value is None or (
        isinstance(known, Mapping) and "default" in known and known["default"] == value
    )


def _asks_by_default(judged: Judged) -> bool:
    """Return True if only a default asks, and neither a rule, a zone nor the tool itself."""
    verdict = judged.verdict
    if judged.target is not None or any(
        path.verdict.approval is Approval.ASK for path in judged.places
    ):
        return False
    if _is_shell(judged):
        return verdict.unruled
    policy = judged.offer.policy
    default = policy.default or SILENT
    return (
        policy.named is None
        and judged.tool.needs_approval is None
        and (verdict.reason, verdict.rule) == (default.reason, default.rule)
    )


def _why(facts: CallFacts) -> str:
    return _WHY_ADDRESS if facts.effect == "reads" else _WHY


def _blocked(
    judged: Judged, reason: str, reasons: tuple[ValueOrigin, ...], rule: Provenance
) -> Judged:
    """Return a call that is blocked, with the values that nobody named in its reason."""
    named = "; ".join(f"{visible(each.value)}: {each.sentence()}" for each in reasons)
    verdict = Verdict(
        Approval.BLOCKED,
        f"{reason} ({named})",
        RULE,
        rule.where,
        by="rule",
        provenance=reasons,
    )
    return replace(judged, verdict=verdict)


def _asking(
    judged: Judged,
    reason: str,
    reasons: tuple[ValueOrigin, ...],
    rule: Provenance,
    *,
    undoable_if_tried: bool = False,
) -> Judged:
    """Return a call that asks, with the values that nobody named; its own reason is a detail."""
    before = judged.verdict
    details = before.details
    if before.approval is Approval.ASK:
        details = (f"also:   {before.reason}", *details)
    verdict = Verdict(
        Approval.ASK,
        reason,
        RULE,
        rule.where,
        by="rule",
        details=details,
        parts=before.parts,
        risk=before.risk,
        basis=before.basis,
        tried_first=before.tried_first,
        provenance=reasons,
        undoable_if_tried=undoable_if_tried,
    )
    return replace(judged, verdict=verdict)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
