"""``forge plugins new``: new packages work and overwrite nothing.

Covers forge_cli.cli.plugins.new.
"""

import ast
import builtins
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from forge_cli import __version__
from forge_cli.cli.plugins.new import PluginKind
from forge_cli.engine.plugins.scaffold import make_package
from forge_cli.engine.plugins.scan import LOAD_PLUGINS
from forge_cli.testing import Project
from tests.support.command_line import Done
from tests.support.distributions import write_distribution

ROOT = Path(__file__).parents[3]
Cli = Callable[..., Done]
WORKFLOWS = {".github/workflows/ci.yml", ".github/workflows/publish.yml"}
FILES = {*WORKFLOWS, ".gitignore", "README.md", "pyproject.toml"}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", PluginKind, ids=lambda kind: kind.value)
def test_new_package_contains_its_files(cli: Cli, project: Project, kind: PluginKind) -> None:
    words = [] if kind is PluginKind.TOOLSET else ["--kind", kind.value]
    done = cli("plugins", "new", "bird-song", *words)
    name = f"{kind.package}bird-song"
    module = name.replace("-", "_")
    folder = project.folder / name
    assert (done.code, done.err) == (0, "")
    made = {PluginKind.EXECUTOR: "an executor", PluginKind.OBSERVER: "an observer"}.get(
        kind, f"a {kind.value}"
    )
    assert done.out.startswith(f"Made {name}: {made} that works already, with tests.\nNext:\n")
    inside = {f"src/{module}/__init__.py", f"src/{module}/py.typed", "tests/test_bird_song.py"}
    assert files(folder) == FILES | inside
    assert not [file for file in files(folder) if re.search(r"@\w+@", (folder / file).read_text())]
    made = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert made["name"] == name
    assert f"forge-workers>={__version__}" in made["dependencies"]
    named = f"{module}:bird_song" if kind is PluginKind.COMMAND else module
    assert list(made["entry-points"]["forge"].values()) == [named]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "command") for name in ("class", "typer", "str")),
        *((name, "toolset") for name in ("none", "toolset", "field")),
        ("model", "model"),
    ],
)
def test_new_package_code_is_valid_for_every_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (file,) = make_package(name, PluginKind(kind)).glob("src/*/__init__.py")
    module = runpy.run_path(str(file))
    tree = ast.parse(file.read_text())
    made = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    imported = [
        alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    assert not {*made} & {*imported, *dir(builtins)}
    if kind == "command":
        entry = tomllib.loads((file.parents[2] / "pyproject.toml").read_text())["project"][
            "entry-points"
        ]["forge"]
        assert entry == {f"command.{name}": f"forge_command_{name}:{name}_"}
        assert callable(module[f"{name}_"])


def test_new_package_workflows_test_every_system_and_publish_without_a_token(
    cli: Cli, project: Project
) -> None:
    assert cli("plugins", "new", "birds").code == 0
    ci, publish = (
        yaml.safe_load(project.read(f"forge-tools-birds/{name}")) for name in sorted(WORKFLOWS)
    )
    matrix = ci["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert {f"Programming Language :: Python :: {version}" for version in matrix["python"]} < set(
        known
    )
    assert publish["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in project.read("forge-tools-birds/.github/workflows/publish.yml")
    assert "Toolset[BirdsConfig]" in project.read(
        "forge-tools-birds/src/forge_tools_birds/__init__.py"
    )


def test_new_package_overwrites_nothing(cli: Cli, project: Project) -> None:
    (project.folder / "forge-tools-a").mkdir()
    project.write("forge-tools-b", "a file")
    (project.folder / "forge-tools-c").symlink_to("nowhere")
    for name in "abc":
        done = cli("plugins", "new", name)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"forge: forge-tools-{name} already exists\n")
    assert list((project.folder / "forge-tools-a").iterdir()) == []
    assert project.read("forge-tools-b") == "a file"
    assert not (project.folder / "nowhere").exists()


@pytest.mark.parametrize(
    "name", ["Birds", "1bird", "a b", "../x", "a/b", "bird-", "-x", "ü", "a" * 41, "forge-tools-"]
)
def test_new_package_refuses_invalid_names(cli: Cli, project: Project, name: str) -> None:
    done = cli("plugins", "new", "--", name)
    assert (done.code, done.out, list(project.folder.iterdir())) == (2, "", [])
    assert "is not a name for a plugin" in done.err


@pytest.mark.parametrize(
    ("name", "kind"), [("shell", "toolset"), ("anthropic", "model"), ("local", "executor")]
)
def test_reserved_name_is_refused(cli: Cli, project: Project, name: str, kind: str) -> None:
    done = cli("plugins", "new", name, "--kind", kind)
    assert (done.code, done.err) == (
        2,
        f"forge: forge has its own {kind} '{name}'; choose another name\n",
    )
    assert list(project.folder.iterdir()) == []


def test_full_package_name_is_accepted(cli: Cli, project: Project) -> None:
    assert cli("plugins", "new", "forge-tools-birds").code == 0
    assert (project.folder / "forge-tools-birds" / "src" / "forge_tools_birds").is_dir()


def test_unwritable_folder_is_an_error(cli: Cli, project: Project, need) -> None:
    need("user")
    project.folder.chmod(0o500)
    try:
        done = cli("plugins", "new", "birds")
    finally:
        project.folder.chmod(0o700)
    assert done.code == 1
    assert done.err.startswith("forge: forge-tools-birds cannot be made: ")


def put_on_path(package: Path, site: Path) -> None:
    """Install a package without pip: its code and its metadata."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    shutil.copytree(package / "src", site, dirs_exist_ok=True)
    required = f"Summary: {project['description']}\n" + "".join(
        f"Requires-Dist: {each}\n" for each in project["dependencies"]
    )
    said = f"Summary: {project['description']}\n{required}"
    points = [f"{name} = {value}" for name, value in project["entry-points"]["forge"].items()]
    write_distribution(site, project["name"], points, version=project["version"], metadata=said)


@pytest.mark.long
def test_every_kind_passes_its_tests_and_the_checks(
    cli: Cli,
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = tmp_path / "site"
    for kind in PluginKind:
        assert cli("plugins", "new", f"my-{kind.value}", "--kind", kind.value).code == 0
        put_on_path(project.folder / f"{kind.package}my-{kind.value}", site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv(
        "FORGE_LOAD_PLUGINS", ",".join(f"{kind.package}my-{kind.value}" for kind in PluginKind)
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        ".",
    ]
    done = subprocess.run(
        command, cwd=project.folder, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, "10 passed" in done.stdout) == (0, True), done.stdout + done.stderr

    checked = [
        cli("plugins", "check", f"{kind.package}my-{kind.value}", "--json") for kind in PluginKind
    ]
    assert [done.code for done in checked] == [0] * len(PluginKind), checked
    subjects = {row["subject"] for done in checked for row in json.loads(done.out)}
    assert {
        "my_toolset_greet",
        "my-toolset",
        "model.my-model",
        "render.my_renderer",
        "executor.my-executor",
        "observer.my-observer",
        "command.my-command",
    } <= subjects


ALSO = "import site; site.addsitedir({!r})\n"


@pytest.mark.long
@pytest.mark.timeout(280)
def test_package_is_made_tested_and_removed_in_its_own_venv(
    project: Project, tmp_path: Path
) -> None:
    """With the pip that the interpreter brings; what the tests are run with is there as well, so that it need not be
    installed once more."""
    venv = tmp_path / "venv"
    env = {
        **{
            name: value
            for name, value in os.environ.items()
            if name not in {"PYTHONPATH", LOAD_PLUGINS}
        },
        "FORGE_HOME": str(project.home),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",
    }

    def run(*command: str) -> str:
        streams = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        done = subprocess.run(
            command, cwd=project.folder, env=env, text=True, timeout=240, check=False, **streams
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    run(sys.executable, "-m", "venv", str(venv))
    python = str(venv / "bin" / "python")
    (place,) = venv.glob("lib/python*/site-packages")
    (place / "also.pth").write_text(ALSO.format(sysconfig.get_path("purelib")))
    forge = [python, "-m", "forge_cli", "plugins"]

    run(*forge, "new", "words")
    installed = run(*forge, "install", "./forge-tools-words")
    assert f"{python} -m pip install " in installed
    assert "installed forge-tools-words 0.1.0: toolset words\n" in installed
    assert (place / "forge_tools_words").is_dir()
    assert not list(place.glob("forge_workers*"))
    assert "2 passed" in run(python, "-m", "pytest", "-q", "forge-tools-words")
    assert "  ok      words_greet: schema, description, parameters, timeout, input\n" in run(
        *forge, "check", "forge-tools-words"
    )
    assert run(*forge, "uninstall", "forge-tools-words").endswith("uninstalled forge-tools-words\n")
    assert not (place / "forge_tools_words").exists()
    assert "forge-tools-words" not in run(*forge, "list")
