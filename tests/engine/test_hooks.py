"""Hooks: they receive every call, can only tighten, and each failure is one message.

Covers forge_cli.core.observers, forge_cli.engine.gate.protocols, forge_cli.engine.hooks,
forge_cli.files.settings.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli import ApprovalDecision, EventBus, WorkerRuntime, load_worker
from forge_cli.core.approval import Approval, ApprovalRequest, Verdict
from forge_cli.core.errors import ExitCode, ForgeError, Mark, WorkerError
from forge_cli.core.events import ApprovalDecided, Event, InputPrompt, NetworkAccess, StatusEvent
from forge_cli.engine import hooks as hooks_module
from forge_cli.engine.hooks import HookFailed, HookResult, read_finished, tighten
from forge_cli.events import OnAsk
from forge_cli.hooks import Finished, HookAnswer
from forge_cli.process.signals import in_loop
from forge_cli.testing import Project, Seen, call, calls, scripted_model
from tests.support.distributions import write_distribution
from tests.support.interpreter import PYTHON

TOOLS = '''
from forge_cli import tool

@tool(read_only=True, needs_approval=False)
def look(at: str = "x") -> str:
    """Look."""
    return f"seen {at}"

@tool(needs_approval=False)
def act(text: str = "x") -> str:
    """Act."""
    open("acted", "a").close()
    return "acted"

@tool(needs_approval=True)
def risky() -> str:
    """Act when asked."""
    return act()
'''
WORKER = "name: w\nsandbox: {isolation: off}\ntoolsets: {custom: {module: ./tools.py, tools: [look, act, risky]}}\n"
KEEP = "cat >> told.jsonl\n"


@pytest.fixture
def hooked(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A worker with tools; hooks are for the tests to say."""
    monkeypatch.chdir(project.folder)
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    return project


def script(project: Project, text: str, name: str = "check.sh") -> Path:
    path = project.home / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def hooks(project: Project, *entries: str) -> None:
    project.home.mkdir(exist_ok=True)
    (project.home / "config.yaml").write_text(
        "hooks:\n" + "".join(f"  - {entry}\n" for entry in entries)
    )


def on(event: str, match: str = "", run: str = "./check.sh") -> str:
    matched = f"match: '{match}', " if match else ""
    return f"{{on: {event}, {matched}run: [{run}]}}"


def said_by(
    project: Project,
    text: str,
    *made: dict,
    event: str = "before_tool",
    match: str = "",
    **options: Any,
) -> Seen:
    script(project, text)
    hooks(project, on(event, match))
    return project.run(calls(*made), "done", **options)


def told(project: Project) -> list[dict]:
    return [json.loads(line) for line in project.read("told.jsonl").splitlines()]


def warnings(seen: Seen, level: str = "warning") -> list[str]:
    return [
        event.message
        for event in seen.of(StatusEvent)
        if event.level == level and event.message[:4] == "hook"
    ]


# What a hook is told, and what it says


