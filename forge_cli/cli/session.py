"""Which session a command works on, as its flags say."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from forge_cli import cli
from forge_cli.cli.work_options import SessionOptions
from forge_cli.core.errors import UsageError
from forge_cli.files.worker import Worker
from forge_cli.record.open import OpenSession, open_session


@dataclass(frozen=True)
class SessionChoice:
    """What the flags say about the session."""

    resume: str | None = None
    last: bool = False
    fork: bool = False
    ephemeral: bool = False

    def __post_init__(self) -> None:
        if self.resume is not None and self.last:
            raise UsageError("-c and -r contradict each other; keep one")
        if self.fork and not self.resumes:
            raise UsageError("--fork copies a session: say which one with -r ID, or -c for the last one")

    @classmethod
    def of(cls, options: SessionOptions) -> SessionChoice:
        return cls(options.resume, options.last, options.fork, options.ephemeral)

    @property
    def resumes(self) -> bool:
        return self.last or self.resume is not None

    def open(self, worker: Worker, workspace: Path, task: str | None = None) -> AbstractContextManager[OpenSession]:
        """The session that was chosen; what is not an error is said on standard error."""
        return open_session(
            worker,
            resume=self.resume,
            last=self.last,
            fork=self.fork,
            keep=not self.ephemeral,
            workspace=workspace,
            task=task,
            warn=lambda sentence: cli.notices.warn(sentence),
        )
