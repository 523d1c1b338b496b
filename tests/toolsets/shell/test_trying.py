"""A line that would ask is tried first: without effects it does not ask, and a yes applies the shown changes.

Covers forge_cli.toolsets.shell.trying, forge_cli.sandbox.trial.trials, forge_cli.sandbox.trial.view,
forge_cli.sandbox.changes.path_changes, forge_cli.sandbox.trial.destinations, forge_cli.inspection.trying.
"""

import json
import os
import stat
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from forge_cli import ApprovalDecision, ApprovalRequest, Text
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, ToolResult
from forge_cli.core.trial import CommandTried, TriedWant, describe_wanted
from forge_cli.testing import Project, Seen, call, calls

pytestmark = pytest.mark.needs("overlay")

WORKER = "name: w\ntoolsets: {shell: {}}\n"
BUILD = "#!/bin/sh\nmkdir -p dist\necho built > dist/out\nsed -i s/hello/bye/ notes.txt\nrm old\necho done\n"


@pytest.fixture
def shell(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("notes.txt", "hello\nworld\n")
    project.write("old", "old\n")
    project.write("build.sh", BUILD).chmod(0o755)
    return project


def tree(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


def run(project: Project, line: str, **options: object) -> Seen:
    return project.run(calls(call("shell", command=line)), "done", timeout=60, **options)


def tried(seen: Seen) -> CommandTried:
    """The trial of a line; a second event of it says that it was applied."""
    found, *applied = seen.of(CommandTried)
    assert not found.applied
    assert applied in ([], [replace(found, applied=True)])
    return found


def status(seen: Seen) -> str:
    return seen.of(ToolResult)[0].status


def shown(seen: Seen) -> str:
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    assert isinstance(asked.request.preview, Text)
    return asked.request.preview.content


def test_line_without_effects_returns_its_result_without_asking(shell: Project) -> None:
    before = tree(shell.folder)
    seen = run(shell, "wc -l < notes.txt; python3 -c 'import json'")
    assert seen.of(ApprovalRequired) == []
    assert tried(seen).outcome == "noEffect"
    decided = seen.of(ApprovalDecided)[0]
    assert (decided.verdict, decided.approved, decided.by, decided.request_id) == (
        "ask",
        True,
        "tool",
        None,
    )
    assert "tried: no effect (exit code 0, " in str(decided.reason)
    assert seen.of(ToolResult)[0].value.data["stdout"] == "2\n"  # type: ignore[union-attr]
    assert tree(shell.folder) == before


def test_failing_line_without_effects_returns_its_result(shell: Project) -> None:
    seen = run(shell, "grep nothing notes.txt")
    assert (seen.of(ApprovalRequired), status(seen)) == ([], "error")
    assert tried(seen).exit_code == 1


def test_yes_applies_the_shown_changes(shell: Project) -> None:
    seen = run(shell, "./build.sh", answers=[True])
    assert tried(seen).outcome == "effects"
    kinds = (CommandTried, ApprovalDecided, ToolResult)
    told = [type(event) for event in seen.events if isinstance(event, kinds)]
    assert told == [CommandTried, ApprovalDecided, CommandTried, ToolResult]
    assert [(each.path, each.change, each.bytes) for each in tried(seen).changed] == [
        ("notes.txt", "changed", 10),
        ("old", "deleted", 4),
        ("dist", "created", 0),
        ("dist/out", "created", 6),
    ]
    text = shown(seen)
    assert (
        "changed  notes.txt (10 bytes)\ndeleted  old\nmade     dist/\nmade     dist/out (6 bytes)\n"
        in text
    )
    assert "\n+++ dist/out\n" in text
    assert "-hello\n+bye\n" in text
    assert "  done\n" in text
    assert (shell.read("notes.txt"), shell.read("dist/out")) == ("bye\nworld\n", "built\n")
    assert not (shell.folder / "old").exists()
    assert seen.of(ToolResult)[0].value.data["stdout"] == "done\n"  # type: ignore[union-attr]


RENAMES = "mv notes.txt told.txt; chmod 700 build.sh; touch old; mkdir sub; echo 1 > sub/a; echo 2 > sub/b"


def test_folder_with_a_name_ending_like_git_is_shown_completely(shell: Project) -> None:
    text = shown(
        run(shell, "mkdir -p x.git/logs && echo 'rm -rf ~' > x.git/logs/run", answers=[False])
    )
    assert "made     x.git/logs/run (9 bytes)" in text
    assert "+rm -rf ~" in text


def test_each_change_has_its_kind(shell: Project) -> None:
    found = [
        (each.path, each.change, each.renamed_from)
        for each in tried(run(shell, RENAMES, answers=[True])).changed
    ]
    assert found == [
        ("build.sh", "mode", None),
        ("notes.txt", "deleted", None),
        ("old", "mode", None),
        ("sub", "created", None),
        ("sub/a", "created", None),
        ("sub/b", "created", None),
        ("told.txt", "renamed", "notes.txt"),
    ]
    assert (shell.folder / "told.txt").exists()


def test_no_changes_nothing(shell: Project) -> None:
    before = tree(shell.folder)
    seen = run(shell, "./build.sh", answers=[False])
    assert status(seen) == "denied"
    assert (
        seen.of(ToolResult)[0].error
        == "shell was not called; the user said no, and nothing was changed"
    )
    assert [event.applied for event in seen.of(CommandTried)] == [False]
    assert tree(shell.folder) == before


def test_effects_are_denied_without_a_person(shell: Project) -> None:
    before = tree(shell.folder)
    seen = run(shell, "./build.sh")
    assert (status(seen), tried(seen).outcome) == ("denied", "effects")
    assert tree(shell.folder) == before


def test_file_changed_during_the_question_is_tried_again(shell: Project) -> None:
    def answer(request: ApprovalRequest) -> bool:
        if len(asked) == 0:
            shell.write("notes.txt", "hello\nmoon\n")
        asked.append(request)
        return True

    asked: list[ApprovalRequest] = []
    seen = run(shell, "./build.sh", approval_callback=answer)
    assert (len(asked), status(seen)) == (2, "success")
    assert "was changed in the meantime" in asked[1].reason
    assert shell.read("notes.txt") == "bye\nmoon\n"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("rules", "line"),
    [
        ("rules: [{pattern: wc, approval: ask}]", "wc -l notes.txt"),
        ("rules: [{pattern: wc, approval: ask}]", "true; wc -l notes.txt"),
        ("approval: {tools: {shell: ask}}", "wc -l notes.txt"),
        ("rules: []", "wc -c .env.sample"),
        ("rules: [{pattern: wc, approval: ask}]", 'eval "w""c" notes.txt; fi'),
        ("rules: [{pattern: wc, approval: ask}]", "timeout 5 wc -l notes.txt"),
        ("rules: [{pattern: wc, approval: ask}]", "/usr/bin/wc -l notes.txt"),
        ("rules: [{pattern: wc, approval: ask}]", "find . -name notes.txt -exec wc -l {} +"),
    ],
)
def test_rule_that_asks_also_asks_without_effects(shell: Project, rules: str, line: str) -> None:
    shell.write("worker.yaml", f"name: w\ntoolsets: {{shell: {{{rules}}}}}\n")
    seen = run(shell, line, answers=[False])
    assert (len(seen.of(ApprovalRequired)), status(seen)) == (1, "denied")


WC_IS_BLOCKED = "name: w\ntoolsets: {shell: {rules: [{pattern: wc, approval: blocked}]}}\n"


def test_blocked_program_is_blocked_before_or_by_its_trial(shell: Project) -> None:
    shell.write("worker.yaml", WC_IS_BLOCKED)
    for line in (
        "wc notes.txt",
        "$(echo w)c notes.txt",
        "x=w; ${x}c notes.txt",
        'eval "w"c notes.txt',
    ):
        seen = run(shell, line, answers=[False])
        assert [event.outcome for event in seen.of(CommandTried)] in ([], ["blocked"]), line
        assert (seen.of(ApprovalRequired), status(seen)) == ([], "blocked"), line


def test_disabled_trials_ask_at_once(shell: Project) -> None:
    shell.write("worker.yaml", "name: w\ntoolsets: {shell: {try: off}}\n")
    seen = run(shell, "wc -l notes.txt", answers=[True])
    assert (len(seen.of(ApprovalRequired)), seen.of(CommandTried), status(seen)) == (
        1,
        [],
        "success",
    )


def test_scratch_files_are_dropped_without_asking(shell: Project) -> None:
    shell.write("pkg/mod.py", "x = 1\n")
    seen = run(
        shell,
        "python3 -c 'import pkg.mod' && mkdir -p .pytest_cache/v && echo 1 > .pytest_cache/v/x",
    )
    assert (tried(seen).outcome, seen.of(ApprovalRequired)) == ("noEffect", [])
    assert not list(shell.folder.rglob("__pycache__"))
    assert not (shell.folder / ".pytest_cache").exists()


def test_missing_access_is_reported_and_a_yes_runs_the_line(shell: Project) -> None:
    shell.write(".env", "TOKEN=abc\n")
    secret = 'python3 -c \'print(open(".e" + "nv").read())\''
    seen = run(shell, secret, answers=[True])
    assert tried(seen).outcome == "incomplete"
    assert tried(seen).wanted == (
        TriedWant("read", str(shell.folder / ".env"), "may hold secrets"),
    )
    assert "it wanted" in shown(seen)
    assert "abc" not in shown(seen)
    assert seen.of(ToolResult)[0].value.data["stdout"] == "TOKEN=abc\n\n"  # type: ignore[union-attr]


def test_path_that_is_only_printed_is_not_wanted(shell: Project) -> None:
    shell.write("users.txt", "lib:/var/lib\n")
    seen = run(shell, "python3 -c 'print(open(\"users.txt\").read())'")
    assert (tried(seen).outcome, tried(seen).wanted) == ("noEffect", ())
    assert seen.of(ApprovalRequired) == []


@pytest.mark.parametrize("script", ["echo /var/lib: Permission denied", "echo /var/lib; exit 1"])
def test_path_that_an_error_names_is_wanted(shell: Project, script: str) -> None:
    shell.write("read.sh", f"{script}\n")
    seen = run(shell, "sh read.sh", answers=[False])
    assert tried(seen).outcome == "incomplete"
    assert [want.what for want in tried(seen).wanted] == ["/var/lib"]


HIDDEN_FROM_ALL = {
    "cat {home}/notes.txt": "of the home it sees zones",
    "cat ~/notes.txt": "of the home it sees zones",
    "cd {home}/other && ls": "of the home it sees zones",
    "sh read.sh": "of the home it sees zones",
    "echo x >> {home}/notes.txt": "of the home it sees zones",
    "cat {temporary}": "its /tmp is private",
}


@pytest.mark.parametrize("line", HIDDEN_FROM_ALL)
def test_path_hidden_from_all_commands_raises_no_question(
    shell: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as home,
        tempfile.NamedTemporaryFile(dir="/tmp") as temporary,
    ):
        monkeypatch.setenv("HOME", home)
        Path(home, "notes.txt").write_text("mine\n")
        Path(home, "other").mkdir()
        shell.write("read.sh", f"cat {home}/notes.txt\n")
        seen = run(shell, line.format(home=home, temporary=temporary.name))
        assert Path(home, "notes.txt").read_text() == "mine\n"
    assert (tried(seen).outcome, tried(seen).wanted, seen.of(ApprovalRequired)) == (
        "noEffect",
        (),
        [],
    )
    (result,) = seen.of(ToolResult)
    assert result.status == "error"
    assert HIDDEN_FROM_ALL[line] in str(result.value.model_text)  # type: ignore[union-attr]


def test_secret_in_the_git_folder_is_masked(shell: Project) -> None:
    shell.write(".git/x/.env", "TOKEN=abc\n")
    seen = run(
        shell, """python3 -c 'print(open(chr(46) + "git/x/.en" + "v").read())'""", answers=[False]
    )
    assert tried(seen).outcome == "incomplete"
    assert tried(seen).wanted == (
        TriedWant("read", str(shell.folder / ".git/x/.env"), "may hold secrets"),
    )
    assert "abc" not in shown(seen)


def test_inaccessible_file_is_reported_if_the_line_names_it(shell: Project) -> None:
    os.mknod(shell.folder / "app.sock", stat.S_IFSOCK | 0o600)
    common = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
    devices = [
        path for path in Path("/dev").iterdir() if path.is_char_device() and path.name not in common
    ]
    table = {
        "echo x > /etc/made; true": [("write", "/etc/made")],
        "mkdir -p /usr/made/deep": [("write", "/usr/made/deep")],
        "test -S ./app.sock": [("read", str(shell.folder / "app.sock"))],
        "echo x > /tmp/made; : > /dev/null; ls /usr/nothing /dev/full": [],
        **{f"head -c 1 {path}": [("read", str(path))] for path in devices if not path.is_symlink()},
    }
    lines = list(table)[:5]
    turns = [calls(call("shell", command=line)) for line in lines]
    seen = shell.run(*turns, "done", approval_callback=lambda request: False, timeout=120)
    found = [[(each.kind, each.what) for each in event.wanted] for event in seen.of(CommandTried)]
    assert dict(zip(lines, found, strict=True)) == {line: table[line] for line in lines}


def test_refused_socket_is_reported_without_any_output(shell: Project) -> None:
    """The model never gets the output of such a line as its result."""
    connect = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"%s\")'"
    table = {
        f"{connect % '/var/run/docker.sock'} 2>/dev/null || echo no containers": "/var/run/docker.sock",
        f"{connect % '/run/user/1000/bus'} 2>&1 | grep -c PASS": "/run/user/1000/bus",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'": "a unix socket",
    }
    turns = [calls(call("shell", command=line)) for line in table]
    seen = shell.run(*turns, "done", approval_callback=lambda request: False, timeout=120)
    events = seen.of(CommandTried)
    assert [event.outcome for event in events] == ["incomplete"] * 3
    assert [[each.what for each in event.wanted] for event in events] == [
        [path] for path in table.values()
    ]
    assert "no containers" not in str(seen.of(ToolResult)[0].value)


GARBAGE = r"""
import random, socket
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.settimeout(20)
asked.connect(("127.0.0.1", 53))
chance = random.Random(34)
for size in [0, 1, 12, 13, 512, *(chance.randrange(200) for _ in range(40))]:
    asked.send(chance.randbytes(size))
asked.send(b"id\1\0\0\1" + bytes(6) + b"\x0cevil\x1b[2J\n, x\7example\0\0\1\0\1")
while not (answer := asked.recv(600)).startswith(b"id"):
    pass
address = socket.inet_ntoa(answer[-4:])
print(address, socket.socket().connect_ex((address, 8443)) != 0)
"""
SERVED = r"""
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"served")).start()
print(socket.create_connection(server.getsockname()).recv(9))
"""


def test_blocked_connection_is_reported_with_host_and_port(shell: Project) -> None:
    shell.write("served.py", SERVED)
    shell.write("garbage.py", GARBAGE)
    table = {
        "python3 served.py": [],
        ": < /dev/tcp/one.example/443; : < /dev/tcp/two.example/80; true": [
            "the network (one.example:443, two.example:80)"
        ],
        "getent ahosts three.example; true": ["the network (three.example)"],
        ": < /dev/tcp/127.0.0.1/9; echo x > /dev/udp/time.example/123; true": [
            "the network (time.example:123)",
            "a server on this machine (127.0.0.1:9)",
        ],
        ": < /dev/tcp/203.0.113.7/80; true": ["the network (an address that it knows)"],
    }
    turns = [calls(call("shell", command=line)) for line in (*table, "python3 garbage.py")]
    seen = shell.run(*turns, "done", approval_callback=lambda request: False, timeout=120)
    *found, garbage = (describe_wanted(each.wanted) for each in seen.of(CommandTried))
    assert dict(zip(table, found, strict=True)) == table
    (text,) = garbage
    assert text.startswith("the network (")
    assert "evil2jx.example:8443" in seen.of(CommandTried)[-1].sentence()
    assert text.isprintable()


RETRIES = "for number in $(seq 1000); do getent hosts name.example || sleep 1; echo retried $number; done; echo 1 > made"


@pytest.mark.parametrize(
    "line", [RETRIES, f"setsid bash -c '{RETRIES}' & wait", f"({RETRIES}) | cat"]
)
def test_trial_ends_at_the_first_host_name_without_output(shell: Project, line: str) -> None:
    seen = run(shell, line, answers=[False])
    assert (tried(seen).outcome, tried(seen).wanted) == (
        "incomplete",
        (TriedWant("network", "name.example"),),
    )
    assert tried(seen).duration_ms < 20_000
    text = shown(seen)
    assert text.startswith("tried on a copy, incomplete after ")
    assert text.endswith(" s: it wanted the network (name.example)")
    assert "\n" not in text
    assert "retried" not in str(seen.of(ToolResult)[0].value)


QUIET = (
    "NO_UPDATE_NOTIFIER",
    "PIP_DISABLE_PIP_VERSION_CHECK",
    "npm_config_update_notifier",
    "GH_NO_UPDATE_NOTIFIER",
)


@pytest.mark.parametrize("options", ["", "try: off, "])
def test_update_checks_of_programs_are_disabled(
    shell: Project, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    monkeypatch.setenv("NO_UPDATE_NOTIFIER", "")
    monkeypatch.setenv("GH_NO_UPDATE_NOTIFIER", "mine")
    shell.write(
        "worker.yaml", f"name: w\ntoolsets: {{shell: {{{options}env: [GH_NO_UPDATE_NOTIFIER]}}}}\n"
    )
    seen = run(
        shell,
        f"python3 -c 'import os; print(*map(os.getenv, {json.dumps(QUIET)}))'",
        answers=[True],
    )
    assert seen.of(ToolResult)[0].value.data["stdout"] == "1 1 false mine\n"  # type: ignore[union-attr]


def test_parked_session_keeps_the_shown_changes(shell: Project) -> None:
    shell.write("worker.yaml", f"{WORKER}model: script:script.yaml\n")
    turns = [calls(call("shell", command="./build.sh")), {"text": "done"}]
    shell.write("script.yaml", json.dumps({"turns": turns}))
    parked = shell.forge("run", "worker.yaml", "go", "-p", "--on-ask", "park")
    assert parked.returncode == 10, parked
    (kept,) = (shell.home / "sessions").glob("*.trials/*")
    listed = shell.forge("approvals", "list", "--json")
    (waiting,) = json.loads(listed.stdout)
    os.utime(shell.folder / "worker.yaml")
    assert (
        shell.forge("approvals", "answer", waiting["session"], waiting["request"], "yes").returncode
        == 0
    )
    done = shell.forge("run", "worker.yaml", "-r", waiting["session"], "-p")
    assert (done.returncode, done.stdout) == (0, "done\n"), done
    assert shell.read("dist/out") == "built\n"
    assert not kept.exists()


GEN = "mkdir -p @1 @2; echo a > @1/a; echo b > @2/b\n"
CONNECT = "python3 -c 'import socket; socket.socket().connect_ex((\"127.0.0.1\", 9))'"
CHANGED_SCRIPTS = {
    "the same": (GEN, "unasked"),
    "other content": ("mkdir -p @1 @2; echo evil > @1/a; echo b > @2/b\n", "unasked"),
    "less": ("mkdir -p @1; echo b > @1/a\n", "unasked"),
    "nothing": ("true\n", "unasked"),
    "more in a folder that was made": ("mkdir -p @1/x; echo a > @1/x/y\n", "unasked"),
    "a new file": ("mkdir -p @1; echo b > @1/a; echo c > @c\n", "asks"),
    "another file": ("echo c >> notes.txt\n", "asks"),
    "a name that begins alike": ("mkdir @11; echo c > @11/a\n", "asks"),
    "deletes what it made": ("rm -rf @1\n", "asks"),
    "deletes another": ("rm notes.txt\n", "asks"),
    "a file in the place of a folder": ("rm -r @1; echo a > @1\n", "asks"),
    "a link in the place of a file": ("ln -sf ../notes.txt @1/a; rm @2/b\n", "asks"),
    "a protected name": ("echo T=1 > @1/.env\n", "asks"),
    "wants the network": (f"echo b > @1/a; {CONNECT}\n", "asks"),
    "the mode of another": ("chmod 700 notes.txt\n", "asks"),
}


def test_grant_for_this_call_covers_trials_with_the_same_changes(shell: Project) -> None:
    """The words are the same each time, but not the script behind them."""
    asked: list[str] = []
    scripts = {
        f"gen{number}": (f"d{number}_", *row) for number, row in enumerate(CHANGED_SCRIPTS.values())
    }

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        name = request.args["command"].removeprefix("sh ")
        asked.append(name)
        if asked.count(name) > 1:
            return ApprovalDecision(False)
        folder, script, _ = scripts[name]
        shell.write(name, script.replace("@", folder))
        assert [offer.text for offer in request.offers or ()] == [
            "this exact call, on a copy; it asks if anything else changes"
        ]
        return ApprovalDecision(True, remember="session")

    for name, (folder, _, _) in scripts.items():
        shell.write(name, GEN.replace("@", folder))
    turns = [calls(call("shell", command=f"sh {name}")) for name in scripts for _ in range(2)]
    seen = shell.run(*turns, "done", approval_callback=answer, timeout=180)
    found = ["asks" if asked.count(name) > 1 else "unasked" for name in scripts]
    assert dict(zip(CHANGED_SCRIPTS, found, strict=True)) == {
        name: row[1] for name, row in CHANGED_SCRIPTS.items()
    }
    assert len(seen.of(CommandTried)) >= len(turns)
    assert shell.read("d1_1/a") == "evil\n"


RULED = "name: w\ntoolsets: {shell: {rules: [{pattern: touch, approval: preApproved}]}}\n"


def test_rule_granted_after_a_trial_covers_similar_lines(shell: Project) -> None:
    def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.args["command"])
        rules = [offer for offer in request.offers or () if offer.rules]
        return ApprovalDecision(len(asked) == 1, remember="session", grant=rules[0])

    asked: list[str] = []
    lines = ["make a", "make a", "touch other && make a", "make b", "make c", "make d"]
    shell.write(
        "makefile",
        "a:\n\techo a > made\nb:\n\techo b > made\nc:\n\trm made\nd:\n\techo >> notes.txt\n",
    )
    shell.write("worker.yaml", RULED)
    turns = [calls(call("shell", command=line)) for line in lines]
    seen = shell.run(*turns, "done", approval_callback=answer, timeout=120)
    assert asked == ["make a", "touch other && make a", "make b", "make c", "make d"]
    assert status(seen) == "success"


def test_untried_line_is_granted_as_usual(shell: Project) -> None:
    # An untried line may have read the network; this test is about the grant.
    rule = "provenance: {after_untrusted: {other: 'off'}}"
    shell.write("worker.yaml", f"name: w\n{rule}\ntoolsets: {{shell: {{try: off}}}}\n")
    again = calls(call("shell", command="./build.sh"))
    seen = shell.run(
        again,
        calls(call("shell", command="touch old")),
        again,
        "done",
        answers=[ApprovalDecision(True, remember="session"), True],
        timeout=60,
    )
    assert [result.status for result in seen.of(ToolResult)] == ["success", "success", "success"]


def test_incomplete_trial_offers_only_written_rules(
    shell: Project,
) -> None:
    def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(True, remember="session")

    asked: list[ApprovalRequest] = []
    again = calls(call("shell", command="make net"))
    shell.write("makefile", f"net:\n\t@{CONNECT}\n")
    seen = shell.run(again, again, "done", approval_callback=answer, timeout=60)
    assert [each.outcome for each in seen.of(CommandTried)] == ["incomplete", "incomplete"]
    assert len(asked) == 2
    assert all(offer.lasting and offer.rules for offer in asked[0].offers or ())


BELOW_DIST = [
    ("echo a > dist/a", None),
    ("mkdir -p dist/sub && echo b > dist/sub/b && rm dist/a", "unasked"),
    ("rm -r dist/sub && chmod 700 dist", "unasked"),
    ("echo c > dist/c && echo c > c", "dist is not all"),
    ("mkdir -p dist2 && echo c > dist2/c", "a name that begins alike"),
    ("echo T=1 > dist/.env", "a protected name"),
    ("ln -s ../src dist/link && echo x > dist/link/x", "through a link"),
    ("rm -r dist && ln -s src dist", "a link in its place"),
    ("chmod 700 .", "the zone itself"),
    ("echo d > dist/d; : < /dev/tcp/127.0.0.1/9; true", "it wanted more"),
    ("echo d > dist/d && grep -q d dist/d && exit 3", "unasked"),
]


def test_changes_below_a_folder_are_granted_for_the_session(shell: Project) -> None:
    shell.write("src/old", "old\n")
    (shell.folder / "dist").mkdir()
    asked: dict[str, ApprovalRequest] = {}

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked[request.args["command"]] = request
        below = [offer for offer in request.offers or () if offer.below]
        if request.args["command"] != BELOW_DIST[0][0]:
            return ApprovalDecision(False)
        return ApprovalDecision(True, remember="session", grant=below[0])

    turns = [calls(call("shell", command=line)) for line, _ in BELOW_DIST]
    seen = shell.run(*turns, "done", approval_callback=answer, timeout=120)
    assert [line for line, why in BELOW_DIST if (line in asked) == (why == "unasked")] == []
    offered = {
        line: [offer.text for offer in request.offers or () if offer.below]
        for line, request in asked.items()
    }
    assert {line: texts for line, texts in offered.items() if texts} == {
        "echo a > dist/a": ["changes below dist/ of tried commands"],
        "mkdir -p dist2 && echo c > dist2/c": ["changes below dist2/ of tried commands"],
    }
    granted = [each for each in seen.of(ApprovalDecided) if each.by == "memory"]
    assert {each.grant.below for each in granted if each.grant} == {str(shell.folder / "dist")}
    assert len(granted) == 3
    assert sorted(os.listdir(shell.folder / "dist")) == ["d"]


def test_folder_grant_does_not_cover_a_rule_that_asks(shell: Project) -> None:
    shell.write(
        "worker.yaml", "name: w\ntoolsets: {shell: {rules: [{pattern: cp, approval: ask}]}}\n"
    )
    (shell.folder / "dist").mkdir()
    seen = run(shell, "cp old dist/old", answers=[False])
    (asked,) = seen.of(ApprovalRequired)
    assert tried(seen).outcome == "effects"
    assert [offer for offer in asked.request.offers or () if offer.below] == []  # type: ignore[union-attr]


def test_file_that_forge_would_import_is_marked(
    shell: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(shell.folder))
    text = shown(run(shell, "touch sitecustomize.py other.py", answers=[False]))
    assert text.split("\n")[1:3] == [
        "made     sitecustomize.py (0 bytes) PROTECTED: forge imports it",
        "made     other.py (0 bytes)",
    ]


def test_file_with_a_protected_name_is_marked_too(shell: Project) -> None:
    hook = shell.write(".git/hooks/pre-commit", "own\n")
    os.link(hook, shell.folder / "other")
    os.link(shell.write("plain", "own\n"), shell.folder / "second")
    seen = run(shell, "echo evil >> other; echo more >> second; chmod 700 plain", answers=[True])
    rows = [
        row for row in shown(seen).split("\n") if row.startswith(("changed ", "mode ", "made "))
    ]
    assert [row.partition(" PROTECTED: ")[2] for row in rows if "other" in row] == [
        "it is another name of " + repr(str(hook)) + " (a hard link)"
    ]
    assert [row for row in rows if "PROTECTED" in row and "other" not in row] == []
    assert (hook.read_text(), shell.read("other")) == ("own\n", "own\nevil\n")


BLOCKS = "{rules: [{pattern: git push, approval: blocked}, {pattern: sudo, approval: blocked}]}"
READABLE = (
    *(
        "PYTHONPATH=src python3 -c 'import json'",
        "DEBUG=1 true",
        "CI=true A=b true",
        "FORCE_COLOR= true",
        "X=a; test $X",
    ),
    *(
        "ls *.txt",
        "wc -l *",
        "diff *.txt notes.txt",
        "Y=1 grep hello *.txt",
        "X=$(date) true",
        "NODE_ENV=test true",
    ),
)
UNREADABLE = {
    "PATH=.:$PATH ./build.sh": "PATH may change what runs",
    "LD_PRELOAD=./x.so ls -l": "LD_PRELOAD may change what runs",
    "GIT_PAGER=./x git log": "GIT_PAGER may change what runs",
    "NODE_OPTIONS=--require=./x node y": "NODE_OPTIONS may change what runs",
    "PYTHONSTARTUP=x.py true": "PYTHONSTARTUP may change what runs",
    "DEBUG=1 find * -name x": "a word that starts with a glob can become an option",
    "X=git; $X status": "a variable is replaced by its value",
}


@pytest.mark.few(6)
@pytest.mark.parametrize("line", READABLE)
def test_line_with_assignments_or_file_names_is_tried_beside_blocking_rules(
    shell: Project, line: str
) -> None:
    shell.write("worker.yaml", f"name: w\ntoolsets: {{shell: {BLOCKS}}}\n")
    seen = run(shell, line)
    assert (tried(seen).outcome, seen.of(ApprovalRequired)) == ("noEffect", [])


@pytest.mark.parametrize("line", UNREADABLE)
def test_untried_line_explains_a_possible_blocked_builtin(shell: Project, line: str) -> None:
    shell.write(
        "worker.yaml", "name: w\ntoolsets: {shell: {rules: [{pattern: eval, approval: blocked}]}}\n"
    )
    seen = run(shell, line, answers=[False])
    assert seen.of(CommandTried) == []
    text = shown(seen)
    assert text.startswith(
        "not tried on a copy: the line may use a blocked builtin, which no trial detects ("
    )
    assert UNREADABLE[line] in text


@pytest.mark.parametrize("line", UNREADABLE)
def test_line_is_tried_if_only_programs_are_blocked(shell: Project, line: str) -> None:
    shell.write("worker.yaml", f"name: w\ntoolsets: {{shell: {BLOCKS}}}\n")
    assert tried(run(shell, line, answers=[False])).outcome in ("noEffect", "effects")


def test_files_matched_by_a_glob_are_deleted_on_a_copy(shell: Project) -> None:
    shell.write("worker.yaml", f"name: w\ntoolsets: {{shell: {BLOCKS}}}\n")
    seen = run(shell, "rm -rf build *.txt", answers=[True])
    assert [(each.path, each.change) for each in tried(seen).changed] == [("notes.txt", "deleted")]
    assert not (shell.folder / "notes.txt").exists()


RISKS = {
    "touch new": "medium",
    "rm notes.txt": "medium",
    "mkdir .idea && echo x > .idea/workspace.xml": "high",
    "python3 -c 'import socket; socket.create_connection((\"a.example\", 80))'": "medium",
    "tee < notes.txt": "low",
}


@pytest.mark.parametrize("line", RISKS)
def test_risk_of_a_command_comes_from_its_trial(shell: Project, line: str) -> None:
    shell.write(
        "worker.yaml", "name: w\ntoolsets: {shell: {rules: [{pattern: tee, approval: ask}]}}\n"
    )
    (asked,) = run(shell, line, answers=[False]).of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    assert asked.request.risk == RISKS[line]
