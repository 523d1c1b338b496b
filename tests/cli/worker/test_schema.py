"""``forge worker schema``: it accepts the files that forge accepts, including plugins.

Covers forge_cli.cli.worker.schema, forge_cli.inspection.sections,
forge_cli.inspection.file_schema.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from forge_cli import load_worker
from forge_cli.inspection.file_schema import config_schema, worker_schema
from forge_cli.process.signals import in_loop
from forge_cli.testing import Project

ROOT = Path(__file__).parents[3]
WORKERS = [
    path
    for path in sorted([*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("forge_cli/workers/*.yaml")])
    if "\ntoolsets:" in path.read_text() and "name: " in path.read_text()
]


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Draft202012Validator:
    with Project(tmp_path_factory.mktemp("schema") / "p").environment():
        schema = in_loop(worker_schema)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.few(5)
@pytest.mark.parametrize("path", WORKERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_workers_of_this_repository_match_the_schema(
    workers: Draft202012Validator, path: Path
) -> None:
    assert load_worker(path)
    assert [error.message for error in workers.iter_errors(yaml.safe_load(path.read_text()))] == []


@pytest.mark.parametrize(
    "more",
    [
        "limits: {max_turns: 3, maxTokens: 10}",
        "toolsets: {filesystem: , shell: {rules: [{pattern: ls, approval: ask, notMatch: [lsof]}]}}",
        "toolsets: {custom: [{module: a.py, tools: [b]}], external: {package: a, import: b, prefix: c}}",
        "toolsets: {mcp: {servers: {time: {command: x}, git: null}}}",
        "toolsets: {web: {searchUrl: 'https://x.example'}, git: null}",
        "{plugins: [./mine.py], toolsets: {mine: {any: thing}}}",
        "sandbox: {zones: [{name: a, mode: rw, approval: {write: preApproved}}], network: [a.example]}",
        "sandbox: {limits: {memory: 4g, file_size: 2000000000}, network: true, read: [~/.config]}",
        "output_schema: {type: object}",
        "approval: {mode: auto_deny}",
    ],
)
def test_schema_accepts_valid_files(workers: Draft202012Validator, more: str) -> None:
    assert [
        error.message for error in workers.iter_errors({"name": "w", **yaml.safe_load(more)})
    ] == []


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"name": "Not A Name"},
        {"name": "w", "limits": {"max_turn": 3}},
        {"name": "w", "limits": {"max_turns": 0}},
        {"name": "w", "toolsets": {"shel": {}}},
        {"name": "w", "toolsets": {"custom": {"module": "a.py"}}},
        {"name": "w", "toolsets": {"custom": None}},
        {"name": "w", "toolsets": {"filesystem": [{}]}},
        {"name": "w", "toolsets": {"shell": {"rules": [{"pattern": "ls", "approval": "yes"}]}}},
        {"name": "w", "toolsets": {"web": {"search": "x"}}},
        {"name": "w", "sandbox": {"zones": [{"path": "."}]}},
        {"name": "w", "sandbox": {"limits": {"memory": "much"}}},
        {"name": "w", "approval": {"mode": "approve_all"}},
    ],
    ids=json.dumps,
)
def test_schema_refuses_invalid_files(workers: Draft202012Validator, data: dict[str, Any]) -> None:
    assert not workers.is_valid(data)


def test_every_key_has_a_description(workers: Draft202012Validator) -> None:
    holders = [workers.schema, *workers.schema["$defs"].values()]
    assert [
        name
        for holder in holders
        for choice in [holder, *holder.get("anyOf", [])]
        for name, entry in choice.get("properties", {}).items()
        if "description" not in entry
    ] == []


def test_config_schema_accepts_valid_and_refuses_invalid_files(project: Project) -> None:
    with project.environment():
        schema = in_loop(config_schema)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    rules = {"rules": [{"pattern": "git push", "approval": "blocked"}]}
    good = {
        "model": "a:b",
        "policy": {"shell": rules},
        "models": {"openai:x": {"context": 5}},
        "aliases": {"a": "b:c"},
    }
    assert [error.message for error in validator.iter_errors(good)] == []
    for bad in (
        {"polcy": {}},
        {"policy": {"shel": rules}},
        {"policy": {"shell": {"rule": []}}},
        {"titles": "no"},
    ):
        assert not validator.is_valid(bad)


PLUGIN = '''
from forge_cli import Toolset, ToolsetConfig, hookimpl


class Approval(ToolsetConfig):
    account: str
    """Whose money it is."""


class Ledger(Toolset):
    name = "ledger"
    Config = Approval


@hookimpl
def forge_toolsets():
    return [Ledger]
'''


@pytest.mark.long
def test_plugins_have_their_sections_and_broken_ones_accept_anything(
    project: Project, install
) -> None:
    site = install("forge-tools-ledger", "ledger_tools", PLUGIN, "ledger = ledger_tools")
    install(
        "forge-tools-broken",
        "broken_tools",
        "raise RuntimeError('no library')",
        "broken = broken_tools",
    )
    env = {"PYTHONPATH": str(site), "FORGE_LOAD_PLUGINS": "forge-tools-ledger,forge-tools-broken"}
    for _ in ("found out", "cached"):
        done = project.forge("worker", "schema", env=env)
        assert done.returncode == 0
        assert (
            "warning: the plugin 'broken' of forge-tools-broken 1.2 cannot be loaded" in done.stderr
        )
        validator = Draft202012Validator(json.loads(done.stdout))
        assert validator.is_valid(
            {"name": "w", "toolsets": {"ledger": {"account": "a"}, "broken": {"x": 1}}}
        )
        assert not validator.is_valid({"name": "w", "toolsets": {"ledger": {"acount": "a"}}})
        assert not validator.is_valid({"name": "w", "toolsets": {"ledger": None}})


@pytest.mark.long
def test_new_worker_names_the_schema_for_editors(cli, project: Project) -> None:
    assert cli("worker", "new", "helper").code == 0
    first = project.read("helper.yaml").splitlines()[0]
    file = project.home / "schemas" / "worker.json"
    assert first == f"# yaml-language-server: $schema={file.resolve().as_uri()}"
    schema = json.loads(file.read_text())
    assert Draft202012Validator(schema).is_valid(yaml.safe_load(project.read("helper.yaml")))
    assert json.loads(cli("worker", "schema").out) == schema


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("folder", "home", "named"),
    [
        ("work/a", ".forge", "../../.forge/schemas/worker.json"),
        (".", ".forge", ".forge/schemas/worker.json"),
        ("work", "my forge", "file:///.../my%20forge/schemas/worker.json"),
        ("../elsewhere", ".forge", "file:///.../.forge/schemas/worker.json"),
    ],
)
def test_schema_inside_the_home_has_a_relative_path(
    folder: str, home: str, named: str, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    (user / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("FORGE_HOME", str(user / home))
    monkeypatch.chdir(user / folder)
    assert cli("worker", "new", "helper").code == 0
    first = Path("helper.yaml").read_text().splitlines()[0]
    assert first == f"# yaml-language-server: $schema={named.replace('/...', str(user.resolve()))}"


def test_unwritable_home_does_not_prevent_a_new_worker(cli, project: Project) -> None:
    project.home.mkdir(exist_ok=True)
    (project.home / "schemas").write_text("a file is in the way")
    assert cli("worker", "new", "helper").code == 0
    assert project.read("helper.yaml").startswith("name: helper\n")