def test_hook_receives_the_call(hooked: Project) -> None:
    script(hooked, KEEP)
    events = ("before_tool", "after_tool", "approval", "session_start", "session_end")
    hooks(hooked, *map(on, events))
    seen = hooked.run(calls(call("look", at="home"), call("risky")), "done", answers=[True])
    session = seen.result.session_id
    base = {"session": session, "worker": "w"}
    look = {**base, "tool": "look", "input": {"at": "home"}, "verdict": "preApproved"}
    risky = {**base, "tool": "risky", "input": {}, "verdict": "ask"}
    nothing = {**base, "tool": None, "input": None, "verdict": None}
    assert told(hooked) == [
        {"event": "session_start", **nothing},
        {"event": "before_tool", **look},
        {"event": "after_tool", **look, "status": "success"},
        {"event": "before_tool", **risky},
        {"event": "approval", **risky, "request": seen.asked[0].request_id},
        {"event": "after_tool", **risky, "status": "success"},
        {"event": "session_end", **nothing},
    ]
    assert warnings(seen) == []


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("text", "verdict", "reason"),
    [
        ("exit 0", "preApproved", "the tool needs no approval for this call"),
        ("echo '{}'", "preApproved", "the tool needs no approval for this call"),
        (
            """echo '{"verdict": "ask", "note": "who is it?"}'""",
            "ask",
            "the hook check.sh says ask: who is it?",
        ),
        ("""echo '{"verdict": "blocked"}'""", "blocked", "the hook check.sh says blocked"),
        (
            "echo 'not on Sunday' >&2; exit 2",
            "blocked",
            "the hook check.sh says blocked: not on Sunday",
        ),
        (
            "echo broken >&2; exit 3",
            "ask",
            "the hook check.sh failed (it ended with exit code 3: broken), so it asks",
        ),
        ("kill -9 $$", "ask", "the hook check.sh failed (it ended with signal 9), so it asks"),
        ("echo hello", "ask", "the hook check.sh failed (it did not answer with {"),
        (
            """echo '{"verdict": "preApproved"}'""",
            "ask",
            "the hook check.sh failed (it did not answer with {",
        ),
        (
            """echo '{"note": "x", "x": 1}'""",
            "ask",
            "the hook check.sh failed (it did not answer with {",
        ),
        (
            """echo '{"verdict": "ask", "x": 1}'""",
            "ask",
            "the hook check.sh says ask: unknown key 'x'; there are: verdict, note",
        ),
        (
            """echo '{"verdict": "blocked", "reason": "x", "note": 1}'""",
            "blocked",
            "the hook check.sh says blocked: 1; unknown key 'reason'; did you mean 'note'?",
        ),
        (
            """echo '{"decision": "block"}'""",
            "ask",
            'the hook check.sh failed (it did not answer with {"verdict": "ask"|"blocked", "note": "..."}: '
            "unknown key 'decision'; did you mean 'verdict'?)",
        ),
        (
            """echo '{"verdikt": "blocked"}'""",
            "ask",
            'the hook check.sh failed (it did not answer with {"verdict": "ask"|"blocked", "note": "..."}: '
            "unknown key 'verdikt'; did you mean 'verdict'?)",
        ),
        (
            """echo '{"verdict": "deny"}'""",
            "blocked",
            "the hook check.sh says blocked: its verdict is deny, neither",
        ),
        (
            "head -c 70000 /dev/zero",
            "ask",
            "the hook check.sh failed (it printed more than 64 KiB), so it asks",
        ),
    ],
)
def test_hook_answer_applies(hooked: Project, text: str, verdict: str, reason: str) -> None:
    seen = said_by(hooked, text, call("act"))
    decided = seen.of(ApprovalDecided)[0]
    assert (decided.verdict, decided.reason.startswith(reason)) == (verdict, True), decided.reason
    by_hook = verdict != "preApproved"
    assert (hooked.folder / "acted").exists() is not by_hook
    assert decided.rule == ("hooks[0]" if by_hook else None)
    assert str(decided.where) == (f"{hooked.home}/config.yaml:2:5" if by_hook else "None")
    assert decided.by == ("headless" if verdict == "ask" else "rule" if by_hook else "tool")


def test_person_may_approve_what_a_hook_asks(hooked: Project) -> None:
    seen = said_by(
        hooked,
        """echo '{"verdict": "ask", "note": "sure?"}'""",
        call("act"),
        call("risky"),
        answers=[True, False],
    )
    assert seen.statuses == ["success", "denied"]
    assert seen.asked[0].reason == "the hook check.sh says ask: sure?"
    assert (
        seen.asked[1].reason
        == "the tool wants this call approved; the hook check.sh says ask: sure?"
    )


def test_blocked_by_a_hook_stays_blocked_in_every_mode(hooked: Project) -> None:
    spellings = ("blocked", "Blocked", "deny")
    texts = [
        "exit 2",
        *(f"""echo '{{"verdict": "{word}", "reason": "no"}}'""" for word in spellings),
    ]
    seen = [
        said_by(hooked, text, call("act"), approval_mode="approve_all").statuses for text in texts
    ]
    assert seen == [["blocked"]] * len(texts)


def test_slow_hook_times_out(hooked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks_module, "TIMEOUT", 0.2)
    seen = said_by(hooked, "sleep 60", call("act"))
    assert seen.of(ApprovalDecided)[0].verdict == "ask"
    assert "did not end within" in seen.of(ApprovalDecided)[0].reason


def test_missing_hook_program_is_a_failure(hooked: Project) -> None:
    hooks(hooked, on("before_tool", run="./missing.sh"))
    seen = hooked.run(calls(call("act")), "done")
    assert seen.statuses == ["denied"]
    assert "missing.sh failed (" in seen.of(ApprovalDecided)[0].reason


