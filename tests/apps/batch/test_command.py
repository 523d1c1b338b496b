"""``forge batch``: every item runs exactly once, also after interruptions.

Covers forge_cli.apps.batch.command, forge_cli.apps.batch.status, forge_cli.apps.batch.show,
forge_cli.apps.batch.batch, forge_cli.apps.batch.store and forge_cli.core.executors.
"""

import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest

from forge_cli.engine.batch.local import LocalExecutor
from forge_cli.executors import BatchItem
from forge_cli.testing import Project
from tests.support.batches import effects, results, sorter, statuses, write_items


@pytest.fixture(autouse=True)
def _worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    sorter(project)
    monkeypatch.setattr("forge_cli.apps.batch.batch.MAX_DELAY", 0.01)


def events(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def test_every_item_is_a_session_with_a_result_line(cli, project: Project) -> None:
    write_items(project, {"a": "", "b": "", "c": ""})
    done = cli("batch", "worker.yaml", "items.jsonl")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("forge: 3 completed · 60 tokens · ")
    assert done.err.endswith("  results: items.results.jsonl\n")
    lines = results(project)
    assert {line["key"]: line["result"]["response"] for line in lines} == {
        key: f"done {key}" for key in "abc"
    }
    assert {line["key"]: line["input"] for line in lines}["b"] == {"id": "b", "task": "b"}
    kept = {path.stem for path in (project.home / "sessions").glob("*.jsonl")}
    assert {line["result"]["sessionId"] for line in lines} == kept
    shown = json.loads(cli("run", "worker.yaml", "x", "--output-format", "json").out)
    assert list(lines[0]["result"]) == list(shown)


def test_sessions_of_a_batch_are_one_row_of_the_list(cli, project: Project) -> None:
    write_items(project, {"a": "", "b": "fail", "c": ""})
    cli("batch", "worker.yaml", "items.jsonl")
    cli("run", "worker.yaml", "alone")
    _, alone, batch = cli("sessions", "list").out.splitlines()
    assert "alone" in alone
    assert "batch items.results.jsonl: 3 items" in batch
    rows = json.loads(cli("sessions", "list", "--json").out)
    assert [row["batch"] for row in rows] == [
        None,
        *[str(project.folder / "items.results.jsonl")] * 3,
    ]


def test_completed_items_are_skipped_and_new_rows_run(cli, project: Project) -> None:
    write_items(project, {"a": "", "b": ""})
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    write_items(project, {"a": "", "c": "", "b": ""})
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    assert sorted(line["key"] for line in results(project)) == ["a", "b", "c"]
    assert effects(project, "notes.txt") == ["a", "b", "c"]


def test_removed_row_does_not_count_and_is_known_when_restored(cli, project: Project) -> None:
    def counted() -> tuple[int, str]:
        status = cli("batch", "status", "items.results.jsonl")
        return status.code, status.out.splitlines()[0]

    rows = {"a": "", "b": "break", "c": ""}
    write_items(project, rows)
    assert cli("batch", "worker.yaml", "items.jsonl", "--retries", "0").code == 1
    assert counted() == (1, "2 of 3 completed, 1 failed; 50 tokens")
    write_items(project, {"a": ""})
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    assert counted() == (0, "1 of 1 completed; 50 tokens")
    write_items(project, rows)
    assert cli("batch", "worker.yaml", "items.jsonl", "--retries", "0").code == 1
    assert counted()[1].startswith("2 of 3 completed, 1 failed; ")
    assert effects(project, "notes.txt") == ["a", "b", "c"]


def test_status_shows_complete_keys(cli, project: Project) -> None:
    project.write("items.jsonl", json.dumps({"id": "two\nlines\x1b[2J", "task": "a break"}) + "\n")
    assert cli("batch", "worker.yaml", "items.jsonl", "--retries", "0").code == 1
    assert "two\\nlines\\x1b[2J  failed" in cli("batch", "status", "items.results.jsonl").out


def test_failed_item_is_retried_in_the_same_session(cli, project: Project) -> None:
    write_items(project, {"a": "flaky", "b": "break"})
    done = cli("batch", "worker.yaml", "items.jsonl", "--retries", "1")
    assert done.code == 1
    assert statuses(project) == {"a": "completed", "b": "failed"}
    assert "  b: failed: no answer for b\n" in done.err
    assert "the same command retries failed items" in done.err
    assert effects(project, "notes.txt") == ["a", "b"]
    write_items(project, {"a": "flaky", "b": ""})
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    assert statuses(project) == {"a": "completed", "b": "completed"}


def test_parked_item_continues_after_its_answer(cli, project: Project) -> None:
    write_items(project, {"a": "pay", "b": "pay", "c": ""})
    words = ("batch", "worker.yaml", "items.jsonl", "--on-ask", "park")
    done = cli(*words)
    assert (done.code, statuses(project)) == (10, {"a": "parked", "b": "parked", "c": "completed"})
    assert cli("batch", "status", "items.results.jsonl").code == 10
    answered = next(line["result"]["sessionId"] for line in results(project) if line["key"] == "b")
    waiting = json.loads(cli("approvals", "list", "--json").out)
    request = next(row for row in waiting if row["session"] == answered)
    assert cli("approvals", "answer", answered, request["request"], "yes").code == 0
    assert cli(*words).code == 10
    assert (statuses(project), effects(project, "paid.txt")) == (
        {"a": "parked", "b": "completed", "c": "completed"},
        ["b"],
    )


def test_items_changed_after_completion_are_reported_before_the_run(cli, project: Project) -> None:
    write_items(project, {"a": "", "b": ""})
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    write_items(project, {"a": "", "b": "other", "c": ""})
    done = cli("batch", "worker.yaml", "items.jsonl")
    assert (done.code, len(results(project))) == (2, 2)
    assert done.err.startswith(
        "forge: the input of b has changed since it was completed\n  --restart b repeats"
    )
    assert cli("batch", "worker.yaml", "items.jsonl", "--restart", "nobody").code == 2
    assert cli("batch", "worker.yaml", "items.jsonl", "--restart", "b").code == 0
    assert sorted(line["key"] for line in results(project)) == ["a", "b", "b", "c"]
    project.write("tools.py", project.read("tools.py") + "\n# changed\n")
    done = cli("batch", "worker.yaml", "items.jsonl")
    assert done.code == 2
    assert done.err.startswith("forge: the worker has changed since it completed 3 items\n")
    assert cli("batch", "worker.yaml", "items.jsonl", "--restart").code == 0
    assert len(results(project)) == 7
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    assert len(results(project)) == 7


def test_worker_may_change_while_no_item_is_completed(cli, project: Project) -> None:
    write_items(project, {"a": "break"})
    assert cli("batch", "worker.yaml", "items.jsonl", "--retries", "0").code == 1
    project.write("tools.py", project.read("tools.py") + "\n# changed\n")
    assert cli("batch", "worker.yaml", "items.jsonl", "--retries", "0").code == 1


def test_shared_budget_stops_the_batch_and_the_rest_runs_later(cli, project: Project) -> None:
    write_items(project, {str(number): "" for number in range(12)})
    words = (
        "batch",
        "worker.yaml",
        "items.jsonl",
        "--max-tokens",
        "70",
        "--concurrency",
        "2",
        "--json",
    )
    done = cli(*words)
    last = events(done.out)[-1]
    assert (done.code, last["type"], last["exitCode"]) == (5, "batchEnd", 5)
    assert (
        70 <= last["usage"]["inputTokens"] + last["usage"]["outputTokens"] <= 90
    )  # a turn under way ends
    assert "the budget is spent" in done.err
    status = cli("batch", "status", "items.results.jsonl", "--json")
    assert (status.code, json.loads(status.out)["counts"]["failed"]) == (5, 0)
    assert cli(*words[:3]).code == 0
    assert sorted(
        line["key"] for line in results(project) if line["result"]["status"] == "completed"
    ) == sorted(map(str, range(12)))
    assert effects(project, "notes.txt") == sorted(map(str, range(12)))


def test_item_at_its_own_limit_has_failed(cli, project: Project) -> None:
    write_items(project, {"a": "", "b": ""})
    done = cli("batch", "worker.yaml", "items.jsonl", "--max-turns", "1", "--retries", "0")
    assert (done.code, statuses(project)) == (1, {"a": "limit", "b": "limit"})
    assert (
        cli("batch", "worker.yaml", "items.jsonl", "--max-turns", "1", "--retries", "0").code == 0
    )
    assert effects(project, "notes.txt") == ["a", "b"]


def test_events_have_counts(cli, project: Project) -> None:
    write_items(project, {"a": "flaky"})
    seen = events(cli("batch", "worker.yaml", "items.jsonl", "--json").out)
    kinds = ["batchStart", "itemStarted", "itemFinished", "itemStarted", "itemFinished", "batchEnd"]
    assert [event["type"] for event in seen] == kinds
    assert [event["counts"]["running"] for event in seen] == [0, 1, 0, 1, 0, 0]
    assert [event["cost"] for event in seen] == [None] * 6, "nobody knows what a script costs"
    assert seen[2]["retryIn"] >= 0
    assert [event.get("attempt") for event in seen] == [None, 1, 1, 2, 2, None]
    assert seen[1]["sessionId"] == seen[3]["sessionId"] == seen[4]["result"]["sessionId"]


def test_progress_without_a_terminal_is_a_line_every_few_seconds(
    cli, project: Project, monkeypatch
) -> None:
    monkeypatch.setattr("forge_cli.apps.batch.show.LINE_INTERVAL", 0.05)
    write_items(project, {"a": "hang"})
    done = cli("batch", "worker.yaml", "items.jsonl", "--max-time", "1", "--retries", "0")
    assert done.code == 1
    assert done.err.count("forge: 0 completed, 1 running · 0 tokens · ") > 1


def test_each_item_may_have_its_own_folder(cli, project: Project) -> None:
    write_items(project, {"a": "", "b/c": ""})
    assert cli("batch", "worker.yaml", "items.jsonl", "--each-in", "work/{key}/x").code == 0
    assert sorted(path.name for path in (project.folder / "work").iterdir()) == ["a", "b%2Fc"]
    sessions = json.loads(cli("sessions", "list", "--json").out)
    assert {row["workspace"] for row in sessions} == {
        f"{project.folder}/work/{name}/x" for name in ("a", "b%2Fc")
    }


def test_closed_event_stream_ends_the_batch_in_order(start, project: Project) -> None:
    write_items(project, {"a": "", "b": ""})
    forge = start("batch", "worker.yaml", "items.jsonl", "--json")
    forge.process.stdout.close()
    code, told = forge.process.wait(60), forge.process.stderr.read()
    assert (code, told.splitlines()[-1]) == (
        1,
        "forge: standard output cannot be written: its reader has left",
    )
    assert project.forge("batch", "worker.yaml", "items.jsonl").returncode == 0
    assert effects(project, "notes.txt") == ["a", "b"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["items.results.jsonl", "items.results.jsonl.journal"])
def test_removed_results_file_stops_the_batch(start, project: Project, name: str) -> None:
    write_items(project, {"a": "hang", "b": "", "c": "hang"})
    argv = (
        "batch",
        "worker.yaml",
        "items.jsonl",
        "--concurrency",
        "1",
        "--retries",
        "0",
        "--max-time",
        "1",
    )
    forge = start(*argv)
    _wait_for(project.folder / "hangs-a")
    (project.folder / name).unlink()
    code, told = forge.process.wait(60), forge.process.stderr.read()
    assert (code, f"{name} was removed while it was written" in told) == (1, True)
    assert not (project.folder / "hangs-c").exists()


def test_unwritable_home_is_reported_before_the_first_item(project: Project) -> None:
    write_items(project, {"a": "", "b": ""})
    project.write("file", "")
    done = project.forge(
        "batch", "worker.yaml", "items.jsonl", env={"FORGE_HOME": str(project.folder / "file/home")}
    )
    assert (done.returncode, "no session can be saved: " in done.stderr) == (1, True)
    assert not list(project.folder.glob("items.results*"))


def test_full_disk_stops_the_batch_before_the_model_is_asked(
    cli, project: Project, monkeypatch
) -> None:
    """No log can be made for any item, so that all of them would fail."""
    write_items(project, dict.fromkeys("abcdef", ""))
    opened, asked = os.open, list[str]()

    def full(path, *more, **named):
        if "/sessions/" in str(path) and str(path).endswith(".jsonl"):
            asked.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return opened(path, *more, **named)

    monkeypatch.setattr(os, "open", full)
    done = cli("batch", "worker.yaml", "items.jsonl", "--concurrency", "1")
    assert (done.code, len(asked)) == (1, 1)
    assert (
        "forge: the session's log cannot be written any more: No space left on device\n  make room for "
        in done.err
    )
    assert "--ephemeral" not in done.err
    assert (effects(project, "notes.txt"), results(project)) == ([], [])


def test_key_that_is_not_a_file_name_has_a_folder(cli, project: Project) -> None:
    keys = ["k" * 400, "half\ud800"]
    project.write(
        "items.jsonl",
        "".join(json.dumps({"id": key, "task": f"t{len(key)}"}) + "\n" for key in keys),
    )
    assert cli("batch", "worker.yaml", "items.jsonl", "--each-in", "work/each-{key}").code == 0
    assert statuses(project) == dict.fromkeys(keys, "completed")
    assert len(list((project.folder / "work").glob("each-*"))) == 2


def test_ctrl_c_lets_running_items_save_their_sessions(start, project: Project) -> None:
    write_items(project, {"a": "", "b": "hang", "c": "hang", "d": ""})
    forge = start("batch", "worker.yaml", "items.jsonl", "--json", "--concurrency", "2")
    _wait_for(project.folder / "hangs-b")
    _wait_for(project.folder / "hangs-c")
    forge.signal(signal.SIGINT)
    done = forge.end()
    assert done.code == 130
    assert "the same command resumes the rest" in done.err
    assert statuses(project) == {"a": "completed", "b": "interrupted", "c": "interrupted"}
    project.write("released", "")
    before = {line["key"]: line["result"]["sessionId"] for line in results(project)}
    assert project.forge("batch", "worker.yaml", "items.jsonl").returncode == 0
    after = {line["key"]: line["result"]["sessionId"] for line in results(project)}
    assert set(statuses(project).values()) == {"completed"}
    assert {key: after[key] for key in before} == before


def test_ctrl_c_before_the_executor_starts_ends_at_once(
    cli, install, start, project: Project
) -> None:
    code = """
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from forge_cli import hookimpl
from forge_cli.executors import ExecutorFactory


@asynccontextmanager
async def make(address, env):
    Path("opening").touch()
    await anyio.sleep_forever()
    yield


@hookimpl
def forge_executors():
    return [ExecutorFactory("far", make)]
"""
    site = install("forge-executor-far", "far_executor", code, "executor.far = far_executor")
    write_items(project, {"a": ""})
    forge = start("batch", "worker.yaml", "items.jsonl", "--executor", "far", PYTHONPATH=str(site))
    _wait_for(project.folder / "opening")
    assert cli("batch", "status", "items.results.jsonl").code == 1
    forge.signal(signal.SIGINT)
    done = forge.end()
    assert (done.code, "did not end" in done.err) == (130, False)
    assert not list(project.folder.glob("items.results.*"))


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, f"{path} never came"
        time.sleep(0.01)


def test_two_batches_cannot_write_the_same_results(cli, start, project: Project) -> None:
    write_items(project, {"b": "hang"})
    other = start("batch", "worker.yaml", "items.jsonl", cold=True)
    _wait_for(project.folder / "hangs-b")
    done = cli("batch", "worker.yaml", "items.jsonl")
    assert (done.code, f"in use by another forge batch (pid {other.process.pid})" in done.err) == (
        1,
        True,
    )
    told = cli("batch", "status", "items.results.jsonl", "--json")
    status = json.loads(told.out)
    assert (status["active"], status["counts"]["running"], status["exitCode"], told.code) == (
        True,
        1,
        1,
        1,
    )


def test_torn_result_line_is_dropped_and_a_lost_one_restored_from_its_session(
    cli, project: Project
) -> None:
    write_items(project, {"a": "", "b": ""})
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    whole = project.read("items.results.jsonl")
    project.write("items.results.jsonl", whole[:-20])
    assert cli("batch", "status", "items.results.jsonl").code == 1
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    assert sorted(project.read("items.results.jsonl")) == sorted(whole)
    assert effects(project, "notes.txt") == ["a", "b"]


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["worker.yaml", "none.jsonl"], 3, "none.jsonl:1:1: there is no such file or folder"),
        (["worker.yaml", "items.jsonl", "--task", "{x}"], 2, "there is no field 'x'"),
        (["worker.yaml", "items.jsonl", "b.jsonl"], 2, "one argument too many"),
        (["worker.yaml", "items.jsonl", "-o", "no/such"], 2, "name a regular file in a folder"),
        (["worker.yaml", "", "--task", "{path}"], 2, "Invalid value for 'INPUTS': it is empty"),
        (["worker.yaml", "items.jsonl", "-o", "-"], 2, "-o -: the results need a file"),
        (["worker.yaml", "items.jsonl", "-o", "pipe"], 2, "name a regular file in a folder"),
        (
            ["worker.yaml", "items.jsonl", "--each-in", ""],
            2,
            "Invalid value for '--each-in': it is empty",
        ),
        (
            ["worker.yaml", "items.jsonl", "--each-in", "items.jsonl"],
            2,
            "items.jsonl is not a folder",
        ),
        (
            ["worker.yaml", "items.jsonl", "--each-in", "items.jsonl/x/{key}"],
            2,
            "items.jsonl is not a folder",
        ),
        (
            ["worker.yaml", "items.jsonl", "--each-in", "work/{id}"],
            2,
            "--each-in: unknown field {id}",
        ),
        (
            ["worker.yaml", "items.jsonl", "--executor", "nobody"],
            3,
            "there is no executor 'nobody'",
        ),
        (["worker.yaml", "items.jsonl", "--executor", "local:x"], 2, "has no address"),
        (
            ["worker.yaml", "items.jsonl", "-m", "nobody:x"],
            3,
            "there is no model provider 'nobody'",
        ),
        (
            ["worker.yaml", "items.jsonl", "--max-cost", "1"],
            3,
            "the price of drawn:model is unknown",
        ),
        (["nobody", "items.jsonl"], 3, "there is no worker 'nobody'"),
    ],
)
def test_impossible_batch_is_one_message_without_side_effects(
    cli, project: Project, words: list[str], code: int, problem: str
) -> None:
    write_items(project, {"a": "", "b": ""})
    os.mkfifo(project.folder / "pipe")
    done = cli("batch", *words)
    assert (done.code, done.out) == (code, "")
    assert problem in done.err
    assert (project.folder / "pipe").is_fifo()
    found, journal = (project.folder / f"items.results.jsonl{end}" for end in ("", ".journal"))
    assert not found.exists() or (found.read_text() == "" and journal.stat().st_size)
    assert found.exists() == journal.exists()


