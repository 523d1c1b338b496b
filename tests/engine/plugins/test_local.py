"""Plugins beside a worker: valid entries of ``plugins:``, their contents, and errors."""

from pathlib import Path

import anyio
import pytest

from forge_cli import WorkerRuntime
from forge_cli.core.errors import ForgeError, WorkerError
from forge_cli.core.events import ApprovalRequired
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.files.worker import load_worker
from forge_cli.testing import Project, call, calls, scripted_model

HOOKS = """
from forge_cli import Custom, Text, Toolset, ToolsetConfig, hookimpl, tool
from forge_cli.events import Usage
from forge_cli.hooks import ModelFactory, TextDelta, TurnEnd

class Settings(ToolsetConfig):
    word: str = "hi"

class Greeting(Toolset):
    name = "greeting"
    Config = Settings

    @tool(needs_approval=True)
    def greet(self) -> Custom:
        "Greet."
        return Custom("greeting.said", {"word": self.config.word})

class Parrot:
    name, context_window = "parrot:x", None
    async def stream(self, request):
        yield TextDelta("polly")
        yield TurnEnd("end", Usage())
    async def aclose(self): ...

@hookimpl
def forge_toolsets():
    return [Greeting]

@hookimpl
def forge_renderers():
    return {"greeting.said": lambda value: Text(f"~ {value.data['word']} ~")}

@hookimpl
def forge_models():
    return [ModelFactory(prefix="parrot", make=lambda name, env: Parrot())]
"""
WORKER = "name: w\nplugins: [./hooks.py]\ntoolsets: {greeting: {word: ahoy}}\n"


def test_plugin_file_provides_toolsets_renderers_and_models(project: Project) -> None:
    project.write("hooks.py", HOOKS)
    project.write("worker.yaml", WORKER)
    done = project.forge("tools", "call", "greet", "--worker", "worker.yaml", "-y")
    assert (done.returncode, done.stdout) == (0, "~ ahoy ~\n")
    said = project.forge("run", "worker.yaml", "hello", "-m", "parrot:x", "-p")
    assert (said.returncode, said.stdout) == (0, "polly\n")
    listed = project.forge("tools", "list", "worker.yaml", "--json")
    assert '"source": "local"' in listed.stdout
    assert "hooks.py" in listed.stdout


def test_local_renderer_draws_results_of_its_own_tools_despite_hints(project: Project) -> None:
    hinted = HOOKS.replace("self.config.word})", 'self.config.word}, display=DisplayHints("tree"))')
    project.write("hooks.py", f"from forge_cli.results import DisplayHints\n{hinted}")
    project.write("worker.yaml", WORKER)
    done = project.forge("tools", "call", "greet", "--worker", "worker.yaml", "-y")
    assert (done.returncode, done.stdout) == (0, "~ ahoy ~\n")


def test_plugin_file_is_unused_unless_the_worker_names_it(project: Project) -> None:
    project.write("hooks.py", HOOKS)
    project.write("worker.yaml", "name: w\ntoolsets: {greeting: {}}\n")
    with pytest.raises(WorkerError, match="toolsets.greeting: no such toolset"):
        project.run("never said")


def test_plugins_of_one_worker_do_not_reach_another(project: Project) -> None:
    project.write("hooks.py", HOOKS)
    mine = load_worker(project.write("worker.yaml", WORKER))
    other = load_worker(project.write("other.yaml", "name: o\n"))
    host = PluginHost()
    with project.environment():
        assert host.beside(other) is host
        assert "greeting" in [plugin.name for plugin in host.beside(mine).plugins]
        assert "greeting" not in [plugin.name for plugin in host.beside(mine).beside(other).plugins]


def test_plugin_files_are_protected(project: Project) -> None:
    project.write("hooks.py", HOOKS)
    zones = "sandbox: {zones: [{name: here, path: ., mode: rw, approval: {write: preApproved}}]}\n"
    project.write(
        "worker.yaml", WORKER.replace("toolsets: {", f"{zones}toolsets: {{filesystem: {{}}, ")
    )
    for path in ("/here/hooks.py", "/here/new.py"):
        seen = project.run(
            calls(call("write_file", path=path, content="x")), "done", answers=[False]
        )
        assert [event.request.tool_name for event in seen.of(ApprovalRequired)] == ["write_file"]


