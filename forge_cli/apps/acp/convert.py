"""Conversion of a session to the editor's messages: text, plans, calls, questions and options."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, assert_never

from acp import helpers, schema
from msgspec.structs import replace

from forge_cli.core import events
from forge_cli.core.actions import (
    ApprovalResponse,
    CommandEvent,
    Interrupt,
    ManualToolInvoke,
    UserInput,
)
from forge_cli.core.approval import MODE_TITLES, ApprovalRequest, Effect, SessionMode
from forge_cli.core.event_kinds import OtherEvent
from forge_cli.core.media import Image
from forge_cli.core.messages import Attachment, Message
from forge_cli.core.phrases import interrupted_for_people, is_own
from forge_cli.core.results import Custom, Diff, FileContent, ResultValue, shown_files
from forge_cli.core.text import cut, readable, visible
from forge_cli.core.trial import CommandTried, DraftEvent
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.core.zones import Access
from forge_cli.files.home import user_home
from forge_cli.record.line import BadLine, Line
from forge_cli.sandbox.zones.declared import named_file
from forge_cli.schema.paths import ACCESS, declared_accesses
from forge_cli.schema.tool import Tool
from forge_cli.ui.facts import PLAN, Facts
from forge_cli.ui.terminal.calls import short_args
from forge_cli.ui.terminal.prompts import describe_in_text
from forge_cli.ui.terminal.render import render_text
from forge_cli.ui.transcript.markdown import fenced
from forge_cli.ui.views import FindRenderer, short_place, view_of

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentPlanUpdate
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AvailableCommandsUpdate
    | schema.CurrentModeUpdate
    | schema.ConfigOptionUpdate
    | schema.SessionInfoUpdate
    | schema.UsageUpdate
)
TITLE_MAX = 200
"""Characters of a call's title."""
SHOWN_MAX = 20_000
"""Characters of a text in a call; the record has the whole text."""
_BREAKS = "\n\t"
_SEARCHES = {"pattern", "query"}
"""Arguments of tools that search."""


