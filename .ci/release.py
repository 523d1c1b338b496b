"""Build every distribution twice, check it, and use it from fresh environments."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PACKAGES = DIST / "packages"
PROJECTS = (ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml")))
EXAMPLE = ROOT / "examples" / "calculator"
PLUGIN = "forge-tools-git"
"""The plugin that is installed by name; it brings few packages."""
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


def run(*words: str | Path, env: Mapping[str, str] | None = None, **more: object) -> str:
    """Run a program and return what it prints; end with its output if it fails."""
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        **more,  # type: ignore[call-overload]
    )
    if done.returncode:
        raise SystemExit(f"{words[0]} failed:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def check_versions(expected: str | None) -> str:
    """Return the version of all distributions; end if one differs or needs another forge."""
    found: dict[str, str] = {}
    for project in PROJECTS:
        declared = tomllib.loads((project / "pyproject.toml").read_text())
        file = project / declared["tool"]["hatch"]["version"]["path"]
        match = _VERSION.search(file.read_text())
        found[declared["project"]["name"]] = match[1] if match else "none"
    version = found["forge-workers"]
    wrong = [f"{name} is {each}" for name, each in found.items() if each != version]
    wanted = f"forge-workers>={version},<{next_minor(version)}"
    for project in PROJECTS[1:]:
        declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        if wanted not in declared["dependencies"]:
            wrong.append(f"{declared['name']} does not depend on {wanted}")
    if expected is not None and version != expected:
        wrong.append(f"the version is {version}, and not {expected}")
    if wrong:
        raise SystemExit("\n".join(wrong))
    return version


def next_minor(version: str) -> str:
    major, minor = version.split(".")[:2]
    return f"{major}.{int(minor) + 1}"


def build(folder: Path) -> dict[str, str]:
    """Build all distributions and return the hash of each file."""
    moment = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    for project in PROJECTS:
        run(
            sys.executable,
            *("-m", "build", "--installer", "uv", "--outdir", folder, project),
            env={"SOURCE_DATE_EPOCH": moment},
        )
    return {
        path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("forge*"))
    }


def use(installer: str, place: Path) -> float:
    """Install forge and a plugin by name, run the first example, and return the seconds it took."""
    began = time.monotonic()
    home = {"FORGE_HOME": str(place / "forge-home"), "HOME": str(place)}
    links = ["--find-links", str(PACKAGES)]
    if installer == "pipx":
        folders = {
            "PIPX_HOME": str(place / "pipx"),
            "PIPX_BIN_DIR": str(place / "bin"),
            "PIPX_MAN_DIR": str(place / "man"),
        }
        pip = f"--pip-args=--pre --find-links {PACKAGES}"
        run("pipx", "install", "--quiet", pip, "forge-workers", env=folders)
        run("pipx", "inject", "--quiet", pip, "forge-workers", PLUGIN, env=folders)
        forge = place / "bin" / "forge"
    else:
        run(sys.executable, "-m", "venv", place / "venv")
        python = place / "venv" / "bin" / "python"
        if installer == "pip":
            run(python, "-m", "pip", "install", "-q", "--pre", *links, "forge-workers", PLUGIN)
        else:
            first = ["--prerelease", "allow", *links, "forge-workers", PLUGIN]
            run("uv", "pip", "install", "-q", "--python", python, *first)
        forge = place / "venv" / "bin" / "forge"
    question = "What is the 20th Fibonacci number?"
    answer = run(forge, "run", EXAMPLE, "-p", question, env=home, cwd=place)
    tools = run(forge, "tools", "list", "--json", env=home, cwd=place)
    if "6765" not in answer or "git_status" not in tools:
        raise SystemExit(f"forge from {installer} does not work:\n{answer}{tools}")
    return time.monotonic() - began


def write_bill(place: Path) -> None:
    """Write the software bill of materials of an environment with forge alone."""
    run(sys.executable, "-m", "venv", "--without-pip", place / "bare")
    python = place / "bare" / "bin" / "python"
    links = ["--prerelease", "allow", "--find-links", str(PACKAGES)]
    run("uv", "pip", "install", "-q", "--python", python, *links, "forge-workers")
    bill = ["--output-reproducible", "--of", "JSON", "-o", str(DIST / "sbom.json")]
    run(sys.executable, "-m", "cyclonedx_py", "environment", *bill, python)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?", help="the version of the tag")
    asked = parser.parse_args(argv)
    version = check_versions(asked.version)
    shutil.rmtree(DIST, ignore_errors=True)
    PACKAGES.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="forge-release-") as folder:
        place = Path(folder)
        built = build(PACKAGES)
        again = build(place / "again")
        differing = [name for name in built if built[name] != again.get(name)]
        if differing or len(built) != 2 * len(PROJECTS):
            raise SystemExit(f"built twice, these differ: {', '.join(differing)} of {len(built)}")
        print(f"{len(built)} files, built twice: the same bytes")
        run("twine", "check", "--strict", *sorted(PACKAGES.iterdir()))
        run("check-wheel-contents", *sorted(PACKAGES.glob("*.whl")))
        for installer in ("pip", "uv", "pipx"):
            (place / installer).mkdir()
            seconds = use(installer, place / installer)
            print(f"{installer}: from nothing to the first answer in {seconds:.0f} s")
        write_bill(place)
    notes = run("towncrier", "build", "--draft", "--version", version, cwd=ROOT)
    (DIST / "notes.md").write_text(notes)
    print(f"dist/: packages, sbom.json and notes.md of {version}")


if __name__ == "__main__":
    main(sys.argv[1:])
