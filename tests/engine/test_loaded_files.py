"""Files in zones that other workers, MCP servers and hooks load: to write one asks, and no confined command does it.

Covers forge_cli.engine.runtime.loaded, forge_cli.files.worker_scan and forge_cli.files.git_hooks.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from forge_cli import load_worker
from forge_cli.embedding import open_gate
from forge_cli.testing import Project

pytestmark = pytest.mark.anyio

ZONE = "{name: code, path: ., mode: rw, approval: {write: preApproved, delete: preApproved}}"
WORKER = f"""\
name: coder
instructions: work
toolsets:
  filesystem:
  shell: {{rules: [{{pattern: sh line.sh, approval: preApproved}}]}}
sandbox: {{zones: [{ZONE}]}}
"""
CUSTOM = "name: w\ntoolsets: {custom: {module: %s, tools: [f]}}\n"


@pytest.fixture
def folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORGE_HOME", str(project.home))
    project.write("coder.yaml", WORKER)
    return project.folder


def write(folder: Path, name: str, text: str = "") -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


async def reasons(folder: Path, *paths: str) -> dict[str, str]:
    """The reason of the question by path, or an empty text without a question."""
    found: dict[str, str] = {}
    async with open_gate(load_worker(folder / "coder.yaml"), workspace=folder) as gate:
        for path in paths:
            said = await gate.judge("write_file", {"path": path, "content": "x"})
            found[path] = str(said["reason"]) if said["verdict"] == "ask" else ""
    return found


@pytest.mark.parametrize(
    "name", ["worker.yaml", "other.yaml", "other.yml", "sub/deep/x.md", "x.worker"]
)
async def test_code_of_every_worker_in_a_zone_asks(folder: Path, name: str) -> None:
    text = CUSTOM % "./code.py"
    write(folder, name, f"---\n{text}---\nwork\n" if name.endswith((".md", ".worker")) else text)
    place = os.path.dirname(name)
    for each, source in {
        "code.py": "import helper, package.part, later",
        "helper.py": "",
        "later.txt": "",
    }.items():
        write(folder, os.path.join(place, each), source)
    write(folder, os.path.join(place, "package/__init__.py"))
    write(folder, os.path.join(place, "package/part.py"))
    loaded = (
        "code.py",
        "helper.py",
        "package/__init__.py",
        "package/part.py",
        "later.py",
        "later/__init__.py",
    )

    found = await reasons(
        folder, *(os.path.join(place, each) for each in (*loaded, "free.py", "later.txt"))
    )

    assert [why for path, why in found.items() if not path.endswith(("free.py", "later.txt"))] == [
        "the worker w loads it"
    ] * len(loaded)
    assert [
        path for path, why in found.items() if path.endswith(("free.py", "later.txt")) and why
    ] == []


async def test_worker_in_another_zone_or_added_later_counts(
    folder: Path,
) -> None:
    write(
        folder,
        "coder.yaml",
        WORKER.replace("zones: [", "zones: [{name: docs, path: ./docs, mode: ro}, "),
    )
    write(folder, "docs/w.yaml", CUSTOM % "../shared/x.py")
    write(folder, "shared/x.py")
    async with open_gate(load_worker(folder / "coder.yaml"), workspace=folder) as gate:
        for path in ("/code/shared/x.py", "/code/free.py"):
            said = await gate.judge("write_file", {"path": path, "content": "x"})
            assert (said["verdict"] == "ask") is (path != "/code/free.py")
        write(folder, "docs/late.yaml", CUSTOM % "../free.py")
        said = await gate.judge("write_file", {"path": "/code/free.py", "content": "x"})
        assert said["reason"] == "the worker w loads it"


async def test_plugins_packages_schemas_and_scripts_of_workers_ask(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "name: w\nmodel: script:play.yaml\noutput_schema: out.json\nplugins: [./plug, one.py]\n"
    write(
        folder,
        "w.yaml",
        f"{text}toolsets: {{external: {{package: loaded_package.part, import: x}}, skills: }}\n",
    )
    for name in ("plug/__init__.py", "one.py", "play.yaml", "out.json", "skills/a/SKILL.md"):
        write(folder, name)
    write(folder, "lib/loaded_package/__init__.py")
    monkeypatch.syspath_prepend(str(folder / "lib"))

    paths = (
        "plug/new.py",
        "plug/__init__.py",
        "one.py",
        "play.yaml",
        "out.json",
        "skills/a/SKILL.md",
        "w.lock",
    )
    found = await reasons(
        folder, *paths, "lib/loaded_package/part.py", "w.yaml", "lib/other/part.py"
    )

    assert found.pop("lib/other/part.py") == ""
    assert [path for path, why in found.items() if not why] == []


async def test_libraries_imported_by_code_of_a_worker_ask(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "w.yaml", CUSTOM % "./code.py")
    write(folder, "code.py", "from own_library.part import x")
    write(folder, "lib/own_library/__init__.py")
    write(folder, "lib/unnamed_library/__init__.py")
    monkeypatch.syspath_prepend(str(folder / "lib"))

    found = await reasons(folder, "lib/own_library/part.py", "lib/unnamed_library/part.py")

    assert list(found.values()) == ["the worker w loads it", ""]


async def test_files_that_only_resemble_workers_do_not_count(folder: Path) -> None:
    write(folder, "eslint.yaml", "plugins: [./plug]\nrules: {}\n")
    write(folder, "broken.yaml", "name: w\ntoolsets: {custom: {module: ./code.py\n")
    write(
        folder,
        "large.yaml",
        "name: w\n" + "# x\n" * 100_000 + "toolsets: {custom: {module: ./code.py, tools: [f]}}\n",
    )
    write(folder, "plug/__init__.py")

    assert set((await reasons(folder, "plug/__init__.py", "code.py", "eslint.yaml")).values()) == {
        ""
    }


@pytest.mark.parametrize("place", ["worker", "project", "user"])
async def test_files_in_the_command_line_of_an_mcp_server_ask(
    project: Project, folder: Path, place: str
) -> None:
    server = {"command": "python3", "args": ["tools/server.py", "--config=conf.toml"]}
    if place == "worker":
        write(
            folder,
            "w.yaml",
            json.dumps({"name": "w", "toolsets": {"mcp": {"servers": {"p": server}}}}),
        )
    elif place == "project":
        write(folder, ".mcp.json", json.dumps({"mcpServers": {"p": server}}))
    else:
        write(project.home, "config.yaml", json.dumps({"mcp": {"servers": {"p": server}}}))
    write(folder, "tools/server.py")
    write(folder, "conf.toml")

    found = await reasons(
        folder, "tools/server.py", "tools/new.py", "conf.toml", "tools.py", "src/app.py"
    )

    started = "the MCP server p is started from it"
    assert list(found.values()) == [started, started, started, "", ""]


async def test_scripts_of_hooks_ask(project: Project, folder: Path) -> None:
    hooks = [
        {"on": "before_tool", "run": ["sh", "-c", "sh checks/a.sh"]},
        {"on": "after_tool", "run": ["make", "told"]},
    ]
    write(project.home, "config.yaml", json.dumps({"hooks": hooks}))
    write(folder, "checks/a.sh")
    write(folder, "Makefile")

    found = await reasons(folder, "checks/a.sh", "checks/b.sh", "Makefile", "makefile.txt")

    assert list(found.values()) == [
        "the hook sh runs it",
        "the hook sh runs it",
        "the hook make runs it",
        "",
    ]


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", folder, *words], check=True, timeout=60, capture_output=True)


@pytest.mark.parametrize(
    "how", ["relative", "absolute", "included", "home", "worktree", "below", "HOOKSPATH"]
)
async def test_folder_of_git_hooks_asks(folder: Path, how: str) -> None:
    write(folder, "githooks/pre-commit")
    work = folder
    git(folder, "init", "-q")
    if how in ("relative", "HOOKSPATH"):
        git(
            folder,
            "config",
            "core.hooksPath" if how == "relative" else "CORE.HOOKSPATH",
            "githooks",
        )
    elif how in ("absolute", "below"):
        git(folder, "config", "core.hooksPath", str(folder / "githooks"))
    elif how == "included":
        write(folder, "more.cfg", "[core]\n\thooksPath = githooks\n")
        git(folder, "config", f"includeIf.gitdir:{folder}/.path", str(folder / "more.cfg"))
    elif how == "home":
        write(Path(os.environ["HOME"]), ".gitconfig", f"[core]\n\thooksPath = {folder}/githooks\n")
    else:
        git(
            folder,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        )
        git(folder, "worktree", "add", "-q", "tree")
        git(folder, "config", "core.hooksPath", "githooks")
        work = folder / "tree"
        write(work, "coder.yaml", WORKER)
        write(work, "githooks/pre-commit")
    if how == "below":
        zones = (
            f"zones: [{{name: all, path: {folder}, mode: rw, approval: {{write: preApproved}}}}]"
        )
        write(
            folder,
            "sub/coder.yaml",
            f"name: coder\ntoolsets: {{filesystem: }}\nsandbox: {{{zones}}}\n",
        )
        found = await reasons(folder / "sub", "/all/githooks/pre-commit", "/all/other/pre-commit")
    else:
        found = await reasons(work, "githooks/pre-commit", "other/pre-commit")

    assert list(found.values()) == ["git runs it as a hook", ""]


LINE = """\
for path in code.py helper.py tools/server.py tools/new.py dist/server.js githooks/pre-commit w.yaml; do
  echo evil 2>/dev/null > $path && echo "wrote $path"
