"""Hostile packages are installed: none of them takes anything down but itself.

In the default tests all of them are installed at once and some are loaded; ``nox -s long`` loads each.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.testing import Project

from ..cli.conftest import Done, cli  # noqa: F401
from .hostile import MODULE, PACKAGES, SOUND, Package

KIND = SOUND.replace("hostile", "kind").replace("Hostile", "Kind").replace("def hi", "def greet")
WORKER = "name: w\nmodel: script:script.yaml\ntoolsets: {kind: {approval: {default: preApproved}}, plan: {}}\n"
NAMES = [pytest.param(name, marks=[] if each.drawn else [pytest.mark.long]) for name, each in PACKAGES.items()]
Cli = Callable[..., Done]

pytestmark = pytest.mark.usefixtures("confined_looks")


@pytest.fixture
def site(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with one good package, and a worker that uses it."""
    site = tmp_path / "site"
    Package(KIND, ("kind = kind_module",)).write(site, "forge-tools-kind")
    (site / f"{MODULE}.py").rename(site / "kind_module.py")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    project.write("worker.yaml", WORKER)
    project.write("script.yaml", "turns: [{calls: [{tool: greet}]}, {text: 'Said {result}'}]\n")
    return site


@pytest.fixture
def all_installed(site: Path) -> None:
    for number, package in enumerate(PACKAGES.values()):
        package.write(site, f"forge-tools-hostile-{number}")
        (site / f"{MODULE}.py").rename(site / f"{MODULE}_{number}.py")
        entries = site / f"forge_tools_hostile_{number}-1.2.dist-info" / "entry_points.txt"
        entries.write_text(entries.read_text().replace(MODULE, f"{MODULE}_{number}"))


def sound(done: Done) -> None:
    said = done.out + done.err
    assert "Traceback" not in said
    assert "internal error" not in said
    assert "\x1b" not in said
    assert len(said) < 300_000


@pytest.mark.usefixtures("all_installed")
def test_all_of_them_are_listed_and_none_is_imported(cli: Cli) -> None:  # noqa: F811
    done = cli("plugins", "list", "--json")
    sound(done)
    rows = {row["distribution"]: row for row in json.loads(done.out)}
    assert {f"forge-tools-hostile-{number}" for number in range(len(PACKAGES))} <= rows.keys()
    assert "error" not in rows["forge-tools-kind"]
    numbers = dict(zip(PACKAGES, range(len(PACKAGES)), strict=True))
    taker = rows[f"forge-tools-hostile-{numbers['the name of a toolset of forge']}"]
    assert "'shell' of forge-tools-hostile-" in taker["error"]
    assert "is built for forge >= 9" in rows[f"forge-tools-hostile-{numbers['a newer forge']}"]["error"]
    assert not [name for name in sys.modules if name.startswith(MODULE)]
    sound(cli("plugins", "list"))


@pytest.mark.long
@pytest.mark.usefixtures("all_installed")
def test_workers_that_name_none_of_them_do_not_notice(cli: Cli, project: Project) -> None:  # noqa: F811
    check = cli("worker", "check", "worker.yaml")
    assert (check.code, check.out.partition(" (")[0]) == (0, "worker.yaml: ok")
    done = project.forge("run", "worker.yaml", "go", "-p")
    assert (done.returncode, done.stdout) == (0, "Said hi\n"), done.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_one_is_checked_and_listed(
    cli: Cli,  # noqa: F811
    site: Path,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    package = PACKAGES[name]
    package.write(site)
    monkeypatch.setenv("FORGE_IMPORT_TIMEOUT", "10" if package.hangs else "60")
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-tools-hostile,forge-tools-kind")
    files = {path: path.read_bytes() for path in project.folder.rglob("*")}

    checked = cli("plugins", "check", "forge-tools-hostile")
    sound(checked)
    assert checked.code in ((0, 1) if package.fine is None else (0,) if package.fine else (1,)), checked.out
    assert package.said in checked.out
    assert "FAILED" not in checked.out or "hostile" in checked.out

    listed = cli("tools", "list", "--json")
    sound(listed)
    rows = {row["name"]: row for row in json.loads(listed.out)}
    assert listed.code == 0
    assert "error" not in rows["greet"]
    assert "error" not in rows["shell"] or "is not used" in rows["shell"]["error"]
    assert {path: path.read_bytes() for path in project.folder.rglob("*")} == files
