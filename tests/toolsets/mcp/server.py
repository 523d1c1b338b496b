"""A small MCP server without the SDK, which behaves as its argument says."""

import json
import os
import sys
import time
from pathlib import Path

MODE = sys.argv[1]
DESCRIBED, LEFT = (
    Path(sys.argv[2] if len(sys.argv) > 2 else name) for name in ("described", "left")
)
TOOL = {
    "name": "echo",
    "description": "Say it back.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


FORM = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1, "description": "How large"},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    },
    "required": ["size"],
}
HEROES = [{"const": "hero-1", "title": "Superman"}, {"const": "hero-2", "title": "Green Lantern"}]
CHOICES = {
    "type": "object",
    "properties": {
        "hero": {"type": "string", "oneOf": HEROES},
        "pet": {"type": "string", "enum": ["p1", "p2"], "enumNames": ["Cat", "Dog"]},
        "sizes": {
            "type": "array",
            "items": {"type": "string", "enum": ["small", "large"]},
            "default": ["small"],
        },
        "friends": {"type": "array", "items": {"anyOf": HEROES}, "minItems": 1},
    },
    "required": ["hero", "friends"],
}
DOUBLED = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(25)} | {
    "a25": True
}


def schema(**more: object) -> dict:
    return {"type": "object", "properties": {"text": {"type": "string", **more}}}


ODD_SCHEMAS = {
    "doubles": {
        **schema(),
        "properties": {"text": {"$ref": "#/$defs/a0", "default": ""}},
        "$defs": DOUBLED,
    },
    "later": {**schema(), "properties": {"text": {"$ref": "#/$defs/a0"}}, "$defs": DOUBLED},
    "looks": schema(pattern="^(?=(a+)+b)x"),
    "refers": schema(pattern=r"^(a+)\1$"),
    "huge": schema(pattern="(a{1000}){1000}"),
    "by_name": {**schema(), "patternProperties": {"^(?!x)(a+)+$": {"type": "string"}}},
    "linear": schema(pattern="^(a+)+$"),
}
SAID = {"role": "user", "content": {"type": "text", "text": "Say hi."}}
QUESTIONS = {
    "roots": ("roots/list", {}),
    "samples": (
        "sampling/createMessage",
        {"messages": [SAID], "maxTokens": 100, "systemPrompt": "Be brief."},
    ),
    "elicits": (
        "elicitation/create",
        {"mode": "form", "message": "Which one?", "requestedSchema": FORM},
    ),
    "chooses": (
        "elicitation/create",
        {"mode": "form", "message": "Which one?", "requestedSchema": CHOICES},
    ),
    "links": (
        "elicitation/create",
        {"mode": "url", "message": "Log in.", "url": "https://example.org", "elicitationId": "e1"},
    ),
}


def tools() -> list[dict]:
    match MODE:
        case "invisible":
            return [TOOL, {**TOOL, "name": "hidden", "description": "Harmless\u200b\u202e."}]
        case "twice":
            return [TOOL, TOOL]
        case "unsound":
            return [
                TOOL,
                {
                    **TOOL,
                    "name": "bad",
                    "inputSchema": {"type": "object", "properties": {"x": {"type": 7}}},
                },
            ]
        case "odd schemas":
            return [
                TOOL,
                *(
                    {**TOOL, "name": name, "inputSchema": schema}
                    for name, schema in ODD_SCHEMAS.items()
                ),
            ]
        case "tasks":
            return [TOOL, {**TOOL, "name": "slow", "execution": {"taskSupport": "required"}}]
        case "thousands":
            return [{**TOOL, "name": f"tool {number}"} for number in range(2001)]
        case "defaults":
            styled = {"text": {"type": "string"}, "style": {"type": "string", "default": "plain"}}
            return [
                {
                    **TOOL,
                    "inputSchema": {
                        "type": "object",
                        "properties": styled,
                        "required": ["text", "style"],
                    },
                }
            ]
        case "malformed":
            bad = [{"type": "objct"}, {}, True, None]
            return [
                TOOL,
                *({**TOOL, "name": f"bad{at}", "inputSchema": each} for at, each in enumerate(bad)),
                "what",
            ]
        case "many" | "hundreds":
            return [
                {**TOOL, "name": f"tool {number}"}
                for number in range(2000 if MODE == "many" else 300)
            ]
        case "described":
            return [{**TOOL, "description": DESCRIBED.read_text()}]
        case "hints":
            says = {
                "reads": {"readOnlyHint": True, "openWorldHint": False},
                "surfs": {"readOnlyHint": True, "openWorldHint": True},
            }
            says |= {
                "writes": {"readOnlyHint": False},
                "silent": None,
                "plain": {"readOnlyHint": True},
            }
            return [
                {**TOOL, "name": name, **({"annotations": each} if each else {})}
                for name, each in says.items()
            ]
        case "alike":
            return [{**TOOL, "name": name} for name in ("a b", "a/b", "a_b", "x" * 100, "x" * 101)]
    return [TOOL]


