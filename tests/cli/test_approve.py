"""``forge approve``: the gate's word on a call, with no model and nothing executed.

Covers forge_cli.inspection.gate, forge_cli.engine.gate.answer, forge_cli.engine.gate.outlook.
"""

import json
import subprocess

import pytest

from forge_cli.testing import Project

KEYS = ["tool", "verdict", "reason", "rule", "where", "by", "risk"]


def test_verdict_is_explained(cli, tester) -> None:
    done = cli("approve", "worker.yaml", "echo", "text=hi")
    where = next(
        n
        for n, line in enumerate(tester.read("worker.yaml").splitlines(), 1)
        if "echo: ask" in line
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "ask: echo",
        "  reason: the worker says ask",
        "  rule:   toolsets.custom.approval.tools.echo",
        f"  where:  worker.yaml:{where}:21",
        "  by:     rule",
        "  risk:   high",
    ]


VERDICTS: list[tuple[str, dict[str, object], str, str]] = [
    ("peek", {}, "preApproved", "the worker says preApproved"),
    ("echo", {"text": "hi"}, "ask", "the worker says ask"),
    (
        "write_file",
        {"path": "/notes/a", "content": "x"},
        "preApproved",
        "zone 'notes' pre-approves write",
    ),
    (
        "write_file",
        {"path": "/output/a", "content": "x"},
        "ask",
        "writing in zone 'output' needs your OK",
    ),
    ("delete_file", {"path": "/notes/a"}, "blocked", "zone 'notes' blocks delete"),
    ("deploy", {}, "blocked", "deploy can only be called by a person"),
    ("write_file", {"path": "/src/a", "content": "x"}, "refused", "zone 'src' is read-only"),
    ("read_file", {"path": "/etc/passwd"}, "refused", "zone"),
    ("read_file", {"path": "/src/../../secret"}, "refused", ""),
    ("echo", {}, "refused", "invalid input for echo: missing field 'text'"),
    ("echo", {"text": "a", "times": "x"}, "refused", "times: must be an integer"),
    ("echo", {"text": "a", "nosuch": 1}, "refused", "nosuch"),
    ("nosuch", {"a": "b"}, "refused", "there is no tool 'nosuch'"),
]


def test_each_call_has_its_verdict(cli, tester) -> None:
    tester.write(
        "calls",
        "".join(json.dumps({"tool": tool, "input": args}) + "\n" for tool, args, _, _ in VERDICTS),
    )
    done = cli("approve", "worker.yaml", "--batch", "calls")
    assert (done.code, done.err) == (0, "")
    found = [json.loads(line) for line in done.out.splitlines()]
    failures = [
        (row, answer)
        for row, answer in zip(VERDICTS, found, strict=True)
        if (answer["tool"], answer["verdict"]) != (row[0], row[2]) or row[3] not in answer["reason"]
    ]
    assert failures == []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["read_file", "path=/etc/passwd"], "refused"),
        (["echo", "--json-input", '{"text": "a"}', "times=2"], "ask"),
    ],
)
def test_verdict_is_printed_for_programs_and_people(
    cli, tester, words: list[str], verdict: str
) -> None:
    done = cli("approve", "worker.yaml", *words, "--json")
    found = json.loads(done.out)
    assert (done.code, done.err, done.out.count("\n")) == (0, "", 1)
    assert [key for key in found if key != "grants"] == KEYS
    assert (found["tool"], found["verdict"]) == (words[0], verdict)
    assert cli("approve", "worker.yaml", *words).out.startswith(f"{verdict}: {words[0]}\n")


def test_approve_lists_what_a_session_could_allow(cli, tester) -> None:
    call = "approve", "worker.yaml", "write_file", "path=/output/a", "content=x"
    rule = "sandbox.zones.output.approval.write: preApproved"
    assert cli(*call).out.endswith(f"  can be allowed for a session by: {rule}\n")
    assert json.loads(cli(*call, "--json").out)["grants"] == [
        {"text": "edits in zone output", "rules": [rule]}
    ]
    assert "session" not in cli("approve", "worker.yaml", "echo", "text=hi").out, (
        "the worker itself says ask"
    )


def test_search_of_possible_secrets_is_refused(cli, tester) -> None:
    tester.write("src/.env", "KEY=x\n")
    found = json.loads(
        cli("approve", "worker.yaml", "grep_files", "path=/src/.env", "pattern=x", "--json").out
    )
    assert found["verdict"] == "refused"
    assert found["reason"].startswith("'/src/.env' is not searched: '.env' may hold secrets")


