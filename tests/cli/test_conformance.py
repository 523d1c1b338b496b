"""The conformance suite of the protocol against forge: as many scenarios as it passed before.

Covers forge_cli.apps.serve.protocol and forge_cli.apps.serve.transports.
"""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which

import anyio
import pytest
from anyio.abc import SocketAttribute

from forge_cli.core.bounds import start_loop
from forge_cli.testing import Project

from .conformance.proxy import serve_proxy
from .conftest import Started
from .test_serve_mcp_wire import Http

HERE = Path(__file__).parent / "conformance"
PASSED = re.compile(r"^✓ (\S+): ", re.MULTILINE)
AS_SERVER = 27
"""Scenarios of 30 that forge passes as a server."""


def suite(*words: str) -> list[str]:
    """The command line of the suite."""
    program = Path(which("conformance") or "").resolve()
    return ["node", "--import", str(HERE / "shim.mjs"), str(program), *words]


@pytest.mark.long
@pytest.mark.needs("conformance")
def test_the_scenarios_of_servers(tester: Project, start: Callable[..., Started]) -> None:
    http = Http(start("serve", "mcp", str(HERE / "worker.yaml"), "--http", "0"))
    port = int(http.url.rsplit(":", 1)[1].removesuffix("/mcp"))

    async def work() -> str:
        with anyio.fail_after(120):
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
            own = listener.extra(SocketAttribute.local_port)
            async with listener, anyio.create_task_group() as tasks:
                tasks.start_soon(serve_proxy, listener, port, http.token)
                words = suite("server", "--url", f"http://localhost:{own}/mcp")
                done = await anyio.run_process(words, check=False, stderr=subprocess.STDOUT)
                tasks.cancel_scope.cancel()
        return done.stdout.decode()

    told = start_loop(work)
    passed = set(PASSED.findall(told))
    assert len(passed) >= AS_SERVER, told
