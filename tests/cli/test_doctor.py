"""``forge doctor``: checks, remedies, and an exit code that shows whether forge can work.

Covers forge_cli.inspection.health.
"""

import json
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forge_cli import __version__
from forge_cli.testing import Project

KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)
SECRET = "sk-test-0123456789-0123456789"

WEATHER = """
from forge_cli import Toolset, hookimpl

print("printed on import")

class Weather(Toolset):
    name = "weather"

@hookimpl
def forge_toolsets():
    return [Weather]
"""


@pytest.fixture(autouse=True)
def _nothing_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(
        "FORGE_LOAD_PLUGINS", "forge-tools-weather,forge-tools-one,forge-tools-two,forge-model-echo"
    )


@pytest.fixture
def plugin(install, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a package with a plugin, in this process."""
    modules: list[str] = []

    def installed(name: str, code: str, entry: str) -> None:
        module = f"{name.replace('-', '_')}_module"
        modules.append(module)
        monkeypatch.syspath_prepend(str(install(name, module, code, f"{entry} = {module}")))

    yield installed
    for module in modules:
        sys.modules.pop(module, None)


def checks(done) -> dict[str, dict]:
    return {check["id"]: check for check in json.loads(done.out)["checks"]}


def test_doctor_json_has_its_documented_shape(cli) -> None:
    done = cli("doctor", "--json")
    found = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert sorted(found) == ["checks", "isolation", "version"]
    assert found["version"] == __version__
    assert sorted(found["isolation"]) == ["level", "mechanism"]
    assert isinstance(found["isolation"]["level"], str)
    for check in found["checks"]:
        assert list(check) == ["id", "ok", "detail", "remedy"]
        assert [type(check[key]) for key in ("id", "ok", "detail")] == [str, bool, str]
        assert check["ok"] or check["remedy"]
    ids = [check["id"] for check in found["checks"]]
    assert len(ids) == len(set(ids))
    assert ids[:4] == ["python", "home", "config", "terminal"]
    assert {
        "model.anthropic",
        "model.openai",
        "model.script",
        "toolset.filesystem",
        "toolset.custom",
    } <= set(ids)


@pytest.mark.needs("Landlock")
def test_weaker_mechanism_is_named(project: Project, tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path)}
    found = json.loads(project.forge("doctor", "--json", env=env).stdout)
    assert found["isolation"] == {"level": "weaker", "mechanism": "Landlock"}
    lines = project.forge("doctor", env=env).stdout.splitlines()
    assert [
        line
        for line in lines
        if line.startswith("ok      isolation: commands: confined, weaker (Landlock: ")
    ]


def test_doctor_report_for_people(cli, project: Project) -> None:
    done = cli("doctor")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert lines[0].startswith(
        f"ok      python: Python {sys.version_info.major}.{sys.version_info.minor}"
    )
    assert f"ok      home: {project.home} (created when needed)" in lines
    assert f"ok      config: {project.home / 'config.yaml'} (optional; not created yet)" in lines
    model = lines.index(
        "missing model.anthropic: ANTHROPIC_API_KEY is not set, and anthropic:MODEL needs it"
    )
    assert lines[model + 1].startswith("        forge keys set anthropic stores a key from ")
    assert re.fullmatch("all that forge needs is there; . optional things missing", lines[-2])
    assert lines[-1].startswith("one thing to do: set up a model, by forge keys set anthropic")
    assert any(line.startswith("missing terminal: no terminal here") for line in lines)
    assert "ok      model.script: needs a file of turns; no key, no network" in lines
    assert not any(line.startswith("FAILED") for line in lines)
    assert not project.home.joinpath("config.yaml").exists()


@pytest.mark.long
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("value", ["{}", "unix://{}", "unix:path={},guid=1"])
def test_forbidden_sockets_are_listed(cli, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        path = f"{folder}/s"
        server.bind(path)
        monkeypatch.setenv("SSH_AUTH_SOCK", value.format(path))
        monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
        row = checks(cli("doctor", "--json"))["sockets"]
    assert row["ok"]
    assert path in row["detail"]
    assert "sandbox.read" in row["detail"]


def test_keys_are_reported_but_not_shown(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = checks(cli("doctor", "--json"))
    assert not absent["model.anthropic"]["ok"]
    assert absent["model.anthropic"]["remedy"].startswith("ANTHROPIC_API_KEY is not set")
    assert not absent["model.openai"]["ok"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    present = checks(cli("doctor", "--json"))
    assert present["model.anthropic"] == {
        "id": "model.anthropic",
        "ok": True,
        "detail": "ANTHROPIC_API_KEY from the environment",
        "remedy": None,
    }
    assert present["model.openai"]["ok"]
    for words in ([], ["--json"]):
        done = cli("doctor", *words)
        assert done.code == 0
        assert SECRET not in done.out + done.err


def test_working_plugin_is_ok(cli, plugin) -> None:
    plugin("forge-tools-weather", WEATHER, "weather")
    done = cli("doctor", "--json")
    assert (done.code, done.err) == (0, "printed on import\n")
    assert checks(done)["toolset.weather"] == {
        "id": "toolset.weather",
        "ok": True,
        "detail": "forge-tools-weather 1.2",
        "remedy": None,
    }


def test_doctor_reports_a_toolset_of_two_packages(cli, plugin) -> None:
    plugin("forge-tools-one", WEATHER, "weather")
    plugin("forge-tools-two", WEATHER, "weather")
    done = cli("doctor")
    sentence = (
        "FAILED  toolset.weather: toolset 'weather' is offered by forge-tools-one 1.2 and forge-tools-two 1.2\n"
        "        uninstall one of them, or set FORGE_LOAD_PLUGINS to the distributions you want"
    )
    assert done.code == 1
    assert sentence in done.out
    assert done.out.splitlines()[-3:-1] == [
        "2 things to do:",
        "  toolset.weather: uninstall one of them, or set FORGE_LOAD_PLUGINS to the distributions you want",
    ]
    assert done.out.splitlines()[-1].startswith("  set up a model, by forge keys set anthropic")


def test_conclusion_names_the_remedy_of_each_failed_check(
    cli, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = project.home / "tools"
    for name in ("one", "two"):
        (tools / name).mkdir(parents=True)
        (tools / name / "tool.yaml").write_text(f"name: {name}\n")
    lines = cli("doctor").out.splitlines()
    assert lines[-4:-1] == [
        "3 things to do:",
        f"  executable.one: correct it, or remove {tools / 'one'}",
        f"  executable.two: correct it, or remove {tools / 'two'}",
    ]
    assert lines[-5].startswith("2 checks failed; ")
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    (tools / "two" / "tool.yaml").unlink()
    (tools / "two").rmdir()
    last = cli("doctor").out.splitlines()[-1]
    assert last == f"one thing to do: executable.one: correct it, or remove {tools / 'one'}"


def test_broken_provider_is_reported(cli, plugin) -> None:
    plugin("forge-model-echo", "1 / 0", "model.echo")
    done = cli("doctor", "--json")
    assert done.code == 1
    assert checks(done)["model.echo"] == {
        "id": "model.echo",
        "ok": False,
        "detail": "the plugin 'model.echo' of forge-model-echo 1.2 cannot be loaded: "
        "ZeroDivisionError: division by zero",
        "remedy": "reinstall forge-model-echo 1.2",
    }


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("inside", ["", "deeper/still"])
def test_home_that_is_a_file_is_reported(
    cli, project: Project, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    project.home.write_text("in the way")
    monkeypatch.setenv("FORGE_HOME", str(project.home / inside))
    done = cli("doctor", "--json")
    home = checks(done)["home"]
    assert (done.code, home["ok"]) == (1, False)
    assert home["detail"].startswith(str(project.home / inside))
    assert (
        home["remedy"] == f"make {project.home} a folder that you can write to, or set FORGE_HOME"
    )
    assert cli("doctor").out.count("FAILED") == 1
    assert project.home.read_text() == "in the way"


@pytest.mark.needs("user")
def test_unwritable_home_is_reported(cli, project: Project) -> None:
    project.home.mkdir(mode=0o500)
    assert cli("doctor").code == 1


def test_home_without_room_for_files_is_reported(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_HOME", "/proc/x")
    assert checks(cli("doctor", "--json"))["home"]["detail"].startswith(
        "/proc/x: /proc is not writable: "
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("modell: x", ":1:1: unknown key 'modell'; did you mean 'model'?"),
        ("approval: {mode: sometimes}", ":1:18: approval.mode: "),
        ("model: [", ":1:9: "),
        ("- a list", ":1:1: "),
    ],
)
def test_broken_config_is_reported(cli, project: Project, text: str, problem: str) -> None:
    project.home.mkdir()
    file = project.home / "config.yaml"
    file.write_text(text)
    done = cli("doctor", "--json")
    config = checks(done)["config"]
    assert (done.code, config["ok"], config["remedy"]) == (
        1,
        False,
        "correct the file, or move it away",
    )
    assert config["detail"].startswith(f"{file}{problem}")
    assert "\n" not in config["detail"]
    assert checks(done)["toolset.filesystem"]["ok"]


def test_doctor_runs_without_a_terminal(project: Project, tmp_path: Path) -> None:
    done = project.forge("doctor", "--json", env={"CI": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert not {check["id"]: check for check in json.loads(done.stdout)["checks"]}["terminal"]["ok"]
