"""``forge lock --pip``: the packages of a worker as lines for pip, with the hashes of the archives they come from."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.core.locking import LockEntry
from forge_cli.core.source import canonical
from forge_cli.core.text import visible
from forge_cli.engine.lock.gather import WorkerParts
from forge_cli.engine.plugins.pip import package_manager
from forge_cli.files.home import forge_home
from forge_cli.files.worker import Worker

HEAD = "# pip install --require-hashes --no-deps -r THIS"


def pip_lines(worker: Worker, workspace: Path) -> list[str]:
    """A line for each package that the lock names; the index that pip uses is asked for the hashes."""
    packages = [each for each in WorkerParts(worker, workspace.resolve(), forge_home()).code() if each.version]
    lines = _lines(sorted(packages, key=lambda each: each.name)) if packages else []
    return [HEAD, *lines]


def _lines(packages: Sequence[LockEntry]) -> list[str]:
    wanted = [f"{each.name}=={each.version}" for each in packages]
    manager = package_manager()
    if manager[-2:] == ["-m", "pip"]:
        options = ["--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-"]
        report = _run([*manager, "install", "--disable-pip-version-check", *options, *wanted], "")
        return _read_report(report, packages)
    options = ["--generate-hashes", "--no-deps", "--no-header", "--no-annotate", "--python", sys.executable, "-"]
    return _run([*manager, "compile", "--quiet", *options], "\n".join(wanted)).splitlines()


def _run(argv: Sequence[str], given: str) -> str:
    try:
        done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ForgeError(f"{argv[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        told = "\n".join(visible(line) for line in done.stderr.strip().splitlines()[-3:])
        raise ForgeError(f"the index does not have what is installed here:\n{told}", hint="publish it there first")
    return done.stdout


def _read_report(text: str, packages: Sequence[LockEntry]) -> list[str]:
    found = {
        canonical(each["metadata"]["name"]): each["download_info"].get("archive_info", {}).get("hashes", {})
        for each in json.loads(text)["install"]
    }
    for each in packages:
        if "sha256" not in found.get(each.name, {}):
            raise ForgeError(f"pip says no hash of {each.name} {each.version}", hint="install it from an archive")
    return [f"{each.name}=={each.version} --hash=sha256:{found[each.name]['sha256']}" for each in packages]