def test_approve_executes_nothing(cli, tester) -> None:
    cli("approve", "worker.yaml", "write_file", "path=/notes/a", "content=x")
    assert not (tester.folder / "notes" / "a").exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ["worker.yaml"],
            2,
            "name a TOOL, or --batch, or --against\n  forge approve WORKER TOOL KEY=VALUE",
        ),
        (
            ["worker.yaml", "echo", "--batch", "-"],
            2,
            "only one of TOOL, --batch and --against may be given",
        ),
        (["worker.yaml", "echo", "word"], 2, "'word' is not KEY=VALUE"),
        (["worker.yaml", "echo", "--json-input", "{"], 2, "--json-input is not JSON"),
        (["worker.yaml", "echo", "--json-input", "[]"], 2, "--json-input must be a JSON object"),
        (["worker.yaml", "--batch", "-", "--json-input", "{}"], 2, "--batch takes the input"),
        (
            ["worker.yaml", "--batch", "nosuch"],
            2,
            "--batch nosuch: there is no such file\n  check the path",
        ),
        (["worker.yaml", "--batch", "src"], 2, "--batch src: that is not a file\n  name a file"),
        (["nosuch.yaml", "echo"], 3, "nosuch.yaml: no such file"),
        (["worker.yaml", "echo", "-C", "nowhere"], 2, "-C nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_invalid_arguments_are_reported(
    cli, tester, words: list[str], code: int, sentence: str
) -> None:
    done = cli("approve", *words)
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err


LINES = [
    ('{"tool": "peek"}', "peek", "preApproved"),
    ("no json", None, "refused"),
    ("[1]", None, "refused"),
    ('"text"', None, "refused"),
    ("7", None, "refused"),
    ("{}", None, "refused"),
    ('{"tool": "peek", "inptu": {}}', "peek", "refused"),
    ('{"tool": null}', None, "refused"),
    ('{"tool": 5}', 5, "refused"),
    ('{"tool": ["echo"]}', ["echo"], "refused"),
    ('{"tool": "echo", "input": {"text": "a"}}', "echo", "ask"),
    ('{"tool": "echo", "input": null}', "echo", "refused"),
    ('{"tool": "echo", "input": [1]}', "echo", "refused"),
    ('{"tool": "echo", "input": "{}"}', "echo", "refused"),
    ('{"tool": "echo", "input": {"te-xt": "a"}}', "echo", "refused"),
    ('{"tool": "report", "input": {"rows": "1"}}', "report", "refused"),
    ('{"tool": "\\ud800"}', "\ud800", "refused"),
    ('{"tool": "read_file", "input": {"path": "/src/\\ud800"}}', "read_file", "refused"),
    ('{"tool": "read_file", "input": {"path": "/src/a\\u0000b"}}', "read_file", "refused"),
    (f'{{"tool": "read_file", "input": {{"path": "/src/{"x" * 5000}"}}}}', "read_file", "refused"),
    (f'{{"tool": "echo", "input": {{"text": {"1" * 5000}}}}}', None, "refused"),
    ("[" * 100_000, None, "refused"),
    ('{"tool": "delete_file", "input": {"path": "/notes/x"}}', "delete_file", "blocked"),
    ('{"tool": "caf\u00e9"}', "café", "refused"),
]


@pytest.mark.few(1)
@pytest.mark.parametrize("source", ["a file", "-"])
def test_batch_is_answered_line_by_line(tester, source: str) -> None:
    text = "\n".join(line for line, _, _ in LINES)
    tester.write("calls", text)
    if source == "-":
        done = tester.forge("approve", "worker.yaml", "--batch", "-", stdin=text)
    else:
        done = tester.forge("approve", "worker.yaml", "--batch", "calls")
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(answer["tool"], answer["verdict"]) for answer in found] == [line[1:] for line in LINES]
    assert all(list(answer) == KEYS for answer in found)
    assert found[1]["reason"] == 'line 2 is not a {"tool", "input"} object'
    assert found[8]["reason"] == "line 9: the tool must be a string"


def test_every_line_has_its_answer_also_an_empty_one(cli, tester) -> None:
    tester.write("calls", '\n{"tool": "peek"}\r\n  \nbad\n')
    found = [
        json.loads(line)
        for line in cli("approve", "worker.yaml", "--batch", "calls").out.splitlines()
    ]
    assert [answer["tool"] for answer in found] == [None, "peek", None, None]
    assert found[2]["reason"] == 'line 3 is not a {"tool", "input"} object'


