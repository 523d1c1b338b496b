"""Code that a confined command puts in the place of a worker's import: no later run executes it."""

import os
from pathlib import Path

import pytest

from forge_cli.testing import Project, call, calls

GREETING = """
from forge_cli import Custom, Text, Toolset, hookimpl, tool
{imports}

class {name}(Toolset):
    name = "{tool}"

    @tool(needs_approval=False)
    def {tool}(self) -> Custom:
        "Greet."
        return Custom("{tool}.said", {{"word": WORD}})

@hookimpl
def forge_toolsets():
    return [{name}]

@hookimpl
def forge_renderers():
    from {draw} import said
    return {{"{tool}.said": lambda value: Text(said(value.data["word"]))}}
"""


def greeting(tool: str, imports: str, draw: str) -> str:
    return GREETING.format(name=tool.title(), tool=tool, imports=imports, draw=draw)


TOOLS = """
from typing import Any
import sys
import helper, deep.one, pkg.sub
from . import near
from .pkg import sub
try:
    import extra
except ImportError:
    extra = None
try:
    import extra_linked
except ImportError:
    extra_linked = None
try:
    from pkg import fast
except ImportError:
    fast = None

def value() -> str:
    "Say."
    import late
    from pkg.below import deeper
    return " ".join([helper.V, deep.one.V, pkg.sub.V, near.V, late.V, deeper.V, repr(extra or extra_linked or fast)])
"""
FILES = {
    "tools.py": TOOLS,
    "helper.py": "V = 'helper'\n",
    "near.py": "V = 'near'\n",
    "late.py": "V = 'late'\n",
    "deep/one.py": "V = 'one'\n",
    "pkg/__init__.py": "",
    "pkg/sub.py": "from . import below\nV = 'sub'\n",
    "pkg/below/deeper.py": "V = 'deeper'\n",
    "real/other.py": "def other() -> str:\n    'Say.'\n    return 'other'\n",
    "plug.py": greeting("plug", "from plughelp import WORD", "drawn"),
    "plughelp.py": "WORD = 'plug'\n",
    "drawn.py": "def said(word): return f'~ {word} ~'\n",
    "pack/__init__.py": greeting("pack", "from .words import WORD", ".drawing"),
    "pack/words.py": "WORD = 'pack'\n",
    "pack/drawing.py": "def said(word): return f'~ {word} ~'\n",
    "proj/pyproject.toml": "[project.entry-points.forge]\nproj = 'acme.proj'\n",
    "proj/acme/proj.py": greeting("proj", "from acme.words import WORD", "acme.drawing"),
    "proj/acme/words.py": "WORD = 'proj'\n",
    "proj/acme/drawing.py": "def said(word): return f'~ {word} ~'\n",
    "far/linked.py": greeting("linked", "WORD = 'linked'", "linkdraw"),
    "far/linkdraw.py": "def said(word): return f'~ {word} ~'\n",
}
WORKER = """
name: w
plugins: [./plug.py, ./pack, ./proj, ./linked.py]
sandbox: {zones: [{name: here, path: ., mode: rw, approval: {write: preApproved}}]}
toolsets:
  shell: {rules: [{pattern: make plant, approval: preApproved}]}
  custom:
    - {module: ./tools.py, tools: [value], approval: {default: preApproved}}
    - {module: ./other.py, tools: [other], approval: {default: preApproved}}
  plug: {}
  pack: {}
  proj: {}
  linked: {}
"""
PLANTED = (
    *("helper/__init__.py", "near/__init__.py", "late/__init__.py", "deep/__init__.py", "deep.py"),
    *(
        "deep/one/__init__.py",
        "pkg.py",
        "pkg/sub/__init__.py",
        "pkg/fast.py",
        "pkg/fast/__init__.py",
    ),
    *(
        "pkg/below.py",
        "pkg/below/__init__.py",
        "pkg/below/deeper/__init__.py",
        "extra.py",
        "extra/__init__.py",
    ),
    *(
        "plughelp/__init__.py",
        "drawn/__init__.py",
        "pack.py",
        "pack/words/__init__.py",
        "pack/drawing/__init__.py",
    ),
    *(
        "proj/src/acme/proj.py",
        "proj/src/acme/proj/__init__.py",
        "proj/acme.py",
        "proj/acme/__init__.py",
    ),
    *("proj/acme/proj/__init__.py", "proj/acme/words/__init__.py", "far/linkdraw/__init__.py"),
)
"""Places where a file would be imported in place of another, or where there was none."""
HARMLESS = (
    "helper.so",
    "helper.pyc",
    "near.abi3.so",
    "__pycache__/late.cpython-311.pyc",
    "stranger.py",
    "pkg/new.py",
)
"""Nothing imports them."""
CALLS = ("other", "plug", "pack", "proj", "linked")
VALUE = "helper one sub near late deeper None\n"


