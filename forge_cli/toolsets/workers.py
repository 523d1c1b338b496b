"""The toolset ``workers``: one tool for each worker that may be given a task."""

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

MAX_ATTACHMENTS = 20
_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "input": {
            "type": "string",
            "minLength": 1,
            "description": "The task, with all the worker needs to know: it sees nothing else",
        },
        "instructions": {
            "type": "string",
            "description": "Additional instructions for this task",
        },
        "attachments": {
            "type": "array",
            "items": {
                "type": "string",
                "format": "path",
                "x-forge-access": "read",
                "x-forge-kind": "file",
            },
            "maxItems": MAX_ATTACHMENTS,
            "description": "Virtual paths of files to attach to the task",
        },
    },
    "required": ["input"],
}


class WorkersConfig(ToolsetConfig):
    """The child workers, as files or names."""

    allowed: Annotated[list[str], Field(min_length=1)]
    """Workers to offer: paths, or names of workers beside this one or in workers/."""
    parallel: Annotated[int, Field(ge=1, le=64)] = 4
    """How many child workers may run at the same time in one turn."""


class WorkersToolset(Toolset):
    """Other workers as tools, each taking a task and returning its answer."""

    name = "workers"
    Config = WorkersConfig

    @classmethod
    def own_files(cls, config: Any, folder: Path) -> Iterator[Path]:
        """Yield the places where an allowed worker may be."""
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
                raise WorkerError(
                    where,
                    f"toolsets.workers: duplicate worker '{worker.name}': '{other}' and '{entry}'",
                    hint="each tool has the name of its worker; rename or remove one of them",
                )
            yield worker

    async def tools(self) -> Sequence[Tool]:
        """Return the tools; a tool is made again when the file of its worker changes."""
        for name, worker in self._workers.items():
            digest = _digest(worker.path)
            known = self._tools.get(name)
            if known is None or known.digest != digest:
                self._tools[name] = self._tool(name, worker, digest)
        return list(self._tools.values())

    def _tool(self, name: str, worker: Worker, digest: str) -> Tool:
        """Make the tool of a worker; an invalid file is reported by the call."""
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
            raise ToolError("the input is empty; describe the task")
        if _digest(path) != digest:
            raise ToolError(
                f"the file of '{context.tool}' has just changed; call it again to use the new one"
            )
        files = [_attachment(name, context.sandbox) for name in args.get("attachments") or ()]
        answer = await context.delegate(
            path, args["input"], instructions=args.get("instructions"), attachments=files
        )
        return Text(answer)


def _attachment(path: str, sandbox: SandboxView) -> Attachment:
    data = sandbox.read_bytes(path, limit=LARGEST + 1)  # one byte more shows the excess
    if len(data) > LARGEST:
        raise ToolError(f"{path} is too large to attach; the limit is {LARGEST} bytes")
    return Attachment(sandbox.resolve(path).rpartition("/")[2], media_type(data), data)


def _digest(path: Path) -> str:
    """Return the digest of a worker file, which remembered answers are bound to."""
    try:
        return digest_of(path.read_bytes())
    except OSError:
        return "absent"


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [WorkersToolset]
