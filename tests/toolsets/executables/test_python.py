"""Python sources with packages: installed by uv if available, otherwise required to exist.

Covers forge_cli.toolsets.executables.registry, forge_cli.toolsets.executables.building.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.errors import WorkerError
from forge_cli.core.results import Custom
from forge_cli.testing import Project, Seen, call, calls
from forge_cli.toolsets.executables.registry import Requirements, read_script

WriteTool = Callable[..., Path]
SAY = "import forge_demo_words as words\nprint(words.WORD)\n"


@pytest.fixture
def uv(need: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> str:
    """uv itself, from the environment of the tests, on the PATH."""
    need("uv")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return shutil.which("uv") or ""


@pytest.fixture
def without_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH with only the programs that tests of a shell need."""
    for name in ("bash", "bwrap", "cat"):
        if found := shutil.which(name):
            (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with packages of our own, so that nothing has to be fetched."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        _wheel(
            folder,
            "forge_demo_words",
            version,
            {"forge_demo_words.py": f"WORD = 'words {version}'\n"},
        )
    return folder


def _wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    info = f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*content, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**content, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


def needing(*requirements: str, wheels: Path | None = None, more: str = "") -> str:
    """The comment at the top of a source."""
    lines = [f"dependencies = {list(requirements)!r}", *more.splitlines()]
    lines += ["[tool.uv]", f"find-links = ['{wheels}']", "no-index = true"] if wheels else []
    return "\n".join(["# /// script", *(f"# {line}" for line in lines), "# ///", ""])


def stdout(seen: Seen, index: int = -1) -> str:
    value = seen.outcomes[index].value
    assert isinstance(value, Custom), value
    return str(value.data["stdout"])


@pytest.mark.few(1)
@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_packages_are_available_with_and_without_confinement(
    project: Project, write_tool: WriteTool, uv: str, wheels: Path, isolation: str
) -> None:
    head = f"name: w\ninstructions: x\nsandbox: {{isolation: {isolation}}}\n"
    project.write(
        "worker.yaml", f"{head}toolsets:\n  executables: {{approval: {{default: preApproved}}}}\n"
    )
    write_tool("say", needing("forge-demo-words", wheels=wheels) + SAY, suffix=".py")
    seen = project.run(calls(call("say"), call("say")), "done")
    assert seen.statuses == ["success", "success"], [outcome.error for outcome in seen.outcomes]
    assert stdout(seen) == "words 2.0\n"
    assert list((project.home / "cache" / "environments" / "say").rglob("forge_demo_words.*.pyc"))


