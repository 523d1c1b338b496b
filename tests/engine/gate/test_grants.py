"""Session grants: possible grants, their effect and their limits."""

import dataclasses
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forge_cli import Approval, ApprovalDecision, ApprovalRequest, Verdict
from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import THIS_CALL
from forge_cli.core.events import ApprovalDecided, ApprovalRequired
from forge_cli.core.zones import ZoneApproval
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.policy import Policy
from forge_cli.events import GrantOffer, GrantRule
from forge_cli.record.resume import Resumed, read_past
from forge_cli.schema.toolset import ApprovalConfig
from forge_cli.testing import Project, Seen, call, calls
from tests.engine.conftest import Gate, OpenGate, Recorded

pytestmark = pytest.mark.anyio

EVERY_CALL = GrantRule(
    ("toolsets", "box", "approval", "tools", "act"), "preApproved", "every call of act"
)
HOST = GrantRule(("hosts", "-"), "example.org", "pages of example.org", user_at=("hosts", "-"))
WORKER = """
name: coder
sandbox:
  zones:
    - {name: code, path: ., mode: rw}
    - {name: other, mode: rw}
    - {name: closed, mode: rw, approval: {write: blocked}}
toolsets:
  filesystem: {}
  shell:
    try: off
    rules:
      - {pattern: "git push", approval: ask, reason: people push}
      - {pattern: "git tag", approval: blocked}
"""
PATCH = "*** Begin Patch\n*** Update File: /code/a.txt\n-one\n+{}\n*** End Patch"


def granted(offer: GrantOffer) -> ApprovalDecision:
    return ApprovalDecision(True, remember="session", grant=offer)


def choosing(*numbers: int | None) -> Any:
    """A person who takes the offers with these numbers, one a question; None is a no."""
    waiting = list(numbers)

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        assert waiting, f"asked once more than expected: {request.args}"
        number = waiting.pop(0)
        return (
            ApprovalDecision(False) if number is None else granted((request.offers or ())[number])
        )

    return answer


def policy(**said: Any) -> Policy:
    return Policy.of(ApprovalConfig.model_validate(said), "act", "box")