def furnish(project: Project, evil: Path) -> None:
    for name, text in FILES.items():
        project.write(name, text)
    (project.folder / "other.py").symlink_to("real/other.py")
    (project.folder / "linked.py").symlink_to("far/linked.py")
    marker = project.folder.parent / "RAN"
    evil.write_text(
        f"with open({str(marker)!r}, 'a') as file:\n    file.write(__file__ + '\\n')\nV = WORD = 'evil'\n"
    )
    copies = "".join(
        f"\t-mkdir -p {os.path.dirname(name) or '.'}; cp evil.txt {name}\n"
        for name in (*PLANTED, *HARMLESS)
    )
    links = "".join(f"\t-rm -f {name}; cp evil.txt {name}\n" for name in ("other.py", "linked.py"))
    package = "\t-mkdir evil; cp evil.txt evil/__init__.py; ln -s evil extra_linked\n"
    entry = "\t-cp evil.toml pack/pyproject.toml; cp evil.txt pack/evil.py\n"
    project.write("evil.toml", "[project.entry-points.forge]\npack = 'evil'\n")
    project.write("Makefile", f"plant:\n{copies}{links}{package}{entry}")
    project.write("worker.yaml", WORKER)
    plant = (
        "turns:\n  - calls: [{tool: shell, input: {command: make plant}}]\n  - text: '{result}'\n"
    )
    project.write("plant.yaml", plant)
    called = ", ".join(f"{{tool: {name}, input: {{}}}}" for name in CALLS)
    value = "  - calls: [{tool: value, input: {}}]\n  - text: '{result}'\n"
    project.write("use.yaml", f"turns:\n  - calls: [{called}]\n{value}")


@pytest.mark.needs("bwrap")
def test_code_planted_by_a_confined_command_is_not_executed_later(project: Project) -> None:
    """With processes that were started as people start them, whose path of modules is theirs."""
    furnish(project, project.folder / "evil.txt")
    before = Project.forge(project, "run", "worker.yaml", "go", "-p", "-m", "script:use.yaml")
    assert (before.returncode, before.stdout) == (0, VALUE), before.stderr
    planted = Project.forge(project, "run", "worker.yaml", "go", "-p", "-m", "script:plant.yaml")
    assert planted.returncode == 0, planted.stderr
    assert "deep.py (renamed to removed-by-forge.deep.py." in planted.stdout
    gone = (*PLANTED, "extra_linked", "pack/pyproject.toml")
    assert [name for name in gone if os.path.lexists(project.folder / name)] == []
    for name in HARMLESS:
        assert (project.folder / name).exists(), name
    links = {name: os.readlink(project.folder / name) for name in ("other.py", "linked.py")}
    assert links == {"other.py": "real/other.py", "linked.py": "far/linked.py"}
    again = Project.forge(project, "run", "worker.yaml", "go", "-p", "-m", "script:use.yaml")
    assert (again.returncode, again.stdout) == (0, VALUE), again.stderr
    assert not (project.folder.parent / "RAN").exists()


def test_two_files_for_one_module_are_an_error_without_confinement(project: Project) -> None:
    furnish(project, project.folder / "evil.txt")
    failures = []
    for name, sentence in {
        "helper/__init__.py": "helper.py:1:1: helper.py and helper/__init__.py are one module for Python",
        "pkg/sub/__init__.py": "sub.py and sub/__init__.py are one module",
        "plughelp/__init__.py": "plughelp.py and plughelp/__init__.py are one module",
        "pack/words/__init__.py": "words.py and words/__init__.py are one module",
        "proj/src/acme/proj.py": "proj.py and ../src/acme/proj.py are one module",
    }.items():
        path = project.write(name, project.read("evil.txt"))
        done = project.forge("run", "worker.yaml", "go", "-p", "-m", "script:use.yaml")
        if done.returncode != 3 or sentence not in done.stderr:
            failures.append((name, done.returncode, done.stderr))
        path.unlink()
    assert failures == []
    assert not (project.folder.parent / "RAN").exists()


def test_importable_file_asks_before_it_is_written(project: Project) -> None:
    furnish(project, project.folder / "evil.txt")
    project.write("worker.yaml", WORKER.replace("  shell:", "  filesystem: {}\n  shell:"))
    paths = (*PLANTED, "pack/pyproject.toml", "other.py", "linked.py")
    writes = calls(*(call("write_file", path=path, content="x") for path in paths))
    seen = project.run(writes, "done", answers=[False] * len(paths))
    reasons = dict(zip(paths, (asked.reason for asked in seen.asked), strict=True))
    assert {
        path: why for path, why in reasons.items() if "one of the worker's own files" not in why
    } == {}
