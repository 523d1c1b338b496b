"""A runtime for people who talk: it tells when a message is taken up, and how that ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge_cli.core.messages import Attachment
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime


class TalkingRuntime(WorkerRuntime):
    """A runtime that tells when a message is taken up, and how that ended."""

    on_begin: Callable[[], object]
    on_end: Callable[[WorkerResult | None], object]

    async def run(self, task: str, attachments: Sequence[Attachment] = ()) -> WorkerResult:
        self.on_begin()
        result = None
        try:
            result = await super().run(task, attachments)
        finally:
            self.on_end(result)
        return result
