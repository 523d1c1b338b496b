"""Claude Code's hook: installed, asked, answered in its own words."""

import json
import os

import pytest

from .conftest import Machine

NOT_COVERED = [
    "env",
    "env | sort",
    "timeout 5 env",
    "printenv",
    "printenv HOME ANTHROPIC_API_KEY",
    "printenv HOME PATH | wc",
    "printenv | head -3",
    "print'env' KEY",
    "'env'",
    "en\\v | sort",
]
"""Lines of programs that the set for reading covers only where forge confines them, which a guard does not."""
SHOWS_ENVIRONMENT = [
    "echo $ANTHROPIC_API_KEY",
    'echo "${DATABASE_URL}"',
    "x=$GH_TOKEN; echo $x",
    "jq -n env",
    "jq -n '$ENV.HOME'",
    "awk 'BEGIN{print ENVIRON[\"X\"]}'",
    "echo a # it's\necho $SECRET # '",
]
SHOWS_NOTHING = [
    "echo $HOME",
    "awk '{print $NF}' a.txt",
    "for f in *.py; do head -3 $f; done",
    "grep -rn env src",
]


def test_under_careful_every_change_asks_and_tests_run(machine: Machine) -> None:
    machine.guard("install", "claude", "--project")
    file = str(machine.project / "a.txt")
    assert machine.claude("Write", {"file_path": file, "content": "x"})[0] == "ask"
    for line, decision in (("echo hi > a.txt", "ask"), ("pytest", "allow"), ("ls", "allow")):
        assert machine.claude("Bash", {"command": line})[0] == decision


def test_under_confined_tests_are_rewritten_and_others_are_not(machine: Machine) -> None:
    machine.guard("install", "claude", "--project", "--preset", "confined")
    given = {"command": "pytest -q | tail -3", "timeout": 5000}
    said = {}
    for command in (given["command"], "ls", "python3 --version", "pytest -q > out.txt"):
        _, out, _ = machine.hook("claude", machine.asked("Bash", {**given, "command": command}))
        said[command] = json.loads(out)["hookSpecificOutput"]
    assert {line: answer["permissionDecision"] for line, answer in said.items()} == {
        "pytest -q | tail -3": "allow",
        "ls": "allow",
        "python3 --version": "allow",
        "pytest -q > out.txt": "allow",
    }
    assert [line for line, answer in said.items() if "updatedInput" not in answer] == ["ls"]
    new = said["pytest -q | tail -3"]["updatedInput"]
    assert new["timeout"] == 5000
    assert new["command"].endswith(f"guard run -C {machine.project} -- 'pytest -q | tail -3'")
    # the line that was run is judged as the line that was wanted
    again = machine.asked("Bash", {**given, "command": new["command"]})
    _, out, _ = machine.hook("claude", again)
    assert json.loads(out)["hookSpecificOutput"]["updatedInput"]["command"] == new["command"]
    evil = new["command"].replace("'pytest -q | tail -3'", "'sudo ls'")
    assert machine.claude("Bash", {"command": evil})[0] == "deny"
    assert machine.claude("Bash", {"command": f"{new['command']}; rm -r src"})[0] == "ask"


@pytest.mark.needs("bwrap")
def test_confined_line_writes_only_in_the_project(machine: Machine) -> None:
    machine.guard("install", "claude", "--project", "--preset", "confined")
    outside = machine.home / "outside.txt"
    line = f"echo out; echo err >&2; echo x > inside.txt; echo x > {outside}; exit 5"
    (machine.project / "sub").mkdir()
    done = machine.run("forge", "guard", "run", "-C", str(machine.project), "--", line)
    assert (done.returncode, done.stdout, "err" in done.stderr) == (5, "out\n", True)
    assert (machine.project / "inside.txt").exists()
    assert not outside.exists()


