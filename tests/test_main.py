"""``python -m forge_cli``: the command, run in a folder with files of others.

Covers forge_cli.__main__.
"""

import subprocess
import sys

import pytest

from forge_cli.testing import Project

INTERRUPTED = """
import builtins, os, runpy, sys

def interrupt(name, *args, **more):
    if name.startswith("forge_cli.cli") and not seen:
        seen.append(name)
        os.kill(os.getpid(), int(sys.argv.pop()))
    return load(name, *args, **more)

load, seen, builtins.__import__ = builtins.__import__, [], interrupt
"""
STARTS = {
    "module": "runpy.run_module('forge_cli', run_name='__main__')",
    "script": "from forge_cli.__main__ import main; sys.exit(main())",
}


def test_main_imports_nothing_from_the_working_directory(project: Project) -> None:
    for name in ("typer", "yaml", "pydantic", "signal", "anyio"):
        project.write(f"{name}.py", "open('planted', 'w').write(__name__)\nraise SystemExit(99)\n")
    project.write("worker.yaml", "name: w\nmodel: script:script.yaml\n")
    project.write("script.yaml", "turns: [{text: hi}]\n")
    done = project.forge("run", "worker.yaml", "go", "-p")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert not (project.folder / "planted").exists()


@pytest.mark.few(2)
@pytest.mark.parametrize("number", [1, 2, 3, 15])
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_signal_while_forge_loads_has_its_exit_code(start: str, number: int) -> None:
    argv = [
        "-c",
        INTERRUPTED + start,
        "run",
        "worker.yaml",
        "go",
        "--output-format",
        "json",
        str(number),
    ]
    done = subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")