def test_unknown_key_of_a_line_is_named(cli, tester) -> None:
    tester.write("calls", '{"tool": "peek", "inptu": {}}')
    (answer,) = [
        json.loads(line)
        for line in cli("approve", "worker.yaml", "--batch", "calls").out.splitlines()
    ]
    assert (answer["verdict"], answer["reason"]) == (
        "refused",
        "line 1: 'inptu' is not a key; there are: tool, input",
    )


def test_answer_precedes_the_next_line(tester, start) -> None:
    forge = start("approve", "worker.yaml", "--batch", "-", stdin=subprocess.PIPE).process
    for tool, verdict in [("peek", "preApproved"), ("deploy", "blocked"), ("nosuch", "refused")]:
        forge.stdin.write(json.dumps({"tool": tool}) + "\n")
        forge.stdin.flush()
        assert json.loads(forge.stdout.readline())["verdict"] == verdict
    forge.stdin.close()
    assert forge.wait(timeout=60) == 0


def test_module_of_a_worker_cannot_corrupt_the_answers(tester) -> None:
    tester.write("tools.py", tester.read("tools.py") + "\nprint('imported')\n")
    done = tester.forge("approve", "worker.yaml", "peek", "--json")
    assert json.loads(done.stdout)["verdict"] == "preApproved"
    assert done.stderr == "imported\n"


def test_answer_texts_are_escaped(cli, tester) -> None:
    out = cli("approve", "worker.yaml", "no\x1b[2Jsuch").out
    assert out.startswith("refused: no\\x1b[2Jsuch\n")
    assert "\x1b" not in out


@pytest.mark.needs("overlay")
@pytest.mark.parametrize(("section", "why"), [("{try: off}", "'try' is not off"), ("{}", None)])
def test_untried_line_has_its_reason(project: Project, cli, section: str, why: str | None) -> None:
    project.write("worker.yaml", f"name: w\ntoolsets: {{shell: {section}}}\n")
    done = cli("approve", "worker.yaml", "shell", "command=sh -c 'echo x > made'", "--try")
    assert (done.code, done.out.startswith("ask: shell\n"), done.err) == (0, True, ""), done
    assert ("dropped: nothing was changed" in done.out) == (why is None)
    assert why is None or f"not tried: only lines of the tool shell are, where {why}" in " ".join(
        done.out.split()
    )


RULED = """
name: w
toolsets:
  shell:
    rules: [{use: reading}, {pattern: git push, approval: blocked}, {pattern: tar, approval: ask}]
"""
EFFECT, ASKS = "without an effect it does not ask", "it asks in any case, with what it did there"
TRIED = {
    "echo x > made": EFFECT,
    "sed -i s/a/b/ notes": EFFECT,
    "python3 -c 'print(1)'": EFFECT,
    "python3 - <<'EOF'\nprint(1)\nEOF": EFFECT,
    "./build.sh; echo $HOME": EFFECT,
    "sh build.sh": EFFECT,
    "if true; then echo x > made; fi": EFFECT,
    "tar xf notes": ASKS,
    "echo x > made; tar xf notes": ASKS,
    "git push": None,
    "$(echo git) push": ASKS,
    "git $x": ASKS,
    'bash -c "$x"': ASKS,
    "true; echo x | base64 -d | sh": ASKS,
    "xargs git < list": ASKS,
    "python3 -c 'import os; os.system(\"git push\")'": ASKS,
    "awk 'BEGIN { system(\"git push\") }'": ASKS,
    "cat notes": None,
}


@pytest.mark.needs("overlay")
def test_answers_state_which_lines_would_be_tried(project: Project, cli) -> None:
    project.write("worker.yaml", RULED)
    lines = "".join(
        f"{json.dumps({'tool': 'shell', 'input': {'command': line}})}\n" for line in TRIED
    )
    project.write("lines", lines)
    found = [
        json.loads(line).get("tries")
        for line in cli("approve", "worker.yaml", "--batch", "lines").out.splitlines()
    ]
    assert dict(zip(TRIED, found, strict=True)) == TRIED


@pytest.mark.needs("overlay")
def test_line_that_starts_a_blocked_program_is_blocked_by_its_trial(project: Project, cli) -> None:
    project.write("worker.yaml", RULED)
    done = cli("approve", "worker.yaml", "shell", "command=$(echo git) push", "--try")
    assert done.code == 0, done
    assert done.out.endswith(
        "blocked: on a copy it started a blocked command: 'git push' matches the blocked rule 'git push'\n"
    )
