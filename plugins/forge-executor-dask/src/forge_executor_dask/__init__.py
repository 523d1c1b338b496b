"""The executor ``dask``: items of a batch on a Dask cluster, a local one of processes or yours."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from forge_cli import hookimpl
from forge_cli.executors import Executor, ExecutorEnv, ExecutorFactory

__version__ = "0.2.0"


def make(address: str, env: ExecutorEnv) -> AbstractAsyncContextManager[Executor]:
    """Dask is imported when a batch begins that uses it."""
    from forge_executor_dask.executor import open_executor

    return open_executor(address, env)


@hookimpl
def forge_executors() -> list[ExecutorFactory]:
    return [ExecutorFactory("dask", make)]
