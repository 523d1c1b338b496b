"""Opt-in rule sets for a folder: offered if one covers a line, stored in the user's config.

Covers forge_cli.toolsets.shell.opt_in, forge_cli.toolsets.shell.config.
"""

import json
import socket
from pathlib import Path

import pytest

from forge_cli.core.errors import WorkerError
from forge_cli.core.events import ApprovalRequired, ToolResult
from forge_cli.core.trial import CommandTried
from forge_cli.files.project import read_project
from forge_cli.testing import Project, Seen, call, calls

PACKAGE = {"name": "x", "version": "1.0.0", "scripts": {"build": "sh build.sh"}}
WORKER = "name: w\ntoolsets: {{shell: {{rules: [{{use: reading}}, {{pattern: git push, approval: blocked}}{more}]}}}}\n"


@pytest.fixture
def folder(project: Project) -> Project:
    project.write("worker.yaml", WORKER.format(more=""))
    project.write("package.json", json.dumps(PACKAGE))
    project.write("Makefile", "build:\n\tsh build.sh\n")
    project.write("notes.txt", "kept\n")
    return project


def settle(project: Project, path: object, *sets: str) -> None:
    project.home.mkdir(exist_ok=True)
    (project.home / "config.yaml").write_text(
        json.dumps({"policy": {"shell": {"folders": [{"path": str(path), "use": list(sets)}]}}})
    )


def judged(project: Project, line: str) -> dict[str, object]:
    done = project.forge("approve", "worker.yaml", "shell", f"command={line}", "--json")
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def offered(project: Project, line: str) -> list[str]:
    grants = judged(project, line).get("grants", [])
    return [str(grant["rules"][0]) for grant in grants]  # type: ignore[attr-defined]