@pytest.mark.long
def test_packages_are_installed_once_and_again_after_an_edit(
    worker: Project,
    write_tool: WriteTool,
    uv: str,
    wheels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = _logging_uv(tmp_path, uv, monkeypatch)
    write_tool("say", needing("forge-demo-words==1.0", wheels=wheels) + SAY, suffix=".py")
    for _ in range(2):
        assert stdout(worker.run(calls(call("say")), "done")) == "words 1.0\n"
    assert log.read_text().split() == ["venv", "sync"]
    write_tool("say", needing("forge-demo-words==2.0", wheels=wheels) + SAY, suffix=".py")
    assert stdout(worker.run(calls(call("say")), "done")) == "words 2.0\n"
    assert log.read_text().split() == ["venv", "sync"] * 2


def _logging_uv(folder: Path, uv: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    log, wrapper = folder / "uv.log", folder / "bin" / "uv"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$1" >> {log}\nexec {uv} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    return log


@pytest.mark.long
def test_concurrent_processes_install_once(
    worker: Project,
    write_tool: WriteTool,
    uv: str,
    wheels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = _logging_uv(tmp_path, uv, monkeypatch)
    write_tool("say", needing("forge-demo-words", wheels=wheels) + SAY, suffix=".py")
    command = [sys.executable, "-m", "forge_cli", "tools", "call", "say", "--worker", "worker.yaml"]
    env = {**os.environ, "FORGE_HOME": str(worker.home)}
    started = [
        subprocess.Popen(
            command,
            cwd=worker.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0] for process in started] == ["words 2.0\n"] * 2
    assert log.read_text().split() == ["venv", "sync"]


def test_failed_installation_is_the_error_of_the_call(
    worker: Project, write_tool: WriteTool, uv: str, wheels: Path
) -> None:
    write_tool("say", needing("forge-no-such-words", wheels=wheels) + SAY, suffix=".py")
    write_tool("fine", "echo fine")
    seen = worker.run(calls(call("say"), call("fine")), "done")
    assert seen.statuses == ["error", "success"]
    assert "forge-no-such-words was not found" in (seen.outcomes[0].error or "")


@pytest.mark.long
def test_package_code_runs_only_confined(
    worker: Project, write_tool: WriteTool, uv: str, wheels: Path, tmp_path: Path
) -> None:
    """Neither build code nor lines that Python runs at its start run unconfined."""
    proof, source = tmp_path / "proof", tmp_path / "source"
    lines = f"import os; os.path.isdir({str(tmp_path)!r}) and open({str(proof)!r}, 'w').close()\n"
    _wheel(wheels, "sly", "1.0", {"sly.py": "", "sly.pth": lines})
    source.mkdir()
    system = "[build-system]\nrequires = []\nbuild-backend = 'b'\nbackend-path = ['.']\n"
    (source / "pyproject.toml").write_text(f"[project]\nname = 'built'\nversion = '1'\n{system}")
    (source / "b.py").write_text(lines)
    editable = f"[tool.uv.sources]\nbuilt = {{path = '{source}', editable = true}}"
    write_tool("lines", needing("sly", wheels=wheels) + "import sly\nprint('ok')\n", suffix=".py")
    write_tool(
        "built", needing(f"built @ file://{source}", wheels=wheels) + "import built\n", suffix=".py"
    )
    write_tool("editable", needing("built", more=editable) + "import built\n", suffix=".py")
    seen = worker.run(
        calls(call("lines"), call("built")), calls(call("lines"), call("editable")), "done"
    )
    assert seen.statuses == ["success", "error", "success", "not_found"], [
        each.error for each in seen.outcomes
    ]
    if not any(
        line.get("level") == "warning" and "not confined" in line["message"] for line in seen.lines
    ):
        assert not proof.exists()


def test_packages_are_shown_in_the_question(
    project: Project, write_tool: WriteTool, wheels: Path
) -> None:
    project.write("worker.yaml", "name: w\ninstructions: x\ntoolsets: {executables: {}}\n")
    write_tool("say", needing("forge-demo-words>=1", "rich", wheels=wheels) + SAY, suffix=".py")
    seen = project.run(calls(call("say")), "done", answers=[False])
    assert "with the packages forge-demo-words>=1, rich" in seen.asked[0].preview.text()


@pytest.mark.usefixtures("without_uv")
def test_missing_requirements_without_uv_are_named_with_a_remedy(
    worker: Project, write_tool: WriteTool
) -> None:
    write_tool(
        "say",
        needing("forge-demo-words>=1", "pydantic", "only-there; sys_platform == 'x'") + SAY,
        suffix=".py",
    )
    write_tool(
        "has",
        needing("pydantic>=2", "PyYAML") + "import pydantic, yaml\nprint('ok')\n",
        suffix=".py",
    )
    write_tool("new", needing(more="requires-python = '>=3.99'"), suffix=".py")
    seen = worker.run(calls(call("say"), call("has"), call("new")), "done")
    assert seen.statuses == ["error", "success", "error"]
    said = seen.outcomes[0].error or ""
    assert said.startswith("say needs forge-demo-words>=1, which ")
    assert "install uv" in said
    assert said.endswith("-m pip install 'forge-demo-words>=1'")
    assert "new needs Python >=3.99" in (seen.outcomes[2].error or "")


@pytest.mark.parametrize(
    ("source", "place", "problem"),
    [
        ("x = 1\n# /// script\n# dependencies = [\n# ///\n", "3:1", "not TOML: Invalid value"),
        ("# /// script\n#\n# dependencies = [,]\n# ///\n", "3:19", "not TOML: Invalid value"),
        ("# /// script\n# dependencies = 'rich'\n# ///\n", "1:1", "must be a list of strings"),
        ("# /// script\n# requires-python = 3\n# ///\n", "1:1", "must be a version range"),
        (
            "# /// script\n# requires-python = '/bin/true'\n# ///\n",
            "1:1",
            "must be a version range",
        ),
        ("# /// script\n# a = 1\nx = 1\n", "1:1", "has no end"),
        (f"{needing()}\n{needing()}", "5:1", "duplicate '# /// script'"),
    ],
)
def test_invalid_metadata_is_reported_with_its_place(
    tmp_path: Path, source: str, place: str, problem: str
) -> None:
    file = tmp_path / "t.py"
    file.write_text(source)
    with pytest.raises(WorkerError) as caught:
        read_script(file)
    assert str(caught.value).startswith(f"{file}:{place}: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("print('hi')\n", None),
        ('"""About # /// script"""\n', None),
        (needing("rich>=14", "a[b]"), Requirements(("rich>=14", "a[b]"))),
        (needing("rich").replace("\n", "\r\n"), Requirements(("rich",))),
        ("# /// script\n#\n# requires-python = '>=3.11'\n# ///\n", Requirements((), ">=3.11")),
        (
            "# /// script\n# requires-python = '~=3.11, !=3.12.*,<4'\n# ///\n",
            Requirements((), "~=3.11, !=3.12.*,<4"),
        ),
    ],
)
def test_script_metadata_is_read(tmp_path: Path, source: str, found: Requirements | None) -> None:
    file = tmp_path / "t.py"
    file.write_bytes(source.encode())
    assert read_script(file) == found


@given(
    st.binary()
    | st.text().map(lambda text: f"# /// script\n# {text}\n# ///\n".encode(errors="replace"))
)
def test_any_source_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, source: bytes
) -> None:
    file = tmp_path_factory.mktemp("t") / "t.py"
    file.write_bytes(source)
    try:
        read_script(file)
    except WorkerError as error:
        assert str(error).startswith(f"{file}:")