@pytest.mark.parametrize("isolation", ["off", "auto"])
def test_reading_set_allows_only_plain_forms(machine: Machine, isolation: str) -> None:
    """A tool runs its commands itself, so no confinement limits them, whatever the policy says."""
    machine.guard("install", "claude", "--project")
    machine.policy.write_text(
        machine.policy.read_text().replace("isolation: off", f"isolation: {isolation}")
    )
    (machine.project / "sub").mkdir()
    (machine.project / "sub/.env").write_text("KEY=1\n")
    (machine.project / ".ignore").write_text("!.env*\n")
    os.symlink("sub/.env", machine.project / "visible.txt")
    asking = [
        *(
            "node --version",
            "cargo version",
            "env",
            "go list -m x@latest",
            "diff -rN sub src",
            "rg -0uu KEY",
            "rg KEY",
        ),
        *("rg -L KEY", "rg -l KEY | xargs cat", "grep -R KEY .", "cat visible.txt", "cat vis*"),
        *(
            "find . -name sub | xargs rg -uu KEY",
            "find . -name 'v*' -exec cat {} +",
            "cat $(git ls-files)",
        ),
    ]
    free = ["cat a.txt", "head -1 *.py", "git status", "ls -la | head -3", "ps aux"]
    answers = {line: machine.claude("Bash", {"command": line})[0] for line in (*asking, *free)}
    assert [line for line, answer in answers.items() if answer == "ask"] == asking


def test_every_kind_of_call_gets_its_answer(machine: Machine) -> None:
    machine.use_preset("tests")
    machine.guard("install", "claude", "--project")
    file = str(machine.project / "a.txt")
    outside = str(machine.home / "b.txt")
    (machine.project / "deep").mkdir()
    (machine.project / "src").mkdir()
    (machine.project / "deep/.env.local").write_text("KEY=1\n")
    expected = [
        ("Bash", {"command": "git status"}, "allow", "guard.yaml:"),
        ("Bash", {"command": "git log --output=x"}, "ask", "--output=x writes"),
        ("Bash", {"command": "sudo ls"}, "deny", "toolsets.shell.rules[2]"),
        *(
            ("Bash", {"command": line}, "ask", "what your environment holds")
            for line in SHOWS_ENVIRONMENT
        ),
        *(("Bash", {"command": line}, "ask", "") for line in NOT_COVERED),
        *(("Bash", {"command": line}, "allow", "") for line in SHOWS_NOTHING),
        ("Bash", {"command": 5}, "ask", "'command' is not a text"),
        (
            "Bash",
            {"command": "git status", "dangerouslyDisableSandbox": True},
            "ask",
            "leave the sandbox of claude",
        ),
        ("Bash", {"command": "sudo ls", "dangerouslyDisableSandbox": True}, "deny", "sudo"),
        ("Monitor", {"command": "sudo ls"}, "deny", "sudo"),
        ("Monitor", {"ws": {"url": "wss://example.org"}}, "ask", "host cannot be told"),
        ("Read", {"file_path": file}, "allow", "inside zone 'project'"),
        ("Read", {"file_path": f"{machine.project}/.env"}, "ask", ".env"),
        ("Read", {"file_path": outside}, "ask", "is in no zone"),
        ("Read", {"file_path": "/project/a.txt"}, "ask", "is in no zone"),
        ("Read", {"file_path": "~/b.txt"}, "ask", "may mean a home"),
        ("Write", {"file_path": file, "content": "x"}, None, ""),
        ("Bash", {"command": "echo hi > a.txt"}, None, ""),
        ("Bash", {"command": "echo hi > .env"}, "ask", ".env"),
        ("Bash", {"command": "pytest -q | tail -3"}, "allow", "pre-approved"),
        (
            "Write",
            {"file_path": f"{machine.project}/.git/config", "content": "x"},
            "ask",
            "protected name",
        ),
        (
            "Edit",
            {"file_path": str(machine.settings("claude")), "new_string": ""},
            "ask",
            "'.claude' is a protected",
        ),
        ("Edit", {"file_path": str(machine.policy), "new_string": ""}, "ask", "is in no zone"),
        (
            "MultiEdit",
            {"file_path": file, "edits": [{"new_string": "x"}]},
            None,
            "",
        ),
        ("NotebookEdit", {"notebook_path": outside, "new_source": "x"}, "ask", "is in no zone"),
        ("Glob", {"pattern": "**/*.py"}, "allow", "inside zone"),
        ("Glob", {"pattern": "/etc/*"}, "ask", "is in no zone"),
        ("Glob", {"pattern": "*/../../*"}, "ask", "leads out"),
        ("Grep", {"pattern": "x"}, "allow", "inside zone"),
        ("Grep", {"pattern": "x", "path": ".env"}, "ask", ".env"),
        ("Grep", {"pattern": "x", "glob": "*.py"}, "allow", "inside zone"),
        ("Grep", {"pattern": "x", "glob": "!*.py"}, "allow", "inside zone"),
        ("Grep", {"pattern": "x", "path": "deep", "glob": "**/.e*"}, "ask", ".env"),
        ("Grep", {"pattern": "x", "glob": "*.py *.local"}, "ask", ".env.local"),
        ("Grep", {"pattern": "x", "glob": "{a,.env.local}"}, "ask", ".env.local"),
        ("Grep", {"pattern": "x", "glob": "[.]env*"}, "ask", ".env.local"),
        ("mcp__a__b__c", {}, "ask", "may be a tool of several servers"),
        (
            "WebFetch",
            {"url": "https://docs.python.org/3/", "prompt": "x"},
            "ask",
            "nothing is said of docs.python.org",
        ),
        ("WebSearch", {"query": "x"}, "ask", ""),
        ("mcp__github__get_me", {}, "ask", "nothing is said of github/get_me"),
        ("TodoWrite", {"todos": []}, None, ""),
        ("NewTool", {"anything": 1}, "ask", "the tool 'NewTool' is not known here"),
    ]
    failures = []
    for name, given, decision, reason in expected:
        said = machine.claude(name, given)
        if said[0] != decision or reason not in said[1]:
            failures.append((name, given, said))
    assert failures == []


