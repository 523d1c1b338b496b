"""``script:FILE``, a model whose text and calls come from a file, for tests and demos."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

from pydantic import Field

from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ForgeError, Mark
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.messages import (
    Delta,
    Message,
    ModelEnv,
    ModelFactory,
    ModelRequest,
    TextDelta,
    TurnEnd,
)
from forge_cli.core.phrases import TITLE_INSTRUCTIONS
from forge_cli.core.text import counted
from forge_cli.files.document import read_document
from forge_cli.schema.config import Config, parse_config

_PLACEHOLDER = re.compile(r"\{(?:result|task|results\[(\d+)\])\}")
_PIECE = re.compile(r"\s*\S+\s*")


class ScriptedCall(Config):
    """A call of the model."""

    tool: str
    input: dict[str, Any] = Field(default_factory=dict)


class TurnExpectation(Config):
    """The expectation of a turn: a text in a result of the calls before it."""

    result: str


class ScriptedTurn(Config):
    """One turn of the model: what it expects, its text and its calls."""

    expect: TurnExpectation | None = None
    text: str = ""
    calls: list[ScriptedCall] = Field(default=[])


class ScriptFile(Config):
    """A script: the turns of the model in order."""

    turns: list[ScriptedTurn]
    title: str = ""
    """The title that the model gives a conversation, if asked for one."""


class ScriptError(ForgeError):
    """Raised if the conversation does not follow the script."""


class ScriptedModel:
    """A model that plays its turns in order; a resumed session continues where it stopped."""

    context_window: int | None = None

    def __init__(self, file: str, script: ScriptFile) -> None:
        self.name = f"script:{file}"
        self._script = script
        self._spoken: int | None = None
        self._taken: set[str] = set()
        self._seen = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the next turn; raise ScriptError if there is none, or it expected other results."""
        if request.system == TITLE_INSTRUCTIONS:
            yield TextDelta(self._script.title)
            yield TurnEnd()
            return
        index = self._place(request.messages) if self._spoken is None else self._spoken
        self._spoken = index + 1
        if index >= len(self._script.turns):
            turns = counted(len(self._script.turns), "turn")
            raise ScriptError(
                f"{self.name} has {turns}, but turn {index + 1} was requested",
                hint="add a turn to the script, or check why the task was not done before",
            )
        turn = self._script.turns[index]
        known = _Known(request.messages, turn.where(), self.name)
        known.check(turn, index)
        for piece in _PIECE.findall(known.fill(turn.text)):
            yield TextDelta(piece)
        name = ""
        if turn.calls:
            name = self._call_name(index, request.messages)
        for number, call in enumerate(turn.calls):
            yield ToolCall(f"{name}_{number + 1}", known.fill(call.tool), known.fill(call.input))
        yield TurnEnd(
            "tool_use" if turn.calls else "end", native={"script": self.name, "turn": index + 1}
        )

    def _place(self, messages: Iterable[Message]) -> int:
        """Return the turn to begin with: the one after the last in the history, or the first."""
        for message in reversed(list(messages)):
            if message.role != "assistant" or not message.native:
                continue
            last = message.native
            if isinstance(last, dict) and last.get("script") == self.name:
                spoken: int = last["turn"]
                return spoken if spoken < len(self._script.turns) else 0
            return 0
        return 0

    def _call_name(self, index: int, messages: Sequence[Message]) -> str:
        """Return the beginning of the IDs of a turn, which no call of the history has."""
        for message in messages[self._seen :]:
            self._taken.update(call.id.rpartition("_")[0] for call in message.calls)
        self._seen = len(messages)
        turn = index + 1
        while f"call_{turn}" in self._taken:
            turn += 1
        return f"call_{turn}"

    async def aclose(self) -> None:
        """Do nothing, because nothing is open."""


class _Known:
    """The values of placeholders: the task, and the results of the last calls."""

    def __init__(self, messages: Iterable[Message], where: Mark | None, name: str) -> None:
        told = list(messages)
        self.task = next((message.text for message in reversed(told) if message.role == "user"), "")
        last = next((message.results for message in reversed(told) if message.results), ())
        self.results = [result.text for result in last]
        self._where = where
        self._name = name

    def check(self, turn: ScriptedTurn, index: int) -> None:
        if turn.expect and not any(turn.expect.result in result for result in self.results):
            got = "; ".join(repr(result[:200]) for result in self.results) or "no results"
            wanted = repr(turn.expect.result)
            problem = f"turn {index + 1} of {self._name} expected a result with {wanted}, got {got}"
            raise ScriptError(problem, where=turn.where("expect"))

    def fill(self, value: Any) -> Any:
        """Replace the placeholders in a value, also inside lists and objects."""
        match value:
            case str():
                return _PLACEHOLDER.sub(self._replace, value)
            case dict():
                return {key: self.fill(item) for key, item in value.items()}
            case list():
                return [self.fill(item) for item in value]
            case _:
                return value

    def _replace(self, match: re.Match[str]) -> str:
        if match.group() == "{task}":
            return self.task
        index = int(match.group(1)) if match.group(1) else -1  # {result} is the last one
        if index >= len(self.results) or not self.results:
            count = counted(len(self.results), "result")
            problem = f"the script uses {match.group()}, but {count} came before it"
            raise ScriptError(problem, where=self._where)
        return self.results[index]


def make(name: str, env: ModelEnv) -> ScriptedModel:
    """Create the model that plays a script."""
    file = env.find(name)
    script = parse_config(ScriptFile, read_document(file).data, file=str(file))
    env.notify(
        "info",
        f"the model is scripted: its words come from {name}, and nothing leaves this machine",
    )
    return ScriptedModel(name, script)


@hookimpl
def forge_models() -> list[ModelFactory]:
    """Register the ``script`` provider."""
    return [ModelFactory("script", make, needs="a file of turns; no key, no network")]
