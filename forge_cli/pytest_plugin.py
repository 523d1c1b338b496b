"""Pytest fixtures, available wherever forge is installed; forge is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from forge_cli.testing import Answers, OpenForTest, Project, WorkerCalls


@pytest.fixture
def forge_project(tmp_path: Path) -> Project:
    """Return an empty project with a home of its own."""
    from forge_cli.testing import Project

    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


@pytest.fixture
def forge_worker(forge_project: Project) -> Iterator[OpenForTest]:
    """Yield a function that opens a worker for direct calls.

    For example: ``forge_worker(query).call("query", sql=...)``. The worker has the given functions,
    tools and toolsets. ``answers`` are those of a person; without them, everything that asks is
    approved. Other arguments are those of ``Worker.of``.
    """
    from forge_cli.files.worker import Worker

    with ExitStack() as stack:

        def open_worker(
            *tools: Any, answers: Answers | None = None, timeout: float = 30, **more: Any
        ) -> WorkerCalls:
            worker = Worker.of(name=more.pop("name", "tested"), tools=tools, **more)
            return stack.enter_context(forge_project.open(worker, answers=answers, timeout=timeout))

        yield open_worker
