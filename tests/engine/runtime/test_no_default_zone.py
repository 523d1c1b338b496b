"""A working directory that cannot be a zone, such as the home or ``/``: working workers, and messages."""

from pathlib import Path

import pytest

from forge_cli import Toolset, Worker, WorkerRuntime, tool
from forge_cli.errors import WorkerError
from forge_cli.testing import Project, call, calls, scripted_model

MODULE = """
from forge_cli import ReadPath, ToolContext

def add(a: int, b: int) -> int:
    return a + b

def head(path: ReadPath, context: ToolContext) -> str:
    return context.sandbox.read_bytes(path).decode()
"""
CUSTOM = "custom: {module: ./tools.py, tools: [add, head], approval: {default: preApproved}}"
NEEDY = (
    "filesystem: {}",
    "shell: {}",
    "executables: {}",
    f"{CUSTOM}, filesystem: {{}}",
    "filesystem: {}, plan: {}",
)
FREE = (CUSTOM, "plan: {}", "memory: {}", f"{CUSTOM}, plan: {{}}, memory: {{}}", "")


@pytest.fixture
def home(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = project.folder / "home"
    (home / "proj").mkdir(parents=True)
    (home / "proj/a.txt").write_text("here")
    monkeypatch.setenv("HOME", str(home))
    project.write("workers/tools.py", MODULE)
    return home


def test_worker_without_need_of_a_zone_runs(project: Project, home: Path) -> None:
    failures = []
    for toolsets in FREE:
        project.write("workers/w.yaml", f"name: w\ntoolsets: {{{toolsets}}}\n")
        for folder in (home, Path("/"), Path("/proc")):
            try:
                seen = project.run("done", worker="workers/w.yaml", workspace=folder)
                assert seen.result.response == "done"
            except Exception as error:
                failures.append((toolsets, folder, error))
    assert failures == []


@pytest.mark.long
def test_worker_that_needs_a_zone_gets_instructions(project: Project, home: Path) -> None:
    failures = []
    for toolsets in NEEDY:
        file = project.write("workers/w.yaml", f"name: w\ntoolsets: {{{toolsets}}}\n")
        for folder, why in (
            (home, "is your home folder itself"),
            (Path("/"), "'/' is the whole machine"),
        ):
            try:
                project.run("done", worker="workers/w.yaml", workspace=folder)
                failures.append((toolsets, folder, "it ran"))
            except WorkerError as error:
                remedy = "use -C DIR, or add a folder with --add-dir DIR, or declare zones in"
                if why not in error.message or error.hint != f"{remedy} {file}":
                    failures.append((toolsets, folder, str(error)))
    assert failures == []


def test_message_does_not_suggest_editing_files_of_others(project: Project, home: Path) -> None:
    project.write("lib/site-packages/pack/w.yaml", "name: w\ntoolsets: {filesystem: {}}\n")
    project.write("script.yaml", "turns: [{text: done}]\n")
    failures = []
    for worker in ("coder", str(project.folder / "lib/site-packages/pack/w.yaml")):
        done = project.forge(
            "run", worker, "go", "-p", "-C", str(home), "-m", f"script:{project.folder}/script.yaml"
        )
        told = done.stderr.splitlines()[-1].strip()
        if (done.returncode, told) != (3, "use -C DIR, or add a folder with --add-dir DIR"):
            failures.append((worker, done.returncode, done.stderr))
    assert failures == []


@pytest.mark.long
def test_added_folder_is_sufficient(project: Project, home: Path) -> None:
    project.write("workers/w.yaml", "name: w\ntoolsets: {filesystem: {}}\n")
    spelled = ("~/proj/a.txt", "/proj/a.txt", str(home / "proj/a.txt"))
    turn = ", ".join(f"{{tool: read_file, input: {{path: {path}}}}}" for path in spelled)
    said = '"{results[0]} {results[1]} {results[2]}"'
    project.write("script.yaml", f"turns: [{{calls: [{turn}]}}, {{text: {said}}}]\n")
    failures = []
    for folder in (str(home), "/"):
        options = (
            "-C",
            folder,
            "--add-dir",
            str(home / "proj"),
            "-m",
            f"script:{project.folder}/script.yaml",
        )
        done = project.forge("run", str(project.folder / "workers/w.yaml"), "go", "-p", *options)
        if (done.returncode, done.stdout.count("1: here")) != (0, 3):
            failures.append((folder, done))
    assert failures == []


@pytest.mark.long
def test_tool_that_needs_a_file_explains_the_missing_zone(project: Project, home: Path) -> None:
    project.write("workers/w.yaml", f"name: w\ntoolsets: {{{CUSTOM}}}\n")
    failures = []
    for folder, why in (
        (home, f"'{home}' is your home folder itself"),
        (Path("/"), "'/' is the whole machine"),
    ):
        for path in ("proj/a.txt", "~/proj/a.txt", str(home / "proj/a.txt"), "./x"):
            seen = project.run(
                calls(call("add", a=1, b=2), call("head", path=path)),
                "",
                worker="workers/w.yaml",
                workspace=folder,
            )
            expected = (
                f"'{path}' is in no zone; this worker has no zones, so it can use no files; the working directory is "
                f"not a zone, because {why}; use -C DIR, or add a folder with --add-dir DIR"
            )
            if seen.statuses != ["success", "error"] or seen.outcomes[1].error != expected:
                failures.append((folder, path, seen.outcomes[1].error))
    assert failures == []


def test_worker_with_an_explicit_empty_zone_list_gets_no_suggestion(
    project: Project, home: Path
) -> None:
    project.write("workers/w.yaml", f"name: w\nsandbox: {{zones: []}}\ntoolsets: {{{CUSTOM}}}\n")
    seen = project.run(calls(call("head", path="a")), "", worker="workers/w.yaml", workspace=home)
    assert (
        seen.outcomes[0].error
        == "'a' is in no zone; this worker has no zones, so it can use no files"
    )


def test_child_worker_gets_the_same_message(project: Project, home: Path) -> None:
    project.write("workers/w.yaml", "name: w\ntoolsets: {workers: {allowed: [child]}}\n")
    project.write(
        "workers/child.yaml",
        "name: child\nmodel: script:child.script\ntoolsets: {filesystem: {}}\n",
    )
    project.write(
        "workers/child.script",
        'turns: [{calls: [{tool: read_file, input: {path: a}}]}, {text: "{result}"}]\n',
    )
    seen = project.run(
        calls(call("child", input="go")),
        "{result}",
        worker="workers/w.yaml",
        workspace=home,
        answers=[True],
    )
    assert "use -C DIR, or add a folder" in str(seen.result.response)


@pytest.mark.long
def test_read_only_commands_work_without_a_zone(project: Project, home: Path) -> None:
    file = project.write("workers/w.yaml", f"name: w\ntoolsets: {{{CUSTOM}}}\n")
    failures = []
    for words in (
        ["worker", "check", str(file)],
        ["tools", "list", str(file)],
        ["approve", str(file), "add", "a=1", "b=2"],
        ["tools", "call", "add", "--worker", str(file), "a=1", "b=2"],
    ):
        done = project.forge(*words, env={"HOME": str(project.folder)})
        if done.returncode:
            failures.append((words, done.stderr))
    assert failures == []


@pytest.mark.anyio
async def test_custom_toolset_declares_whether_it_needs_a_zone(home: Path) -> None:
    class Notes(Toolset):
        name = "notes"

        @tool(needs_approval=False)
        def note(self) -> str:
            return "noted"

    class Needy(Notes):
        needs_zone = True

    for kind in (Notes, Needy):
        worker = Worker.of(name="w", tools=[kind()])
        runtime = WorkerRuntime(worker=worker, workspace=home, model=scripted_model("done"))
        if kind is Notes:
            async with runtime:
                assert (await runtime.run("go")).response == "done"
        else:
            with pytest.raises(WorkerError, match="add a folder with --add-dir DIR$"):
                await runtime.initialize()