class UpdateWriter:
    """Converter from lines of one session to updates, with its current ``facts`` and ``tools``."""

    def __init__(
        self, facts: Facts, tools: Callable[[], Sequence[Tool]], find: FindRenderer
    ) -> None:
        self._facts = facts
        self._tools = tools
        self._find = find
        self._streamed = False
        self._calls = set[str]()
        self._no_calls = set[str]()
        """Ids of shown calls, and of questions without a call, such as network connections."""

    def updates_of(self, line: Line, *, replayed: bool = False) -> Iterator[Update]:
        """Yield the updates for a line; ``replayed`` lines include the user's messages."""
        try:
            event = line.event
        except BadLine:
            return
        child = "delegation" in line.data
        match event:
            case events.Streaming(request_id=said, delta=delta) if delta and not child:
                self._streamed = True
                yield schema.AgentMessageChunk(
                    session_update="agent_message_chunk",
                    content=helpers.text_block(delta),
                    message_id=said,
                )
            case events.MessageEvent(message=message) if not child:
                yield from self._said(message, replayed)
            case events.ToolStarted():
                yield self._start(event, line)
            case events.ApprovalRequired(request=request):
                yield from self._asks(dict(self.question(line, request)))
            case events.ApprovalDecided(tool_call_id=call, approved=approved) if (
                call_id(line, call) in self._no_calls
            ):
                yield _progress(call_id(line, call), status="completed" if approved else "failed")
            case events.ApprovalDecided(approved=True, tool_call_id=call):
                yield _progress(call_id(line, call), status="in_progress")
            case (
                events.ToolOutput(tool_call_id=call, text=text)
                | events.StatusEvent(tool_call_id=str() as call, message=text)
            ):
                yield _progress(
                    call_id(line, call), content=[_text(fenced(cut(text, SHOWN_MAX), "text"))]
                )
            case events.ToolResult():
                yield from self._result(event, call_id(line, event.tool_call_id))
            case events.SessionUpdate(title=str() as title):
                yield schema.SessionInfoUpdate(session_update="session_info_update", title=title)
            case events.ContextUsage(used=used) if not child and self._facts.window:
                yield self._usage(used, self._facts.window)
            case (
                events.SessionStart()
                | events.SessionUpdate()
                | events.SessionEnd()
                | events.TurnStart()
                | events.TurnEndEvent()
                | events.MessageEvent()
                | events.Streaming()
                | events.StatusEvent()
                | events.ApprovalDecided()
                | events.GrantsEvent()
                | events.ModeChanged()
                | events.NetworkAccess()
                | events.WorkerUpdate()
                | events.ContextUsage()
                | events.ManualToolsAvailable()
                | events.InputPrompt()
                | CommandTried()
                | DraftEvent()
                | ApprovalResponse()
                | UserInput()
                | Interrupt()
                | ManualToolInvoke()
                | CommandEvent()
                | OtherEvent()
            ):
                pass  # the protocol has no update for these, or forge sends it with an answer
            case never:
                assert_never(never)

    def question(self, line: Line, request: ApprovalRequest) -> schema.ToolCallUpdate:
        """Return a call that asks: first the reason, then everything that it would do."""
        preview = request.preview
        folded = request.folded or ()
        if isinstance(preview, Diff):
            shown = _diff(preview, self._file(preview.path))
        else:
            shown = None
        told = replace(request, offers=(), once=True)  # the editor's buttons show the offers
        if shown is not None and isinstance(preview, Diff):
            # the editor draws the diff, so the text repeats neither it nor the new content
            in_diff = [name for name, value in request.args.items() if value == preview.modified]
            told = replace(told, preview=None, previewed=(*(request.previewed or ()), *in_diff))
        where = f" ({short_place(request.where)})" if request.where else ""
        rule = f"\nrule: {visible(request.rule)}" if request.rule else ""
        why = f"{visible(request.reason)}{visible(where)}{rule}\nrisk: {request.risk}"
        content = [_text(why)]
        if shown:
            content.append(shown)
        # never cut, because a yes counts for all of it
        content.append(_text(fenced(describe_in_text(told, self._find), "text")))
        for each in folded:
            text = f"{visible(each.line)}\n{visible(each.text, keep=_BREAKS)}"
            content.append(_text(fenced(text, "diff")))
        return schema.ToolCallUpdate(
            tool_call_id=call_id(line, request.tool_call_id),
            title=_title(request.tool_name, request.args, line),
            status="pending",
            content=content,
            raw_input=jsonable(request.args),
            field_meta={"forge": _reasons(request)},
        )

    def _asks(self, asks: dict[str, Any]) -> Iterator[Update]:
        """Yield an update for a question without a call: editors show buttons at calls only."""
        call = asks["tool_call_id"]
        if call in self._calls:
            yield schema.ToolCallProgress(session_update="tool_call_update", **asks)
            return
        self._calls.add(call)
        self._no_calls.add(call)
        yield schema.ToolCallStart(session_update="tool_call", **asks)

    def _said(self, message: Message, replayed: bool) -> Iterator[Update]:
        if (
            message.role == "user"
            and replayed
            and message.summary is None
            and not is_own(message.text)
        ):
            yield helpers.update_user_message_text(message.text)
            for file in message.attachments:
                yield helpers.update_user_message(_attached(file))
        elif message.role == "assistant":
            # a streamed answer was already sent in pieces
            if message.text and (replayed or not self._streamed):
                yield helpers.update_agent_message_text(message.text)
            self._streamed = False

    def _start(self, event: events.ToolStarted, line: Line) -> schema.ToolCallStart:
        known = () if "delegation" in line.data else self._tools()
        tool = next((each for each in known if each.name == event.tool_name), None)
        self._calls.add(call_id(line, event.tool_call_id))
        return schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=call_id(line, event.tool_call_id),
            title=_title(event.tool_name, event.args, line),
            kind=kind_of(tool),
            status="pending",
            locations=[
                schema.ToolCallLocation(path=path) for path in self._paths(tool, event.args)
            ],
            raw_input=jsonable(event.args),
        )

    def _result(self, event: events.ToolResult, call: str) -> Iterator[Update]:
        value = event.value
        error = event.error
        if error is not None and event.status == "interrupted":
            error = interrupted_for_people(error)
        if error is None:
            content = list(self._content(value, event.distribution))
        else:
            content = [_text(error)]
        paths = [value.path] if isinstance(value, Diff | FileContent) else []
        yield _progress(
            call,
            status="completed" if event.status == "success" else "failed",
            content=content,
            locations=[schema.ToolCallLocation(path=self._file(path)) for path in paths] or None,
            meta={"forge": {"status": event.status}},
        )
        if isinstance(value, Custom) and value.kind == PLAN and isinstance(value.data, Mapping):
            yield helpers.update_plan(list(_steps(value.data.get("plan"))))

    def _content(
        self, value: ResultValue, distribution: str | None
    ) -> Iterator[helpers.ToolCallContentVariant]:
        if isinstance(value, Diff) and (shown := _diff(value, self._file(value.path))):
            yield shown
            return
        for file in shown_files(value):
            if isinstance(file, Image):
                yield helpers.tool_content(
                    helpers.image_block(b64encode(file.data).decode(), file.media_type)
                )
        view = view_of(value, self._find, distribution)
        if text := render_text(view):
            language = "diff" if view.form == "diff" else "text"
            yield _text(fenced(cut(text, SHOWN_MAX), language))

    def _usage(self, used: int, window: int) -> schema.UsageUpdate:
        cost = self._facts.cost
        return schema.UsageUpdate(
            session_update="usage_update",
            used=used,
            size=window,
            cost=schema.Cost(amount=cost, currency="USD") if cost else None,
        )

    def _paths(self, tool: Tool | None, args: Mapping[str, Any]) -> list[str]:
        """Return the files in the arguments that the tool declares as paths."""
        declared = tool.schema.json_schema.get("properties", {}) if tool else {}
        named = [
            args.get(name)
            for name, each in declared.items()
            if isinstance(each, Mapping) and ACCESS in each
        ]
        return [self._file(name) for name in named if isinstance(name, str)]

    def _file(self, name: str) -> str:
        zones = {str(zone["name"]): Path(str(zone["path"])) for zone in self._facts.zones}
        return str(named_file(name, Path(self._facts.workspace), zones, user_home()))