def test_notes_reach_the_model_and_failures_only_warn(hooked: Project) -> None:
    place = f"{hooked.home}/config.yaml:2:5"
    seen = said_by(hooked, """echo '{"note": "seen it"}'""", call("act"))
    assert (seen.statuses, warnings(seen, "info")) == (
        ["success"],
        [f"hook check.sh ({place}): seen it"],
    )
    assert [
        event.tool_call_id for event in seen.of(StatusEvent) if event.message[:4] == "hook"
    ] == [None]
    seen = said_by(hooked, "exit 3", call("act"), event="after_tool")
    assert (seen.statuses, warnings(seen)) == (
        ["success"],
        [f"hook check.sh ({place}): it ended with exit code 3"],
    )
    seen = said_by(hooked, "echo no >&2; exit 2", call("act"), event="after_tool")
    assert warnings(seen) == [f"hook check.sh ({place}): it says blocked, which is too late: no"]
    seen = said_by(hooked, "exit 3", call("act"), event="session_end")
    assert (seen.result.status, len(warnings(seen))) == ("completed", 1)


def test_session_can_be_refused_by_a_hook(hooked: Project) -> None:
    script(hooked, "echo 'not here' >&2; exit 2")
    hooks(hooked, on("session_start"))
    with pytest.raises(
        ForgeError, match="the hook check.sh does not let the session begin: not here"
    ) as caught:
        hooked.run("done")
    assert caught.value.exit_code is ExitCode.DENIED
    script(hooked, "exit 1")
    assert hooked.run("done").result.status == "completed"


def test_hook_runs_only_for_matching_tools(hooked: Project) -> None:
    seen = said_by(hooked, "exit 2", call("look"), call("act"), match="a*")
    assert seen.statuses == ["success", "blocked"]


def test_hook_runs_once_for_each_call_also_if_it_asks(hooked: Project) -> None:
    text = f"""{KEEP}echo '{{"verdict": "ask"}}'"""
    seen = said_by(hooked, text, call("look"), call("look", at="y"), answers=[True, True])
    assert (seen.statuses, len(told(hooked))) == (["success", "success"], 2)


def test_blocking_hook_is_the_last_one_run(hooked: Project) -> None:
    script(hooked, "exit 2")
    script(hooked, KEEP, "second.sh")
    hooks(hooked, on("before_tool"), on("before_tool", run="./second.sh"))
    seen = hooked.run(calls(call("act")), "done")
    assert (seen.statuses, (hooked.folder / "told.jsonl").exists()) == (["blocked"], False)


def test_prefix_or_proxy_does_not_hide_a_tool_from_a_hook(hooked: Project) -> None:
    tool = hooked.home / "tools" / "own"
    tool.mkdir(parents=True)
    (tool / "tool.yaml").write_text("name: own\ndescription: Own.\nentrypoint: own.sh\n")
    (tool / "own.sh").write_text("touch owned\n")
    toolsets = "{custom: {module: ./tools.py, tools: [act], prefix: my}, executables: {approval: {default: preApproved}}}"
    hooked.write("worker.yaml", f"name: w\nsandbox: {{isolation: off}}\ntoolsets: {toolsets}\n")
    script(hooked, "exit 2")
    hooks(hooked, on("before_tool", "act"), on("before_tool", "own"))
    made = [call("my_act"), call("run_custom_tool", tool_name="own"), call("own")]
    seen = hooked.run(calls(*made), "done", approval_mode="approve_all")
    assert seen.statuses == ["blocked"] * 3
    assert not (hooked.folder / "owned").exists()


def test_child_workers_are_covered(hooked: Project) -> None:
    hooked.write(
        "helper.yaml", WORKER.replace("name: w", "name: helper\nmodel: script:helper.script.yaml")
    )
    hooked.write("helper.script.yaml", "turns: [{calls: [{tool: act}]}, {text: done}]\n")
    hooked.write(
        "worker.yaml",
        "name: w\nsandbox: {isolation: off}\ntoolsets: {workers: {allowed: [helper]}}\n",
    )
    seen = said_by(
        hooked, "exit 2", call("helper", input="go"), match="act", approval_mode="approve_all"
    )
    assert "blocked" in seen.statuses
    assert not (hooked.folder / "acted").exists()


@pytest.mark.needs("bwrap")
def test_project_hook_is_confined_like_the_shell(hooked: Project) -> None:
    hooked.write(
        "worker.yaml", WORKER.replace("isolation: off", "zones: [{name: a, path: ./a, mode: rw}]")
    )
    text = "touch a/inside; touch outside 2>/dev/null && exit 2; exit 0"
    hooked.write(".forge/check.sh", f"#!/bin/sh\n{text}\n").chmod(0o755)
    hooked.write(".forge/config.yaml", f"hooks: [{on('before_tool')}]\n")
    assert hooked.forge("trust", ".").returncode == 0
    seen = hooked.run(calls(call("act")), "done")
    assert seen.statuses == ["success"], warnings(seen)
    assert (hooked.folder / "a" / "inside").exists()
    assert not (hooked.folder / "outside").exists()


