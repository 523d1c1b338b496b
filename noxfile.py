"""What runs before anything is merged: ``nox`` for the usual sessions, ``nox -s NAME -- ARGS`` for one."""

import os
from pathlib import Path

import nox

nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["tests", "lint", "types", "build"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
PLUGINS = [str(path.parent) for path in sorted(Path("plugins").glob("*/pyproject.toml"))]
PLUGIN_TESTS = [str(path) for path in sorted(Path("plugins").glob("*/tests"))]
WITH_BYTECODE = {"PYTHONDONTWRITEBYTECODE": None}
PARALLEL = ["-n", "2", "--dist", "worksteal"]
ONCE_MORE = ["--reruns", "1", "-raR"]
"""Real processes and clocks on a busy machine: what fails is tried once more, and named where it passes then."""
READ_A_PAGE = """
from forge_tools_web.fetch import Page
from forge_tools_web.reading import read

html = b"<html><body><article><p>Bees dance.</p></article></body></html>"
page = Page("https://example.org", "text/html", "utf-8", html)
assert "Bees dance." in read(page).content, read(page)
"""
PROGRAMS = {"bwrap", "go", "gofmt", "rg"}
"""What forge uses where it is installed, and does without where it is not."""


def install(session: nox.Session, *groups: str) -> None:
    """Install forge, its plugins and the dependency groups in one go, so that no plugin fetches another forge."""
    editables = [argument for folder in (".", *PLUGINS) for argument in ("--editable", folder)]
    session.install(*editables, *nox.project.dependency_groups(PYPROJECT, *groups))


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of forge and of every plugin."""
    install(session, "test")
    session.run("pytest", *PARALLEL, *ONCE_MORE, *(session.posargs or ["tests", *PLUGIN_TESTS]), env=WITH_BYTECODE)


@nox.session
def bare(session: nox.Session) -> None:
    """Run the tests as on a machine that has neither bwrap nor ripgrep nor Go."""
    install(session, "test")
    path = path_without(PROGRAMS, Path(session.create_tmp()).resolve())
    # where nox puts temporary files, homes of tests would lie in the environment that they are run with
    env = {**WITH_BYTECODE, "CI": None, "TMPDIR": os.environ.get("TMPDIR"), "PATH": path}
    session.run("pytest", *PARALLEL, *ONCE_MORE, *(session.posargs or ["tests", *PLUGIN_TESTS]), env=env)


def path_without(programs: set[str], place: Path) -> str:
    """The PATH, in which each folder that has one of the programs is replaced by links to everything else there."""
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
    """Run the tests that take minutes."""
    install(session, "test")
    args = [
        "-m",
        "long",
        "--timeout",
        "3600",
        "-o",
        "faulthandler_timeout=0",
        "--hypothesis-profile",
        "long",
        *(session.posargs or ["tests", *PLUGIN_TESTS]),
    ]
    session.run("pytest", *args, env=WITH_BYTECODE)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """Check the type hints."""
    install(session, "types")
    session.run("mypy", *session.posargs)
    for plugin in PLUGINS:
        session.run("mypy", "--strict", f"{plugin}/src", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build the wheel by way of the sdist and use it as a stranger would: in a clean venv, outside the checkout."""
    session.install("build")
    place = Path(session.create_tmp()).resolve()
    dist, venv = place / "dist", place / "venv"
    session.run("python", "-m", "build", "--outdir", str(dist), silent=True)
    session.run("python", "-m", "venv", "--clear", str(venv))
    wheel = max(dist.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    session.run(str(venv / "bin" / "pip"), "install", "--quiet", str(wheel), external=True)

    forge, calculator = str(venv / "bin" / "forge"), Path("examples/calculator").resolve()
    home = {"FORGE_HOME": str(place / "home")}
    with session.chdir(place):
        session.run(forge, "--version", external=True)
        session.run(forge, "tools", "list", external=True, env=home)
        session.run(forge, "run", str(calculator), "-p", "What is the 20th Fibonacci number?", external=True, env=home)

    # the pip that the interpreter brings reads some requirements of others differently than a new one
    web = next(folder for folder in PLUGINS if folder.endswith("forge-tools-web"))
    session.run(str(venv / "bin" / "pip"), "install", "--quiet", web, external=True)
    session.run(str(venv / "bin" / "python"), "-c", READ_A_PAGE, external=True)


@nox.session
def bench(session: nox.Session) -> None:
    """Compare forge with floors of the same machine, and with benchmarks/results.json, which ``-- --keep`` writes."""
    session.install(".")
    session.run("python", "benchmarks/all.py", *session.posargs, env=WITH_BYTECODE)
