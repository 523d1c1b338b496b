"""Files that forge itself loads: writing one asks in every zone, and no confined command can do it.

Covers forge_cli.engine.runtime.loaded, forge_cli.files.environment and forge_cli.sandbox.loaded.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import forge_cli

WORKER = """\
name: w
instructions: work
toolsets:
  filesystem:
  shell: {rules: [{pattern: sh line.sh, approval: preApproved}]}
sandbox:
  zones: [{name: code, path: ., mode: rw, approval: {write: preApproved, delete: preApproved}}]
"""
ENVIRONMENT = f".venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
JUDGE = """
import sys
del sys.path[0]
import anyio, json
from pathlib import Path
from forge_cli import load_worker
from forge_cli.embedding import open_gate

async def main(tool, *paths):
    async with open_gate(load_worker("worker.yaml"), workspace=Path.cwd()) as gate:
        said = [(path, await gate.judge(tool, {"path": path, **CONTENT.get(tool, {})})) for path in paths]
    print(json.dumps([(path, (each["verdict"], each["reason"])) for path, each in said]))

CONTENT = {"write_file": {"content": "x"}}
anyio.run(main, *sys.argv[1:])
"""
PWNED = 'open(__import__("os").environ["HOME"] + "/pwned", "w")\n'


@dataclass
class Folder:
    """A project that has the environment of forge in it."""

    path: Path
    variables: Mapping[str, str]

    def forge(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [".venv/bin/python", "-m", "forge_cli", *words],
            cwd=self.path,
            env={**os.environ, **self.variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def verdicts(self, *paths: str, tool: str = "write_file") -> dict[str, tuple[str, str]]:
        """The verdict and the reason of each path; a process of its own says all of them."""
        done = subprocess.run(
            [".venv/bin/python", "-c", JUDGE, tool, *paths],
            cwd=self.path,
            env={**os.environ, **self.variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.stdout, done.stderr
        return {path: (verdict, reason) for path, (verdict, reason) in json.loads(done.stdout)}

    def approvals(self, *paths: str, tool: str = "write_file") -> dict[str, str]:
        return {path: verdict for path, (verdict, _) in self.verdicts(*paths, tool=tool).items()}

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """A script that a rule pre-approves."""
        (self.path / "line.sh").write_text(line)
        return self.forge("tools", "call", "shell", "--worker", "worker.yaml", "command=sh line.sh")

    def write(self, path: str, text: str = "") -> Path:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that is not in /tmp, which a confined process has for itself."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(os.path.realpath(folder))


@pytest.fixture
def folder(outside: Path) -> Folder:
    venv.EnvBuilder(symlinks=True).create(outside / ".venv")
    path = [
        str(Path(forge_cli.__file__).parents[1]),
        *(each for each in sys.path if each.endswith("site-packages")),
    ]
    (outside / ENVIRONMENT / "lab.pth").write_text("\n".join(path))
    (outside / "worker.yaml").write_text(WORKER)
    return Folder(outside, {})


def with_path(folder: Folder, *entries: str) -> Folder:
    return Folder(
        folder.path, {"PYTHONPATH": os.pathsep.join(str(folder.path / each) for each in entries)}
    )


def test_change_of_the_environment_of_forge_asks(folder: Folder) -> None:
    inside = (
        f"{ENVIRONMENT}/sitecustomize.py",
        f"{ENVIRONMENT}/b.pth",
        ".venv/pyvenv.cfg",
        ".VENV/new",
    )
    found = folder.verdicts(*inside, "other/.venv/lib/x.py")

    assert found.pop("other/.venv/lib/x.py")[0] == "preApproved"
    assert set(found.values()) == {
        ("ask", "it belongs to the Python environment that forge runs in")
    }
    assert folder.approvals(".venv/pyvenv.cfg", tool="delete_file") == {".venv/pyvenv.cfg": "ask"}


@pytest.mark.needs("bwrap")
def test_confined_command_cannot_change_the_environment_of_forge(folder: Folder) -> None:
    folder.write("evil", PWNED)
    lines = (
        f"cp evil {ENVIRONMENT}/sitecustomize.py",
        f"echo 'import os' > {ENVIRONMENT}/b.pth",
        "mv .venv old; mkdir -p .venv/bin; cp evil .venv/bin/forge",
        f"rm -r {ENVIRONMENT}",
    )
    for line in lines:
        folder.run(line)
        assert sorted(os.listdir(folder.path / ENVIRONMENT)) == ["lab.pth"], line
    assert folder.run("touch other").returncode == 0
    assert (folder.path / "other").exists()
    assert not Path(os.environ["HOME"], "pwned").exists()


def test_another_environment_stays_writable(folder: Folder) -> None:
    venv.EnvBuilder(symlinks=True).create(folder.path / "fresh")
    place = ENVIRONMENT.replace(".venv", "fresh")

    assert folder.approvals(f"{place}/package.py") == {f"{place}/package.py": "preApproved"}


SHADOWING = (
    "json.py",
    "sitecustomize.py",
    "usercustomize/__init__.py",
    "msgspec/__init__.py",
    "yaml.cpython-311.so",
)
ORDINARY = (
    "app.py",
    "json/data.txt",
    "msgspec/other.py",
    "test/__init__.py",
    "yaml.txt",
    "json.py/x",
)


def test_module_that_shadows_an_import_asks_for_every_path(folder: Folder) -> None:
    names = (*SHADOWING, "x.dist-info/entry_points.txt", "x.egg-info/PKG-INFO")
    asks = [f"{place}{name}" for place in ("", "lib/") for name in names]
    ordinary = [f"{place}{name}" for place in ("", "lib/") for name in ORDINARY]

    found = with_path(folder, "lib", ".").verdicts(*asks, *ordinary)

    assert [path for path in asks if found[path] != ("ask", "forge imports it")] == []
    assert [path for path in ordinary if found[path][0] != "preApproved"] == []


@pytest.mark.needs("bwrap")
def test_shadowing_module_made_by_a_command_is_quarantined(folder: Folder) -> None:
    done = with_path(folder, "lib").run(
        "mkdir -p lib/yaml x.dist-info; touch lib/json.py lib/yaml/__init__.py lib/a.py"
    )

    assert sorted(os.listdir(folder.path / "lib/yaml"))[0].startswith("removed-by-forge.")
    assert [name for name in os.listdir(folder.path / "lib") if name.endswith(".py")] == ["a.py"]
    assert "protected names" in done.stderr
    assert (folder.path / "x.dist-info").is_dir()


def test_files_after_all_libraries_count_only_as_modules_that_python_loads_itself(
    folder: Folder,
) -> None:
    """As a project is that was installed as editable beside forge: its own sources stay as they are."""
    folder.write(f"{ENVIRONMENT}/project.pth", str(folder.path / "src"))
    folder.write("src/app/__init__.py")

    found = folder.approvals(
        "src/sitecustomize.py", "src/json.py", "src/app/__init__.py", "src/app/new.py"
    )
    assert list(found.values()) == ["ask", "preApproved", "preApproved", "preApproved"]


def test_package_imported_from_a_project_asks(folder: Folder) -> None:
    """An editable install has a finder that names its place, and a namespace has no file."""
    folder.write("src/one/__init__.py")
    folder.write("src/many/part/__init__.py")
    folder.write(
        f"{ENVIRONMENT}/__editable__one.py", _FINDER.format(place=folder.path / "src" / "one")
    )
    lines = ("import __editable__one", str(folder.path / "src"), "import one, many.part")
    folder.write(f"{ENVIRONMENT}/z.pth", "\n".join(lines))

    inside = (
        "src/one/__init__.py",
        "src/one/new/x.py",
        "src/many/part/x.py",
        "src/one/__pycache__/x.pyc",
    )
    found = folder.verdicts(*inside, "src/two/__init__.py")
    assert found.pop("src/two/__init__.py")[0] == "preApproved"
    assert set(found.values()) == {("ask", "forge imports it")}


_FINDER = """\
import importlib.util, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "one":
            return importlib.util.spec_from_file_location(name, "{place}/__init__.py")
sys.meta_path.append(Finder)
"""


def test_zone_within_the_environment_asks_for_everything(folder: Folder) -> None:
    folder.write("worker.yaml", WORKER.replace("path: .,", f"path: {ENVIRONMENT},"))

    assert folder.approvals("/code/anything") == {"/code/anything": "ask"}
