"""How a command gets its proxy: the argv that opens the port in its network, and the environment that names it."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from forge_cli.core.text import cut
from forge_cli.sandbox.network import proxy_bootstrap
from forge_cli.sandbox.network.access import INTERNET, NetworkCheck, NetworkGate, Outside
from forge_cli.sandbox.network.proxy import CommandProxy
from forge_cli.sandbox.network.rules import NetworkRules
from forge_cli.sandbox.processes.command import bash

PORT = 3128
COMMAND_SHOWN = 1000


@dataclass(frozen=True)
class NetworkProxy:
    """How the commands of a worker get to the network: names that rules cover, and those that somebody allows."""

    rules: NetworkRules
    gate: NetworkGate
    outside: Outside = INTERNET

    @property
    def readable(self) -> tuple[Path, ...]:
        """Paths that a sandbox has to show for the port to be opened there."""
        return _interpreter()[1]

    @staticmethod
    def variables() -> dict[str, str]:
        """The environment by which programs find the proxy; nothing is reached without it."""
        address = f"http://127.0.0.1:{PORT}"
        names = ("http_proxy", "https_proxy", "all_proxy")
        found = {spelt: address for name in names for spelt in (name, name.upper())}
        return {**found, "no_proxy": "", "NO_PROXY": ""}

    @contextmanager
    def opened(self, argv: Sequence[str]) -> Iterator[tuple[list[str], int, CommandProxy]]:
        """The argv that opens the port and runs the command, the descriptor it needs for that, and the proxy."""
        program, code = str(_interpreter()[0]), Path(proxy_bootstrap.__file__).read_text("utf-8")
        command = argv[-1] if list(argv) == bash(argv[-1]) else shlex.join(argv)
        check = NetworkCheck(cut(command, COMMAND_SHOWN, "middle"), self.rules, self.gate, self.outside)
        ours, theirs = socket.socketpair()
        proxy = CommandProxy(check, ours)
        start = [program, "-I", "-S", "-B", "-c", code, str(theirs.fileno()), str(PORT), *argv]
        with theirs:
            try:
                yield start, theirs.fileno(), proxy
            except BaseException:
                proxy.close()
                raise


@cache
def _interpreter() -> tuple[Path, tuple[Path, ...]]:
    """The interpreter that forge runs by, outside of any virtual environment, and the files that it needs."""
    program = Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))
    outside = {"installed_base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    libraries = [sysconfig.get_path(name, vars=outside) for name in ("stdlib", "platstdlib")]
    library = Path(sysconfig.get_config_var("LIBDIR") or "/", sysconfig.get_config_var("INSTSONAME") or "")
    shared = [library] if library.is_file() else []
    return program, (program, *map(Path, libraries), *shared)
