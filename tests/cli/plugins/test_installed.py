"""``forge plugins``: installed packages and their problems; installation and removal.

Covers forge_cli.cli.plugins.list, forge_cli.cli.plugins.check, forge_cli.inspection.plugin_checks,
forge_cli.engine.plugins.distributions, forge_cli.cli.plugins.install,
forge_cli.cli.plugins.published,
forge_cli.engine.plugins.scaffold.
"""

import json
import os
import shlex
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli import __version__
from forge_cli.engine.plugins import distributions
from forge_cli.testing import Project
from tests.support.command_line import Done

from .conftest import PackageIndex

pytestmark = pytest.mark.usefixtures("forked_looks")

WORDS = '''
from typing import Annotated

from forge_cli import Custom, Text, Toolset, ToolsetConfig, hookimpl, tool
from forge_cli.hooks import ModelFactory
from pydantic import Field


class WordsConfig(ToolsetConfig):
    longest: Annotated[int, Field(description="The longest word.")] = 10


class Words(Toolset):
    name = "words"
    Config = WordsConfig

    @tool(needs_approval=False, effects=[])
    def count_words(self, text: str) -> int:
        """Count the words of a text.

        Args:
            text: The text.
        """
        return len(text.split())

    @tool(needs_approval=False, read_only=True)
    def longest(self) -> int:
        """Tell the length of the longest word."""
        return self.config.longest


@hookimpl
def forge_toolsets():
    return [Words]


@hookimpl
def forge_renderers():
    return {"words.frequent": lambda result: Text("frequent")}
'''
ENTRIES = ("words = words_module", "render.words = words_module")
Cli = Callable[..., Done]
Install = Callable[..., Path]