def test_user_hook_runs_unconfined(hooked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the desktop variables and a writable home, whatever confines the worker."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/0/bus")
    hooked.write("worker.yaml", WORKER.replace("isolation: off", "network: [example.com]"))
    log = hooked.home / "hooks.log"
    text = (
        f'echo "$DBUS_SESSION_BUS_ADDRESS $HTTPS_PROXY $FORGE_WORKSPACE" > {log}; cat > /dev/null'
    )
    seen = said_by(hooked, text, call("act"))
    assert (seen.statuses, warnings(seen)) == (["success"], [])
    assert log.read_text() == f"unix:path=/run/user/0/bus  {hooked.folder}\n"


@pytest.mark.needs("bwrap")
def test_program_in_the_home_may_have_an_absolute_path(hooked: Project) -> None:
    hooked.write(
        "worker.yaml", WORKER.replace("isolation: off", "zones: [{name: a, path: ./a, mode: rw}]")
    )
    path = script(hooked, "exit 2")
    hooks(hooked, on("before_tool", run=str(path)))
    seen = hooked.run(calls(call("act")), "done")
    assert (seen.statuses, warnings(seen)) == (["blocked"], [])


# Approval hooks


def test_approval_hook_runs_during_the_prompt_and_may_deny(hooked: Project) -> None:
    script(hooked, f"{KEEP}echo 'the boss says no' >&2; exit 2")
    hooks(hooked, on("approval"))

    async def nobody(request: ApprovalRequest) -> ApprovalDecision:
        await anyio.sleep_forever()
        raise AssertionError

    seen = hooked.run(calls(call("risky")), "done", approval_callback=nobody)
    assert seen.statuses == ["denied"]
    assert (
        seen.outcomes[0].error
        == "risky was not called; denied: the hook check.sh says no: the boss says no"
    )
    assert told(hooked)[0]["event"] == "approval"


def test_failing_approval_hook_leaves_the_answer_to_the_person(hooked: Project) -> None:
    seen = said_by(hooked, "exit 1", call("risky"), event="approval", answers=[True])
    assert (seen.statuses, len(warnings(seen))) == (["success"], 1)


def test_parked_request_is_sent_to_a_hook_and_answered_elsewhere(hooked: Project) -> None:
    hooked.write("script.yaml", "turns: [{calls: [{tool: risky}]}, {text: '{result}'}]\n")
    script(hooked, KEEP)
    hooks(hooked, on("approval"))
    run = ("run", "worker.yaml", "-m", "script:script.yaml", "-p")
    assert hooked.forge(*run, "go", "--on-ask", "park").returncode == ExitCode.PARKED
    (request,) = told(hooked)
    done = hooked.forge("approvals", "answer", request["session"], request["request"], "yes")
    assert done.returncode == 0, done.stderr
    assert hooked.forge(*run, "-r", request["session"]).stdout == "acted\n"
    hooked.run(calls(call("risky")), "done", on_ask=OnAsk.DENY)
    assert len(told(hooked)) == 1


GET = """\
import sys, urllib.error, urllib.request
try:
    urllib.request.urlopen(sys.argv[1], timeout=60)
except urllib.error.HTTPError as error:
    print(error.code)
"""
FETCHER = """\
name: w
sandbox: {network: [api.example.org]}
toolsets: {shell: {try: "off", rules: [{pattern: python3 get.py, approval: preApproved}]}}
"""


def fetch(project: Project, **options: Any) -> Seen:
    project.write("get.py", GET)
    project.write("worker.yaml", FETCHER)
    line = "python3 get.py http://unlisted.invalid:8080/"
    return project.run(calls(call("shell", command=line)), "done", timeout=60, **options)


def asked_of(seen: Seen) -> tuple[str, dict]:
    (request,) = seen.asked
    return request.request_id, dict(request.args)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("match", ["", "network", "net*"])
def test_connection_runs_hooks_like_a_call(hooked: Project, match: str) -> None:
    script(hooked, KEEP)
    hooks(hooked, on("approval", match))
    seen = fetch(hooked, answers=[False])
    request, args = asked_of(seen)
    (heard,) = told(hooked)
    assert args == {
        "host": "unlisted.invalid",
        "port": 8080,
        "command": "python3 get.py http://unlisted.invalid:8080/",
    }
    assert (heard["tool"], heard["input"], heard["verdict"], heard["request"]) == (
        "network",
        args,
        "ask",
        request,
    )


