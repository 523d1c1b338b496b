"""Control sockets: which answers, messages and clients of a session at work count, and which do not.

Covers forge_cli.record.control, forge_cli.record.control_client, forge_cli.record.socket_files,
forge_cli.record.pending.
"""

import json
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from msgspec.structs import replace

from forge_cli.core.actions import ApprovalResponse, Interrupt, UserInput
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.bus import EventBus
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    Event,
    SessionStart,
    ToolResult,
)
from forge_cli.core.results import Text
from forge_cli.record.control import ControlSocket, Receipt
from forge_cli.record.control_client import ControlClient, NotListening
from forge_cli.record.line import Line
from forge_cli.record.pending import AlreadyAnswered, answer_request, may_be_asking, open_requests
from forge_cli.record.places import session_file
from forge_cli.record.recorder import Recorder, SessionLog
from forge_cli.record.socket_files import prove_client, socket_file
from forge_cli.sandbox.secrets import Redactor, own_redactor
from tests.support.approval import new_request

YES = ApprovalDecision(True, via="a test")
NO = ApprovalDecision(False, note="not today", via="another test")
AT_HAND = ApprovalDecision(False, note="at hand")
Client = Callable[[Path, ApprovalRequest], Any]


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / "home"))


def asked(*clients: Client) -> tuple[ApprovalDecision, list[Event], list[Any]]:
    """Ask in a session at work, with clients one after the other; at last the person at hand says no."""
    bus = EventBus()
    seen: list[Event] = []
    came_of_it: list[Any] = []
    request = new_request(request_id="approval_1", fingerprint="f", stamp="s")

    async def main() -> ApprovalDecision:
        path = session_file("s1")
        with SessionLog.create(path) as log, anyio.fail_after(60):
            bus.subscribe(Recorder(log, session="s1", worker="w", redactor=own_redactor()))
            bus.subscribe(seen.append, answers=True)
            control = ControlSocket(
                bus, log.path, on_message=lambda said: Receipt(said.content == "hello", "not so")
            )
            control.open()

            async def elsewhere() -> None:
                for client in clients:
                    came_of_it.append(await to_thread.run_sync(client, path, request))
                bus.answer(request.request_id, AT_HAND)

            async with anyio.create_task_group() as tasks:
                bus.emit(SessionStart("m", "/", "interactive"))
                tasks.start_soon(elsewhere)
                decision = await bus.ask(request)
            await control.aclose()
            assert not socket_file(path).exists()
            return decision

    return anyio.run(main), seen, came_of_it


def gives(decision: ApprovalDecision, **changes: Any) -> Client:
    def client(path: Path, request: ApprovalRequest) -> Receipt | None:
        with ControlClient(path) as connection:
            return connection.answer(replace(request, **changes), decision)

    return client


def test_first_answer_counts_and_the_second_client_learns_which_it_was() -> None:
    decision, seen, receipts = asked(gives(YES), gives(NO))
    assert decision == YES
    assert receipts[0] == Receipt(True)
    assert (receipts[1].counted, receipts[1].decision) == (False, YES)
    answers = [event.decision for event in seen if isinstance(event, ApprovalResponse)]
    assert answers == [YES, AT_HAND]  # the last is that of the test itself


def test_answer_through_the_log_names_the_answer_that_counted() -> None:
    def answers(path: Path, request: ApprovalRequest) -> str:
        try:
            answer_request(path, request.request_id, NO)
        except AlreadyAnswered as error:
            return str(error)
        return "taken"

    decision, _, (first, second) = asked(answers, answers)
    assert decision == NO
    assert first == "taken"
    assert second.startswith("approval_1 is already answered: no, by another test, at ")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"request_id": "approval_other"}, "no longer asked"),
        ({"fingerprint": "other"}, "the call has changed since it was shown"),
        ({"stamp": "other"}, "the call has changed since it was shown"),
        ({"stamp": None}, "the call has changed since it was shown"),
    ],
)
def test_answer_to_another_call_does_not_count(changes: dict[str, Any], reason: str) -> None:
    decision, _, receipts = asked(gives(YES, **changes))
    assert decision == AT_HAND
    assert receipts == [Receipt(False, reason)]


def test_client_without_the_key_of_the_user_is_not_heard() -> None:
    def client(path: Path, request: ApprovalRequest) -> bytes:
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(30)
            raw.connect(str(socket_file(path)))
            answer = {"type": "approvalResponse", "requestId": request.request_id, "approved": True}
            raw.sendall(b'{"type": "hello", "proof": "x"}\n' + json.dumps(answer).encode() + b"\n")
            return raw.makefile("rb").read()

    decision, _, (said,) = asked(client)
    assert decision == AT_HAND
    assert [json.loads(line)["type"] for line in said.splitlines()] == ["hello"]


