"""Executables in ``forge tools list`` and ``forge doctor``: tools, broken ones and statistics."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.core.events import TurnStart
from forge_cli.testing import Project, call, calls

WriteTool = Callable[..., Path]


def rows(project: Project, *words: str) -> list[dict]:
    return json.loads(
        project.forge("tools", "list", "--json", "--source", "executable", *words).stdout
    )


def descriptions(project: Project) -> dict[str, str]:
    return {row["name"]: row["description"] for row in rows(project) if "error" not in row}


@pytest.mark.long
def test_added_edited_and_removed_tools_are_found(project: Project) -> None:
    folder = project.home / "tools" / "hello"
    before = descriptions(project)
    folder.mkdir(parents=True)
    (folder / "hello.sh").write_text("echo hello\n")
    (folder / "tool.yaml").write_text("name: hello\ndescription: Says hi\nentrypoint: hello.sh\n")
    assert descriptions(project) == {**before, "hello": "Says hi"}
    (folder / "tool.yaml").write_text(
        "name: hello\ndescription: Says hello\nentrypoint: hello.sh\n"
    )
    assert descriptions(project) == {**before, "hello": "Says hello"}
    (folder / "tool.yaml").unlink()
    assert descriptions(project) == before


BROKEN = ("timeout: soon", "tool.yaml:4:10: timeout: must be a number")


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("worker_words", [[], ["worker.yaml"]])
def test_broken_tool_is_a_row_with_its_place(
    worker: Project, write_tool: WriteTool, worker_words: list[str]
) -> None:
    folder = write_tool("bad", "echo 1", BROKEN[0])
    write_tool("good", "echo 1")
    for _ in range(2):
        found = {row["name"]: row for row in rows(worker, *worker_words)}
        assert sorted(found) == ["bad", "good"]
        assert found["bad"]["error"].startswith(f"{folder.parent}/bad/{BROKEN[1]}")
        assert (found["bad"]["toolset"], found["bad"]["origin"]) == ("executables", str(folder))
        assert "error" not in found["good"]
    table = worker.forge("tools", "list", *worker_words).stdout
    assert any(line.startswith("bad") and BROKEN[1] in line for line in table.splitlines())


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("words", [["show"], ["call", "-y"]])
def test_command_on_a_broken_tool_prints_the_reason(
    project: Project, write_tool: WriteTool, words: list[str]
) -> None:
    write_tool("bad", "echo 1", BROKEN[0])
    done = project.forge("tools", *words, "bad")
    assert done.returncode == 2
    assert BROKEN[1] in done.stderr


def test_model_that_calls_a_broken_tool_gets_the_reason(
    worker: Project, write_tool: WriteTool
) -> None:
    write_tool("bad", "echo 1", BROKEN[0])
    seen = worker.run(calls(call("run_custom_tool", tool_name="bad")), "done")
    assert seen.statuses == ["error"]
    assert BROKEN[1] in (seen.outcomes[0].error or "")


def test_proxy_describes_its_time_limit(worker: Project) -> None:
    done = worker.forge("tools", "show", "run_custom_tool", "--worker", "worker.yaml", "--json")
    assert "default: the timeout in its tool.yaml, or 30" in done.stdout


def test_worker_lists_only_its_selected_tools(project: Project, write_tool: WriteTool) -> None:
    project.write(
        "worker.yaml", "name: w\ninstructions: x\ntoolsets:\n  executables: {tools: [good]}\n"
    )
    write_tool("bad", "echo 1", BROKEN[0])
    write_tool("good", "echo 1")
    assert [row["name"] for row in rows(project, "worker.yaml")] == ["good"]


def doctor(project: Project, **env: str) -> tuple[int, dict[str, dict]]:
    done = project.forge("doctor", "--json", env=env)
    return done.returncode, {check["id"]: check for check in json.loads(done.stdout)["checks"]}


@pytest.mark.long
def test_doctor_names_broken_tools_and_missing_programs(
    project: Project, write_tool: WriteTool, tmp_path: Path
) -> None:
    write_tool("good", "echo 1")
    code, checks = doctor(project)
    assert (code, checks["executables"]["ok"]) == (0, True)
    folder = write_tool("bad", "echo 1", BROKEN[0])
    code, checks = doctor(project)
    assert (code, checks["executable.bad"]["ok"]) == (1, False)
    assert checks["executable.bad"]["detail"].startswith(f"{folder}/{BROKEN[1]}")
    assert str(folder) in checks["executable.bad"]["remedy"]
    shutil.rmtree(folder)
    write_tool("hello", "package main\n", suffix=".go")
    write_tool("needy", "# /// script\n# dependencies = ['no-such-thing']\n# ///\n", suffix=".py")
    code, checks = doctor(project, PATH=str(tmp_path))
    assert code == 0
    assert "install Go" in checks["executable.hello"]["detail"]
    assert "no-such-thing" in checks["executable.needy"]["detail"]


@pytest.mark.long
def test_usage_statistics_are_listed(worker: Project, write_tool: WriteTool) -> None:
    write_tool("good", "echo 1")
    write_tool("bad", "exit 1")
    write_tool("idle", "echo 1")
    made = call("create_custom_tool", name="made", description="d", language="sh")
    worker.run(calls(made), calls(call("good"), call("bad"), call("made")), "done", answers=[True])
    worker.run(calls(call("good"), call("run_custom_tool", tool_name="good")), "done")
    used = {row["name"]: row["stats"] for row in rows(worker, "--stats")}
    good, bad, idle = used["good"], used["bad"], used["idle"]
    assert (good["calls"], good["failures"], good["sessions"], good["success"]) == (3, 0, 2, 1.0)
    assert (bad["calls"], bad["failures"], bad["sessions"], bad["success"]) == (1, 1, 1, 0.0)
    assert idle == {
        "created": None,
        "calls": 0,
        "sessions": 0,
        "failures": 0,
        "success": None,
        "lastUse": None,
        "meanMs": None,
    }
    assert (used["made"]["created"] is not None, used["made"]["calls"]) == (True, 1)
    assert good["meanMs"] is not None
    table = worker.forge("tools", "list", "--stats").stdout.splitlines()
    assert table[0].split() == [
        "name",
        "calls",
        "sessions",
        "success",
        "mean",
        "last",
        "use",
        "description",
    ]
    assert next(line.split()[:4] for line in table if line.startswith("good")) == [
        "good",
        "3",
        "2",
        "100%",
    ]


@pytest.mark.long
def test_tool_version_is_listed_and_shown(worker: Project, write_tool: WriteTool) -> None:
    write_tool("new", "echo 1", "version: 2.1.0")
    write_tool("plain", "echo 1")
    assert {row["name"]: row["version"] for row in rows(worker)} == {
        "new": "2.1.0",
        "plain": "1.0.0",
    }
    table = worker.forge("tools", "list", "worker.yaml").stdout.splitlines()
    assert table[0].split() == [
        "name",
        "toolset",
        "source",
        "mode",
        "approval",
        "version",
        "description",
    ]
    assert next(line.split()[5] for line in table if line.startswith("new")) == "2.1.0"
    assert "\nversion: 2.1.0\n" in worker.forge("tools", "show", "new").stdout
    assert json.loads(worker.forge("tools", "show", "new", "--json").stdout)["version"] == "2.1.0"


@pytest.mark.long
def test_denied_and_failed_creations_are_counted_separately(worker: Project) -> None:
    made = [
        call("create_custom_tool", name=name, description="d", language="sh")
        for name in ("a", "b", "a", "Not")
    ]
    invalid = call("create_custom_tool", name="c")
    seen = worker.run(calls(*made, invalid), "done", answers=[True, False])
    assert seen.statuses == ["success", "denied", "error", "error", "invalid"]
    listed = json.loads(worker.forge("tools", "list", "worker.yaml", "--stats", "--json").stdout)
    assert {row["name"]: row["stats"].get("creations") for row in listed} == {
        "a": None,
        "create_custom_tool": {"created": 1, "denied": 1, "failed": 3},
    }
    table = worker.forge("tools", "list", "--stats").stdout
    assert table.splitlines()[-1] == "creations: 1 created, 1 denied, 3 failed"


def test_statistics_are_found_under_another_name(worker: Project, write_tool: WriteTool) -> None:
    write_tool("good", "echo 1")
    worker.run(calls(call("good")), "done")
    worker.write(
        "worker.yaml", "name: w\ninstructions: x\ntoolsets:\n  executables: {prefix: my}\n"
    )
    [row] = rows(worker, "worker.yaml", "--stats")
    assert (row["name"], row["stats"]["calls"]) == ("my_good", 1)


def test_trace_shows_the_duration_of_the_scan(worker: Project, write_tool: WriteTool) -> None:
    write_tool("good", "echo 1")
    worker.write("script.yaml", "turns:\n  - calls: [{tool: good, input: {}}]\n  - text: done\n")
    done = worker.forge(
        "run", "worker.yaml", "Do it.", "-m", "script:script.yaml", "--trace", "debug"
    )
    assert (
        len(re.findall(r"turn \d: request \w+, tools \(found in [\d.]+ ms\): .*good", done.stderr))
        == 2
    )
    seen = worker.run(calls(call("good")), "done")
    assert all(
        event.refresh_ms is not None and event.refresh_ms >= 0 for event in seen.of(TurnStart)
    )