OFFERS = {
    "npm run build": "building",
    "make build | tail -5": "building",
    "curl -s http://127.0.0.1:8000/": "localhost",
    "docker compose ps": "containers",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("line", OFFERS)
def test_rule_set_that_covers_a_line_is_offered_and_applies_to_its_folder(
    folder: Project, line: str
) -> None:
    assert judged(folder, line)["verdict"] == "ask"
    assert offered(folder, line)[0] == f"toolsets.shell.rules: [{{use: {OFFERS[line]}}}]"
    settle(folder, folder.folder / "elsewhere", OFFERS[line])
    assert judged(folder, line)["verdict"] == "ask"
    settle(folder, folder.folder.parent, OFFERS[line])
    assert judged(folder, line)["verdict"] == "preApproved"
    folder.write(
        "worker.yaml", WORKER.format(more=f", {{pattern: {line.split()[0]}, approval: ask}}")
    )
    assert judged(folder, line)["verdict"] == "ask"


@pytest.mark.parametrize(
    "line", ["npm run build; git push", "npm run build && rm -r x", "curl -d x http://127.0.0.1/"]
)
def test_rule_set_that_covers_part_of_a_line_is_not_offered(folder: Project, line: str) -> None:
    assert not any("use:" in rule for rule in offered(folder, line))


@pytest.mark.parametrize("sets", [(), ("building",)], ids=repr)
def test_rule_set_answer_is_stored_and_the_set_is_not_offered_again(
    folder: Project, sets: tuple[str]
) -> None:
    settle(folder, folder.folder, *sets)
    lines = [line for line, name in OFFERS.items() if name not in sets]
    assert [judged(folder, line)["verdict"] for line in lines] == ["ask"] * len(lines)
    assert not any("use:" in rule for line in lines for rule in offered(folder, line))
    assert (
        json.dumps({"path": str(folder.folder), "use": list(sets)})
        in folder.forge("config", "show").stdout
    )


@pytest.mark.parametrize("line", ["git add a.txt", "git commit -m x"])
def test_adding_and_committing_are_offered_together(folder: Project, line: str) -> None:
    both = {
        f'toolsets.shell.rules: [{{pattern: "git {name}", approval: preApproved}}]'
        for name in ("add", "commit")
    }
    alone, together = judged(folder, line)["grants"]  # type: ignore[misc]
    assert set(alone["rules"]) < both
    assert set(together["rules"]) == both
    assert not any("git add" in rule for rule in offered(folder, "git tag v1"))


def test_overlong_pattern_is_not_taken_for_a_file_name(folder: Project) -> None:
    line = f"cd {folder.folder}; grep -rn 'word' $(ls) | grep -rn '{'a' * 300}'"
    assert "check failed" not in str(judged(folder, line)["reason"])


def test_project_cannot_opt_in(folder: Project) -> None:
    folder.write(".forge/config.yaml", "policy: {shell: {folders: [{path: ., use: [building]}]}}\n")
    with pytest.raises(WorkerError, match="a project's rule needs"):
        read_project(folder.folder / ".forge" / "config.yaml")
    assert judged(folder, "npm run build")["verdict"] == "ask"


def run(project: Project, line: str, tool: str = "shell") -> Seen:
    return project.run(calls(call(tool, command=line)), "done", timeout=60, answers=[False])


@pytest.mark.needs("overlay")
@pytest.mark.parametrize(
    ("script", "is_applied"),
    [
        ("mkdir -p dist; echo built > dist/out; echo more >> notes.txt", True),
        ("mkdir -p dist; echo built > dist/out; rm notes.txt", False),
        ("echo KEY=1 > .env", False),
        ("ln -s /etc/passwd dist", False),
        (
            "echo built > out; python3 -c 'import socket; socket.create_connection((\"a.example\", 80))'",
            False,
        ),
    ],
)
def test_build_that_only_creates_ordinary_files_is_applied(
    folder: Project, script: str, is_applied: bool
) -> None:
    settle(folder, folder.folder, "building")
    folder.write("build.sh", script)
    before = {path: path.read_bytes() for path in folder.folder.iterdir() if path.is_file()}
    seen = run(folder, "make build")
    assert (seen.of(ToolResult)[0].status == "success") == is_applied
    assert (seen.of(ApprovalRequired) == []) == is_applied
    applied = [event.sentence() for event in seen.of(CommandTried) if event.applied]
    assert applied == (
        ["applied: changed notes.txt, made dist, made dist/out"] if is_applied else []
    )
    if is_applied:
        assert (folder.read("dist/out"), folder.read("notes.txt")) == ("built\n", "kept\nmore\n")
    else:
        assert {
            path: path.read_bytes() for path in folder.folder.iterdir() if path.is_file()
        } == before


def test_build_that_cannot_run_on_a_copy_asks(folder: Project) -> None:
    settle(folder, folder.folder, "building")
    folder.write("build.sh", "echo built > out")
    assert len(run(folder, "make build", "exec_command").of(ApprovalRequired)) == 1
    folder.write(
        "worker.yaml", folder.read("worker.yaml").replace("shell: {", "shell: {try: 'off', ")
    )
    assert len(run(folder, "make build").of(ApprovalRequired)) == 1
    assert not (folder.folder / "out").exists()


def said(seen: Seen) -> str:
    (result,) = seen.of(ToolResult)
    return str(result.value.data["stdout"]).strip()  # type: ignore[union-attr]


@pytest.mark.needs("overlay")
def test_container_socket_is_open_only_for_reading_commands(
    folder: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        monkeypatch.setattr("forge_cli.toolsets.shell.toolset.container_sockets", lambda: [place])
        settle(folder, folder.folder, "containers")
        folder.write("bin/docker", f"#!/bin/sh\ntest -S {place} && echo open || echo shut\n").chmod(
            0o755
        )
        monkeypatch.setenv("PATH", f"{folder.folder}/bin:/usr/bin:/bin")
        assert said(run(folder, "docker ps | head -1")) == "open"
        folder.write(
            "worker.yaml", WORKER.format(more=", {pattern: docker, approval: preApproved}")
        )
        assert said(run(folder, "docker exec web ls")) == "shut"
