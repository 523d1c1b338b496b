"""Trust in workers and settings of the working directory: it covers exactly the trusted files."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forge_cli.core.errors import ForgeError
from forge_cli.files.lookup import NamedWorker, WorkerOrigin
from forge_cli.files.trust import TrustStore, file_digests
from forge_cli.testing import Project

WORKER = """
name: deploy
output_schema: ../../schema.json
plugins: [../../plugin.py]
toolsets:
  custom: {module: ../../code/tools.py, tools: [go]}
  workers: {allowed: [../../child.yaml]}
"""


@pytest.fixture
def deploy(project: Project) -> NamedWorker:
    path = project.write(".forge/workers/deploy.yaml", WORKER)
    project.write(".forge/workers/other/worker.yaml", "name: other")
    project.write("schema.json", "{}")
    project.write("plugin.py", "import helper")
    project.write("helper.py", "")
    project.write("code/tools.py", "from inner import x")
    project.write("code/inner.py", "x = 1")
    project.write("child.yaml", "name: child\ntoolsets: {custom: {module: ./child.py, tools: [a]}}")
    project.write("child.py", "")
    project.write("README.md", "")
    return NamedWorker("deploy", WorkerOrigin.PROJECT, path)


def test_trust_covers_every_file_of_a_worker(deploy: NamedWorker) -> None:
    named = [
        "child.py",
        "child.yaml",
        "code/inner.py",
        "code/tools.py",
        "helper.py",
        "plugin.py",
        "schema.json",
    ]
    assert sorted(file_digests(deploy)) == sorted(
        [*(f"../../{name}" for name in named), "deploy.yaml", "other/worker.yaml"]
    )


def test_trust_ends_when_a_file_changes(project: Project, deploy: NamedWorker) -> None:
    trust = TrustStore(project.home)
    assert not trust.holds(deploy)
    trust.add(deploy, file_digests(deploy))
    assert trust.holds(deploy)
    project.write("README.md", "not its own")
    project.write(".forge/workers/__pycache__/tools.pyc", "made by Python")
    assert trust.holds(deploy)
    for name in ("code/inner.py", "child.py", "schema.json", ".forge/workers/deploy.yaml"):
        before = project.read(name)
        project.write(name, f"{before}\n")
        assert not trust.holds(deploy), name
        project.write(name, before)
        assert trust.holds(deploy)
    project.write(".forge/workers/added.py", "")
    assert not trust.holds(deploy)


def test_changed_files_are_listed_with_their_trusted_text(
    project: Project, deploy: NamedWorker
) -> None:
    trust = TrustStore(project.home)
    project.write("code/inner.py", "x = 1")
    assert trust.changes(deploy) == {}
    trust.add(deploy, file_digests(deploy))
    assert trust.changes(deploy) == {}
    project.write("code/inner.py", "x = 2")
    project.write(".forge/workers/added.py", "")
    (project.folder / "child.py").unlink()
    assert trust.changes(deploy) == {
        "../../child.py": "",
        "../../code/inner.py": "x = 1",
        "added.py": None,
    }


def test_folder_behind_a_link_cannot_be_trusted(project: Project, deploy: NamedWorker) -> None:
    project.write("elsewhere/module.py", "")
    (deploy.root / "linked").symlink_to(project.folder / "elsewhere")
    trust = TrustStore(project.home)
    trust.add(deploy, file_digests(deploy))
    assert not trust.holds(deploy)


def test_trust_file_is_private_and_keeps_other_entries(
    project: Project, deploy: NamedWorker
) -> None:
    trust, file = TrustStore(project.home), project.home / "trust.json"
    trust.add(deploy, {"a": "1"})
    kept = json.loads(file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kept == {"workers": {str(deploy.path.resolve()): {"a": "1"}}}
    file.write_text(json.dumps({**kept, "folders": ["/x"]}))
    trust.add(deploy, {"a": "2"})
    assert json.loads(file.read_text()) == {
        "workers": {str(deploy.path.resolve()): {"a": "2"}},
        "folders": ["/x"],
    }


@pytest.mark.parametrize("content", ["", "[]", "{", '{"workers": []}', "\0"])
def test_invalid_trust_file_trusts_nothing(
    project: Project, deploy: NamedWorker, content: str
) -> None:
    project.home.mkdir(exist_ok=True)
    (project.home / "trust.json").write_text(content)
    assert not TrustStore(project.home).holds(deploy)


@pytest.mark.few(2)
@pytest.mark.parametrize("content", ["", "[]", "{", '{"workers": []}', '{"pins": 1}', "\0", "\xff"])
def test_invalid_trust_file_is_reported_and_not_overwritten(project: Project, content: str) -> None:
    project.home.mkdir(exist_ok=True)
    file = project.home / "trust.json"
    file.write_text(content, encoding="latin-1")
    project.write("AGENTS.md", "Be brief.")
    for words in ((".",), ("--list",), ("--revoke", ".")):
        done = project.forge("trust", *words)
        assert done.returncode == 3
        assert str(file) in done.stderr
        assert "forge trust" in done.stderr
    with pytest.raises(ForgeError, match="not a file of trust|not UTF-8"):
        TrustStore(project.home).pins("server")
    assert file.read_text(encoding="latin-1") == content


def test_concurrent_trust_entries_are_both_kept(project: Project) -> None:
    files = [project.write(f"{number}.md", str(number)) for number in range(20)]
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(TrustStore(project.home).add_file, files))
    assert all(map(TrustStore(project.home).holds_file, files))


def store(folder: Path) -> TrustStore:
    return TrustStore(folder / "home")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("trace: quiet\n")
    return tmp_path / "config.yaml"


def test_copy_is_not_trusted_but_a_link_is(file: Path, tmp_path: Path) -> None:
    store(tmp_path).add_file(file)
    (file.parent / "other.yaml").write_bytes(file.read_bytes())
    (file.parent / "link.yaml").symlink_to(file)
    assert not store(tmp_path).holds_file(file.parent / "other.yaml")
    assert store(tmp_path).holds_file(file.parent / "link.yaml")
