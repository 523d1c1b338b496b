"""``forge worker check``: every way to write a worker wrongly has a place and a remedy.

Covers forge_cli.cli.worker.check, forge_cli.files.worker.
"""

import re

import pytest

GOOD = "name: good\ninstructions: Be good.\ntoolsets: {filesystem: {}}\n"
CUSTOM = "name: w\ntoolsets:\n  custom:\n    module: ./t.py\n    tools: [%s]\n"
MODULE = """
number = 1

def good(x: int) -> int:
    return x

def read_file(x: int) -> int:
    return x

def bare(x):
    return x
"""


def test_a_sound_worker(cli, tester) -> None:
    done = cli("worker", "check", "worker.yaml")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"worker\.yaml: ok \(worker 'tester', toolsets: 2, tools: \d+\)", done.out.splitlines()[0])
    assert cli("worker", "check", ".").out.startswith(".: ok")


def test_front_matter(cli, project) -> None:
    project.write("w.md", "---\nname: written\ntoolsets: {filesystem: null}\n---\n# You write\n")
    done = cli("worker", "check", "w.md")
    assert (done.code, done.out.split(",")[0]) == (0, "w.md: ok (worker 'written'")


BAD = {
    "empty": ("", 1, "nothing is written here"),
    "no mapping": ("- a\n- b\n", 1, ""),
    "no yaml": ("name: [unclosed\n", 1, "bracket"),
    "a tab": ("name: w\n\tdescription: x\n", 2, ""),
    "no name": ("description: nameless\n", 1, "name"),
    "a bad name": ("name: Two Words\n", 1, "name"),
    "a key twice": ("name: a\nname: b\n", 2, "name"),
    "an unknown key": ("name: w\ninstrucions: x\n", 2, "instructions"),
    "both spellings": ("name: w\nlimits: {max_turns: 1, maxTurns: 2}\n", 2, "given twice"),
    "a bad limit": ("name: w\nlimits: {max_turns: 0}\n", 2, "max_turns"),
    "a limit that is no number": ("name: w\nlimits: {max_turns: true}\n", 2, "must be an integer, not True"),
    "a bad mode": ("name: w\napproval: {mode: yolo}\n", 2, "mode"),
    "its own consent": ("name: w\napproval: {mode: approve_all}\n", 2, "-y"),
    "an unknown toolset": ("name: w\ntoolsets:\n  filesytem: {}\n", 3, "did you mean 'filesystem'?"),
    "an unknown option": ("name: w\ntoolsets:\n  filesystem: {nosuch: 1}\n", 3, "nosuch"),
    "a bad approval": ("name: w\ntoolsets:\n  filesystem: {approval: {default: maybe}}\n", 3, "default"),
    "a tool it has not": ("name: w\ntoolsets:\n  filesystem: {tools: [red_file]}\n", 3, "did you mean 'read_file'?"),
    "approval of a tool it has not": (
        "name: w\ntoolsets:\n  filesystem:\n    approval: {tools: {red_file: ask}}\n",
        4,
        "did you mean 'read_file'?",
    ),
    "a bad zone": ("name: w\nsandbox:\n  zones:\n    - {name: a, mode: rx}\n", 4, "mode"),
    "two zones of one name": (
        "name: w\nsandbox:\n  zones:\n    - {name: a, mode: rw}\n    - {name: a, mode: rw}\n",
        5,
        "a",
    ),
    "a missing read-only zone": ("name: w\nsandbox:\n  zones:\n    - {name: none, mode: ro}\n", 4, "mode: rw"),
    "no module": ("name: w\ntoolsets:\n  custom: {module: ./nosuch.py, tools: [a]}\n", 3, "nosuch.py"),
    "no whitelist": ("name: w\ntoolsets:\n  custom: {module: ./t.py}\n", 3, "tools"),
    "an unknown function": (CUSTOM % "goood", 5, "did you mean 'good'?"),
    "a function without hints": (CUSTOM % "bare", 5, "bare"),
    "no function": (CUSTOM % "number", 5, "neither a function nor a tool"),
    "two tools of one name": (CUSTOM % "read_file" + "  filesystem: {}\n", 6, "give one of them a prefix"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_worker_that_is_wrong_says_where(cli, project, case: str) -> None:
    text, line, sentence = BAD[case]
    project.write("w.yaml", text)
    project.write("t.py", MODULE)
    done = cli("worker", "check", "w.yaml")
    assert (done.code, done.out) == (3, "")
    assert re.match(rf"forge: w\.yaml:{line}:\d+: .", done.err), done.err
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 3


@pytest.mark.parametrize("body", ["def f(:\n", "import nosuch_module\n", "1 / 0\n", "raise SystemExit(3)\n"])
def test_a_module_that_cannot_be_imported(cli, project, body: str) -> None:
    project.write("w.yaml", CUSTOM % "good")
    project.write("t.py", f"x = 1\n{body}")
    done = cli("worker", "check", "w.yaml")
    assert (done.code, done.out) == (3, "")
    assert "t.py:2" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("words", [["nosuch.yaml"], ["src"], ["src/a.txt"]])
def test_a_worker_that_is_not_there(cli, tester, words: list[str]) -> None:
    done = cli("worker", "check", *words)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"forge: {words[0]}")


def test_bytes_that_are_no_text(cli, project) -> None:
    (project.folder / "w.yaml").write_bytes(b"name: \xff\n")
    done = cli("worker", "check", "w.yaml")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("forge: w.yaml")


def test_warnings_go_to_standard_error_and_do_not_fail_it(cli, project) -> None:
    project.write("w.yaml", "name: w\ntoolsets:\n  filesystem: {approval: {tools: {read_file: preApproved}}}\n")
    done = cli("worker", "check", "w.yaml")
    assert done.code == 0
    assert done.err.startswith("warning: w.yaml:3:")
    assert done.out.startswith("w.yaml: ok")


def test_zones_are_those_of_the_directory(cli, tester) -> None:
    tester.write("sub/x", "")
    assert cli("worker", "check", "worker.yaml", "-C", "sub").code == 3
    tester.write("sub/src/x", "")
    assert cli("worker", "check", "worker.yaml", "-C", "sub").code == 0
    assert cli("worker", "check", "worker.yaml", "-C", "nowhere").code == 2


def test_file_names_cannot_repaint_the_terminal(cli, project) -> None:
    project.write("a\x1b[2J.yaml", GOOD)
    assert cli("worker", "check", "a\x1b[2J.yaml").out.startswith("a\\x1b[2J.yaml: ok")
    project.write("b\x1b[2J.yaml", "nmae: x")
    assert "b\\x1b[2J.yaml:1:1" in cli("worker", "check", "b\x1b[2J.yaml").err