def call_id(line: Line, call: str) -> str:
    """Return a unique id of a call, because the models of child workers may repeat ids."""
    if "delegation" in line.data:
        return f"{line.data['delegation']}/{call}"
    return call


def _title(tool: str, args: Mapping[str, Any], line: Line) -> str:
    child = f"{line.worker}: " if "delegation" in line.data else ""
    return cut(f"{child}{tool} {short_args(args)}".strip(), TITLE_MAX, "end")


def kind_of(tool: Tool | None) -> schema.ToolKind:
    """Return the kind of a call, which selects the editor's icon, by what its tool declares."""
    if tool is None or tool.effects is None:
        return "other"
    accesses = declared_accesses(tool.schema.json_schema)
    if Access.DELETE in accesses and Access.WRITE not in accesses:
        return "delete"
    if Effect.EXECUTE in tool.effects:
        return "execute"
    if Effect.WRITE in tool.effects:
        return "edit"
    if Effect.NETWORK in tool.effects:
        return "fetch"
    if _SEARCHES & set(tool.schema.json_schema.get("properties", {})):
        return "search"
    return "read"


def _progress(
    call: str,
    *,
    status: schema.ToolCallStatus | None = None,
    content: Sequence[helpers.ToolCallContentVariant] | None = None,
    locations: list[schema.ToolCallLocation] | None = None,
    meta: JsonObject | None = None,
) -> schema.ToolCallProgress:
    return schema.ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call,
        status=status,
        content=None if content is None else list(content),
        locations=locations,
        field_meta=meta,
    )


def _attached(file: Attachment) -> schema.ImageContentBlock | schema.EmbeddedResourceContentBlock:
    """Return an attachment of a prompt as the editor sent it."""
    if file.media_type.startswith("text/"):
        text = file.data.decode("utf-8", "replace")
        return helpers.resource_block(
            helpers.embedded_text_resource(file.name, text, mime_type=file.media_type)
        )
    data = b64encode(file.data).decode()
    if file.media_type.startswith("image/"):
        return helpers.image_block(data, file.media_type)
    return helpers.resource_block(
        helpers.embedded_blob_resource(file.name, data, mime_type=file.media_type)
    )