def test_git_commands_ask_after_files_that_git_takes_for_a_repository(
    machine: Machine,
) -> None:
    machine.guard("install", "claude", "--project", "--preset", "tests")
    for name in ("HEAD", "objects/x"):
        file = str(machine.project / name)
        assert machine.claude("Write", {"file_path": file, "content": "x"})[0] is None
        (machine.project / name).parent.mkdir(exist_ok=True)
        (machine.project / name).write_text("x")
    assert machine.claude("Bash", {"command": "git status"})[0] == "allow"
    (machine.project / "refs").mkdir()
    said = machine.claude("Bash", {"command": "git status"})
    assert (said[0], "git treats the folder as a bare repository" in said[1]) == ("ask", True)


@pytest.mark.long
def test_files_are_found_through_a_link_to_the_project(machine: Machine) -> None:
    machine.guard("install", "claude", "--project")
    link = machine.home / "link"
    link.symlink_to(machine.project)
    (machine.project / ".env").symlink_to("other.txt")
    (machine.project / "out").symlink_to(machine.home)
    machine.extra["CLAUDE_PROJECT_DIR"] = str(link)
    expected = [
        (f"{link}/a.txt", "allow"),
        (f"{machine.project}/a.txt", "allow"),
        (f"{link}/.env", "ask"),
        (f"{link}/out/b.txt", "ask"),
        (f"{link}/out/../b.txt", "ask"),
        (f"{machine.home}/b.txt", "ask"),
        (f"{link}/~/b.txt", "allow"),
        ("a.txt", "allow"),
    ]
    said = [
        (path, machine.claude("Read", {"file_path": path}, cwd=str(link))[0])
        for path, _ in expected
    ]
    assert said == expected
