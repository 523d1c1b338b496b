"""Go sources: compiled once for all processes, and only after approval."""

import fcntl
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.core.results import Custom
from forge_cli.testing import Project, call, calls

WriteTool = Callable[..., Path]
HELLO = 'package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println("hello")\n}\n'

pytestmark = pytest.mark.usefixtures("go")


def binaries(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / ".build").iterdir() if not path.name.startswith("."))


def stdout(seen: object, index: int = -1) -> str:
    value = seen.outcomes[index].value  # type: ignore[attr-defined]
    assert isinstance(value, Custom), value
    return str(value.data["stdout"])


def test_go_tool_is_compiled_on_first_use_and_after_an_edit(
    worker: Project, write_tool: WriteTool
) -> None:
    folder = write_tool("hello", HELLO, suffix=".go")
    assert stdout(worker.run(calls(call("hello")), "done")) == "hello\n"
    [first] = binaries(folder)
    made = first.stat().st_mtime_ns
    assert stdout(worker.run(calls(call("hello"), call("hello")), "done")) == "hello\n"
    assert [path.stat().st_mtime_ns for path in binaries(folder)] == [made]
    (folder / "hello.go").write_text(HELLO.replace("hello", "bye"))
    assert stdout(worker.run(calls(call("hello")), "done")) == "bye\n"
    assert len(binaries(folder)) == 2


def test_compile_error_is_a_result_with_file_and_line(
    worker: Project, write_tool: WriteTool
) -> None:
    folder = write_tool("broken", HELLO.replace('"hello"', "undefined_thing"), suffix=".go")
    write_tool("fine", "echo fine")
    seen = worker.run(calls(call("broken"), call("fine")), "done")
    assert seen.statuses == ["error", "success"]
    assert "broken.go:6:14: undefined: undefined_thing" in (seen.outcomes[0].error or "")
    assert "vendor" not in (seen.outcomes[0].error or "")
    assert binaries(folder) == []