@pytest.mark.needs("bwrap")
def test_hook_denies_a_connection_and_cannot_allow_one(hooked: Project) -> None:
    script(hooked, "echo 'no way' >&2; exit 2")
    hooks(hooked, on("approval"))
    seen = fetch(hooked, approval_callback=lambda request: anyio.sleep_forever())
    assert [(each.allowed, each.by) for each in seen.of(NetworkAccess)] == [(False, "rule")]
    assert "the hook check.sh says no: no way" in seen.result.denials[0]["reason"]
    script(hooked, """echo '{"verdict": "preApproved"}'""")
    seen = fetch(hooked, answers=[False])
    assert [(each.allowed, each.by) for each in seen.of(NetworkAccess)] == [(False, "user")]


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("options", [{}, {"approval_mode": "auto_deny"}, {"on_ask": OnAsk.PARK}])
def test_connection_without_a_question_runs_no_approval_hook(
    hooked: Project, options: dict
) -> None:
    script(hooked, KEEP)
    hooks(hooked, on("approval"))
    assert [each.allowed for each in fetch(hooked, **options).of(NetworkAccess)] == [False]
    assert not (hooked.folder / "told.jsonl").exists()


SERVER = str(Path(__file__).parents[1] / "toolsets" / "mcp" / "server.py")


def serve(project: Project, mode: str) -> None:
    server = {
        "command": PYTHON,
        "args": [SERVER, mode],
        "sampling": True,
        "elicitation": True,
    }
    section = {"servers": {"s": server}, "approval": {"default": "preApproved"}}
    project.write("worker.yaml", json.dumps({"name": "w", "toolsets": {"mcp": section}}))


def ask_server(project: Project, *lines: str, **options: Any) -> tuple[Seen, Any]:
    """Run a session with a person who types these lines; return its answer to the server."""
    bus, left = EventBus(), list(lines)

    def type_line(event: Event) -> None:
        if isinstance(event, InputPrompt):
            bus.answer_input(event.request_id, left.pop(0))

    bus.subscribe(type_line, answers=True)
    seen = project.run(calls(call("s__echo", text="x")), "hi", "done", bus=bus, **options)
    return seen, json.loads(seen.outcomes[0].value.text())


@pytest.mark.parametrize("mode", ["samples", "elicits"])
def test_server_request_runs_hooks_like_a_call(hooked: Project, mode: str) -> None:
    serve(hooked, mode)
    script(hooked, KEEP)
    hooks(hooked, on("approval"))
    seen, _ = ask_server(hooked, "3", "", answers=[True])
    request, args = asked_of(seen)
    name = "sampling" if mode == "samples" else "elicitation"
    assert told(hooked) == [
        {
            "event": "approval",
            "session": seen.result.session_id,
            "worker": "w",
            "tool": name,
            "input": args,
            "verdict": "ask",
            "request": request,
        }
    ]
    decided = [event for event in seen.of(ApprovalDecided) if event.request_id == request]
    assert [(event.approved, event.by, event.rule) for event in decided] == [
        (True, "user", f"toolsets.mcp.{name}")
    ]


@pytest.mark.parametrize("mode", ["samples", "elicits"])
def test_hook_denies_a_server_request(hooked: Project, mode: str) -> None:
    serve(hooked, mode)
    script(hooked, "echo 'not today' >&2; exit 2")
    hooks(hooked, on("approval", "sampling" if mode == "samples" else "elicitation"))
    seen, answer = ask_server(hooked, approval_callback=lambda request: anyio.sleep_forever())
    assert (
        "not today" in answer["message"] if mode == "samples" else answer == {"action": "decline"}
    )
    notes = [event.reason for event in seen.of(ApprovalDecided) if event.by == "rule"]
    assert notes[-1].endswith("the hook check.sh says no: not today")


def test_form_without_an_approval_runs_hooks(hooked: Project) -> None:
    serve(hooked, "elicits")
    script(hooked, KEEP)
    hooks(hooked, on("approval"))
    _, answer = ask_server(hooked, "3", "", approval_mode="approve_all")
    assert answer == {"action": "accept", "content": {"size": 3, "colour": "red"}}
    assert [(each["tool"], "request" in each) for each in told(hooked)] == [("elicitation", False)]
    script(hooked, "exit 2")
    assert ask_server(hooked, approval_mode="approve_all")[1] == {"action": "decline"}


