"""The toolset ``external``: tools of a package that the worker file names.

Covers forge_cli.schema.offering.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forge_cli import ApprovalDecision
from forge_cli.core.errors import WorkerError
from forge_cli.core.events import ApprovalDecided, TurnStart
from forge_cli.testing import Project, call, calls
from tests.support.listener import Listener

SUMS = '''
"""Sums, from somebody who knows of forge."""

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from pydantic import BaseModel

from forge_cli import Tool, Toolset, tool


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=False, name="double")
def twice(a: int) -> int:
    """Take a number twice."""
    return a * 2


async def _execute(args, context):
    return args["a"] - 1


one_number = {"type": "object", "properties": {"a": {"type": "integer"}}}
less = Tool(name="less", description="Take one away.", input_schema=one_number, execute=_execute)


class Ledger(Toolset):
    name = "ledger"

    async def __aenter__(self):
        with suppress(OSError):  # whoever only looks may not write
            Path("ledger").write_text("open")
        return await super().__aenter__()

    async def __aexit__(self, *error):
        with suppress(OSError):
            Path("ledger").write_text(Path("ledger").read_text() + ", closed")
        await super().__aexit__(*error)

    def instructions(self):
        return "Enter all."

    @tool
    def enter(self, a: int) -> str:
        """Enter a number."""
        return f"{self.env.worker} entered {a}"


class Shape(BaseModel):
    a: int


def bare(a):
    return a * 10


bare_schema = Shape

listed = [add, twice, less, Ledger]
pair = (add, less)
named = {"plus": add, "twice": twice, "minus": less, "book": Ledger}
space = SimpleNamespace(sums=SimpleNamespace(add=add), all=[less])
nested = [[add], {"minus": less}]
'''

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put modules on the path; they are forgotten afterwards."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def installed(files: dict[str, str]) -> Path:
        for name, text in files.items():
            (site / name).parent.mkdir(exist_ok=True)
            (site / name).write_text(text)
        return site

    yield installed
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(site)):
            del sys.modules[name]


@pytest.fixture
def sums(install: Install, project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project, and a package of sums to be used in it."""
    monkeypatch.chdir(project.folder)
    install({"sums.py": SUMS})
    return project


def worker(project: Project, *sections: str) -> Path:
    """A worker with one section, or a list of several."""
    given = (
        f"    {sections[0]}"
        if len(sections) == 1
        else "\n".join(f"    - {section}" for section in sections)
    )
    return project.write("worker.yaml", f"name: w\ntoolsets:\n  external:\n{given}\n")


def offered(project: Project) -> tuple[str, ...]:
    return project.run("Nothing to do.").of(TurnStart)[0].tools


def problem_of(project: Project) -> str:
    """The problem, with the worker's file named WORKER."""
    with pytest.raises(WorkerError) as caught:
        project.run("never said")
    assert caught.value.exit_code == 3
    return str(caught.value).replace(str(project.folder / "worker.yaml"), "WORKER")


@pytest.mark.parametrize(
    ("name", "tools", "results"),
    [
        ("add", ["add"], ["6"]),
        ("twice", ["double"], ["10"]),
        ("less", ["less"], ["4"]),
        ("Ledger", ["enter"], ["w entered 5"]),
        ("bare", ["bare"], ["50"]),
        ("listed", ["add", "double", "less", "enter"], ["6", "10", "4", "w entered 5"]),
        ("pair", ["add", "less"], ["6", "4"]),
        ("named", ["plus", "twice", "minus", "book"], ["6", "10", "4", "w entered 5"]),
        ("space.sums.add", ["add"], ["6"]),
        ("space.all", ["less"], ["4"]),
        ("nested", ["add", "minus"], ["6", "4"]),
    ],
)
def test_import_names_a_function_class_or_object(
    sums: Project, name: str, tools: list[str], results: list[str]
) -> None:
    worker(sums, f"{{package: sums, import: {name}, approval: {{default: preApproved}}}}")
    seen = sums.run(calls(*(call(tool, a=5) for tool in tools)), "done")
    assert seen.of(TurnStart)[0].tools == tuple(tools)
    assert [outcome.value.text() for outcome in seen.outcomes] == results
    assert set(seen.statuses) == {"success"}


def test_toolset_lives_as_long_as_the_worker(sums: Project) -> None:
    worker(sums, "{package: sums, import: Ledger}")
    model = Listener()
    sums.run(model=model)
    assert [text.partition("\n\n")[0] for text in model.system] == ["Enter all."]
    assert sums.read("ledger") == "open, closed"