def test_each_item_has_the_folders_of_its_zones(cli, project: Project) -> None:
    """Also if a tool of the previous item has removed one."""
    project.write("tools.py", "import shutil\n\n\ndef clear() -> None:\n    shutil.rmtree('out')\n")
    project.write(
        "script.yaml",
        "turns: [{calls: [{tool: list_dir, input: {path: /out}}]}, {calls: [{tool: clear}]}, {text: done}]",
    )
    project.write(
        "worker.yaml",
        "name: cleaner\nmodel: script:script.yaml\nsandbox: {zones: [{name: out, mode: rw}]}\n"
        "toolsets: {filesystem: {}, custom: {module: tools.py, tools: [clear], approval: {default: preApproved}}}\n",
    )
    write_items(project, {"a": "", "b": ""})
    assert cli("batch", "worker.yaml", "items.jsonl", "--concurrency", "1").code == 0
    logs = [log.read_text() for log in (project.home / "sessions").glob("*.jsonl")]
    assert [log.count('"status": "success"') for log in logs] == [2, 2]


def test_item_whose_log_is_removed_fails(cli, project: Project) -> None:
    write_items(project, {"a": "lose", "b": ""})
    assert cli("batch", "worker.yaml", "items.jsonl").code == 1
    assert statuses(project) == {"a": "failed", "b": "completed"}
    (lost,) = (line["result"] for line in results(project) if line["key"] == "a")
    assert lost["error"].startswith("the session's log was removed while it was written")