def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def send(message: dict) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def answer(request: dict) -> None:
    match request["method"]:
        case "initialize" if MODE == "refuses":
            send({"id": request["id"], "error": {"code": -32600, "message": "no licence"}})
        case "initialize" if MODE == "newer":
            found = {
                "protocolVersion": "2199-01-01",
                "capabilities": {},
                "serverInfo": {"name": "test", "version": "1"},
            }
            send({"id": request["id"], "result": found})
        case "initialize":
            found = {
                "protocolVersion": "2025-11-25",
                "capabilities": {
                    "tools": {"listChanged": True},
                    **({MODE: {}} if MODE in ("resources", "prompts") else {}),
                },
                "serverInfo": {"name": "test", "version": "1"},
                **({"tools": tools()} if MODE == "malformed" else {}),
            }
            send({"id": request["id"], "result": found})
        case "tools/list" if MODE == "listless":
            time.sleep(1000)
        case "tools/list":
            send({"id": request["id"], "result": {"tools": tools()}})
        case "tools/call":
            call(request)
        case "notifications/cancelled":
            LEFT.write_text(json.dumps(request["params"]))
        case "resources/list":
            send(
                {
                    "id": request["id"],
                    "result": {
                        "resources": [{"uri": "note://a", "name": "a", "mimeType": "text/plain"}]
                    },
                }
            )
        case "resources/read":
            contents = [{"uri": request["params"]["uri"], "text": "what it says"}]
            send({"id": request["id"], "result": {"contents": contents}})
        case "prompts/list":
            arguments = [
                {"name": "topic", "required": True},
                {"name": "style", "description": "How"},
            ]
            prompts = [
                {"name": "write up", "description": "Write it up.", "arguments": arguments},
                {"name": "bare"},
            ]
            send({"id": request["id"], "result": {"prompts": prompts}})
        case "prompts/get":
            send({"id": request["id"], "result": {"messages": prompt(**request["params"])}})
        case _ if "id" in request:
            send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})


def prompt(name: str, arguments: dict, **more: object) -> list[dict]:
    said = {"user": f"{name}: {json.dumps(arguments)}", "assistant": "At once."}
    return [
        {"role": role, "content": {"type": "text", "text": text}} for role, text in said.items()
    ]


def ask(method: str, params: dict) -> dict:
    """Ask the client for something, and wait for the answer."""
    send({"id": "mine", "method": method, "params": params})
    while (answered := json.loads(sys.stdin.readline())).get("id") != "mine":
        pass
    return answered.get("result") or answered["error"]


def call(request: dict) -> None:
    text = request["params"]["arguments"]["text"]
    match MODE:
        case "dies":
            sys.stderr.write("out of luck\n")
            sys.exit(3)
        case "deaf":
            time.sleep(1000)
        case "long":
            send(
                {
                    "id": request["id"],
                    "result": {"content": [{"type": "text", "text": "x" * 20_000_000}]},
                }
            )
        case "wrong":
            send({"id": request["id"], "result": 7})
        case "misshapen":
            send({"id": request["id"], "result": {"content": 7}})
        case "fails":
            content = [{"type": "text", "text": "it broke"}]
            send({"id": request["id"], "result": {"content": content, "isError": True}})
        case "image" | "mixed" | "structured":
            image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
            sound = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
            file = {"uri": "mem://a.pdf", "mimeType": "application/pdf", "blob": "AAA="}
            said, lie = (
                {"type": "text", "text": text},
                {"type": "image", "data": "?", "mimeType": "image/png"},
            )
            parts = [said, image, said, image, sound, {"type": "resource", "resource": file}, lie]
            content = {"image": [image], "mixed": parts, "structured": [said, image]}[MODE]
            more = {"structuredContent": {"count": 2}} if MODE == "structured" else {}
            send({"id": request["id"], "result": {"content": content, **more}})
        case "roots" | "samples" | "elicits" | "chooses" | "links":
            found = ask(*QUESTIONS[MODE])
            send(
                {
                    "id": request["id"],
                    "result": {"content": [{"type": "text", "text": json.dumps(found)}]},
                }
            )
        case "waits":
            LEFT.write_text("called")
        case "logs":
            sys.stderr.write("a line for the trace\n")
            sys.stderr.flush()
            send(
                {
                    "method": "notifications/message",
                    "params": {"level": "info", "data": "what it logs"},
                }
            )
            send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})
        case "reads":
            try:
                found = Path(text).expanduser().read_text()
            except OSError as error:
                found = type(error).__name__
            send({"id": request["id"], "result": {"content": [{"type": "text", "text": found}]}})
        case "pid" | "once":
            send(
                {
                    "id": request["id"],
                    "result": {"content": [{"type": "text", "text": str(os.getpid())}]},
                }
            )
        case "environment":
            send(
                {
                    "id": request["id"],
                    "result": {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]},
                }
            )
        case "progress":
            token = request["params"]["_meta"]["progressToken"]
            for done in (1, 2):
                params = {
                    "progressToken": token,
                    "progress": done,
                    "total": 2,
                    "message": f"step {done}",
                }
                send({"method": "notifications/progress", "params": params})
            send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})
        case _:
            send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})


if MODE in ("closes", "once", "crashes"):
    STARTED = LEFT.exists()
    with LEFT.open("a") as file:
        file.write("started\n")
    if MODE == "once" and STARTED:
        sys.exit("there is only one")
if MODE == "absent":
    sys.exit("no such database")
if MODE == "mute":
    time.sleep(1000)
if MODE == "meets":
    Path(sys.argv[2], str(os.getpid())).touch()
    while len(os.listdir(sys.argv[2])) < 5:
        time.sleep(0.02)
if MODE == "writes":
    LEFT.write_text("it was here")
if MODE == "garbage":
    write("Welcome to the server!\n{]")
for line in sys.stdin:
    answer(json.loads(line))
    if MODE == "crashes" and "tools/list" in line:
        sys.exit("as always")
    if MODE == "closes" and not STARTED and "tools/list" in line:
        os.close(0)
        time.sleep(1000)
