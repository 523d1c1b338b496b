"""A Python file beside a worker: its local imports, which no other module can use."""

import sys
from pathlib import Path

import pytest

from forge_cli import ToolError
from forge_cli.errors import WorkerError
from forge_cli.files.module import LocalModule
from forge_cli.files.sources import imported_beside
from forge_cli.testing import Project, call, calls


def load(folder: Path, **files: str) -> object:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return LocalModule.read(folder / "tools.py").load()


@pytest.mark.parametrize(
    "text",
    [
        "import beside_a\nVALUE = beside_a.VALUE",
        "from beside_a import VALUE",
        "from . import beside_a\nVALUE = beside_a.VALUE",
        "from .beside_a import VALUE",
        "import pack_a.inner\nVALUE = pack_a.inner.VALUE",
        "from pack_a.inner import VALUE",
        "from pack_a import inner as other\nVALUE = other.VALUE",
        "def _late():\n    from beside_b import VALUE\n    return VALUE\nVALUE = _late()",
    ],
)
def test_local_modules_are_importable_from_each_other(tmp_path: Path, text: str) -> None:
    before = set(sys.path)
    module = load(
        tmp_path,
        tools=text,
        beside_a="from beside_b import VALUE\n",
        beside_b="VALUE = 42\n",
        pack_a__inner="import beside_b\nVALUE = beside_b.VALUE\n",
    )
    assert module.VALUE == 42  # type: ignore[attr-defined]
    assert set(sys.path) == before
    assert not {"beside_a", "beside_b", "pack_a"} & set(sys.modules)


def test_unchanged_code_is_imported_once_and_changed_code_again(tmp_path: Path) -> None:
    module = load(tmp_path, tools="from beside import VALUE\n", beside="VALUE = 1\n")
    assert load(tmp_path) is module
    assert vars(load(tmp_path, beside="VALUE = 2\n"))["VALUE"] == 2
    with pytest.raises(WorkerError):
        load(tmp_path, tools="raise RuntimeError('not yet')\n")


def test_libraries_cannot_import_local_modules(tmp_path: Path) -> None:
    load(tmp_path, tools="import beside_c", beside_c="")
    with pytest.raises(ModuleNotFoundError):
        __import__("beside_c")


def test_library_takes_precedence_over_a_local_file_of_its_name(tmp_path: Path) -> None:
    module = load(tmp_path, tools="import json, colorsys", json="x = 1/0", colorsys="x = 1/0")
    assert module.json.dumps(1) == "1"  # type: ignore[attr-defined]
    assert "rgb_to_hsv" in vars(module.colorsys)  # type: ignore[attr-defined]


def test_digest_covers_imported_modules(tmp_path: Path) -> None:
    load(
        tmp_path,
        tools="import beside_d",
        beside_d="import deep_d.one",
        deep_d__one="X = 1",
        stranger="",
    )
    first = LocalModule.read(tmp_path / "tools.py").digest
    (tmp_path / "stranger.py").write_text("changed")
    assert LocalModule.read(tmp_path / "tools.py").digest == first
    (tmp_path / "deep_d/one.py").write_text("X = 2")
    assert LocalModule.read(tmp_path / "tools.py").digest != first
    names = {
        path.relative_to(tmp_path).as_posix() for path in imported_beside(tmp_path / "tools.py")
    }
    assert names == {"tools.py", "beside_d.py", "deep_d/one.py"}


def test_error_in_a_local_import_is_reported_at_the_import(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"tools.py:2:1: cannot be imported: ZeroDivisionError"):
        load(tmp_path, tools="import os\nimport beside_e\n", beside_e="1 / 0\n")


WORKER = """
name: w
sandbox: {zones: [{name: here, path: ., mode: rw, approval: {write: preApproved}}]}
toolsets: {filesystem: {}, custom: {module: ./lib/tools.py, tools: [f]}}
"""


@pytest.mark.parametrize(
    ("path", "asks"),
    [
        ("lib/helper.py", True),
        ("lib/deep/one.py", True),
        ("lib/new.py", True),
        ("lib/NEW.PY", True),
        ("lib/requests/__init__.py", True),
        ("worker.yaml", True),
        ("lib/data.txt", False),
        ("other.py", False),
    ],
)
def test_every_importable_file_asks_before_it_is_written(
    project: Project, path: str, asks: bool
) -> None:
    project.write("worker.yaml", WORKER)
    project.write("lib/tools.py", "from helper import f\nfrom deep import one\n")
    project.write("lib/helper.py", "def f() -> int:\n    'F.'\n    return 1\n")
    project.write("lib/deep/one.py", "")
    seen = project.run(calls(call("write_file", path=path, content="x")), "done", answers=[False])
    assert (seen.statuses, len(seen.asked)) == (["denied"] if asks else ["success"], int(asks))


def test_tool_error_is_the_same_class_after_a_reload(tmp_path: Path) -> None:
    module = load(tmp_path, tools="from forge_cli import ToolError")
    assert module.ToolError is ToolError  # type: ignore[attr-defined]