def test_results_without_their_journal_are_not_changed(cli, project: Project) -> None:
    write_items(project, {"a": ""})
    project.write("items.results.jsonl", "mine\n")
    done = cli("batch", "worker.yaml", "items.jsonl")
    assert (done.code, project.read("items.results.jsonl")) == (2, "mine\n")
    assert cli("batch", "status", "items.results.jsonl").code == 3
    project.write("killed.jsonl.journal", "")
    assert cli("batch", "status", "killed.jsonl").code == 3


def test_existing_file_stays_if_the_batch_does_not_start(cli, project: Project) -> None:
    project.write("mine.jsonl", "")
    (project.folder / "link.jsonl").symlink_to("nothing.jsonl")
    for name in ("mine.jsonl", "link.jsonl"):
        assert cli("batch", "worker.yaml", "none.jsonl", "-o", name).code == 3
    assert project.read("mine.jsonl") == ""
    assert (project.folder / "link.jsonl").is_symlink()
    assert not list(project.folder.glob("*.journal"))


def test_results_with_an_empty_journal_are_not_repeated(cli, project: Project) -> None:
    write_items(project, {"a": ""})
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    project.write("items.results.jsonl.journal", "")
    assert cli("batch", "status", "items.results.jsonl").code == 3
    done = cli("batch", "worker.yaml", "items.jsonl")
    assert (done.code, effects(project, "notes.txt")) == (2, ["a"])
    assert "the file exists, but the journal of a batch does not" in done.err


