"""Checks that run before a merge: ``nox`` runs the usual sessions, ``nox -s NAME`` one of them."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["tests", "lint", "types"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
PLUGINS = [str(path.parent) for path in sorted(Path("plugins").glob("*/pyproject.toml"))]
PLUGIN_TESTS = [str(path) for path in sorted(Path("plugins").glob("*/tests"))]
NEW_PLUGINS = {
    "toolset": "forge-tools-mine",
    "model": "forge-model-mine",
    "renderer": "forge-renderer-mine",
    "executor": "forge-executor-mine",
    "observer": "forge-observer-mine",
    "command": "forge-command-mine",
}
"""The packages that ``forge plugins new`` creates; each has to pass unchanged."""
WITH_BYTECODE = {"PYTHONDONTWRITEBYTECODE": None}
PARALLEL = ["-n", str((os.cpu_count() or 1) + 2), "--dist", "worksteal", "--durations", "25"]
"""Two processes more than cores, because tests wait often."""
READ_A_PAGE = """
from forge_tools_web.fetch import Page
from forge_tools_web.reading import read

html = b"<html><body><article><p>Bees dance.</p></article></body></html>"
page = Page("https://example.org", "text/html", "utf-8", html)
assert "Bees dance." in read(page).content, read(page)
"""
READ_METADATA = """
import re
from importlib.metadata import metadata

text = metadata("forge-workers").get_payload()
assert "forge docs workers" in text, text
assert not re.search(r"\\]\\((?!https?:)", text), "a link that leads nowhere on a package index"
"""
GITHUB_FILES = {
    "vendor.github-workflows": [str(path) for path in sorted(Path(".github/workflows").iterdir())],
    "vendor.github-actions": ["action.yml"],
    "vendor.dependabot": [".github/dependabot.yml"],
}
"""Files that GitHub reads, by the schema that they have to match."""
PROGRAMS = {"bwrap", "go", "gofmt", "rg"}
"""Optional programs that forge uses if they are installed."""


def install(session: nox.Session, *groups: str) -> None:
    """Install forge, its plugins and dependency groups at once, so that no plugin fetches forge."""
    editables = [argument for folder in (".", *PLUGINS) for argument in ("--editable", folder)]
    wanted = [*editables, *nox.project.dependency_groups(PYPROJECT, *groups)]
    session.install("uv")  # pip takes a minute for what uv does in seconds
    try:
        session.run_install("uv", "pip", "install", "--quiet", *wanted)
    except CommandFailed:  # an index that only pip is told of
        session.install(*wanted)


def run_tests(session: nox.Session, *options: str, **env: str | None) -> None:
    """Run pytest on the arguments of the session, or on everything."""
    paths = session.posargs or ["tests", *PLUGIN_TESTS]
    session.run("pytest", *PARALLEL, *options, *paths, env={**WITH_BYTECODE, **env})


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of forge and of every plugin."""
    install(session, "test")
    run_tests(session)


@nox.session(reuse_venv=True)
def quick(session: nox.Session) -> None:
    """Check style and run the tests of changed rooms.

    Packages are installed only if a pyproject.toml changed.
    """
    declared = [Path("pyproject.toml"), *(Path(plugin, "pyproject.toml") for plugin in PLUGINS)]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in declared)).hexdigest()
    installed = Path(session.virtualenv.location, "installed")
    if not installed.exists() or installed.read_text() != digest:
        install(session, "test", "lint")
        installed.write_text(digest)
    session.run("ruff", "check", "--quiet")
    session.run("ruff", "format", "--quiet", "--check")
    chosen = session.run(
        "python", "-m", "tests.support.quick", *session.posargs, silent=True, stderr=None
    )
    processes = str(min(4, os.cpu_count() or 1))
    session.run(
        "pytest",
        "-q",
        "-n",
        processes,
        "--dist",
        "worksteal",
        *str(chosen).split(),
        env=WITH_BYTECODE,
    )


def newest_python() -> str | None:
    """Return the newest working interpreter that is newer than this one, or None."""
    for path in _interpreters():
        asked = subprocess.run(
            [path, "-c", "import ensurepip, venv"], capture_output=True, check=False
        )
        if asked.returncode == 0:
            return path
    return None


def _interpreters() -> Iterator[str]:
    """Yield the interpreters on the PATH and in pyenv, the newest first.

    Names on the PATH may be shims of pyenv that lead to no interpreter.
    """
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for minor in range(20, sys.version_info.minor, -1):
        found = shutil.which(f"python3.{minor}")
        yield from [found] if found else []
        yield from map(str, sorted(versions.glob(f"3.{minor}.*/bin/python"), reverse=True))


NEWEST = newest_python()


@nox.session(python=NEWEST)
def newest(session: nox.Session) -> None:
    """Run the tests with the newest installed Python."""
    if NEWEST is None:
        session.skip("there is no Python that is newer than this one")
    install(session, "test")
    run_tests(session)


