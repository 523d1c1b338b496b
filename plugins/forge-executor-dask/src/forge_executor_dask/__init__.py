"""The executor ``dask``, which runs items of a batch on a Dask cluster, local or remote."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from forge_cli import hookimpl
from forge_cli.executors import Executor, ExecutorEnv, ExecutorFactory

__version__ = "0.3.0.dev0"


def make(address: str, env: ExecutorEnv) -> AbstractAsyncContextManager[Executor]:
    """Return the executor for an address; Dask is imported only when a batch uses it."""
    from forge_executor_dask.executor import open_executor

    return open_executor(address, env)


@hookimpl
def forge_executors() -> list[ExecutorFactory]:
    """Return the executor ``dask``."""
    return [ExecutorFactory("dask", make)]
