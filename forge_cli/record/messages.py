"""Messages on the wire: everything that was said, written so that the same history can be read back."""

from __future__ import annotations

import base64

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import Attachment, CallResult, Message, Summary
from forge_cli.core.results import for_model, from_wire
from forge_cli.core.signature import JsonObject
from forge_cli.core.wire import jsonable, wire
from forge_cli.sandbox.secrets import has_mark


def message_wire(message: Message) -> JsonObject:
    """What somebody said; results of calls have events of their own."""
    found: JsonObject = {"role": message.role, "content": message.text}
    if message.calls:
        found["calls"] = [_call_wire(call) for call in message.calls]
    if message.attachments:
        found["attachments"] = [_attachment_wire(file) for file in message.attachments]
    if message.native is not None:
        found["native"] = jsonable(message.native)
    if message.summary is not None:
        found["summary"] = wire(message.summary)
    return found


def _call_wire(call: ToolCall) -> JsonObject:
    found: JsonObject = {"toolCallId": call.id, "toolName": call.name, "args": jsonable(call.input)}
    return found if call.unreadable is None else {**found, "unreadable": call.unreadable}


def _attachment_wire(file: Attachment) -> JsonObject:
    """Text as text, so that secrets in it are seen and taken out; anything else in base64."""
    found: JsonObject = {"name": file.name, "mediaType": file.media_type}
    if file.media_type.startswith("text/"):
        return {**found, "text": file.data.decode("utf-8", "replace")}
    return {**found, "data": base64.b64encode(file.data).decode()}


def read_message(data: JsonObject) -> Message:
    native = data.get("native")
    return Message(
        data["role"],
        data.get("content") or "",
        calls=tuple(read_call(call) for call in data.get("calls", ())),
        attachments=tuple(_read_attachment(file) for file in data.get("attachments", ())),
        native=None if native is None or has_mark(native) else native,
        summary=_read_summary(data["summary"]) if "summary" in data else None,
    )


def _read_summary(data: JsonObject) -> Summary:
    return Summary(data["text"], tuple(data["said"]), data["called"])


def read_call(data: JsonObject) -> ToolCall:
    return ToolCall(data["toolCallId"], data["toolName"], data["args"], data.get("unreadable"))


def _read_attachment(data: JsonObject) -> Attachment:
    content = data["text"].encode() if "text" in data else base64.b64decode(data["data"])
    return Attachment(data["name"], data["mediaType"], content)


def read_result(line: JsonObject) -> CallResult:
    """What the model read of a recorded ``toolResult``."""
    text = for_model(from_wire(line["value"]))
    return CallResult(line["toolCallId"], line["toolName"], text, is_error=line["status"] != "success")
