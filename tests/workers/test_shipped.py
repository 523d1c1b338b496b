"""The shipped workers: their permissions, and a scripted session with each that replays without drift."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli import load_worker
from forge_cli.files.lookup import SHIPPED
from forge_cli.testing import Project

NAMES = ["coder", "reviewer", "shell-helper", "writer"]
WRITE = {"tool": "write_file", "input": {"path": "app.py", "content": "x"}}
DELETE = {"tool": "delete_file", "input": {"path": "app.py"}}
FILES = {"app.py": "print('helo')\n", ".env": "KEY=1\n", "README.md": "# App\n"}
READ = {"tool": "read_file", "input": {"path": "app.py"}}


def command(line: str) -> dict[str, object]:
    return {"tool": "shell", "input": {"command": line}}


VERDICTS: dict[str, dict[str, list[dict[str, object]]]] = {
    "coder": {
        "preApproved": [
            READ,
            *map(
                command,
                ["git status", "git diff --stat HEAD~1", "git log --oneline -5", "git show HEAD"],
            ),
            *map(
                command,
                [
                    "pytest -q tests",
                    "python -m pytest -x",
                    "go test ./...",
                    "cargo test",
                    "npm test",
                ],
            ),
            *map(
                command,
                [
                    "ruff check .",
                    "ruff format --check .",
                    "mypy",
                    "eslint src",
                    "git status && pytest",
                ],
            ),
        ],
        "ask": [
            WRITE,
            DELETE,
            *map(
                command,
                [
                    "git commit -m x",
                    "git checkout main",
                    "rm -rf build",
                    "pip install x",
                    "npm install",
                ],
            ),
            *map(
                command,
                ["ruff check --fix .", "ruff check . --fix", "eslint src --fix", "ruff format ."],
            ),
            *map(
                command,
                ["cat .env", "git diff --output=app.py", "git log > app.py", "pytest; rm app.py"],
            ),
            {"tool": "read_file", "input": {"path": ".env"}},
        ],
        "blocked": [
            *map(
                command,
                ["git push", "git -C . push -f", "pytest && git push", "sudo ls", "npm publish"],
            )
        ],
        "refused": [{"tool": "read_file", "input": {"path": "/etc/passwd"}}],
    },
    "reviewer": {
        "preApproved": [
            READ,
            *map(command, ["git diff", "git log -3", "git show HEAD", "git blame app.py"]),
        ],
        "blocked": [
            *map(
                command,
                ["pytest", "rm app.py", "git commit -m x", "git diff > app.py", "git diff $(rm x)"],
            )
        ],
        "refused": [WRITE, DELETE],
    },
    "writer": {
        "preApproved": [READ],
        "ask": [WRITE, {"tool": "write_file", "input": {"path": "notes/new.md", "content": "x"}}],
        "blocked": [DELETE],
        "refused": [command("ls")],
    },
    "shell-helper": {
        "preApproved": [READ, *map(command, ["ls -la", "pwd", "which git", "uname -a"])],
        "ask": [*map(command, ["rm app.py", "find . -delete", "curl example.org", "ls > app.py"])],
        "blocked": [command("sudo ls")],
        "refused": [WRITE],
    },
}


@pytest.fixture
def repository(project: Project) -> Project:
    for file, content in FILES.items():
        project.write(file, content)
    for argv in (["init", "-q"], ["add", "app.py"]):
        subprocess.run(["git", *argv], cwd=project.folder, check=True)
    return project


@pytest.mark.parametrize("name", NAMES)
def test_shipped_worker_has_the_expected_verdicts(repository: Project, name: str) -> None:
    expected = [(verdict, call) for verdict, calls in VERDICTS[name].items() for call in calls]
    lines = "".join(json.dumps(call) + "\n" for _, call in expected)
    done = repository.forge("approve", name, "--batch", "-", stdin=lines)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [
        (answer["verdict"], call) for answer, (_, call) in zip(seen, expected, strict=True)
    ] == expected, seen


@pytest.mark.parametrize("name", NAMES)
def test_shipped_worker_is_valid_and_names_no_model(
    repository: Project, name: str, unconfined_rules: str
) -> None:
    worker = load_worker(SHIPPED / f"{name}.yaml")
    assert (worker.name, worker.config.model, worker.config.agents_md) == (name, None, None)
    assert worker.config.description
    assert worker.instructions
    done = repository.forge("worker", "check", name)
    assert (done.returncode, done.stderr.replace(unconfined_rules, "")) == (0, "")


def test_shipped_workers_are_listed_completely() -> None:
    assert sorted(path.name for path in SHIPPED.iterdir() if path.suffix) == [
        f"{name}.yaml" for name in NAMES
    ]


GREP = {"tool": "grep_files", "input": {"pattern": "helo", "path": "."}}
FIX = (
    "*** Begin Patch\n*** Update File: app.py\n@@\n-print('helo')\n+print('hello')\n*** End Patch\n"
)
SESSIONS: dict[str, tuple[list[dict[str, object]], list[str]]] = {
    "coder": (
        [
            {
                "text": "I look first.",
                "calls": [READ, {"tool": "grep_files", "input": {"pattern": "helo", "path": "."}}],
            },
            {"calls": [{"tool": "apply_patch", "input": {"input": FIX}}]},
            {"calls": [command("git diff --stat"), command("git push")]},
            {"text": "Corrected the greeting in app.py; nothing is pushed."},
        ],
        ["success", "success", "success", "success", "blocked"],
    ),
    "reviewer": (
        [
            {"calls": [READ, command("git status --short"), command("rm app.py")]},
            {"text": "app.py:1: 'helo' is misspelt."},
        ],
        ["success", "success", "blocked"],
    ),
    "writer": (
        [
            {
                "calls": [
                    {
                        "tool": "write_file",
                        "input": {"path": "README.md", "content": "# App\n\nIt greets.\n"},
                    }
                ]
            },
            {"calls": [DELETE]},
            {"text": "README.md says what the app does."},
        ],
        ["success", "blocked"],
    ),
    "shell-helper": (
        [
            {"text": "I give it the time of now.", "calls": [command("touch app.py")]},
            {"text": "touch app.py"},
        ],
        ["success"],
    ),
}


@pytest.fixture
def session(repository: Project, tmp_path: Path) -> Callable[..., tuple[list[str], str]]:
    """A recorded session with a worker: how each call ended, in order, and the answer."""

    def run(name: str, *flags: str) -> tuple[list[str], str]:
        (tmp_path / "script.yaml").write_text(json.dumps({"turns": SESSIONS[name][0]}))
        done = repository.forge(
            "run",
            name,
            "Do it.",
            "-m",
            f"script:{tmp_path}/script.yaml",
            "-p",
            "--record",
            f"{tmp_path}/session.jsonl",
            *flags,
        )
        assert done.returncode == 0, done.stderr
        events = [
            json.loads(line) for line in (tmp_path / "session.jsonl").read_text().splitlines()
        ]
        ends = {
            event["toolCallId"]: event["status"]
            for event in events
            if event["type"] == "toolResult"
        }
        calls = [event["toolCallId"] for event in events if event["type"] == "toolStarted"]
        return [ends[call] for call in calls], done.stdout

    return run


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
def test_session_of_each_shipped_worker_replays_without_drift(
    repository: Project, tmp_path: Path, session, name: str
) -> None:
    turns, ends = SESSIONS[name]
    assert session(name, "-y") == (ends, f"{turns[-1]['text']}\n")
    for file, content in FILES.items():
        repository.write(file, content)
    again = repository.forge("replay", f"{tmp_path}/session.jsonl")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith(f"no drift: {len(turns)} turns")


@pytest.mark.parametrize("name", NAMES)
def test_shipped_worker_changes_nothing_without_consent(
    repository: Project, session, name: str
) -> None:
    def content() -> dict[Path, bytes]:
        files = [
            path
            for path in repository.folder.rglob("*")
            if path.is_file() and ".git" not in path.parts
        ]
        return {path: path.read_bytes() for path in files}

    before = content()
    ends, _ = session(name)
    assert content() == before
    assert "denied" in ends or name == "reviewer"
