"""Command lines that run in the confinement of forge instead of that of a tool."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from forge_cli import ForgeError, load_worker
from forge_guard.policy import policy_file

MAX_SECONDS = 3600
"""The time limit of a line; the tool that wants it has its own, which is shorter."""


def rewritten(line: str, project: Path) -> str:
    """Return the command line that runs a line confined to the zones of a project."""
    return f"{_PREFIX}{shlex.quote(str(project))} -- {shlex.quote(original(line))}"


def original(line: str) -> str:
    """Return the line that a rewritten one runs; any other line as it is."""
    if line.startswith(_PREFIX):
        try:
            project, dashes, inner = shlex.split(line.removeprefix(_PREFIX))
        except ValueError:
            return line
        # Only the exact form: the shell could read another one differently.
        if line == f"{_PREFIX}{shlex.quote(project)} {dashes} {shlex.quote(inner)}":
            return inner
    return line


def run_confined(line: str, project: Path) -> int:
    """Run a line in the current folder, in the zones of the policy without network.

    Return its exit code.
    """
    inside = os.path.relpath(os.path.realpath("."), os.path.realpath(project))
    if inside.split(os.sep)[0] == os.pardir:
        raise ForgeError(f"{os.getcwd()} is not in {project}", hint="name the project with -C")
    if inside != os.curdir:
        line = f"cd {shlex.quote(inside)}\n{line}"
    worker = policy_file().parent / "guard" / "confined.yaml"
    worker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = worker.with_name(f".{worker.name}.{os.getpid()}")
    new.write_text(json.dumps(_confined()), encoding="utf-8")
    os.replace(new, worker)
    call = ["tools", "call", "shell", "--worker", str(worker), "-C", str(project), "-y", "--json"]
    given = json.dumps({"command": line, "timeout": MAX_SECONDS})
    done = subprocess.run(
        [sys.executable, "-P", "-m", "forge_cli", *call, "--json-input", given],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        result: dict[str, Any] = json.loads(done.stdout)["data"]
        code = result["exitCode"]
    except (ValueError, KeyError, TypeError):
        sys.stderr.write(done.stderr)
        return done.returncode or 1
    sys.stdout.write(result["stdout"])
    sys.stdout.flush()  # in the order in which the tool shows them
    sys.stderr.write(result["stderr"])
    if code is None:
        sys.stderr.write(done.stderr)
        return 1
    return int(code)


def _confined() -> dict[str, Any]:
    """Return the policy as a worker whose commands are confined."""
    zones = load_worker(policy_file()).config.sandbox or {}
    sandbox = {**zones, "isolation": "required", "network": False}
    shell = {"try": "off", "timeout": MAX_SECONDS}
    return {"name": "guard-run", "sandbox": sandbox, "toolsets": {"shell": shell}}


_PREFIX = f"{shlex.quote(str(Path(sys.executable).with_name('forge')))} guard run -C "
