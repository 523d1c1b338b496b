"""The files of a Python module beside a worker: those that existed when it was read, and no newer ones."""

import importlib.machinery
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from forge_cli.errors import WorkerError
from forge_cli.files.module import LocalModule, LocalPackage
from forge_cli.files.sources import Sources, importable_beside

EVIL = "raise SystemExit('planted')\n"
NATIVE = importlib.machinery.EXTENSION_SUFFIXES[0]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def load(folder: Path) -> ModuleType:
    return LocalModule.read(folder / "tools.py").load()


LATE = "def value():\n    {statement}\n    return {result}\n"
LATER: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "a package in front of a module": (
        {
            "tools.py": LATE.format(statement="import helper", result="helper.V"),
            "helper.py": "V = 1\n",
        },
        {"helper/__init__.py": EVIL},
    ),
    "another content": (
        {
            "tools.py": LATE.format(statement="import helper", result="helper.V"),
            "helper.py": "V = 1\n",
        },
        {"helper.py": EVIL},
    ),
    "a folder without a file of its own": (
        {
            "tools.py": LATE.format(statement="import deep.helper as helper", result="helper.V"),
            "deep/helper.py": "V = 1",
        },
        {"deep/__init__.py": EVIL, "deep.py": EVIL},
    ),
    "native code": (
        {
            "tools.py": LATE.format(statement="import helper", result="helper.V"),
            "helper.py": "V = 1\n",
        },
        {f"helper{NATIVE}": EVIL, "helper.so": EVIL},
    ),
    "bytecode": (
        {
            "tools.py": LATE.format(statement="import helper", result="helper.V"),
            "helper.py": "V = 1\n",
        },
        {"helper.pyc": EVIL, f"__pycache__/helper.{sys.implementation.cache_tag}.pyc": EVIL},
    ),
    "in a package": (
        {
            "tools.py": LATE.format(statement="from pack import one", result="one.V"),
            "pack/__init__.py": "",
            "pack/one.py": "from .two import V\n",
            "pack/two.py": "V = 1\n",
        },
        {"pack/two/__init__.py": EVIL, "pack/one/__init__.py": EVIL, "pack.py": EVIL},
    ),
    "from . import": (
        {
            "tools.py": LATE.format(statement="from . import helper", result="helper.V"),
            "helper.py": "V = 1\n",
        },
        {"helper/__init__.py": EVIL},
    ),
    "from .. import": (
        {
            "tools.py": LATE.format(statement="import a.b.c", result="a.b.c.V"),
            "a/b/c.py": "from ..d import V\n",
            "a/d.py": "V = 1\n",
        },
        {
            "a/d/__init__.py": EVIL,
            "a/__init__.py": EVIL,
            "a/b/__init__.py": EVIL,
            "a/b/d.py": EVIL,
            "d.py": EVIL,
        },
    ),
    "what may be missing": (
        {
            "tools.py": "try:\n    import extra_m\nexcept ImportError:\n    pass\ndef value(): return 1\n"
        },
        {"extra_m.py": EVIL, "extra_m/__init__.py": EVIL},
    ),
    "what may be missing in a package": (
        {
            "tools.py": LATE.format(statement="from pack import V", result="V"),
            "pack/__init__.py": "try:\n    from . import fast\nexcept ImportError:\n    V = 1\n",
        },
        {"pack/fast.py": EVIL, "pack/fast/__init__.py": EVIL},
    ),
    "by its dotted name": (
        {
            "tools.py": "from importlib import import_module\nimport helper\n"
            "def value(): return import_module('.other', __package__).V if False else helper.V\n",
            "helper.py": "V = 1\n",
        },
        {"other.py": EVIL},
    ),
    "all of a package": (
        {
            "tools.py": "from pack import *\ndef value(): return one.V\n",
            "pack/__init__.py": "__all__ = ['one']\n",
            "pack/one.py": "V = 1\n",
        },
        {"pack/two.py": EVIL},
    ),
}


def test_file_planted_after_loading_is_not_run(tmp_path: Path) -> None:
    failures = []
    for number, (what, (files, planted)) in enumerate(LATER.items()):
        folder = tmp_path / str(number)
        write(folder, files)
        module = LocalModule.read(folder / "tools.py")
        write(folder, planted)
        try:
            found = module.load().value()
        except BaseException as error:
            failures.append((what, repr(error)))
        else:
            if found != 1:
                failures.append((what, found))
    assert failures == []


