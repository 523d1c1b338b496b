"""A worker for batches: the task determines the output of its model, and every effect of a tool is counted."""

import json
from pathlib import Path
from typing import Any

from forge_cli.testing import Project

WORKER = """
name: sorter
instructions: You sort things.
model: drawn:model
limits: {max_turns: 6}
plugins: [./model.py]
toolsets:
  custom:
    module: ./tools.py
    tools: [note, pay]
    approval: {default: preApproved, tools: {pay: ask}}
"""
TOOLS = '''
from pathlib import Path


def note(key: str) -> str:
    """Note that an item was here."""
    with Path("notes.txt").open("a") as file:
        file.write(f"{key}\\n")
    return f"noted {key}"


def pay(key: str) -> str:
    """Pay for an item."""
    with Path("paid.txt").open("a") as file:
        file.write(f"{key}\\n")
    return f"paid {key}"
'''
MODEL = '''
import asyncio
import os
from pathlib import Path

from forge_cli import hookimpl
from forge_cli.errors import ModelError
from forge_cli.events import ToolCall, Usage
from forge_cli.hooks import ModelFactory, TextDelta, TurnEnd


class Drawn:
    """``KEY WORD...``: notes the key, then does what the words say."""

    name = "drawn:model"
    context_window = None

    async def stream(self, request):
        key, *words = next(message.text for message in request.messages if message.role == "user").split()
        made = [call.name for message in request.messages for call in message.calls]
        usage = Usage(input_tokens=8, output_tokens=2)
        await asyncio.sleep(0.01)
        if "hang" in words and not Path("released").exists():
            Path(f"hangs-{key}").touch()
            await asyncio.Event().wait()
        if "note" not in made:
            yield ToolCall("call_note", "note", {"key": key})
            yield TurnEnd("tool_use", usage)
            return
        if "break" in words or ("flaky" in words and not Path(f"flaky-{key}").exists()):
            Path(f"flaky-{key}").touch()
            raise ModelError(f"no answer for {key}")
        if "pay" in words and "pay" not in made:
            yield ToolCall("call_pay", "pay", {"key": key})
            yield TurnEnd("tool_use", usage)
            return
        if "lose" in words:
            for log in Path(os.environ["FORGE_HOME"], "sessions").glob("*.jsonl"):
                if f'"content": "{key} lose"' in log.read_text():
                    log.unlink()
        yield TextDelta(f"done {key}")
        yield TurnEnd("end", usage)

    async def aclose(self):
        pass


@hookimpl
def forge_models():
    return [ModelFactory("drawn", lambda name, env: Drawn())]
'''


def sorter(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    project.write("model.py", MODEL)
    return project


def write_items(project: Project, items: dict[str, str], name: str = "items.jsonl") -> Path:
    rows = ({"id": key, "task": f"{key} {words}".strip()} for key, words in items.items())
    return project.write(name, "".join(json.dumps(row) + "\n" for row in rows))


def results(project: Project, name: str = "items.results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in project.read(name).splitlines()]


def statuses(project: Project, name: str = "items.results.jsonl") -> dict[str, str]:
    """Return the last status of each key."""
    return {line["key"]: line["result"]["status"] for line in results(project, name)}


def effects(project: Project, name: str) -> list[str]:
    file = project.folder / name
    return sorted(file.read_text().split()) if file.exists() else []