def test_form_is_declined_if_the_mode_denies(hooked: Project) -> None:
    serve(hooked, "elicits")
    assert ask_server(hooked, approval_mode="auto_deny")[1] == {"action": "decline"}


ASKING = """
from forge_cli import ToolContext, tool

@tool(needs_approval=False)
async def look(context: ToolContext) -> str:
    \"\"\"Ask.\"\"\"
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return str(await context.ask("Who?", schema))
"""


def test_form_of_a_tool_runs_hooks_and_is_denied(hooked: Project) -> None:
    hooked.write("tools.py", ASKING)
    hooked.write("worker.yaml", WORKER.replace("[look, act, risky]", "[look]"))
    script(hooked, f"{KEEP}exit 2")
    hooks(hooked, on("approval"))
    bus = EventBus()
    bus.subscribe(lambda event: None, answers=True)
    seen = hooked.run(calls(call("look")), "done", bus=bus)
    assert [outcome.value.text() for outcome in seen.outcomes] == ["None"]
    (heard,) = told(hooked)
    assert heard["input"] == {"asker": "the tool look", "message": "Who?", "fields": ["name"]}


# Whose they are


def test_project_hooks_and_their_files_need_trust(hooked: Project) -> None:
    check = hooked.write(".forge/check.sh", "#!/bin/sh\nexit 2\n")
    check.chmod(0o755)
    hooked.write(".forge/config.yaml", f"hooks: [{on('before_tool')}]\n")
    act = calls(call("act"))
    assert hooked.run(act, "done").statuses == ["success"]
    assert hooked.forge("trust").stdout.splitlines()[-1] == f"trusted: {check} (hook)"
    seen = hooked.run(act, "done")
    assert seen.statuses == ["blocked"]
    assert str(seen.of(ApprovalDecided)[0].where) == f"{hooked.folder}/.forge/config.yaml:1:9"
    check.write_text("#!/bin/sh\nexit 0\n")
    seen = hooked.run(act, "done")
    assert (seen.statuses, seen.of(ApprovalDecided)[0].verdict) == (["denied"], "ask")
    assert f"{check} is not trusted as it is" in seen.of(ApprovalDecided)[0].reason


def test_hooks_of_both_files_apply(hooked: Project) -> None:
    script(hooked, KEEP)
    hooks(hooked, on("before_tool"))
    hooked.write(".forge/config.yaml", "hooks: [{on: before_tool, run: [sh, -c, 'exit 2']}]\n")
    hooked.forge("trust")
    assert hooked.run(calls(call("act")), "done").statuses == ["blocked"]
    assert len(told(hooked)) == 1
    rows = json.loads(hooked.forge("config", "show", "--json").stdout)
    assert [
        (row["source"], row["value"]["run"]) for row in rows if row["key"].startswith("hooks")
    ] == [
        ("project", ["sh", "-c", "exit 2"]),
        ("user", ["./check.sh"]),
    ]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            "{on: before_tool}",
            "config.yaml:2:5: hooks[0]: a hook needs either 'run' (a command) or 'observer'",
        ),
        ("{on: never, run: [x]}", "config.yaml:2:10: hooks[0].on: "),
        ("{on: session_end, match: a, run: [x]}", "hooks[0]: 'match' is for tools"),
        ("{on: record, match: a, observer: x}", "hooks[0]: 'match' is for tools"),
        (
            "{on: record, run: [x]}",
            "hooks[0]: a hook for 'record' cannot start a command",
        ),
        ("{on: before_tool, run: []}", "hooks[0].run: must not be empty"),
        ("{on: before_tool, run: [x], when: y}", "config.yaml:2:33: hooks[0]: unknown key 'when'"),
        (
            "{on: before_tool, observer: nobody}",
            "config.yaml:2:33: hooks[0]: there is no observer 'nobody'",
        ),
    ],
)
def test_invalid_hook_is_reported(hooked: Project, entry: str, problem: str) -> None:
    hooks(hooked, entry)
    with pytest.raises(WorkerError) as caught:
        hooked.run("done")
    assert problem in str(caught.value)


# Looking