def test_module_inside_a_package_can_be_named(install: Install, project: Project) -> None:
    install({"house/__init__.py": "", "house/room.py": SUMS, "house/cellar.py": "1 / 0"})
    worker(project, "{package: house, import: room.add}", "{package: house.room, import: less}")
    assert offered(project) == ("add", "less")
    worker(project, "{package: house, import: cellar.add}")
    assert problem_of(project) == (
        "WORKER:4:30: toolsets.external: 'house.cellar' cannot be imported: ZeroDivisionError: division by zero"
    )


def test_several_sections_have_their_own_approval_and_prefix(sums: Project) -> None:
    worker(
        sums,
        "{package: sums, import: add, approval: {default: preApproved}}",
        "{package: sums, import: pair, prefix: safe, approval: {default: blocked, tools: {less: preApproved}}}",
        "{package: sums, import: listed, prefix: all_, tools: [less, double]}",
    )
    made = [call(tool, a=1) for tool in ("add", "safe_add", "safe_less", "all_less", "all_double")]
    seen = sums.run(calls(*made), "done", answers=[True])
    assert seen.of(TurnStart)[0].tools == ("add", "safe_add", "safe_less", "all_double", "all_less")
    assert seen.statuses == ["success", "blocked", "success", "success", "success"]
    assert [request.tool_name for request in seen.asked] == ["all_less"]
    file = str(sums.folder / "worker.yaml")
    decided = [
        (each.by, each.rule, str(each.where).replace(file, "WORKER"))
        for each in seen.of(ApprovalDecided)
    ]
    assert decided == [
        ("rule", "toolsets.external.approval.default", "WORKER:4:56"),
        ("rule", "toolsets.external.approval.default", "WORKER:5:71"),
        ("rule", "toolsets.external.approval.tools.less", "WORKER:5:94"),
        ("user", None, "None"),
        ("tool", None, "None"),
    ]


def test_tool_list_shows_the_source_of_each(sums: Project, install: Install) -> None:
    site = install(
        {
            "coins.py": "def toss() -> str:\n    'Toss a coin.'\n    return 'heads'\n",
            "sums-2.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: sums\nVersion: 2.1\n",
            "Money-0.3.dist-info/METADATA": "Metadata-Version: 2.1\nName: Money\nVersion: 0.3\n",
            "Money-0.3.dist-info/top_level.txt": "coins\n",
            "alone.py": "def wait() -> str:\n    'Wait.'\n    return ''\n",
        }
    )
    worker(
        sums,
        "{package: sums, import: listed, tools: [add, double], approval: {tools: {add: blocked}}}",
        "{package: coins, import: toss}",
        "{package: alone, import: wait}",
    )
    done = sums.forge("tools", "list", "worker.yaml", "--json", env={"PYTHONPATH": str(site)})
    assert (done.returncode, done.stderr) == (0, "")
    row = {"toolset": "external", "source": "external", "mode": "llm"}
    assert json.loads(done.stdout) == [
        {
            "name": "add",
            **row,
            "origin": "sums 2.1",
            "approval": "blocked",
            "description": "Add two numbers.",
        },
        {
            "name": "double",
            **row,
            "origin": "sums 2.1",
            "approval": "preApproved",
            "description": "Take a number twice.",
        },
        {
            "name": "toss",
            **row,
            "origin": "Money 0.3",
            "approval": "ask",
            "description": "Toss a coin.",
        },
        {"name": "wait", **row, "origin": "alone", "approval": "ask", "description": "Wait."},
    ]