@nox.session
def bare(session: nox.Session) -> None:
    """Run the tests as on a machine without bwrap, ripgrep and Go."""
    install(session, "test")
    path = path_without(PROGRAMS, Path(session.create_tmp()).resolve())
    # in nox's folder for temporary files, homes of tests would be inside the environment
    run_tests(session, CI=None, TMPDIR=os.environ.get("TMPDIR"), PATH=path)


def path_without(programs: set[str], place: Path) -> str:
    """Return the PATH without these programs.

    A folder with one of them is replaced by a folder of links to everything else in it.
    """
    folders = []
    for number, folder in enumerate(map(Path, os.environ["PATH"].split(os.pathsep))):
        if any((folder / name).exists() for name in programs):
            links = place / f"path-{number}"
            links.mkdir(exist_ok=True)
            for file in folder.iterdir():
                if file.name not in programs and not (links / file.name).is_symlink():
                    (links / file.name).symlink_to(file)
            folder = links
        folders.append(str(folder))
    return os.pathsep.join(folders)


@nox.session
def long(session: nox.Session) -> None:
    """Run the slow tests, every property test in depth, and other rare checks."""
    install(session, "test", "frameworks")
    deep = ["-m", "long or hypothesis", "--hypothesis-profile", "long"]
    run_tests(session, *deep, "--timeout", "3600", "-o", "faulthandler_timeout=0")
    if not session.posargs:
        for name in ("bare", "newest", "scaffolds"):
            session.notify(name)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check", *session.posargs)
    for schema, files in GITHUB_FILES.items():
        session.run("check-jsonschema", "--quiet", "--builtin-schema", schema, *files)


@nox.session
def types(session: nox.Session) -> None:
    """Check the type hints of forge and of its plugins."""
    install(session, "types")
    session.run(
        "mypy",
        "--num-workers",
        "auto",
        *(session.posargs or ["forge_cli", *(f"{plugin}/src" for plugin in PLUGINS)]),
    )


@nox.session
def scaffolds(session: nox.Session) -> None:
    """Check the type hints of the packages that ``forge plugins new`` creates."""
    install(session, "types")
    place = Path(session.create_tmp()).resolve()
    for kind, name in NEW_PLUGINS.items():
        shutil.rmtree(place / name, ignore_errors=True)
        with session.chdir(place):
            session.run("forge", "plugins", "new", "mine", "--kind", kind, silent=True)
        session.run("mypy", "--strict", f"{place / name}/src", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build the wheel from the sdist, and use it in a clean venv outside the checkout."""
    session.install("build")
    place = Path(session.create_tmp()).resolve()
    dist, venv = place / "dist", place / "venv"
    session.run("python", "-m", "build", "--outdir", str(dist), silent=True)
    session.run("python", "-m", "venv", "--clear", str(venv))
    wheel = max(dist.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    session.run(str(venv / "bin" / "pip"), "install", "--quiet", str(wheel), external=True)

    session.run(str(venv / "bin" / "python"), "-c", READ_METADATA, external=True)
    forge, calculator = str(venv / "bin" / "forge"), Path("examples/calculator").resolve()
    home = {"FORGE_HOME": str(place / "home")}
    with session.chdir(place):
        session.run(f"{forge}-workers", "--version", external=True)
        session.run(forge, "docs", "concepts", external=True, silent=True)
        session.run(forge, "tools", "list", external=True, env=home)
        session.run(
            forge,
            "run",
            str(calculator),
            "-p",
            "What is the 20th Fibonacci number?",
            external=True,
            env=home,
        )

    # an interpreter's own pip may parse some requirements differently than a new one
    web = next(folder for folder in PLUGINS if folder.endswith("forge-tools-web"))
    session.run(str(venv / "bin" / "pip"), "install", "--quiet", web, external=True)
    session.run(str(venv / "bin" / "python"), "-c", READ_A_PAGE, external=True)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation as a site in ``site/``; a dead link or anchor is an error."""
    session.install(".", *nox.project.dependency_groups(PYPROJECT, "docs"))
    quiet = {"NO_MKDOCS_2_WARNING": "1"}  # mkdocs-material advertises its successor otherwise
    session.run("mkdocs", "build", "--quiet", *session.posargs, env=quiet)


@nox.session
def release(session: nox.Session) -> None:
    """Build all distributions in ``dist/``, check them, and use them from there by name.

    ``nox -s release -- 0.3.0`` also checks that this is the version, and writes its notes.
    """
    session.install(*nox.project.dependency_groups(PYPROJECT, "release"))
    session.run("python", ".ci/release.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Compare forge's performance with floors measured on the same machine."""
    session.install(".", "plugins/forge-guard")
    session.run("python", "benchmarks/all.py", *session.posargs, env=WITH_BYTECODE)