done
mv tools moved && echo moved
mv sub elsewhere && echo moved
echo evil > later.py
touch free.py
"""


@pytest.mark.needs("bwrap")
def test_loaded_files_cannot_be_changed_by_a_confined_command(
    project: Project, folder: Path
) -> None:
    write(folder, "line.sh", LINE)
    write(folder, "w.yaml", CUSTOM % "./code.py")
    write(folder, "sub/w.yaml", CUSTOM % "./code.py")
    write(folder, "code.py", "import helper, later")
    servers = {name: {"command": name, "args": [file]} for name, file in SERVERS.items()}
    write(folder, ".mcp.json", json.dumps({"mcpServers": servers}))
    for name in (
        "sub/code.py",
        "helper.py",
        "tools/server.py",
        "dist/server.js",
        "githooks/pre-commit",
    ):
        write(folder, name)
    git(folder, "init", "-q")
    git(folder, "config", "core.hooksPath", "githooks")

    done = project.forge("tools", "call", "shell", "--worker", "coder.yaml", "command=sh line.sh")

    assert "wrote" not in done.stdout
    assert "moved\n" not in done.stdout
    assert (folder / "free.py").exists()
    assert not (folder / "later.py").exists()
    assert "later.py (renamed to removed-by-forge.later.py." in done.stderr


SERVERS = {"python3": "tools/server.py", "node": "dist/server.js"}


async def test_modules_that_shadow_a_library_for_a_top_level_script_ask(
    folder: Path,
) -> None:
    servers = {"p": {"command": "python3", "args": ["server.py"]}, "q": {"command": "./start"}}
    write(folder, ".mcp.json", json.dumps({"mcpServers": servers}))
    write(folder, "server.py", "import asyncio")
    write(folder, "start", "#!/usr/bin/env python3\nimport own")

    asks = (
        "json.py",
        "json/__init__.py",
        "asyncio.py",
        "sitecustomize.py",
        "msgspec.py",
        "own.py",
        "re.pyc",
        "own.so",
    )
    found = await reasons(
        folder, *asks, "app.py", "src/json.py", "json/data.txt", "tests/__init__.py"
    )

    assert [path for path, why in found.items() if why] == list(asks)
