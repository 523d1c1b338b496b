"""The conformance suite of the protocol against forge: as many scenarios as it passed before.

Covers forge_cli.apps.serve.protocol, forge_cli.apps.serve.transports and forge_cli.toolsets.mcp.oauth.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import which

import anyio
import pytest
from anyio.abc import SocketAttribute

from forge_cli.core.bounds import start_loop
from forge_cli.testing import Project
from tests.apps.serve.conformance.proxy import serve_proxy
from tests.support.command_line import Started

from .test_transports import Http

HERE = Path(__file__).parent / "conformance"
PASSED = re.compile(r"^✓ (\S+): ", re.MULTILINE)
AS_SERVER = 27
"""Scenarios of 30 that forge passes as a server."""
AS_CLIENT = """
initialize
tools_call
elicitation-sep1034-client-defaults
sse-retry
auth/metadata-default
auth/metadata-var1
auth/metadata-var2
auth/metadata-var3
auth/basic-cimd
auth/scope-from-www-authenticate
auth/scope-from-scopes-supported
auth/scope-omitted-when-undefined
auth/scope-step-up
auth/scope-retry-limit
auth/token-endpoint-auth-basic
auth/token-endpoint-auth-post
auth/token-endpoint-auth-none
auth/pre-registration
auth/2025-03-26-oauth-endpoint-fallback
auth/resource-mismatch
auth/offline-access-scope
auth/offline-access-not-supported
auth/client-credentials-basic
"""
"""The scenarios that forge passes as a client: 22 of 23, and one of three extensions.

It refuses the metadata of auth/2025-03-26-oauth-metadata-backcompat, which name another issuer than the place they
come from.
"""


def suite(*words: str) -> list[str]:
    """The command line of the suite."""
    program = Path(which("conformance") or "").resolve()
    return ["node", "--import", str(HERE / "shim.mjs"), str(program), *words]


@pytest.mark.long
@pytest.mark.needs("conformance")
def test_server_scenarios_of_the_conformance_suite_pass(
    tester: Project, start: Callable[..., Started]
) -> None:
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


@pytest.mark.long
@pytest.mark.needs("conformance")
@pytest.mark.parametrize("scenario", AS_CLIENT.split())
def test_client_scenario_of_the_conformance_suite_passes(scenario: str) -> None:
    client = f"{shlex.quote(sys.executable)} {shlex.quote(str(HERE / 'client.py'))}"
    words = suite("client", "--scenario", scenario, "--command", client, "--timeout", "90000")
    done = subprocess.run(words, capture_output=True, text=True, timeout=110, check=False)
    assert "OVERALL: PASSED" in done.stderr, f"{done.stdout}\n{done.stderr}"
