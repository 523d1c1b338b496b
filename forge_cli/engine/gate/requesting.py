"""Requests for calls: the preview, the rules that would allow the call, and all other details."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from forge_cli.core.approval import ApprovalRequest, GrantOffer, Needs, ValueOrigin
from forge_cli.core.bounds import fault_text
from forge_cli.core.bus import new_id
from forge_cli.core.errors import ToolError
from forge_cli.core.results import TRIAL_LIMIT, VALUE_LIMIT, Text, as_result, bounded
from forge_cli.core.text import visible
from forge_cli.core.tool import TIME_LIMIT, Args, Preview, Tried
from forge_cli.core.wire import jsonable
from forge_cli.engine.gate.execution import perform_within
from forge_cli.engine.gate.steps import (
    AskedCall,
    Caller,
    CallingTool,
    Judged,
    Refusal,
    Requested,
    ShownTrial,
)
from forge_cli.schema.tool import Tool

if TYPE_CHECKING:
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.judge import Judge
    from forge_cli.record.resume import Pending


class Asking(Struct):
    """A call on its way to an answer, with everything that was made for it so far."""

    requested: Requested
    judged: Judged
    pending: Pending | None = None
    """The request, if an earlier process recorded one."""
    preview: Preview | None = None
    request: ApprovalRequest | None = None
    request_id: str | None = None
    """The ID of the request that the decision belongs to, once there is one."""


class Requests:
    """Makes the requests for the calls of one worker."""

    def __init__(
        self, judge: Judge, controller: ApprovalController, interrupt: InterruptSignal
    ) -> None:
        self._judge = judge
        self._controller = controller
        self._interrupt = interrupt

    def needs(self, judged: Judged) -> Needs:
        """Return the rules that would allow a call; none if it may have run already."""
        if self._judge.may_have_run(judged):
            return ()
        return judged.verdict.grants

    def asked(self, judged: Judged) -> AskedCall:
        """Return the facts of a call before it is tried."""
        return AskedCall(
            judged.fingerprint, self.needs(judged), ungranted=self._is_ungranted(judged)
        )

    def _is_ungranted(self, judged: Judged) -> bool:
        """Return True if grants do not count for the words of a call."""
        provenance = self._judge.provenance
        return (
            provenance is not None
            and bool(judged.verdict.provenance)
            and not provenance.is_approved(judged)
        )

    def asked_after(self, judged: Judged, preview: Preview | None) -> AskedCall:
        """Return the facts of a call after its preview.

        A call that has to ask each time has no fingerprint.
        """
        key = None if self._is_once(judged, preview) else judged.fingerprint
        return AskedCall(
            key, self.needs(judged), ShownTrial.of(preview), self._is_ungranted(judged)
        )

    def _is_once(self, judged: Judged, preview: Preview | None) -> bool:
        return (preview is not None and preview.once) or self._judge.may_have_run(judged)

    def request(
        self, judged: Judged, preview: Preview | None, request_id: str | None = None
    ) -> ApprovalRequest:
        tool, verdict = judged.tool, judged.verdict
        asked = self.asked_after(judged, preview)
        offers = self._controller.offers(asked)
        if verdict.provenance and self._controller.attended:
            offers = (*own_words(verdict.provenance), *offers)
        # A trial that no grant can cover asks each time.
        nothing_left = self._controller.attended and asked.trial is not None and not offers
        shown = preview or Preview(None)
        return ApprovalRequest(
            request_id=request_id or new_id("approval"),
            tool_call_id=judged.call.id,
            tool_name=tool.name,
            args=deepcopy(judged.args),
            description=f"{self._subject(judged)} call {tool.name}",
            reason=verdict.reason,
            risk=shown.risk or verdict.risk or tool.risk,
            rule=verdict.rule,
            where=verdict.where,
            preview=shown.value,
            details=verdict.details or None,
            fingerprint=judged.fingerprint,
            stamp=shown.stamp,
            caller=judged.calling_tool,
            once=self._is_once(judged, preview) or nothing_left or None,
            parts=verdict.parts if len(verdict.parts) > 1 else None,
            runs=shown.runs,
            recap=shown.recap,
            folded=shown.folded or None,
            previewed=shown.shows or None,
            defaults=tuple(_default_args(tool, judged.args)) or None,
            distribution=tool.author_of(shown.value) if shown.value is not None else None,
            offers=offers or None,
            provenance=verdict.provenance or None,
            policy_files=self._policy_files(offers),
        )

    def _policy_files(self, offers: tuple[GrantOffer, ...]) -> Mapping[str, str] | None:
        if not any(offer.rules for offer in offers):
            return None
        return self._judge.worker.policy_files

    def _subject(self, judged: Judged) -> str:
        """Return the beginning of the sentence that names the caller."""
        workers = " > ".join(self._controller.bus.path or (self._judge.worker.name,))
        caller = judged.caller
        if caller is Caller.PERSON:
            return "you want to"
        if caller is Caller.PROGRAM:
            return f"the program that runs {workers} wants to"
        if isinstance(caller, CallingTool):
            return f"the tool {caller.name} of {workers} wants to"
        return f"{workers} wants to"

    async def preview(self, judged: Judged) -> Preview | None:
        """Preview a call.

        A failed preview is shown as such, and its approval covers this call only.
        """
        if judged.tool.preview is None:
            return None
        try:
            from forge_cli.engine.gate.contexts import preview_context

            context = preview_context(self._judge, judged, self._controller.bus, self._interrupt)
            shown = partial(judged.tool.preview, deepcopy(judged.args), context)
            # A trial runs the call itself, so it gets as much time.
            seconds = max(TIME_LIMIT, judged.tool.timeout or 0)
            since = time.monotonic()
            preview: Preview | Tried = await perform_within(
                seconds, f"the preview of {judged.tool.name}", shown
            )
            if isinstance(preview, Tried):
                preview = _preview_of(preview, judged, round((time.monotonic() - since) * 1000))
            bounded_preview = _bounded_preview(preview)
        except ToolError as error:
            raise Refusal("error", str(error)) from None
        except Exception as error:  # third-party code
            return Preview(Text(f"no preview: {fault_text(error)}"), once=True)
        if judged.verdict.unruled and not self._judge.may_have_run(judged):
            return bounded_preview
        return dataclasses.replace(bounded_preview, changed=None)  # its folder cannot be granted


def _preview_of(tried: Tried, judged: Judged, duration_ms: int) -> Preview:
    """Return what the prompt shows of a trial, with its event for the record."""
    if judged.tool.apply is None:
        raise TypeError("it returned a Tried, but the tool has no apply")
    from forge_cli.core.trial import CommandTried

    outcome: Literal["noEffect", "effects", "blocked"] = "noEffect"
    if tried.blocked is not None:
        outcome = "blocked"
    elif tried.has_effect:
        outcome = "effects"
    event = CommandTried(
        judged.call.id,
        outcome,
        None,
        duration_ms,
        blocked=tried.blocked.reason if tried.blocked else None,
        summary=tried.summary,
    )
    return Preview(
        tried.value,
        stamp=tried.stamp,
        once=True,
        shows=tried.shows,
        recap=tried.summary,
        risk=tried.risk,
        tried=event,
        blocked=tried.blocked,
        for_apply=tried,
    )


def own_words(origins: Sequence[ValueOrigin]) -> Iterator[GrantOffer]:
    """Yield the offer to count the values of a call as the person's, if it has some."""
    values = tuple(dict.fromkeys(each.value for each in origins if each.argument))
    if values:
        verb = "is" if len(values) == 1 else "are"
        yield GrantOffer(f"{', '.join(map(visible, values))} {verb} mine", mine=values)


def _bounded_preview(preview: Preview) -> Preview:
    """Return a preview small enough to record; one that was cut shows no arg completely."""
    if preview.value is None:
        return preview
    whole = as_result(preview.value)
    value = bounded(whole, TRIAL_LIMIT if preview.tried else VALUE_LIMIT)
    if value == whole:
        return dataclasses.replace(preview, value=value)
    return dataclasses.replace(preview, value=value, shows=())


def _default_args(tool: Tool, args: Args) -> Iterator[str]:
    """Yield the args that equal the default of their schema, or null without one."""
    properties = tool.schema.json_schema.get("properties", {})
    for name, value in args.items():
        known = properties.get(name)
        if isinstance(known, dict) and _is_same(value, known.get("default")):
            yield name


def _is_same(value: object, default: object) -> bool:
    """Return True if two values are equal as JSON, where true is not 1."""
    return json.dumps(jsonable(value), sort_keys=True) == json.dumps(
        jsonable(default), sort_keys=True
    )