def test_power_cut_leaves_no_item_with_another_session(cli, project: Project, monkeypatch) -> None:
    """The files on disk when an item starts and when its end is reported."""
    disk = {"items.results.jsonl": b"", "items.results.jsonl.journal": b""}
    begun: list[str] = []

    def sync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        names = [name for name in disk if os.path.samestat((project.folder / name).stat(), found)]
        disk.update({name: os.pread(descriptor, found.st_size, 0) for name in names})
        assert all(
            json.loads(line)["key"] in begun for line in disk["items.results.jsonl"].splitlines()
        )

    def submit(executor: LocalExecutor, item: BatchItem) -> None:
        journal = [json.loads(line) for line in disk["items.results.jsonl.journal"].splitlines()]
        assert (item.key, item.session) in [
            (line.get("key"), line.get("session")) for line in journal
        ]
        begun.append(item.key)
        submitted(executor, item)

    submitted = LocalExecutor.submit
    monkeypatch.setattr("forge_cli.files.lock.sync_data", sync)
    monkeypatch.setattr(LocalExecutor, "submit", submit)
    write_items(project, {key: "flaky" if key in "bd" else "" for key in "abcdef"})
    assert cli("batch", "worker.yaml", "items.jsonl", "--concurrency", "2").code == 0
    assert set(begun) == set("abcdef")
    assert disk["items.results.jsonl"].decode() == project.read("items.results.jsonl")


