"""The toolset ``memory``: notes of a worker's own that outlive its sessions, saved only with consent."""

from pathlib import Path
from typing import Any

import pytest

from forge_cli import ApprovalDecision
from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.events import ApprovalDecided
from forge_cli.core.results import Diff, FileContent
from forge_cli.testing import Project, Seen, call, calls
from tests.support.listener import Listener

OUTSIDE = [
    "../other/topic",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a/b",
    "A",
    "topic.md",
    "-a",
    "a b",
    "é",
    "a\n",
    "x" * 65,
]


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("worker.yaml", "name: w\ntoolsets: {memory: {}}\n")
    project.write("other.yaml", "name: other\ntoolsets: {memory: {}}\n")
    return project


def save(project: Project, memory_id: str, content: str, *answers: Any, **options: Any) -> Seen:
    saving = calls(call("save_memory", memory_id=memory_id, content=content))
    return project.run(saving, "{result}", answers=answers or [True], **options)


def get(project: Project, memory_id: str, **options: Any) -> Seen:
    return project.run(calls(call("get_memory", memory_id=memory_id)), "{result}", **options)


def note(project: Project) -> Path:
    """The one note on prices."""
    (file,) = (project.home / "memory").glob("w-*/prices.md")
    return file


def test_worker_of_the_same_name_elsewhere_has_its_own_notes(worker: Project) -> None:
    worker.write("clone/worker.yaml", worker.read("worker.yaml"))
    (worker.folder / "link").symlink_to(worker.folder, target_is_directory=True)
    save(worker, "prices", "bread: 2\n")
    assert get(worker, "prices", worker="clone/worker.yaml").statuses == ["error"]
    assert get(worker, "prices", worker="link/worker.yaml").statuses == ["success"]
    save(worker, "prices", "bread: 9\n", worker="clone/worker.yaml")
    assert get(worker, "prices").result.response == "bread: 2\n"


def test_note_survives_the_session(worker: Project) -> None:
    assert save(worker, "prices", "# Prices\r\nbread: 2\n").statuses == ["success"]
    seen = get(worker, "prices")
    assert seen.outcomes[0].value == FileContent("prices", "# Prices\r\nbread: 2\n", size=19)
    assert seen.result.response == "# Prices\r\nbread: 2\n"
    assert [decided.verdict for decided in seen.of(ApprovalDecided)] == ["preApproved"]
    file = note(worker)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"# Prices\r\nbread: 2\n", 0o600)


def test_saving_a_note_asks_and_shows_the_change(worker: Project) -> None:
    save(worker, "prices", "bread: 2\n")
    seen = save(worker, "prices", "bread: 3\n")
    (request,) = seen.asked
    change = Diff("prices", "bread: 2\n", "bread: 3\n", is_new=False, bytes_written=9)
    assert (request.preview, request.risk) == (change, "medium")
    assert seen.outcomes[0].value == change


@pytest.mark.parametrize("before", [None, "bread: 2\n"])
def test_denied_note_is_not_saved(worker: Project, before: str | None) -> None:
    if before is not None:
        save(worker, "prices", before)
    assert save(worker, "prices", "bread: 3\n", False).statuses == ["denied"]
    headless = worker.run(calls(call("save_memory", memory_id="prices", content="x")), "done")
    assert headless.statuses == ["denied"]
    assert get(worker, "prices").statuses == (["error"] if before is None else ["success"])


def test_note_changed_meanwhile_is_shown_again(worker: Project) -> None:
    save(worker, "prices", "bread: 2\n")
    asked: list[ApprovalRequest] = []

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        if len(asked) == 1:
            note(worker).write_text("milk: 1\n")
        return ApprovalDecision(True)

    saving = calls(call("save_memory", memory_id="prices", content="bread: 3\n"))
    seen = worker.run(saving, "done", approval_callback=answer)
    assert [request.preview.original for request in asked] == ["bread: 2\n", "milk: 1\n"]
    assert seen.outcomes[0].value.original == "milk: 1\n"


def test_workers_have_separate_notes(worker: Project) -> None:
    save(worker, "prices", "bread: 2\n")
    seen = get(worker, "prices", worker="other.yaml")
    assert (seen.statuses, seen.result.response) == (
        ["error"],
        "there is no note on 'prices'; known topics: none yet",
    )


def test_unknown_topic_lists_the_known_ones(worker: Project) -> None:
    save(worker, "prices", "")
    save(worker, "customers", "")
    assert (
        get(worker, "price").result.response
        == "there is no note on 'price'; known topics: customers, prices"
    )


@pytest.mark.few(5)
@pytest.mark.parametrize("memory_id", OUTSIDE)
def test_topic_is_not_a_path(worker: Project, memory_id: str) -> None:
    assert get(worker, memory_id).statuses == ["invalid"]
    seen = save(worker, memory_id, "x")
    assert (seen.statuses, seen.asked) == (["invalid"], [])
    assert not worker.home.joinpath("memory").exists()


def test_note_has_a_size_limit(worker: Project) -> None:
    assert save(worker, "long", "x" * 256 * 1024).statuses == ["success"]
    assert save(worker, "long", "x" * (256 * 1024 + 1)).statuses == ["invalid"]


def test_memory_failure_is_reported(worker: Project) -> None:
    worker.home.mkdir()
    (worker.home / "memory").write_text("in the way")
    seen = save(worker, "prices", "x")
    assert (seen.statuses, seen.asked) == (["error"], [])
    assert "the note on 'prices' cannot be read: Not a directory" in seen.result.response


def test_prompt_lists_the_topics(worker: Project) -> None:
    save(worker, "prices", "")
    model = Listener()
    worker.run(model=model)
    told, _, _ = model.system[0].partition("\n\n")
    assert told == "get_memory reads notes from earlier sessions. Topics: prices."
