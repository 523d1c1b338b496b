"""A locked worker imports only hashed files, and nothing else from the interpreter.

Covers forge_cli.engine.lock.imports and forge_cli.engine.lock.interpreter.
"""

import importlib
import importlib.util
import marshal
import os
import subprocess
import sys
import venv
from hashlib import sha256
from pathlib import Path

import pytest

import forge_cli
from forge_cli.core.errors import ExitCode, LockError
from forge_cli.engine.lock.imports import import_only
from forge_cli.testing import Project

WORKER = """\
name: w
model: script:play.yaml
toolsets:
  custom: {module: ./tools.py, tools: [f], approval: {default: preApproved}}
  external: {package: own_package, import: greet, approval: {default: preApproved}}
"""
PLAY = "turns: [{calls: [{tool: f}, {tool: greet}]}, {text: '{results[0]} {results[1]}'}]"
TOOLS = (
    'def f() -> str:\n    """F."""\n    import own_library.part\n    return own_library.part.said\n'
)
PACKAGE = 'def greet() -> str:\n    """Greet."""\n    return "good"\n'


class Locked:
    def __init__(self, project: Project) -> None:
        self.project = project
        self.python, self.path = sys.executable, [str(project.folder / "lib")]

    def forge(self, *words: str) -> subprocess.CompletedProcess[str]:
        own = {
            "HOME": os.environ["HOME"],
            "FORGE_HOME": str(self.project.home),
            "PATH": os.environ["PATH"],
        }
        more = {"PYTHONPATH": os.pathsep.join(self.path)} if self.path else {}
        return subprocess.run(
            [self.python, "-m", "forge_cli", *words],
            cwd=self.project.folder,
            env={**own, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def run(self) -> subprocess.CompletedProcess[str]:
        return self.forge("run", "worker.yaml", "go", "-p", "--locked")

    def lock(self) -> None:
        done = self.forge("lock", "worker.yaml")
        assert done.returncode == 0, done.stderr
        done = self.run()
        assert (done.returncode, done.stdout) == (0, "fine good\n"), done.stderr


@pytest.fixture
def locked(project: Project) -> Locked:
    project.write("worker.yaml", WORKER)
    project.write("play.yaml", PLAY)
    project.write("tools.py", TOOLS)
    project.write("lib/own_library/__init__.py", "")
    project.write("lib/own_library/part.py", 'said = "fine"')
    project.write("lib/own_package/__init__.py", PACKAGE)
    return Locked(project)


CHANGES = [
    {
        "lib/own_library/part.py": "own-library",
        "lib/own_package/__init__.py": "own-package",
        "lib/sitecustomize.py": "sitecustomize",
        "lib/usercustomize/__init__.py": "usercustomize",
        "play.yaml": "model",
    },
    {"lib/own_library/new.py": "own-library", "lib/colorsys.py": "PYTHONPATH ./lib"},
    {"lib/not_installed_yet.py": "PYTHONPATH ./lib"},
]
"""Files that change together, and the name by which each is reported."""


def test_lock_lists_imported_files_and_packages(locked: Locked) -> None:
    locked.lock()
    for files in CHANGES:
        before = {}
        for name in files:
            file = locked.project.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            before[file] = file.read_text() if file.exists() else None
            file.write_text(f"{before[file] or ''}\n# changed")
        done = locked.run()
        assert done.returncode == ExitCode.UNTRUSTED, done.stderr
        assert [told for told in files.values() if f"'{told}'" not in done.stderr] == []
        for file, text in before.items():
            file.unlink() if text is None else file.write_text(text)
    done = locked.run()
    assert done.returncode == 0, done.stderr

    locked.project.write("other/not_installed_yet.py", "")
    locked.path.append(str(locked.project.folder / "other"))
    assert locked.run().returncode == ExitCode.UNTRUSTED


def test_installed_library_has_its_version(locked: Locked) -> None:
    metadata = "Metadata-Version: 2.1\nName: own-library\nVersion: {}\n"
    info = "lib/own_library-1.dist-info"
    locked.project.write(f"{info}/METADATA", metadata.format("1.0"))
    locked.project.write(f"{info}/RECORD", "own_library/__init__.py,,\nown_library/part.py,,\n")
    locked.project.write(f"{info}/top_level.txt", "own_library\n")
    locked.lock()
    locked.project.write(f"{info}/METADATA", metadata.format("2.0"))

    done = locked.run()

    assert done.returncode == ExitCode.UNTRUSTED
    assert "the package 'own-library' (imported by tools.py) changed from 1.0 to 2.0" in done.stderr


def plant(source: Path, text: str) -> None:
    """A compiled file that Python takes without a look at its source."""
    code = marshal.dumps(compile(text, str(source), "exec"))
    file = Path(importlib.util.cache_from_source(str(source)))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + code)


def test_planted_bytecode_is_not_imported(locked: Locked) -> None:
    locked.lock()
    lib = locked.project.folder / "lib"
    plant(lib / "own_library/part.py", 'said = "evil"')
    plant(lib / "own_package/__init__.py", PACKAGE.replace("good", "evil"))
    assert "evil" in locked.forge("run", "worker.yaml", "go", "-p").stdout

    done = locked.run()

    assert (done.returncode, done.stdout) == (0, "fine good\n")


def test_path_file_that_runs_code_is_in_the_lock(locked: Locked) -> None:
    place = locked.project.folder / "env"
    venv.EnvBuilder(symlinks=True).create(place)
    site = place / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    path = [
        str(Path(forge_cli.__file__).parents[1]),
        *(each for each in sys.path if each.endswith("site-packages")),
    ]
    (site / "lab.pth").write_text("\n".join(path))
    locked.python = str(place / "bin/python")
    locked.lock()

    (site / "b.pth").write_text("import os\n")

    done = locked.run()
    assert (done.returncode, "'b.pth' (imported by Python at start) was added" in done.stderr) == (
        8,
        True,
    )


def test_file_changed_between_check_and_import_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    package = tmp_path / "own_checked_package"
    package.mkdir()
    for name in ("__init__", "one", "two", "three"):
        (package / f"{name}.py").write_text(f"name = {name!r}")
    hashes = {
        os.path.realpath(file): sha256(file.read_bytes()).hexdigest()
        for file in package.iterdir()
        if file.stem != "three"
    }
    import_only(hashes, frozenset({"own_checked_package"}), tmp_path / "cache")
    (package / "two.py").write_text("name = 'evil'")

    assert importlib.import_module("own_checked_package.one").name == "one"
    for name in ("two", "three"):
        with pytest.raises(
            LockError, match=f"{name}.py is not the file that was compared with the lock"
        ):
            importlib.import_module(f"own_checked_package.{name}")
    for name in ("own_checked_package.one", "own_checked_package"):
        monkeypatch.delitem(sys.modules, name)
    assert importlib.import_module("own_checked_package.one").name == "one"
    assert list((tmp_path / "cache").glob("*.code"))