@pytest.fixture
def coder(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("a.txt", "one\n")
    return project


def run(project: Project, *made: Any, choose: list[int | None], **options: Any) -> Seen:
    """Calls of the model, one a turn, and the numbers of the offers that a person takes."""
    seen_requests: list[ApprovalRequest] = []
    answer = choosing(*choose)

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        seen_requests.append(request)
        decision: ApprovalDecision = await answer(request)
        return decision

    seen = project.run(*(calls(each) for each in made), "Done.", approval_callback=ask, **options)
    seen.asked = seen_requests
    return seen


def texts(request: ApprovalRequest) -> list[str]:
    return [offer.text for offer in request.offers or ()]


def shell(command: str) -> Any:
    return call("shell", command=command)


def write(path: str, content: str = "x") -> Any:
    return call("write_file", path=path, content=content)


# --- tools


async def test_tool_without_own_approval_can_be_granted_like_in_the_worker(gate: OpenGate) -> None:
    act = Recorded()
    opened = gate(act.tool, answers=choosing(1), policy=policy())
    await opened("act", text="a")
    opened.events.clear()
    await opened("act", text="b")
    assert opened.asked[0].offers == (THIS_CALL, GrantOffer("every call of act", (EVERY_CALL,)))
    decided = next(event for event in opened.happened if isinstance(event, ApprovalDecided))
    assert decided == ApprovalDecided(
        "c2",
        verdict="ask",
        approved=True,
        by="memory",
        rule=None,
        where=None,
        reason="neither the tool nor the worker says anything, so it asks; "
        "allowed in this session by toolsets.box.approval.tools.act: preApproved",
        cached=True,
        grant=GrantOffer("every call of act", (EVERY_CALL,)),
    )
    assert act.executed == [{"text": "a"}, {"text": "b"}]


@pytest.mark.parametrize(
    "yes", [{"approved": True, "remember": "session"}, granted(THIS_CALL)], ids=["dict", "offer"]
)
async def test_program_that_remembers_a_yes_remembers_the_exact_call(
    gate: OpenGate, yes: Any
) -> None:
    act = Recorded()
    opened = gate(act.tool, answers=[yes, False], policy=policy())
    for text in "aab":
        await opened("act", text=text)
    assert [request.args for request in opened.asked] == [{"text": "a"}, {"text": "b"}]
    assert act.executed == [{"text": "a"}, {"text": "a"}]


async def test_grant_is_in_the_log_as_text_and_as_data(gate: OpenGate) -> None:
    opened = gate(Recorded().tool, answers=choosing(1), policy=policy())
    await opened("act", text="a")
    rule = {
        "at": ["toolsets", "box", "approval", "tools", "act"],
        "says": "preApproved",
        "title": "every call of act",
    }
    decided, response, required = (
        next(event for event in opened.events if isinstance(event, kind)).payload()
        for kind in (ApprovalDecided, ApprovalResponse, ApprovalRequired)
    )
    assert decided["grant"] == {"text": "every call of act", "rules": [rule]}
    assert response["grant"] == {"text": "every call of act", "rules": [rule], "covers": 0}
    assert required["offers"] == [
        {"text": "this exact call", "rules": [], "covers": 0},
        {"text": "every call of act", "rules": [rule], "covers": 0},
    ]
    for event in opened.events:
        assert type(event).read(event.payload()) == event


async def test_grant_overrides_the_default_of_a_worker_but_not_its_explicit_ask(
    gate: OpenGate,
) -> None:
    for said, offered in (
        ({"default": "ask"}, 2),
        ({"tools": {"act": "ask"}}, 1),
        ({"default": "preApproved", "tools": {"act": "ask"}}, 1),
    ):
        opened = gate(Recorded().tool, answers=[False], policy=policy(**said))
        await opened("act", text="a")
        assert len(opened.asked[0].offers or ()) == offered, said


async def test_grant_does_not_loosen_a_tool_that_requires_approval(gate: OpenGate) -> None:
    opened = gate(Recorded(needs_approval=True).tool, answers=[False], policy=policy())
    await opened("act", text="a")
    assert opened.asked[0].offers == (THIS_CALL,)


async def test_tool_offers_rules_of_its_own_section(gate: OpenGate) -> None:
    def by_host(args: dict[str, Any]) -> Verdict:
        return Verdict(Approval.ASK, "it asks", grants=[[replace(HOST, says=args["text"])]])

    act = Recorded(needs_approval=by_host)
    opened = gate(act.tool, answers=choosing(1, None), policy=policy())
    await opened("act", text="example.org")
    assert (await opened("act", text="example.org")).ok
    assert not (await opened("act", text="example.com")).ok
    rule = (opened.asked[0].offers or ())[1].rules[0]
    assert (rule.at, rule.user_at) == (
        ("toolsets", "box", "hosts", "-"),
        ("policy", "box", "hosts", "-"),
    )
    assert str(rule) == "toolsets.box.hosts: [example.org]"


@pytest.mark.parametrize("needs", [[[]], [[HOST], []]])
async def test_approval_need_without_a_rule_offers_no_grant(gate: OpenGate, needs: Any) -> None:
    verdict = Verdict(Approval.ASK, "it asks", grants=needs)
    opened = gate(
        Recorded(needs_approval=lambda args: verdict).tool, answers=[False], policy=policy()
    )
    await opened("act", text="a")
    assert opened.asked[0].offers == (THIS_CALL,)


async def test_failed_check_offers_a_grant_for_this_call_only(gate: OpenGate) -> None:
    def broken(args: dict[str, Any]) -> Verdict:
        raise ValueError("broken")

    opened = gate(Recorded(needs_approval=broken).tool, answers=[False], policy=policy())
    await opened("act", text="a")
    assert opened.asked[0].offers == (THIS_CALL,)


async def test_grant_is_bound_to_the_content_of_the_tool(gate: OpenGate) -> None:
    act = Recorded(digest="one")
    opened = gate(act.tool, answers=choosing(1, None), policy=policy())
    await opened("act", text="a")
    assert (await opened("act", text="b")).ok
    opened.offers["act"] = Offer(dataclasses.replace(act.tool, digest="two"), "box", policy())
    assert not (await opened("act", text="b")).ok


async def test_only_an_offered_grant_is_remembered(gate: OpenGate) -> None:
    everything = GrantOffer("everything", (replace(EVERY_CALL, key="k"),))
    opened = gate(
        Recorded(needs_approval=True).tool, answers=[granted(everything), False], policy=policy()
    )
    assert (await opened("act", text="a")).ok
    assert (
        next(event for event in opened.events if isinstance(event, ApprovalDecided)).grant is None
    )
    assert not (await opened("act", text="a")).ok


async def test_waiting_calls_are_covered_by_a_grant_from_the_prompt_before(
    gate: OpenGate,
) -> None:
    opened = gate(Recorded().tool, answers=choosing(1), policy=policy())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for text in "abc":
                tasks.start_soon(lambda text=text: opened("act", text=text))
    assert len(opened.asked) == 1


async def test_no_grant_is_offered_if_nobody_is_asked(gate: OpenGate) -> None:
    opened = gate(Recorded().tool, policy=policy())
    await opened("act", text="a")
    required = next(event for event in opened.events if isinstance(event, ApprovalRequired))
    assert (required.request.offers, required.request.policy_files) == (None, None)


async def test_written_rule_keeps_earlier_grants(gate: OpenGate) -> None:
    other = Recorded("other")
    written = GrantOffer("every call of act", (EVERY_CALL,), written="worker.yaml")
    yes = ApprovalDecision(True, remember="session")
    opened = gate(Recorded().tool, other.tool, answers=[yes, granted(written)], policy=policy())
    opened.offers["other"] = Offer(other.tool, "box", Policy())
    await opened("other", text="a")
    assert (await opened("other", text="a")).ok
    await opened("act", text="a")
    assert (await opened("act", text="b")).ok
    assert (await opened("other", text="a")).ok


# --- commands and files


def test_grant_covers_commands_with_the_same_beginning(coder: Project) -> None:
    made = [
        shell("ls -l | tail -1"),
        shell("tail -2 a.txt"),
        shell("ls; ls -a"),
        shell("wc -l a.txt"),
    ]
    seen = run(coder, *made, choose=[1, None])
    assert texts(seen.asked[0]) == [
        "this exact call",
        "commands that begin with ls and commands that begin with tail",
    ]
    assert seen.statuses == ["success", "success", "success", "denied"]
    memory = [event for event in seen.of(ApprovalDecided) if event.by == "memory"]
    assert [str(rule) for event in memory for rule in (event.grant or THIS_CALL).rules] == [
        "toolsets.shell.rules: [{pattern: tail, approval: preApproved}]",
        "toolsets.shell.rules: [{pattern: ls, approval: preApproved}]",
    ]


FORMS = {
    "git checkout -b x": "git checkout -b",
    "git switch -c x": "git switch -c",
    "git stash push -m x": "git stash push",
    "git stash -u": "git stash push",
    "git branch x": "git branch",
    "git pull": "git pull",
    "git commit -m x": "git commit",
    "git -C sub checkout -b x": "git -C sub checkout -b",
}
DISCARDING = [
    *(
        "git checkout -- a.txt",
        "git checkout a.txt",
        "git checkout .",
        "git checkout -f x",
        "git checkout -B x",
    ),
    *(
        "git checkout -b x -f",
        "git checkout HEAD a.txt",
        "git restore a.txt",
        "git reset --hard",
        "git clean -fd",
    ),
    *(
        "git rebase main",
        "git stash pop",
        "git stash drop",
        "git stash clear",
        "git switch -C x",
        "git switch -f x",
    ),
    *(
        "git switch -c x --discard-changes",
        "git switch --discard-changes x",
        "git branch -D x",
        "git branch -f x y",
    ),
    *(
        "git branch -m x y",
        "git pull --rebase",
        "git pull origin +x:x",
        "git commit --amend -m x",
        "git tag -f x",
    ),
    *(
        "git push --force",
        "git push origin +main",
        "git push origin :x",
        "git push --mirror",
        "git push -d o x",
    ),
    *(
        "git -C sub checkout .",
        "git -C sub checkout -b x -f",
        "git -C sub reset --hard",
        "git -c alias.x=reset x",
    ),
    *(
        "env A=1 git checkout -f x",
        "git checkout -b x; git checkout .",
        "git stash && git stash drop",
    ),
]


@pytest.mark.few(5)
@pytest.mark.parametrize("line", FORMS)
def test_grant_for_git_covers_a_form_and_discarding_asks_each_time(
    coder: Project, line: str
) -> None:
    (coder.folder / "sub").mkdir()
    (coder.folder / "worker.yaml").write_text(
        "name: coder\nprovenance: {after_untrusted: {other: 'off'}}\ntoolsets: {shell: {try: off}}\n"
    )
    seen = run(coder, shell(line), *map(shell, DISCARDING), choose=[1, *[None] * len(DISCARDING)])
    first, *others = map(texts, seen.asked)
    stash = FORMS[line] == "git stash push"
    more = (
        "or with git stash and no subcommand" if stash else "but for forms that discard or rewrite"
    )
    assert first[:2] == ["this exact call", f"commands that begin with {FORMS[line]}, {more}"]
    assert others == [["this exact call"]] * len(DISCARDING)


def test_grant_does_not_cover_what_a_rule_blocks_or_asks(coder: Project) -> None:
    made = [
        shell("git status"),
        shell("git push"),
        shell("git tag x"),
        shell("git status; git push"),
        shell("git $x"),
    ]
    seen = run(coder, *made, choose=[1, None, None, None])
    assert [texts(request) for request in seen.asked] == [
        ["this exact call", "commands that begin with git status"],
        *[["this exact call"]] * 3,
    ]
    assert seen.statuses[1:] == ["denied", "blocked", "denied", "denied"]


def test_command_that_names_a_protected_file_asks(coder: Project) -> None:
    made = [
        shell("ls a.txt"),
        shell("ls .git/config"),
        shell("ls --x=.env"),
        shell("ls .e*"),
        shell("ls worker.yaml"),
    ]
    seen = run(coder, *made, choose=[1, None, None, None, None])
    assert [texts(request) for request in seen.asked[1:]] == [["this exact call"]] * 4


def test_command_that_names_a_file_of_the_worker_asks(coder: Project) -> None:
    (coder.folder / "worker.yaml").rename(coder.folder / "mine.yaml")
    (coder.folder / "linked").symlink_to("mine.yaml")
    made = [
        shell("ls a.txt"),
        shell("ls mine.yaml"),
        shell("ls ./linked"),
        shell("ls .git/../mine.yaml"),
    ]
    seen = run(coder, *made, choose=[1, None, None, None], worker="mine.yaml")
    assert [texts(request) for request in seen.asked[1:]] == [["this exact call"]] * 3


def test_other_folders_and_input_of_running_commands_ask(coder: Project) -> None:
    coder.write("other/b.txt", "")
    elsewhere = call("exec_command", command="ls -l", workdir="/other")
    typed = call("write_stdin", session_id=1, chars="ls\n")
    started = call("exec_command", command="bash", yield_time_ms=250)
    seen = run(coder, shell("ls"), elsewhere, started, typed, choose=[1, None, 0, None])
    assert [texts(request) for request in seen.asked[1:]] == [
        ["this exact call"],
        ["this exact call"],
        [],
    ]


def test_grant_for_edits_in_a_zone_covers_every_tool(coder: Project) -> None:
    patch = call("apply_patch", input=PATCH.format("two"))
    made = [
        patch,
        write("/code/b.txt"),
        call("apply_patch", input=PATCH.replace("-one", "-two").format("three")),
    ]
    seen = run(coder, *made, write("/other/c.txt"), choose=[0, None])
    assert texts(seen.asked[0]) == ["edits in zone code"], "the patch itself is good for once"
    assert texts(seen.asked[1]) == ["this exact call", "edits in zone other"]
    assert seen.statuses == ["success", "success", "success", "denied"]
    assert coder.read("a.txt") == "three\n"


def test_grant_for_edits_does_not_cover_deletions(coder: Project) -> None:
    delete = call("delete_file", path="/code/a.txt")
    move = "*** Begin Patch\n*** Update File: /code/a.txt\n*** Move to: /code/c.txt\n-one\n+two\n*** End Patch"
    seen = run(
        coder, write("/code/b.txt"), delete, call("apply_patch", input=move), choose=[1, None, None]
    )
    assert texts(seen.asked[1]) == ["this exact call", "deletions in zone code"]
    assert texts(seen.asked[2]) == ["deletions in zone code"], "edits are allowed already"


def test_protected_names_ask_and_blocked_zones_stay_blocked_despite_a_grant(coder: Project) -> None:
    made = [
        write("/code/b.txt"),
        write("/code/.env"),
        write("/code/worker.yaml"),
        write("/closed/x"),
    ]
    seen = run(coder, *made, choose=[1, None, None])
    assert [texts(request) for request in seen.asked[1:]] == [["this exact call"]] * 2
    assert seen.statuses == ["success", "denied", "denied", "blocked"]


def test_calls_that_a_grant_would_have_covered_are_counted(coder: Project) -> None:
    made = [shell("ls -l"), write("/code/b.txt"), shell("ls -a"), shell("wc a.txt"), shell("ls -l")]
    seen = run(coder, *made, choose=[0, 1, None, None])
    assert [[offer.covers for offer in request.offers or ()] for request in seen.asked] == [
        [0, 0],
        [0, 0],
        [0, 1],
        [0, 0],
    ]
    assert seen.statuses[-1] == "success"


def test_grant_does_not_cover_child_workers(coder: Project) -> None:
    coder.write(
        "child.yaml",
        "name: child\nmodel: script:child.script.yaml\ntoolsets: {shell: {try: off}}\n",
    )
    coder.write(
        "child.script.yaml",
        "turns:\n  - calls: [{tool: shell, input: {command: ls}}]\n  - text: Done.\n",
    )
    coder.write(
        "worker.yaml",
        WORKER + "  workers: {allowed: [./child.yaml], approval: {default: preApproved}}\n",
    )
    seen = run(coder, shell("ls -l"), call("child", input="go"), shell("ls"), choose=[1, None])
    assert len(seen.asked) == 2
    assert set(seen.asked[1].policy_files or {}) == {"user"}, (
        "what it may do is capped by its parent"
    )


def test_grant_is_not_restored_on_resume(coder: Project) -> None:
    first = run(coder, shell("ls -l"), shell("ls"), choose=[1])
    assert first.statuses == ["success", "success"]
    resume = Resumed(read_past(first.record), first.record[-1])
    again = run(coder, shell("ls -l"), choose=[None], task="again", resume=resume)
    assert again.statuses == ["denied"]


# --- for any policy


APPROVALS = st.sampled_from(Approval)
NAMES = st.sampled_from(
    ["a.txt", "src/b.py", ".env", ".git/config", ".ENV.local", "worker.yaml", ".vscode/x", "new/c"]
)
PROTECTED = (".env", ".git", "worker.yaml", ".vscode")


@given(
    write=APPROVALS,
    delete=APPROVALS,
    default=st.none() | APPROVALS,
    named=st.none() | APPROVALS,
    data=st.data(),
)
def test_no_grant_covers_blocked_protected_or_explicitly_asking_calls(
    tmp_path: Path, write: Approval, delete: Approval, default: Any, named: Any, data: st.DataObject
) -> None:
    said = {"default": default, "tools": {} if named is None else {"act": named}}
    names = data.draw(
        st.lists(st.tuples(NAMES, st.sampled_from(["write", "delete"])), min_size=2, max_size=4)
    )
    tools = [
        Recorded(name, input_schema=_path_schema(name), effects=None)
        for name in ("write", "delete")
    ]

    async def widest(request: ApprovalRequest) -> ApprovalDecision:
        return granted((request.offers or (THIS_CALL,))[-1])

    async def act() -> None:
        opened = Gate(
            tmp_path, *(tool.tool for tool in tools), answers=widest, policy=policy(**said)
        )
        zone = replace(opened.guard.judge.sandbox.zones[0], approval=ZoneApproval(write, delete))
        opened.guard.judge.sandbox._zones = (zone,)
        for path, access in names:
            before, asked = len(opened.events), len(opened.asked)
            outcome = await opened(access, path=f"/workspace/{path}")
            decided = next(
                event for event in opened.events[before:] if isinstance(event, ApprovalDecided)
            )
            zone_says = write if access == "write" else delete
            covered = decided.cached and decided.grant is not None and decided.grant.rules != ()
            if Approval.BLOCKED in (zone_says, named) or (
                named is None and default is Approval.BLOCKED
            ):
                assert outcome.status == "blocked"
            elif covered:
                assert len(opened.asked) == asked
                assert named is not Approval.ASK
                assert not any(name in path.lower() for name in PROTECTED)

    anyio.run(act)


def _path_schema(access: str) -> dict[str, Any]:
    path = {"type": "string", "format": "path", "x-forge-access": access}
    return {"type": "object", "properties": {"path": path}, "required": ["path"]}
