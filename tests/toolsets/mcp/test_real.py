"""Third-party servers: from PyPI in every run, from npm if installed."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forge_cli.testing import Project, Seen, call, calls

BIN = Path(sys.executable).parent


def worker(project: Project, **servers: str) -> None:
    defined = "".join(f"      {name}: {text}\n" for name, text in servers.items())
    approval = "{default: preApproved}"
    project.write(
        "worker.yaml",
        f"name: w\ntoolsets:\n  mcp:\n    approval: {approval}\n    servers:\n{defined}",
    )


def started(program: Path, *args: str) -> str:
    return f"{{command: {json.dumps(str(program))}, args: {json.dumps(args)}, connect_timeout: 25}}"


def texts(seen: Seen) -> list[str]:
    assert set(seen.statuses) == {"success"}, seen.outcomes
    return [outcome.value.text() for outcome in seen.outcomes]


@pytest.mark.long
@pytest.mark.needs("git")
def test_real_servers_time_and_git_work(project: Project) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", "repo"], cwd=project.folder, check=True)
    commit = [
        "git",
        "-C",
        "repo",
        *identity,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "the first one",
    ]
    subprocess.run(commit, cwd=project.folder, check=True)
    worker(project, time=started(BIN / "mcp-server-time"), git=started(BIN / "mcp-server-git"))
    asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    seen = project.run(
        calls(call("time__convert_time", **asked), call("git__git_log", repo_path="repo")), "done"
    )
    converted, log = texts(seen)
    assert "T21:00:00+09:00" in converted
    assert "the first one" in log


@pytest.fixture
def npm() -> Path:
    """The folder of the programs that npm has installed."""
    found = shutil.which("mcp-server-everything")
    assert found
    return Path(found).parent


@pytest.mark.needs("npm-servers")
def test_real_servers_everything_and_filesystem_work(project: Project, npm: Path) -> None:
    project.write("note.txt", "what is written")
    worker(
        project,
        every=started(npm / "mcp-server-everything"),
        files=started(npm / "mcp-server-filesystem", str(project.folder)),
    )
    made = [
        call("every__echo", message="hello"),
        call("every__get-sum", a=1, b=2),
        call("every__get-tiny-image"),
        call("every__get-structured-content", location="Chicago"),
        call("every__trigger-long-running-operation", duration=1, steps=2),
        call("list_mcp_resources", server="every"),
        call("files__read_text_file", path=str(project.folder / "note.txt")),
    ]
    echo, total, image, weather, done, listed, note = texts(project.run(calls(*made), "done"))
    assert (echo, total) == ("Echo: hello", "The sum of 1 and 2 is 3.")
    assert "[image: image/png," in image
    assert "temperature" in json.loads(weather)
    assert "completed" in done
    assert all(each["uri"].startswith("demo://") for each in json.loads(listed))
    assert "what is written" in note


@pytest.mark.needs("npm-servers")
def test_real_server_everything_works_over_http(project: Project, npm: Path) -> None:
    with served(npm / "mcp-server-everything") as url:
        worker(project, every=f"{{url: {json.dumps(url)}}}")
        assert texts(project.run(calls(call("every__echo", message="hello")), "done")) == [
            "Echo: hello"
        ]


@contextmanager
def served(program: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {**os.environ, "PORT": str(port)}
    with subprocess.Popen(
        [program, "streamableHttp"], env=env, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            while line := server.stderr.readline():
                if str(port) in line:
                    break
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()
