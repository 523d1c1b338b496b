"""pip, or uv where the environment has no pip, started in front of the person."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

from forge_cli.cli.stdin import is_interactive
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import visible

_RECEIPTS = ("uv-receipt.toml", "pipx_metadata.json")


def run_pip(command: str, *, pip: list[str], uv: list[str]) -> None:
    """Run a command of pip with these options, or of uv with those; its output is not data."""
    argv = [*_program(command), *(pip if find_spec("pip") else uv)]
    sys.stderr.write(visible(shlex.join(argv)) + "\n")
    sys.stderr.flush()
    stdin = None if is_interactive() else subprocess.DEVNULL
    try:
        code = subprocess.run(argv, stdin=stdin, stdout=sys.stderr.fileno(), check=False).returncode
    except OSError as error:
        raise ForgeError(f"{argv[0]} cannot be started: {error.strerror}") from None
    if code:
        raise ForgeError(f"{command}ing failed with exit code {code}; the reason is above")
    if any((Path(sys.prefix) / receipt).is_file() for receipt in _RECEIPTS):
        sys.stderr.write("note: uv tool or pipx made this environment, and undoes this when it makes it anew\n")
    invalidate_caches()


def _program(command: str) -> list[str]:
    managed = Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED"
    if sys.prefix == sys.base_prefix and managed.is_file():
        raise ForgeError(
            f"this Python ({sys.prefix}) belongs to the operating system, and nothing is installed into it",
            hint="install forge with 'uv tool install forge-workers' or 'pipx install forge-workers', or in a venv",
        )
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", command, "--disable-pip-version-check"]
    if uv := shutil.which("uv"):
        return [uv, "pip", command, "--python", sys.executable]
    raise ForgeError(f"there is neither pip nor uv for {sys.prefix}", hint=f"try '{sys.executable} -m ensurepip'")
