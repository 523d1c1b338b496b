"""The example of the README runs as it is written there, offline."""

import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

from forge_tools_sql.config import SqlConfig

from forge_cli.testing import Project

PACKAGE = Path(__file__).parent.parent
README = (PACKAGE / "README.md").read_text()


def test_the_example_does_what_the_readme_shows(project: Project) -> None:
    shutil.copytree(PACKAGE / "example", project.folder, dirs_exist_ok=True)
    [block] = re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    made, ran, answer = block.strip().splitlines()
    assert made == "$ python make_shop.py"
    subprocess.run([sys.executable, "make_shop.py"], cwd=project.folder, check=True, timeout=60)
    assert ran == '$ forge run worker.yaml "Grace has paid" -p -y'
    done = project.forge("run", "worker.yaml", "Grace has paid", "-p", "-y")
    assert (done.returncode, done.stdout.strip()) == (0, answer), done.stderr
    with closing(connect(project.folder / "shop.db")) as db:
        assert db.execute("select status from orders where id = 2").fetchall() == [("paid",)]


def test_without_a_person_the_example_changes_nothing(project: Project) -> None:
    shutil.copytree(PACKAGE / "example", project.folder, dirs_exist_ok=True)
    subprocess.run([sys.executable, "make_shop.py"], cwd=project.folder, check=True, timeout=60)
    done = project.forge("run", "worker.yaml", "Grace has paid", "-p")
    assert "execute was not called; denied" in done.stdout
    with closing(connect(project.folder / "shop.db")) as db:
        assert db.execute("select status from orders where id = 2").fetchall() == [("open",)]


def test_the_readme_names_every_setting() -> None:
    own = set(SqlConfig.model_fields) - {"approval", "tools", "prefix"}
    assert [name for name in own if f"| `{name}` |" not in README] == []


def test_the_package_passes_its_check(project: Project) -> None:
    done = project.forge("plugins", "check", "forge-tools-sql")
    assert (done.returncode, "FAILED" in done.stdout) == (0, False), done.stdout + done.stderr