def _text(text: str) -> helpers.ToolCallContentVariant:
    return helpers.tool_content(helpers.text_block(readable(text)))


def _diff(diff: Diff, path: str) -> helpers.ToolCallContentVariant | None:
    """Return a change as a diff, or None if the old text was too long to be kept."""
    if diff.original is None and not diff.is_new:
        return None
    return helpers.tool_diff_content(path, diff.modified, diff.original)


def _reasons(request: ApprovalRequest) -> JsonObject:
    return {
        "reason": request.reason,
        "rule": request.rule,
        "where": str(request.where) if request.where else None,
        "risk": request.risk,
        "requestId": request.request_id,
    }


def _steps(plan: Any) -> Iterator[schema.PlanEntry]:
    steps = plan if isinstance(plan, Sequence) else ()  # data of a tool can be anything
    for step in steps:
        if isinstance(step, Mapping) and step.get("status") in (
            "pending",
            "in_progress",
            "completed",
        ):
            yield schema.PlanEntry(
                content=str(step.get("step", "")), priority="medium", status=step["status"]
            )


COMMANDS = {
    "add-dir": ("give the worker access to a folder", "DIR[:ro]"),
    "clear": ("clear the conversation", ""),
    "compact": ("replace the conversation by a summary", ""),
    "mcp": ("list, disable and enable MCP servers", "[off|on|reconnect NAME]"),
    "name": ("give the session a title", "TITLE"),
    "reload": ("reload the worker's file", ""),
    "revoke": ("revoke the session's grants", "N|all"),
    "rewind": ("go back to a message, with files and conversation", "[N]"),
    "undo": ("restore changed files", "[--list]"),
}
"""The slash commands of a session; mode and model are options instead."""
Option = schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean


def modes_of(facts: Facts) -> schema.SessionModeState:
    """Return the modes, for editors that do not support options."""
    return schema.SessionModeState(
        current_mode_id=facts.mode,
        available_modes=[
            schema.SessionMode(id=mode, name=_mode_title(facts, mode)) for mode in facts.modes
        ],
    )


def options_of(facts: Facts) -> list[Option]:
    """Return the options that the editor offers: mode and model."""
    modes: dict[str, str] = {mode: _mode_title(facts, mode) for mode in facts.modes}
    models = {name: name for name in (facts.model, *facts.models())}
    return [
        _select("mode", "Mode", facts.mode, modes),
        _select("model", "Model", facts.model, models),
    ]


def commands_of(facts: Facts) -> schema.AvailableCommandsUpdate:
    """Return forge's own commands, tools for people, and prompts of toolsets."""
    found = dict(COMMANDS)
    for tool in facts.manual_tools.values():
        found.setdefault(tool.name, (tool.summary or tool.label, "--KEY VALUE"))
    for name, prompt in facts.prompts.items():
        found.setdefault(name, (str(prompt.get("description") or "a prompt"), "[KEY=VALUE]"))
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[
            schema.AvailableCommand(name=name, description=visible(summary), input=_hint(hint))
            for name, (summary, hint) in found.items()
        ],
    )


def _mode_title(facts: Facts, mode: SessionMode) -> str:
    """Return the title of a mode, with the approval mode if that answers instead of a person."""
    if mode == "ask" and facts.approval_mode != "interactive":
        return facts.approval_mode.replace("_", " ")
    return MODE_TITLES[mode]


def _select(
    id: Literal["mode", "model"], name: str, current: str, choices: Mapping[str, str]
) -> Option:
    return schema.SessionConfigOptionSelect(
        type="select",
        id=id,
        name=name,
        category=id,
        current_value=current,
        options=[
            schema.SessionConfigSelectOption(value=value, name=title)
            for value, title in choices.items()
        ],
    )


def _hint(hint: str) -> schema.AvailableCommandInput | None:
    if hint:
        return schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=hint))
    return None