def test_read_only_commands_list_hooks_without_running_them(hooked: Project) -> None:
    script(hooked, f"{KEEP}exit 2")
    hooks(hooked, on("before_tool", "a*"), on("approval"))
    place = f"{hooked.home}/config.yaml:2:5"
    shown = json.loads(hooked.forge("approve", "worker.yaml", "act", "--json").stdout)
    assert shown["verdict"] == "preApproved"
    hook = {
        "on": "before_tool",
        "match": "a*",
        "hook": "check.sh",
        "run": ["./check.sh"],
        "where": place,
    }
    assert shown["hooks"] == [hook]
    text = " ".join(hooked.forge("approve", "worker.yaml", "act").stdout.split())
    assert f"the hook check.sh ({place}) may make it stricter; it is not run here" in text
    assert "hooks" not in json.loads(
        hooked.forge("approve", "worker.yaml", "look", "--json").stdout
    )
    policy = json.loads(hooked.forge("worker", "show", "worker.yaml", "--policy", "--json").stdout)
    assert [(each["hook"], each["on"]) for each in policy["hooks"]] == [
        ("check.sh", "before_tool"),
        ("check.sh", "approval"),
    ]
    assert "check.sh" in hooked.forge("worker", "show", "worker.yaml", "--policy").stdout
    assert not (hooked.folder / "told.jsonl").exists()


# Observers


PLUGIN = """
from forge_cli import hookimpl
from forge_cli.hooks import HookAnswer, Observer

def watch(call):
    if call.args.get("text") == "crash":
        raise ValueError("it broke")
    if call.args.get("text") == "odd":
        return "yes"
    return HookAnswer("blocked", "not today") if call.args.get("text") == "no" else None

@hookimpl
def forge_observers():
    return [Observer("watch", watch)]
"""