def test_import_that_no_statement_names_is_not_found(tmp_path: Path) -> None:
    dynamic = "from importlib import import_module\ndef get(name): return import_module(name, __package__)\n"
    write(
        tmp_path,
        {
            "tools.py": f"{dynamic}from pack import one\n",
            "pack/__init__.py": "",
            "pack/one.py": "V = 1\n",
        },
    )
    module = load(tmp_path)
    write(
        tmp_path, {"new.py": EVIL, "pack/new.py": EVIL, "bare/new.py": EVIL, "tools/new.py": EVIL}
    )
    assert module.get(".pack.one").V == 1
    failures = []
    for name in (
        ".new",
        ".pack.new",
        ".bare.new",
        ".bare",
        ".tools.new",
        "new",
        "pack.new",
        "bare.new",
    ):
        with suppress(ModuleNotFoundError):
            failures.append((name, module.get(name)))
    assert failures == []
    with pytest.raises(
        ModuleNotFoundError,
        match="No module named 'pack.new' among the files that import statements",
    ):
        module.get(".pack.new")


def test_module_and_package_of_one_name_are_an_error(tmp_path: Path) -> None:
    for number, (name, package) in enumerate(
        (("helper", "helper"), ("pack/one", "one"), ("deep/two", "two"))
    ):
        folder = tmp_path / str(number)
        dotted = name.replace("/", ".")
        write(
            folder,
            {"tools.py": f"import {dotted}\n", f"{name}.py": "", f"{name}/__init__.py": EVIL},
        )
        with pytest.raises(WorkerError) as caught:
            load(folder)
        assert (
            caught.value.message
            == f"{package}.py and {package}/__init__.py are one module for Python"
        )
        assert caught.value.where is not None
        assert caught.value.where.file == str(folder / f"{name}.py")


@pytest.mark.long
def test_circular_imports_are_all_found(tmp_path: Path) -> None:
    for number in range(1500):
        imports = f"from . import m{number + 1}, m{number // 2}" if number < 1499 else "V = 1"
        write(tmp_path, {f"pack/m{number}.py": imports})
    write(
        tmp_path,
        {
            "pack/__init__.py": "",
            "tools.py": "def value():\n    from pack import m1499\n    return m1499.V\n",
        },
    )
    assert len(Sources.below(tmp_path, ["pack.m0"]).files) == 1501
    assert load(tmp_path).value() == 1


def test_possible_places_of_an_import_are_known(tmp_path: Path) -> None:
    text = "import json, helper, deep.one\ntry:\n    import extra_x\nexcept ImportError:\n    pass\n__all__ = ['helper']\n"
    write(tmp_path, {"tools.py": text, "helper.py": "", "deep/one.py": "", "stranger.py": ""})
    found = {
        path.relative_to(tmp_path).as_posix() for path in importable_beside(tmp_path / "tools.py")
    }
    there = {"tools.py", "helper.py", "deep/one.py"}
    beside = {"helper/__init__.py", "deep.py", "deep/__init__.py", "deep/one/__init__.py"}
    assert found == there | beside | {"extra_x.py", "extra_x/__init__.py"}


def test_file_that_cannot_be_read_is_an_error_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, {"tools.py": "import helper\n"})
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(WorkerError, match="it cannot be read"):
        LocalModule.read(tmp_path / "pipe.py")
    with pytest.raises(WorkerError, match="it cannot be read: No such file"):
        LocalModule.read(tmp_path / "gone.py")
    assert Sources.beside(tmp_path / "gone.py").paths == {tmp_path / "gone.py"}


def test_package_has_the_files_that_its_modules_import(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"pack/__init__.py": "from . import one\n", "pack/one.py": "V = 1\n", "pack/two.py": EVIL},
    )
    package = LocalPackage.read(tmp_path, ["pack"])
    write(tmp_path, {"pack/one.py": EVIL, "pack/one/__init__.py": EVIL, "pack.py": EVIL})
    assert package.load("pack").one.V == 1
    with pytest.raises(WorkerError, match="ModuleNotFoundError"):
        package.load("pack.two")
