"""Items of a batch on a real cluster of processes."""

from pathlib import Path

import pytest
from forge_executor_dask import forge_executors

from forge_cli.testing import Project, check_executor

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_keeps_the_contract(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    await check_executor(forge_executors()[0], Project(tmp_path / "project"), timeout=100)