@pytest.fixture
def site(install: Install, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = install("forge-tools-words", "words_module", WORDS, *ENTRIES)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    return site


def rows(done: Done) -> dict[str, dict[str, object]]:
    assert done.code == 0
    return {row["distribution"]: row for row in json.loads(done.out)}


# --- list


@pytest.mark.usefixtures("site")
def test_list_has_every_distribution_with_forge_first(cli: Cli) -> None:
    done = cli("plugins", "list")
    lines = done.out.splitlines()
    assert (done.code, done.err, lines[0].split()) == (0, "", ["distribution", "version", "offers"])
    assert lines[1].startswith("forge-workers")
    assert "toolsets custom, " in lines[1]
    assert [
        line.split(maxsplit=2)[1:] for line in lines if line.startswith("forge-tools-words")
    ] == [["1.2", "renderer words; toolset words"]]
    found = rows(cli("plugins", "list", "--json"))
    assert next(iter(found)) == "forge-workers"
    assert found["forge-tools-words"] == {
        "distribution": "forge-tools-words",
        "version": "1.2",
        "source": "package",
        "offers": ["render.words", "words"],
        "loads": True,
    }
    assert "words_module" not in sys.modules


@pytest.mark.usefixtures("site")
def test_plugins_list_shows_problems_of_names(cli: Cli, install: Install) -> None:
    install(
        "forge-tools-words2",
        "other_module",
        "",
        "words = other_module",
        "render.words = other_module",
    )
    install(
        "forge-tools-taker",
        "taker_module",
        "",
        "shell = taker_module",
        "model.openai = taker_module",
    )
    found = rows(cli("plugins", "list", "--json"))
    both = "the toolset 'words' is also offered by {}; uninstall one of them"
    assert found["forge-tools-words"]["error"] == both.format("forge-tools-words2 1.2")
    assert found["forge-tools-words2"]["error"] == both.format("forge-tools-words 1.2")
    assert found["forge-tools-taker"]["error"] == (
        "the model provider 'openai' of forge-tools-taker 1.2 is not used: "
        "forge has its own model provider 'openai'; "
        "the toolset 'shell' of forge-tools-taker 1.2 is not used: forge has its own toolset 'shell'"
    )
    assert "error" not in found["forge-workers"]


def test_plugins_list_shows_missing_requirements(cli: Cli, site: Path) -> None:
    with (site / "forge_tools_words-1.2.dist-info" / "METADATA").open("a") as file:
        file.write("Requires-Dist: forge-workers<0.0.1\nRequires-Dist: nosuch>=1\n")
    assert rows(cli("plugins", "list", "--json"))["forge-tools-words"]["error"] == (
        f"is built for forge < 0.0.1, this is {__version__}; needs nosuch, which is not installed"
    )


@pytest.mark.usefixtures("site")
def test_plugins_list_shows_plugins_excluded_by_the_environment(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-tool-words")
    done = cli("plugins", "list", "--json")
    assert rows(done)["forge-tools-words"]["loads"] is False
    warning = (
        "warning: FORGE_LOAD_PLUGINS: no plugin is installed from 'forge-tool-words'; did you mean"
    )
    assert done.err.startswith(f"{warning} 'forge-tools-words'?")
    assert (
        "toolset words (not loaded: FORGE_LOAD_PLUGINS does not name it)"
        in cli("plugins", "list").out
    )


@pytest.mark.usefixtures("site")
def test_list_fits_a_terminal(terminal) -> None:
    screen = terminal("plugins", "list", columns=80)
    assert screen.end() == 0
    shown = [line for line in screen.lines if line]
    assert max(map(len, shown)) <= 80
    assert "forge-tools-words 1.2 renderer words; toolset words" in [
        " ".join(line.split()) for line in shown
    ]


# --- a built-in's name


def test_taken_name_is_a_row_of_tools_list(
    cli: Cli, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install("forge-tools-taker", "taker_module", "raise SystemExit\n", "plan = taker_module")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-tools-taker,nosuch")
    done = cli("tools", "list", "--json")
    found = [row for row in json.loads(done.out) if row["toolset"] == "plan"]
    assert [(row["name"], row.get("error")) for row in found] == [
        ("update_plan", None),
        (
            "plan",
            "the toolset 'plan' of forge-tools-taker 1.2 is not used: forge has its own toolset 'plan'",
        ),
    ]
    assert "FORGE_LOAD_PLUGINS: no plugin is installed from 'nosuch'" in done.err


# --- check


@pytest.mark.usefixtures("site")
def test_valid_package_passes_the_check(cli: Cli) -> None:
    done = cli("plugins", "check", "Forge_Tools.Words")
    assert (done.code, done.out, done.err) == (
        0,
        "forge-tools-words 1.2\n"
        "  ok      forge-tools-words: forge, requirements\n"
        "  ok      render.words: entry point, loads, hooks, kinds\n"
        "  ok      words: entry point, loads, hooks, settings\n"
        "  ok      count_words: schema, description, parameters, timeout, input\n"
        "  ok      longest: schema, description, parameters, timeout, input, result\n",
        "",
    )
    assert "words_module" not in sys.modules


def test_plugins_check_names_problems_and_exits_1(cli: Cli, site: Path) -> None:
    with (site / "forge_tools_words-1.2.dist-info" / "METADATA").open("a") as file:
        file.write("Requires-Dist: forge-workers>=9\n")
    entries = site / "forge_tools_words-1.2.dist-info" / "entry_points.txt"
    entries.write_text("[forge]\nwords = words_module\nshell = words_module\n")
    done = cli("plugins", "check", "forge-tools-words", "--json")
    failed = [each for each in json.loads(done.out) if not each["ok"]]
    assert done.code == 1
    assert {each["distribution"] for each in failed} == {"forge-tools-words"}
    assert [(each["subject"], each["check"], each["detail"]) for each in failed] == [
        (
            "forge-tools-words",
            "forge",
            f"forge-tools-words is built for forge >= 9, this is {__version__}",
        ),
        (
            "shell",
            "entry point",
            "the toolset 'shell' of forge-tools-words 1.2 is not used: forge has its own toolset 'shell'",
        ),
        (
            "words",
            "hooks",
            "renderer words has no entry point 'render.words', so forge does not find it",
        ),
    ]
    assert done.err == f"forge: 3 of {len(json.loads(done.out))} checks failed\n"


# An old text of the package, the one in its place, and a part of what the check says.
MISTAKES = [
    ("words = words_module", "words = 1 + 1", "is not a reference"),
    ("words = words_module", "words = nosuch_module", "No module named 'nosuch_module'"),
    ("Version: 1.2\n", "Version: 1.2\nRequires-Dist: nosuch\n", "not installed: nosuch"),
    ("def forge_toolsets", "def forge_tool_sets", "unknown hook"),
    ("return [Words]", "return 7", "gives 7 by forge_toolsets, which has to give a list"),
    ('name = "words"', 'name = "other"', "offers no toolset of its own name"),
    ('Annotated[int, Field(description="The longest word.")]', "int", "longest: no description"),
    ('"""Tell the length of the longest word."""', "", "longest: description"),
    ('lambda result: Text("frequent")', "7", "is not callable"),
    (
        '{"words.frequent": lambda result: Text("frequent")}',
        "['words.frequent']",
        "offers no renderers",
    ),
]


def test_mistakes_of_authors_are_named(cli: Cli, site: Path) -> None:
    texts = {path: path.read_text() for path in site.rglob("*") if path.is_file()}
    failures = []
    for old, wrong, said in MISTAKES:
        for path, text in texts.items():
            path.write_text(text.replace(old, wrong))
        done = cli("plugins", "check", "forge-tools-words")
        if done.code != 1 or said not in done.out:
            failures.append((wrong, done))
    assert failures == []


def test_settings_that_only_a_worker_can_give_are_not_checked(cli: Cli, site: Path) -> None:
    module = site / "words_module.py"
    module.write_text(WORDS.replace('Field(description="The longest word.")] = 10', "Field()]"))
    done = cli("plugins", "check", "forge-tools-words")
    assert done.code == 1
    assert "  FAILED  words: settings: longest: no description\n" in done.out
    assert "  ok      words: tools: not checked: a worker has to set longest\n" in done.out


def test_plugins_check_without_plugins(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    done = cli("plugins", "check", "nosuch")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "forge: no plugin is installed from 'nosuch'",
    )
    done = cli("plugins", "check", "forge-workers")
    assert (done.code, done.err) == (2, "forge: forge-workers is forge itself, and not a plugin\n")


# --- install and uninstall, with a program of its own in the place of pip and uv

Does = Callable[[str], Path]


@pytest.fixture(params=["pip", "uv"])
def installer(
    request: pytest.FixtureRequest,
    project: Project,
    site: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Does:
    """An environment with pip, or with uv alone, which writes down its orders and does as the test says."""
    program, log = tmp_path / "bin" / "uv", tmp_path / "argv"
    program.parent.mkdir()
    monkeypatch.setattr(
        distributions, "find_spec", lambda name: name if request.param == "pip" else None
    )
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SITE", str(site))

    def does(script: str) -> Path:
        told = f'printf "%s\\n" "$@" > {log}\nfor each; do case "$each" in *.txt) cp "$each" constraints;; esac; done'
        program.write_text(f"#!/bin/sh\n{told}\necho printed\n{script}\n")
        program.chmod(0o755)
        return log

    return does


BIRDS = (
    'mkdir "$SITE/forge_tools_birds-3.dist-info" && cd "$SITE/forge_tools_birds-3.dist-info" && '
    "printf 'Name: forge-tools-birds\\nVersion: 3\\n' > METADATA && printf '[forge]\\nbirds = b\\n' > entry_points.txt"
)


def test_installing_shows_the_package_and_the_command_and_keeps_forge(
    cli: Cli, installer: Does, project: Project, index: PackageIndex
) -> None:
    log = installer(BIRDS)
    done = cli("plugins", "install", "forge-tools-birds>=2", "-y")
    assert (done.code, done.out) == (0, "installed forge-tools-birds 3: toolset birds\n")
    *facts, command, printed, last = done.err.splitlines()
    assert facts[0].startswith("forge-tools-birds 3 on http://127.0.0.1:")
    assert "hunter2" not in done.err
    assert facts[1:] == [
        "  publisher      Wren <w@birds.example> (the package's own words, unchecked)",
        "  released       2026-10-02",
        "  first release  2026-10-01 (2 versions)",
        "  entry points   birds = forge_tools_birds",
    ]
    *told, option, constraints, package = log.read_text().splitlines()
    assert command == shlex.join([sys.executable, *told, option, constraints, package])
    assert (printed, last) == (
        "printed",
        "check it with: forge plugins check forge-tools-birds",
    )
    assert told in (
        ["-m", "pip", "install", "--disable-pip-version-check", "--upgrade"],
        [
            *("pip", "install", "--python", sys.executable),
            *("--upgrade-package", "forge-tools-birds", "--reinstall-package", "forge-tools-birds"),
        ],
    )
    assert (option, package) == ("--constraint", "forge-tools-birds==3")
    assert project.read("constraints") == f"forge-workers=={__version__}\n"
    assert not Path(constraints).exists()


def test_package_of_an_index_is_not_installed_unasked(
    cli: Cli, installer: Does, index: PackageIndex
) -> None:
    log = installer(BIRDS)
    done = cli("plugins", "install", "forge-tools-birds")
    assert (done.code, done.out) == (2, "")
    assert "  entry points   birds = forge_tools_birds\n" in done.err
    assert done.err.endswith(
        "forge: nobody can be asked whether to install forge-tools-birds==3\n"
        "  look at the lines above, and add -y if you want it\n"
    )
    done = cli("plugins", "install", "git+https://birds.example/x")
    assert (done.code, "unknown until it is installed" in done.err) == (2, True)
    assert not log.exists()


def test_version_of_another_python_or_withdrawn_is_left_out(
    cli: Cli, installer: Does, index: PackageIndex
) -> None:
    log = installer("")
    index.add("forge-tools-birds", "4", **{"requires-python": ">=4"})
    index.add("forge-tools-birds", "5", yanked="broken")
    index.add("forge-tools-birds", "6rc1")
    assert cli("plugins", "install", "forge-tools-birds", "-y").code == 0
    assert log.read_text().splitlines()[-1] == "forge-tools-birds==3"
    done = cli("plugins", "install", "forge-tools-birds>6", "-y")
    assert (done.code, "has no version of forge-tools-birds>6" in done.err) == (1, True)


def test_package_that_cannot_be_shown_is_not_installed(
    cli: Cli, installer: Does, index: PackageIndex
) -> None:
    log = installer("")
    index.add("forge-tools-swapped", "1")
    index.content["forge_tools_swapped-1-py3-none-any.whl"] += b"x"
    index.add("forge-tools-torn", "1", hashes={})
    index.content["forge_tools_torn-1-py3-none-any.whl"] = b"PK"
    index.pages["forge-tools-odd"] = {"files": [{"filename": "odd.exe"}, {"filename": "a-b.whl"}]}
    for name, problem in [
        ("forge-tools-nosuch", "there is no package forge-tools-nosuch on http://127.0.0.1:"),
        ("forge-tools-swapped", "is not the file that the index lists"),
        ("forge-tools-torn", "the wheel cannot be read: "),
        ("forge-tools-odd", "has no version of forge-tools-odd"),
    ]:
        done = cli("plugins", "install", name, "-y")
        assert (done.code, problem in done.err) == (1, True), done.err
    assert not log.exists()


def test_folder_is_installed_by_its_path(cli: Cli, installer: Does, project: Project) -> None:
    log = installer("")
    project.write("mine/pyproject.toml", '[project]\nname = "forge-tools-words"\n')
    for path in ("./mine", f"../{project.folder.name}/mine"):
        done = cli("plugins", "install", path)
        assert (done.code, done.out) == (
            0,
            "installed forge-tools-words 1.2: renderer words; toolset words\n",
        )
        assert log.read_text().splitlines()[-1] == str(project.folder / "mine")


def test_package_without_plugins_is_reported(
    cli: Cli, installer: Does, index: PackageIndex
) -> None:
    installer("")
    done = cli("plugins", "install", "requests", "-y")
    assert (done.code, done.out) == (0, "")
    assert (
        "warning: it has no plugins for forge (no entry points in the group 'forge')\n" in done.err
    )


def test_failing_installer_is_reported(cli: Cli, installer: Does, project: Project) -> None:
    installer("exit 7")
    project.write("words/pyproject.toml", '[project]\nname = "forge-tools-words"\n')
    for command, package in (("install", "./words"), ("uninstall", "forge-tools-words")):
        done = cli("plugins", command, package)
        assert (done.code, done.out) == (1, "")
        assert done.err.endswith(
            f"forge: {command}ing failed with exit code 7; the reason is above\n"
        )


def test_plugins_check_of_a_missing_package(cli: Cli, installer: Does, project: Project) -> None:
    log = installer("")
    project.write("own/pyproject.toml", '[project]\nname = "Forge_Workers"\n')
    project.write("broken/pyproject.toml", "[project\n")
    project.write("forge_workers-1-py3-none-any.whl", "")
    itself = "forge-workers is forge itself, which forge plugins leaves as it is"
    failures = []
    for package, problem in [
        ("forge-workers", itself),
        ("Forge.Workers[x]==3", itself),
        ("forge-workers @ https://example.org/x.zip", itself),
        ("./own", itself),
        ("./forge_workers-1-py3-none-any.whl", itself),
        ("./nosuch", "there is no file or folder ./nosuch"),
        (".", ". is not a project: it has no pyproject.toml"),
        ("./broken", "./broken/pyproject.toml cannot be read: "),
        ("own", "there is also a folder own here"),
        ("--index-url=x", "'--index-url=x' is not a package"),
    ]:
        done = cli("plugins", "install", "--", package)
        if (done.code, done.out) != (2, "") or not done.err.startswith(f"forge: {problem}"):
            failures.append((package, done))
    assert failures == []
    assert not log.exists()


def test_install_without_pip_and_uv(
    cli: Cli, installer: Does, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = installer("")
    with monkeypatch.context() as bare:
        bare.setattr(distributions, "find_spec", lambda name: None)
        bare.setenv("PATH", str(tmp_path))
        done = cli("plugins", "install", "x")
        assert (done.code, done.out) == (1, "")
        assert done.err == (
            f"forge: there is neither pip nor uv for {sys.prefix}\n  try '{sys.executable} -m ensurepip'\n"
        )
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    for command in ("install", "uninstall"):
        done = cli("plugins", command, "forge-tools-words")
        assert (done.code, done.out) == (1, "")
        assert "belongs to the operating system\n  install forge with" in done.err
    assert not log.exists()


@pytest.mark.parametrize(
    ("receipt", "note"),
    [
        (
            "uv-receipt.toml",
            "note: uv tool manages this environment, and undoes this when it rebuilds it: "
            "uv tool install forge-workers --with forge-tools-words==1.3\n",
        ),
        (
            "pipx_metadata.json",
            "note: pipx manages this environment, and undoes this when it rebuilds it: "
            "pipx inject forge-workers forge-tools-words==1.3\n",
        ),
    ],
)
def test_environment_of_uv_tool_or_pipx_is_recognised(
    cli: Cli,
    installer: Does,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    receipt: str,
    note: str,
    index: PackageIndex,
) -> None:
    installer("")
    index.add("forge-tools-words", "1.3")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / receipt).touch()
    done = cli("plugins", "install", "forge-tools-words", "-y")
    assert done.code == 0
    assert note in done.err


def test_uninstalling_a_broken_plugin_imports_nothing(
    cli: Cli, installer: Does, site: Path
) -> None:
    (site / "words_module.py").write_text("raise SystemExit\n")
    log = installer('rm -r "$SITE/forge_tools_words-1.2.dist-info"')
    done = cli("plugins", "uninstall", "forge_tools_words")
    assert (done.code, done.out) == (0, "uninstalled forge-tools-words\n")
    assert log.read_text().splitlines()[-1] == "forge-tools-words"
    assert cli("plugins", "uninstall", "forge-tools-words").code == 2


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("command", ["check", "uninstall"])
def test_uninstall_of_a_toolset_names_its_package(cli: Cli, command: str) -> None:
    done = cli("plugins", command, "words")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("\n  did you mean 'forge-tools-words', which offers it?\n")


def test_uninstall_refuses_other_packages(cli: Cli, installer: Does) -> None:
    log = installer("")
    for package in ("forge-workers", "pytest", "nosuch", "--yes"):
        assert cli("plugins", "uninstall", "--", package).code == 2
    assert not log.exists()


def test_uninstall_reports_a_package_that_remains(cli: Cli, installer: Does) -> None:
    installer("")
    done = cli("plugins", "uninstall", "forge-tools-words")
    assert (done.code, done.out) == (1, "")
    assert "forge: forge-tools-words is still installed, " in done.err


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "distribution",
    ["forge-executor-dask", "forge-otel", "forge-tools-git", "forge-tools-llm", "forge-tools-web"],
)
def test_plugins_of_this_repository_pass_the_check(cli: Cli, distribution: str) -> None:
    done = cli("plugins", "check", distribution)
    assert (done.code, done.err) == (0, ""), done.out
