"""The toolset ``workers``: one tool for each worker that this one may give a task to, named after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field

from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ForgeError, ToolError, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.messages import Attachment
from forge_cli.core.results import Text
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.tool import Args, digest_of
from forge_cli.core.wire import JsonObject
from forge_cli.files.allowed import find_allowed, worker_candidates
from forge_cli.files.attachment import LARGEST, media_type
from forge_cli.files.worker import Worker, load_worker
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig

MOST_ATTACHMENTS = 20
_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "input": {
            "type": "string",
            "minLength": 1,
            "description": "The task, with all that is needed to do it: the worker sees nothing else",
        },
        "instructions": {
            "type": "string",
            "description": "How this task is to be done, besides what the worker knows",
        },
        "attachments": {
            "type": "array",
            "items": {
                "type": "string",
                "format": "path",
                "x-forge-access": "read",
                "x-forge-kind": "file",
            },
            "maxItems": MOST_ATTACHMENTS,
            "description": "Virtual paths of files that go along with the task",
        },
    },
    "required": ["input"],
}


class WorkersConfig(ToolsetConfig):
    """``allowed`` are paths of worker files, or names of workers beside this one or in ``workers/``."""

    allowed: Annotated[list[str], Field(min_length=1)]
    """Workers that it may call: paths, or names beside this one or in workers/."""
    parallel: Annotated[int, Field(ge=1, le=64)] = 4
    """How many calls of child workers in one turn may run at the same time; 1 is one after the other."""


class WorkersToolset(Toolset):
    """Other workers as tools: each takes a task and gives its answer."""

    name = "workers"
    Config = WorkersConfig

    @classmethod
    def own_files(cls, config: Any, folder: Path) -> Iterator[Path]:
        """Every place where an allowed worker is looked for."""
        for entry in config.allowed:
            yield from worker_candidates(folder, entry)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._workers = {worker.name: worker for worker in self._allowed()}
        self._tools: dict[str, Tool] = {}
        return self

    def _allowed(self) -> Iterator[Worker]:
        entries: dict[str, str] = {}
        for index, entry in enumerate(self.config.allowed):
            where = self.config.where("allowed", index)
            worker = find_allowed(self.env.worker_dir, entry, where)
            if (other := entries.setdefault(worker.name, entry)) is not entry:
                problem = (
                    f"toolsets.workers: '{other}' and '{entry}' are both the worker '{worker.name}'"
                )
                raise WorkerError(
                    where,
                    problem,
                    hint="each tool is named after its worker: rename one, or drop it",
                )
            yield worker

    async def tools(self) -> Sequence[Tool]:
        """The workers stay those that they were at first; a file that has changed makes another tool of the name."""
        for name, worker in self._workers.items():
            digest = _digest(worker.path)
            known = self._tools.get(name)
            if known is None or known.digest != digest:
                self._tools[name] = self._tool(name, worker, digest)
        return list(self._tools.values())

    def _tool(self, name: str, worker: Worker, digest: str) -> Tool:
        """A worker's name stays; what is wrong with its file by now is said by a call."""
        with suppress(ForgeError):
            worker = replace(worker, config=load_worker(worker.path).config)
        return Tool(
            name=name,
            description=worker.config.description or f"Gives a task to the worker '{name}'.",
            input_schema=_INPUT,
            execute=partial(self._delegate, worker.path, digest),
            delegates=True,
            parallel=self.config.parallel,
            digest=digest,
        )

    async def _delegate(self, path: Path, digest: str, args: Args, context: ToolContext) -> Text:
        if not args["input"].strip():
            raise ToolError("the input is empty; say what is to be done")
        if _digest(path) != digest:
            raise ToolError(
                f"the file of '{context.tool}' has just changed; call it again if that is right"
            )
        files = [_attachment(name, context.sandbox) for name in args.get("attachments") or ()]
        answer = await context.delegate(
            path, args["input"], instructions=args.get("instructions"), attachments=files
        )
        return Text(answer)


def _attachment(path: str, sandbox: SandboxView) -> Attachment:
    data = sandbox.read_bytes(path, limit=LARGEST + 1)
    if len(data) > LARGEST:
        raise ToolError(f"{path} cannot go along: at most {LARGEST} bytes can")
    return Attachment(sandbox.resolve(path).rpartition("/")[2], media_type(data), data)


def _digest(path: Path) -> str:
    """The key of a remembered yes."""
    try:
        return digest_of(path.read_bytes())
    except OSError:
        return "absent"


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [WorkersToolset]