def test_missing_go_toolchain_does_not_affect_other_tools(
    worker: Project, write_tool: WriteTool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if Path("/usr/bin/bwrap").exists():
        (tmp_path / "bwrap").symlink_to("/usr/bin/bwrap")
    monkeypatch.setenv("PATH", str(tmp_path))
    write_tool("hello", HELLO, suffix=".go")
    write_tool("fine", "echo fine")
    seen = worker.run(calls(call("hello"), call("fine")), "done")
    assert seen.statuses == ["error", "success"]
    assert "install Go" in (seen.outcomes[0].error or "")


@pytest.mark.long
def test_foreign_binary_is_not_started(worker: Project, write_tool: WriteTool) -> None:
    folder = write_tool("hello", HELLO, suffix=".go")
    worker.run(calls(call("hello")), "done")
    [binary] = binaries(folder)
    binary.unlink()
    binary.write_text("#!/bin/sh\necho stolen\n")
    binary.chmod(0o755)
    assert stdout(worker.run(calls(call("hello")), "done")) == "hello\n"


@pytest.mark.long
def test_module_may_have_its_own_packages(worker: Project, write_tool: WriteTool) -> None:
    source = HELLO.replace('import "fmt"', 'import (\n\t"fmt"\n\t"hello/words"\n)').replace(
        '"hello")', "words.Word)"
    )
    folder = write_tool("hello", source, suffix=".go")
    (folder / "go.mod").write_text("module hello\n\ngo 1.19\n")
    (folder / "words").mkdir()
    (folder / "words" / "words.go").write_text('package words\n\nconst Word = "one"\n')
    assert stdout(worker.run(calls(call("hello")), "done")) == "one\n"
    (folder / "words" / "words.go").write_text('package words\n\nconst Word = "two"\n')
    assert stdout(worker.run(calls(call("hello")), "done")) == "two\n"


MODULE = "module hello\n\ngo 1.19\n"
REQUIRED = f"{MODULE}\nrequire example.com/nothing v1.0.0\n"


@pytest.mark.parametrize(
    "files",
    [{}, {"go.mod": MODULE}, {"go.mod": REQUIRED}, {"go.mod": MODULE, "vendor/modules.txt": ""}],
)
def test_missing_module_is_not_downloaded_and_the_error_has_a_remedy(
    worker: Project, write_tool: WriteTool, files: dict[str, str]
) -> None:
    source = HELLO.replace('import "fmt"', 'import (\n\t"fmt"\n\t_ "example.com/nothing"\n)')
    folder = write_tool("hello", source, suffix=".go")
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    seen = worker.run(calls(call("hello")), "done")
    assert seen.statuses == ["error"]
    assert "hello.go:5:2: " in (seen.outcomes[0].error or "")
    assert "\nnot on this machine: example.com/nothing" in (seen.outcomes[0].error or "")
    assert "'go mod vendor' makes vendor/" in (seen.outcomes[0].error or "")


def test_modules_in_the_cache_are_compiled(
    worker: Project, write_tool: WriteTool, go: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "modules"
    fill_cache(go, tmp_path, cache)
    monkeypatch.setenv("GOMODCACHE", str(cache))
    source = HELLO.replace('import "fmt"', 'import (\n\t"fmt"\n\t"example.com/words"\n)').replace(
        '"hello")', "words.Word)"
    )
    folder = write_tool("hello", source, suffix=".go")
    (folder / "go.mod").write_text(f"{MODULE}\nrequire example.com/words v1.0.0\n")
    assert stdout(worker.run(calls(call("hello")), "done")) == "cached\n"
    (folder / "go.mod").write_text(f"{MODULE}\nrequire example.com/words v1.1.0\n")
    seen = worker.run(calls(call("hello")), "done")
    assert seen.statuses == ["error"]
    assert "\nnot on this machine: example.com/words@v1.1.0\n" in (seen.outcomes[0].error or "")


def fill_cache(go: str, place: Path, cache: Path) -> None:
    """Have the user's own ``go`` download a module from a folder that acts as a server."""
    versions = place / "proxy" / "example.com" / "words" / "@v"
    versions.mkdir(parents=True)
    (versions / "list").write_text("v1.0.0\n")
    (versions / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    (versions / "v1.0.0.mod").write_text("module example.com/words\n")
    with zipfile.ZipFile(versions / "v1.0.0.zip", "w") as packed:
        packed.writestr("example.com/words@v1.0.0/go.mod", "module example.com/words\n")
        packed.writestr(
            "example.com/words@v1.0.0/words.go", 'package words\n\nconst Word = "cached"\n'
        )
    env = {
        **os.environ,
        "GOMODCACHE": str(cache),
        "GOPROXY": f"file://{place / 'proxy'}",
        "GOSUMDB": "off",
        "GOFLAGS": "-mod=mod -modcacherw",
    }
    subprocess.run(
        [go, "mod", "download", "example.com/words@v1.0.0"],
        env=env,
        cwd=place,
        check=True,
        timeout=60,
    )


def test_vendored_packages_are_compiled(worker: Project, write_tool: WriteTool) -> None:
    source = HELLO.replace('import "fmt"', 'import (\n\t"fmt"\n\t"example.com/words"\n)').replace(
        '"hello")', "words.Word)"
    )
    folder = write_tool("hello", source, suffix=".go")
    (folder / "go.mod").write_text(f"{MODULE}\nrequire example.com/words v1.0.0\n")
    vendored = folder / "vendor" / "example.com" / "words"
    vendored.mkdir(parents=True)
    (vendored / "words.go").write_text('package words\n\nconst Word = "vendored"\n')
    listed = "# example.com/words v1.0.0\n## explicit\nexample.com/words\n"
    (folder / "vendor" / "modules.txt").write_text(listed)
    assert stdout(worker.run(calls(call("hello")), "done")) == "vendored\n"


@pytest.mark.long
def test_concurrent_processes_build_a_tool_once(
    worker: Project, write_tool: WriteTool, tmp_path: Path
) -> None:
    folder = write_tool("hello", HELLO, suffix=".go")
    log, wrapper = tmp_path / "builds", tmp_path / "bin" / "go"
    wrapper.parent.mkdir()
    real = os.popen("command -v go").read().strip()
    wrapper.write_text(f'#!/bin/sh\n[ "$1" = build ] && echo x >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    worker.write(
        "script.yaml",
        json.dumps({"turns": [{"calls": [{"tool": "hello", "input": {}}]}, {"text": "{result}"}]}),
    )
    env = {
        **os.environ,
        "FORGE_HOME": str(worker.home),
        "PATH": f"{wrapper.parent}:{os.environ['PATH']}",
    }
    command = [
        sys.executable,
        "-m",
        "forge_cli",
        "run",
        "worker.yaml",
        "go",
        "-m",
        "script:script.yaml",
        "-p",
    ]
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
    assert ["hello" in process.communicate(timeout=60)[0] for process in started] == [True, True]
    assert log.read_text() == "x\n"
    assert len(binaries(folder)) == 1


def test_waiting_for_another_build_has_a_timeout(
    worker: Project, write_tool: WriteTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tool("hello", HELLO, suffix=".go")
    (folder / ".build").mkdir()
    monkeypatch.setattr("forge_cli.toolsets.executables.building.COMPILE_LIMIT", 0.3)
    with open(folder / ".build" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        seen = worker.run(calls(call("hello")), "done")
    assert seen.statuses == ["error"]
    assert "was not compiled within" in (seen.outcomes[0].error or "")