def test_proof_of_another_connection_is_not_accepted() -> None:
    def client(path: Path, request: ApprovalRequest) -> None:
        with socket.socket(socket.AF_UNIX) as hello:
            hello.settimeout(30)
            hello.connect(str(socket_file(path)))
            nonce = json.loads(hello.makefile("rb").readline())["nonce"]
            # A proof is for one connection: that of another one does not count.
            with socket.socket(socket.AF_UNIX) as other:
                other.settimeout(30)
                other.connect(str(socket_file(path)))
                proof = {"type": "hello", "proof": prove_client(nonce, "s1")}
                other.sendall(json.dumps(proof).encode() + b"\n")
                said = other.makefile("rb").read()
        assert [json.loads(line)["type"] for line in said.splitlines()] == ["hello"]

    assert asked(client)[0] == AT_HAND


@pytest.mark.parametrize(
    "text", ["yes", "[]", "1", '{"type": 1}', "[" * 10_000, "x" * (2 << 20), '{"proof": null}', ""]
)
def test_nonsense_of_a_client_does_no_harm(text: str) -> None:
    def client(path: Path, request: ApprovalRequest) -> None:
        with socket.socket(socket.AF_UNIX) as raw, suppress(OSError):
            raw.settimeout(30)
            raw.connect(str(socket_file(path)))
            raw.sendall(text.encode() + b"\n")
            raw.makefile("rb").read()

    decision, _, receipts = asked(client, gives(YES))
    assert (decision, receipts[1]) == (YES, Receipt(True))


def test_socket_belongs_to_the_user_alone() -> None:
    def client(path: Path, request: ApprovalRequest) -> list[int]:
        file = socket_file(path)
        return [stat.S_IMODE(os.stat(each).st_mode) for each in (file, file.parent)]

    assert asked(client)[2] == [[0o600, 0o700]]


def test_messages_and_interrupts_get_receipts() -> None:
    def client(path: Path, request: ApprovalRequest) -> list[Receipt | None]:
        with ControlClient(path) as connection:
            return [
                connection.send(UserInput("m1", "hello")),
                connection.send(UserInput("m2", "other")),
                connection.send(Interrupt("enough")),
                connection.send(SessionStart("m", "/", "interactive")),
            ]

    _, seen, (receipts,) = asked(client)
    assert receipts == [
        Receipt(True, "not so"),
        Receipt(False, "not so"),
        Receipt(True),
        Receipt(False, "sessionStart: not possible in this session"),
    ]
    assert [event.reason for event in seen if isinstance(event, Interrupt)] == ["enough"]


def test_socket_works_at_a_long_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / ("x" * 100) / ("y" * 100)))
    assert asked(gives(YES))[0] == YES


def test_socket_of_a_killed_process_is_none_and_is_replaced(monkeypatch, tmp_path: Path) -> None:
    path = session_file("s1")
    socket_file(path).parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(socket_file(path)))
    with pytest.raises(NotListening):
        ControlClient(path)
    assert asked(gives(YES))[0] == YES


def lines(*events: Event) -> list[Line]:
    made = list[Line]()
    for event in events:
        after = made[-1] if made else None
        made.append(
            Line.of(event, session="s", worker="w", depth=0, redactor=Redactor({}), after=after)
        )
    return made


START, ASK = (
    SessionStart("m", "/", "interactive"),
    ApprovalRequired(new_request(request_id="approval_1")),
)
CALL = ASK.request.tool_call_id


@pytest.mark.parametrize(
    ("more", "open_ids", "may"),
    [
        ([], ["approval_1"], True),
        ([ApprovalResponse("approval_1", YES)], [], False),
        ([ApprovalResponse("approval_2", YES)], ["approval_1"], True),
        (
            [
                ApprovalDecided(
                    CALL, "ask", True, "user", None, None, "", False, request_id="approval_1"
                )
            ],
            [],
            False,
        ),
        ([ToolResult(CALL, "t", "interrupted", Text(""), 1)], [], True),
        ([START], [], True),
    ],
)
def test_open_requests_of_a_running_session_are_listed(
    more: list[Event], open_ids: list[str], may: bool, tmp_path: Path
) -> None:
    made = lines(START, ASK, *more)
    assert [waiting.id for waiting in open_requests(made)] == open_ids
    file = tmp_path / "s.jsonl"
    file.write_text("".join(line.text() for line in made))
    assert may_be_asking(file) is may


def test_log_without_a_request_has_no_open_question(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(lines(START)[0].text())
    assert not may_be_asking(file)
    assert not may_be_asking(tmp_path / "none.jsonl")