@pytest.mark.parametrize("name", [".", "/", "worker.yaml", "nothing"])
def test_status_of_a_file_that_is_no_batch_is_one_message(cli, project: Project, name: str) -> None:
    done = cli("batch", "status", name)
    assert (done.code, done.err.splitlines()[0]) == (
        3,
        f"forge: {name}:1:1: there is no such batch",
    )


@pytest.mark.parametrize(
    "edited", [{"usage": [1]}, {"usage": {"input_tokens": "many"}}, {"cost": "free"}]
)
def test_status_of_edited_results_is_one_message(cli, project: Project, edited: dict) -> None:
    write_items(project, {"a": ""})
    assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    line = json.loads(project.read("items.results.jsonl"))
    line["result"] |= edited
    project.write("items.results.jsonl", json.dumps(line) + "\n")
    done = cli("batch", "status", "items.results.jsonl")
    assert (done.code, done.err) == (
        3,
        "forge: items.results.jsonl:1:1: this is not a results file of forge batch\n",
    )


def test_session_folder_is_not_listed_for_every_item(cli, project: Project, monkeypatch) -> None:
    def count(path: str | Path = ".") -> list[str]:
        listed.append(str(path))
        return listdir(path)

    listed, listdir = list[str](), os.listdir
    monkeypatch.setattr(os, "listdir", count)
    project.write("reader.yaml", "{name: reader, instructions: Read., toolsets: {filesystem: {}}}")
    project.write(
        "script.yaml",
        "turns: [{calls: [{tool: read_file, input: {path: items.jsonl}}]}, {text: Done.}]",
    )
    write_items(project, dict.fromkeys("abcdef", ""))
    assert cli("batch", "reader.yaml", "items.jsonl", "-m", "script:script.yaml").code == 0
    assert listed.count(str(project.home / "sessions")) == 1


def test_executor_may_come_from_a_package(install, project: Project) -> None:
    code = """
from contextlib import asynccontextmanager
from pathlib import Path

from forge_cli import hookimpl
from forge_cli.executors import ExecutorFactory
from forge_cli.engine.batch.local import make_local


@asynccontextmanager
async def make(address, env):
    Path("address").write_text(f"{address} {env.concurrency}")
    async with make_local("", env) as executor:
        yield executor


@hookimpl
def forge_executors():
    return [ExecutorFactory("far", make)]
"""
    site = install("forge-executor-far", "far_executor", code, "executor.far = far_executor")
    write_items(project, {"a": ""})
    words = (
        "batch",
        "worker.yaml",
        "items.jsonl",
        "--executor",
        "far:tcp://host:1",
        "--concurrency",
        "3",
    )
    done = project.forge(*words, env={"PYTHONPATH": str(site)})
    assert (done.returncode, project.read("address"), statuses(project)) == (
        0,
        "tcp://host:1 3",
        {"a": "completed"},
    )