def test_changed_plugin_file_is_another_plugin(project: Project) -> None:
    """Approval of one content does not cover another."""
    path = project.write("hooks.py", HOOKS)
    worker = load_worker(project.write("worker.yaml", WORKER))
    with project.environment():
        first = PluginHost(worker=worker).toolset("greeting")[1].digest
        path.write_text(HOOKS + "\n# changed\n")
        assert PluginHost(worker=worker).toolset("greeting")[1].digest != first


@pytest.mark.parametrize(
    ("entry", "files", "sentence"),
    [
        (
            "./gone.py",
            {},
            "plugins: ./gone.py is neither a Python file nor a package nor a project",
        ),
        (
            "folder",
            {"folder/x.txt": ""},
            "plugins: folder is neither a Python file nor a package nor a project",
        ),
        (
            "./plain.py",
            {"plain.py": "def f(): ...\n"},
            "plugins: ./plain.py has no hooks, so it offers nothing",
        ),
        (
            "./broken.py",
            {"broken.py": "x = 1\n1 / 0\n"},
            "broken.py:2:1: cannot be imported: ZeroDivisionError",
        ),
        (
            "p",
            {"p/pyproject.toml": "[project]\n"},
            "plugins: p has no entry points of the group 'forge'",
        ),
        ("p", {"p/pyproject.toml": "[x]\na = = 1"}, "pyproject.toml:2:5: this is not TOML: "),
        (
            "p",
            {"p/pyproject.toml": "[project.entry-points.forge]\ngreeting = 'gone'\n"},
            "cannot be imported: ModuleNotFoundError",
        ),
    ],
)
def test_error_in_a_plugin_file_has_its_place(
    project: Project, entry: str, files: dict[str, str], sentence: str
) -> None:
    for name, content in files.items():
        project.write(name, content)
    project.write("worker.yaml", f"name: w\nplugins: [{entry}]\ntoolsets: {{greeting: {{}}}}\n")
    with pytest.raises(ForgeError) as caught:
        project.run("never said")
    assert sentence in str(caught.value)
    assert caught.value.exit_code == 3


def test_hook_is_not_offered_as_a_tool(project: Project) -> None:
    project.write("hooks.py", HOOKS)
    project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: hooks.py, tools: [forge_toolsets]}}\n"
    )
    with pytest.raises(
        WorkerError, match="'forge_toolsets' is a hook, which forge calls itself, and not a tool"
    ):
        project.run("never said")


def test_custom_may_be_a_list(project: Project, tmp_path: Path) -> None:
    project.write("one.py", "def first() -> str:\n    'One.'\n    return '1'\n")
    project.write("two.py", "def second() -> str:\n    'Two.'\n    return '2'\n")
    sections = "[{module: one.py, tools: [first]}, {module: two.py, tools: [second]}]"
    project.write("worker.yaml", f"name: w\ntoolsets: {{custom: {sections}}}\n")
    seen = project.run(calls(call("first"), call("second")), "done", approval_mode="approve_all")
    assert [outcome.value.text() for outcome in seen.outcomes] == ["1", "2"]
    check = project.forge("worker", "check", "worker.yaml")
    assert (check.returncode, check.stderr) == (0, "")


def test_module_may_be_opened_again(project: Project) -> None:
    """Two runs in one process, with one host, each have tools of their own."""
    project.write("tools.py", "def first() -> str:\n    'One.'\n    return '1'\n")
    worker = load_worker(
        project.write(
            "worker.yaml", "name: w\ntoolsets: {custom: {module: tools.py, tools: [first]}}\n"
        )
    )
    host = PluginHost()

    async def main() -> None:
        for _ in range(2):
            wiring = Wiring(host=host)
            async with WorkerRuntime(
                worker=worker, model=scripted_model("x"), wiring=wiring
            ) as runtime:
                assert [tool.name for tool in runtime.tools] == ["first"]

    with project.environment():
        anyio.run(main)


def test_taken_name_is_reported_with_a_remedy(project: Project) -> None:
    project.write("hooks.py", HOOKS.replace('name = "greeting"', 'name = "filesystem"'))
    project.write("worker.yaml", WORKER.replace("greeting: {word: ahoy}", "filesystem: {}"))
    with pytest.raises(WorkerError, match="offered by forge-workers .* and ./hooks.py") as caught:
        project.run("ok")
    assert caught.value.hint == "rename that of the file, or take it out of the worker's plugins"