def test_observer_of_a_plugin_is_called(hooked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    site = hooked.folder.parent / "site"
    write_distribution(site, "watching", ["observer.watch = watching"], watching=PLUGIN)
    monkeypatch.syspath_prepend(str(site))
    hooks(hooked, "{on: before_tool, match: act, observer: watch}")
    made = [call("act", text=text) for text in ("yes", "no", "crash", "odd")]
    seen = hooked.run(calls(*made), "done")
    assert "watching" in sys.modules
    assert seen.statuses == ["success", "blocked", "denied", "denied"]
    reasons = [decided.reason for decided in seen.of(ApprovalDecided)]
    assert reasons[1] == "the hook watch says blocked: not today"
    assert reasons[2].startswith("the hook watch failed (ValueError: it broke")
    assert reasons[3].startswith("the hook watch failed (it did not answer with")


FOLLOWER = """
from forge_cli import hookimpl
from forge_cli.hooks import HookAnswer, Observer

LINES = []

def follow(call):
    LINES.append(dict(call.line))
    if call.line["type"] == "toolStarted":
        return HookAnswer(note="a call begins")

def crash(call):
    LINES.append(call.line)
    raise ValueError("it broke")

async def wait(call):
    LINES.append(call.line)

def block(call):
    return HookAnswer("blocked")

@hookimpl
def forge_observers():
    return [Observer(each.__name__, each) for each in (follow, crash, wait, block)]
"""


@pytest.fixture
def lines(hooked: Project, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The lines that observers of the record received."""
    site = hooked.folder.parent / "site"
    entry_points = [f"observer.{name} = following" for name in ("follow", "crash", "wait", "block")]
    write_distribution(site, "following", entry_points, following=FOLLOWER)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "following", raising=False)
    following = importlib.import_module("following")
    return following.LINES


def test_observer_of_the_record_gets_every_line(
    hooked: Project, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "zx81-very-secret-0815")
    hooks(hooked, "{on: record, observer: follow}")
    seen = hooked.run(calls(call("act", text="zx81-very-secret-0815")), "done")
    assert seen.statuses == ["success"]
    assert [line["type"] for line in lines] == [
        line["type"] for line in seen.lines if "seq" in line
    ]
    assert {"sessionStart", "approvalDecided", "toolResult", "sessionEnd"} <= {
        line["type"] for line in lines
    }
    assert "very-secret" not in json.dumps(lines)
    (note,) = [event for event in seen.of(StatusEvent) if "a call begins" in event.message]
    assert note.level == "warning"
    assert note.message.startswith("hook follow (")


def test_observer_gets_a_session_without_a_log(
    hooked: Project, lines: list[dict[str, Any]]
) -> None:
    hooks(hooked, "{on: record, observer: follow}")

    async def work() -> None:
        async with WorkerRuntime(
            worker=load_worker("worker.yaml"), model=scripted_model("done")
        ) as runtime:
            await runtime.run("go")

    with hooked.environment():
        in_loop(work)
    assert {"sessionStart", "message", "turnEnd", "sessionEnd"} <= {line["type"] for line in lines}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("crash", "ValueError: it broke"),
        ("wait", "it is async, and the record waits for no hook"),
        ("block", "it says blocked, but a record hook cannot stop what has happened"),
    ],
)
def test_failing_observer_of_the_record_is_not_called_again(
    hooked: Project, lines: list[dict[str, Any]], name: str, problem: str
) -> None:
    hooks(hooked, f"{{on: record, observer: {name}}}")
    seen = hooked.run(calls(call("act")), "done")
    assert seen.statuses == ["success"]
    (warning,) = [
        event.message for event in seen.of(StatusEvent) if event.message.startswith(f"hook {name}")
    ]
    assert problem in warning
    assert warning.endswith("; it is not called again in this session")
    assert len(lines) == (1 if name == "crash" else 0)


CLOSING = """
import os
from pathlib import Path

from forge_cli import hookimpl
from forge_cli.hooks import Observer

def watch(call):
    return None

def close():
    with open(os.environ["CLOSED"], "a") as file:
        file.write("closed\\n")

def fail():
    close()
    raise ValueError("it broke")

@hookimpl
def forge_observers():
    return [Observer("watch", watch, close), Observer("failing", watch, fail), Observer("plain", watch)]
"""


@pytest.mark.parametrize(
    ("stated", "closed", "said"),
    [
        (["watch"], 1, ""),
        (["watch", "watch"], 1, ""),
        (["failing"], 1, "forge: the observer failing was not closed: ValueError: it broke"),
        (["plain"], 0, ""),
    ],
)
def test_observer_is_closed_once_at_exit(
    hooked: Project, tmp_path: Path, stated: list[str], closed: int, said: str
) -> None:
    site, file = tmp_path / "site", tmp_path / "closed.txt"
    entry_points = [f"observer.{name} = closing" for name in ("watch", "failing", "plain")]
    write_distribution(site, "closing", entry_points, closing=CLOSING)
    hooks(hooked, *(f"{{on: record, observer: {name}}}" for name in stated))
    hooked.write("script.yaml", "turns: [{text: Done.}]")
    env = {"PYTHONPATH": str(site), "CLOSED": str(file)}
    done = hooked.forge("run", "worker.yaml", "go", "-p", "-m", "script:script.yaml", env=env)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert done.stderr.count("was not closed") == bool(said)
    assert said in done.stderr
    assert (file.read_text().count("closed") if file.exists() else 0) == closed


# Never looser


texts = st.text(max_size=30)
answers = st.fixed_dictionaries(
    {},
    optional={
        "verdict": st.sampled_from(["ask", "blocked", "preApproved", "", None, 1]),
        "note": st.none() | texts,
    },
).map(json.dumps)
finished = st.builds(
    Finished,
    exit_code=st.none() | st.sampled_from([0, 0, 0, 2]) | st.integers(-20, 255),
    signal=st.none() | st.integers(1, 31),
    stdout=texts
    | answers
    | st.recursive(st.none() | st.booleans() | texts, st.lists, max_leaves=3).map(json.dumps),
    stderr=texts,
    timed_out=st.booleans(),
    truncated=st.booleans(),
    duration_ms=st.just(1),
)
verdicts = st.builds(Verdict, st.sampled_from(Approval), texts, details=st.just(()))


@given(finished, verdicts)
def test_hooks_can_only_make_a_verdict_stricter(done: Finished, verdict: Verdict) -> None:
    try:
        heard = HookResult(read_finished(done))
    except HookFailed as failure:
        heard = HookResult(HookAnswer(), str(failure))
    after = tighten(verdict, heard, "h", "hooks[0]", Mark("config.yaml", 2, 3))
    assert after.approval.strictness >= verdict.approval.strictness
    assert heard.failure is None or after.approval.strictness >= Approval.ASK.strictness
    if done.exit_code == 2 and not done.timed_out:
        assert after.approval is Approval.BLOCKED
    if after.approval is not verdict.approval:
        assert (after.rule, str(after.where), after.by) == ("hooks[0]", "config.yaml:2:3", "rule")


def test_session_without_hooks_costs_nothing(hooked: Project) -> None:
    async def guard() -> object:
        worker = load_worker("worker.yaml")
        async with WorkerRuntime(worker=worker, model=scripted_model("x")) as runtime:
            return runtime.opened.loop.guard.judge.hooks

    with hooked.environment():
        assert in_loop(guard) is None