BROKEN = """
import sums

def no_hint(a): return a

class Needy(sums.Toolset):
    name = "needy"
    class Config(sums.Toolset.Config):
        url: str
        depth: int = 1
"""


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (
            "package: nosuch_package, import: x",
            "4:15: toolsets.external: 'nosuch_package' cannot be imported: "
            "ModuleNotFoundError: No module named 'nosuch_package'\n"
            "  install the distribution that contains 'nosuch_package'",
        ),
        (
            "package: sums.deeper, import: x",
            "4:15: toolsets.external: 'sums.deeper' cannot be imported: "
            "ModuleNotFoundError: No module named 'sums.deeper'; 'sums' is not a package\n"
            "  install the distribution that contains 'sums.deeper'",
        ),
        (
            'package: "@vercel/ai-tools", import: x',
            "4:15: toolsets.external: '@vercel/ai-tools' cannot be imported: "
            "ModuleNotFoundError: No module named '@vercel/ai-tools'\n"
            "  only Python packages work here; use an MCP server or an executable for npm packages",
        ),
        (
            "package: nosuch-package, import: x",
            "4:15: toolsets.external: 'nosuch-package' cannot be imported: "
            "ModuleNotFoundError: No module named 'nosuch-package'\n"
            "  use the name of the module, which may be 'nosuch_package'",
        ),
        (
            "package: nosuch.py, import: x",
            "4:15: toolsets.external: 'nosuch.py' cannot be imported: ModuleNotFoundError: No module named 'nosuch'\n"
            "  for a file beside the worker, use toolsets.custom.module",
        ),
        (
            "package: needing, import: x",
            "4:15: toolsets.external: 'needing' cannot be imported: ModuleNotFoundError: No module named 'need'",
        ),
        (
            "package: raising, import: x",
            "4:15: toolsets.external: 'raising' cannot be imported: RuntimeError: half installed",
        ),
        (
            "package: leaving, import: x",
            "4:15: toolsets.external: 'leaving' cannot be imported: SystemExit: 3",
        ),
        (
            "package: sums, import: lsted",
            "4:29: toolsets.external: sums has no 'lsted'\n  did you mean 'listed'?",
        ),
        (
            "package: sums, import: space.sums.ad",
            "4:29: toolsets.external: sums has no 'space.sums.ad'\n  did you mean 'add'?",
        ),
        (
            "package: broken, import: no_hint",
            "4:31: toolsets.external: broken: 'no_hint' cannot be a tool: "
            "no_hint: parameter 'a' has no type hint; add one (a: str), or define no_hint_schema",
        ),
        (
            "package: broken, import: Needy",
            "4:31: toolsets.external: broken: 'Needy' is a toolset that requires settings (url), but it has no section here",
        ),
        ("package: sums", "4:5: toolsets.external.import: this key is required"),
        ("import: add", "4:5: toolsets.external.package: this key is required"),
        (
            "package: sums, import: pair, tools: [lesss]",
            "4:43: toolsets.external: it has no tool 'lesss'; did you mean 'less'?",
        ),
    ],
)
def test_problem_of_a_package_is_reported_with_its_place(
    sums: Project, install: Install, section: str, problem: str
) -> None:
    install(
        {
            "broken.py": BROKEN,
            "needing.py": "import need\n",
            "raising.py": "raise RuntimeError('half installed')\n",
            "leaving.py": "raise SystemExit(3)\n",
        }
    )
    worker(sums, f"{{{section}}}")
    assert problem_of(sums) == f"WORKER:{problem}"


def test_invalid_section_is_reported_with_its_place(sums: Project) -> None:
    worker(sums, "{package: sums, import: add}", "{package: sums, import: les}")
    assert (
        problem_of(sums)
        == "WORKER:5:31: toolsets.external: sums has no 'les'\n  did you mean 'less'?"
    )
    worker(sums, "{package: sums, import: add}", "{package: sums, imports: less}")
    assert problem_of(sums).startswith("WORKER:5:23: toolsets.external[1]: unknown key 'imports'")
    worker(sums, "just a word", "{package: sums, import: add}")
    assert problem_of(sums).endswith("toolsets.external[0]: must be a mapping, not 'just a word'")


def test_two_sections_with_the_same_tool_name_are_an_error(sums: Project) -> None:
    worker(sums, "{package: sums, import: add}", "{package: sums, import: pair}")
    assert "two tools called 'add'" in problem_of(sums)


def test_package_is_not_imported_before_a_worker_names_it(sums: Project) -> None:
    sums.write("worker.yaml", "name: w\ntoolsets: {}\n")
    sums.run("Nothing to do.")
    assert "sums" not in sys.modules


def test_session_grant_is_bound_to_call_and_package(sums: Project, install: Install) -> None:
    install({"more.py": SUMS})
    worker(sums, "{package: sums, import: add}", "{package: more, import: add, prefix: more}")
    once = [call("add", a=1), call("add", a=1, b=1), call("more_add", a=1), call("add", a=2)]
    yes = ApprovalDecision(True, remember="session")
    seen = sums.run(calls(*once), "done", answers=[yes, yes, yes])
    assert [(request.tool_name, request.args["a"]) for request in seen.asked] == [
        ("add", 1),
        ("more_add", 1),
        ("add", 2),
    ]
    assert [each.cached for each in seen.of(ApprovalDecided)] == [False, True, False, False]
