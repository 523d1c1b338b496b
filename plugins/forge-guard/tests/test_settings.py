"""Settings of other tools: the entry of forge is added and removed without other changes."""

import json
from pathlib import Path

import pexpect
import pytest
from forge_guard.settings import read_settings, with_entry, without_entries

from .conftest import LIMIT, Machine

OURS = {"matcher": "*", "hooks": [{"type": "command", "command": "ours"}]}
GIVEN = [
    "",
    "{}",
    "{ }\n",
    "{\n}\n",
    '{"hooks": {}}',
    '{"hooks": { }}\n',
    '{"hooks": {"PreToolUse": []}}',
    '{"hooks":{"PreToolUse":[\n]}}',
    '{\n  "model": "opus"\n}\n',
    '{"model": "opus", "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": []}]}}',
    '{\r\n  "a": 1,\r\n  "hooks": {\r\n    "Stop": []\r\n  }\r\n}\r\n',
    '\ufeff{"a": 1}',
    '{\n  // mine\n  "a": 1, /* two\n lines */\n  "b": "// no comment" // last\n}\n',
    "{ // nothing\n}",
    '{"hooks": {"PreToolUse": [1]}, "hooks": {"PreToolUse": [2]}}',
    '{"hooks": 1, "a": 2, "hooks": {"Stop": []}}',
    '{"PreToolUse": [1], "hooks": {"PreToolUse": [\n // c\n]}}',
    '{\n\t"hooks": {\n\t\t"PreToolUse": [\n\t\t\t{"hooks": []} // x\n\t\t]\n\t}\n}',
    '{"a":1,\n\n   "b" : [ ] }',
    '\n\n{"z": "ü \\" ] }"}  ',
]


def test_entry_is_added_and_removed_without_other_changes() -> None:
    failures = []
    for text in GIVEN:
        made = with_entry(text, ("hooks", "PreToolUse"), OURS)
        before = read_settings(text)
        others = before.get("hooks", {}).get("PreToolUse", [])
        after = read_settings(made)
        if after["hooks"]["PreToolUse"] != [*others, OURS]:
            failures.append(("not there", text, made))
        if {**after, "hooks": 0} != {**before, "hooks": 0}:
            failures.append(("something else changed", text, made))
        left = without_entries(made, ("hooks", "PreToolUse"), lambda entry: entry == OURS)
        if left.replace("\n", "").replace(" ", "") != (text or "{}").replace("\n", "").replace(
            " ", ""
        ):
            failures.append(("not as before", text, left))
        if text and left != text:
            failures.append(("not the same text", text, left))
    assert failures == []


def test_files_are_byte_for_byte_as_before(machine: Machine) -> None:
    """Also with ends of lines as on Windows, comments, or a key that is there twice."""
    machine.use_preset("tests")
    failures = []
    for tool in ("claude", "codex", "gemini"):
        settings = machine.settings(tool)
        settings.parent.mkdir()
        for text in filter(None, GIVEN):
            settings.write_bytes(text.encode())
            machine.guard("install", tool, "--project")
            installed = settings.read_bytes()
            machine.guard("install", tool, "--project")
            is_same = settings.read_bytes() == installed
            machine.guard("uninstall", tool, "--project")
            left = settings.read_bytes() if settings.exists() else None
            if not is_same or b"forge_guard" not in installed or left != text.encode():
                failures.append((tool, text, installed, left))
        settings.unlink()
    assert failures == []


def test_own_entry_is_removed_wherever_it_is() -> None:
    text = json.dumps({"hooks": {"E": [OURS, {"a": 1}, OURS, {"b": 2}, OURS]}, "z": 1}, indent=2)
    left = without_entries(text, ("hooks", "E"), lambda entry: entry == OURS)
    assert json.loads(left) == {"hooks": {"E": [{"a": 1}, {"b": 2}]}, "z": 1}
    only = json.dumps({"hooks": {"E": [OURS]}, "z": 1})
    assert json.loads(without_entries(only, ("hooks", "E"), lambda entry: entry == OURS)) == {
        "z": 1
    }


def test_installation_is_shown_and_removed_without_a_trace(machine: Machine) -> None:
    settings = machine.settings("claude")
    settings.parent.mkdir()
    text = '{\n    "permissions": {"allow": ["Bash(git:*)"]},\n    "hooks": {"Stop": [{"hooks": []}]}\n}\n'
    settings.write_text(text)
    before = sorted(path for path in machine.project.rglob("*") if ".git/" not in str(path))
    tools = ("claude", "codex", "gemini", "opencode")
    for tool in tools:
        shown = machine.guard("install", tool, "--project")
        assert "\n+" in shown
        assert not [
            line
            for line in shown.splitlines()
            if line.startswith("-") and not line.startswith("---")
        ][1:]
    assert "asks forge already" in machine.guard("install", "claude", "--project")
    stands = [line.split()[:3] for line in machine.guard("status", "--no-probe").splitlines()[1:]]
    assert stands == [
        [tool, place, says]
        for tool in tools
        for place, says in (("user", "-"), ("project", "asks"))
    ]
    for tool in tools:
        machine.guard("uninstall", tool, "--project")
    assert "does not ask forge" in machine.guard("uninstall", "claude", "--project")
    assert settings.read_text() == text
    assert sorted(path for path in machine.project.rglob("*") if ".git/" not in str(path)) == before


def test_links_and_existing_settings_are_kept(machine: Machine) -> None:
    kept = machine.home / "dotfiles" / "settings.json"
    kept.parent.mkdir()
    claude, gemini = machine.settings("claude"), machine.settings("gemini")
    claude.parent.mkdir()
    claude.symlink_to(kept)
    gemini.parent.mkdir()
    gemini.write_text("{}\n")
    for text in (None, "{}", '{"a": 1}'):
        kept.unlink(missing_ok=True) if text is None else kept.write_text(text)
        shown = machine.guard("install", "claude", "--project")
        assert "\nwritten to" in shown
        assert "forge_guard" in kept.read_text()
        machine.guard("uninstall", "claude", "--project")
        assert (claude.is_symlink(), kept.read_text()) == (True, text or "{}")
    machine.guard("install", "gemini", "--project")
    machine.guard("uninstall", "gemini", "--project")
    assert gemini.read_text() == "{}\n"


@pytest.mark.parametrize("place", ["--project", "--user"])
def test_empty_folder_is_kept_after_removal(machine: Machine, place: str) -> None:
    """The project and the home stay, although nothing else is in them."""
    empty = machine.project / "a" / "b"
    machine.project, machine.home = empty / "project", empty / "home"
    machine.project.mkdir(parents=True)
    machine.home.mkdir()
    machine.extra["FORGE_HOME"] = str(machine.project.parent / "forge")
    named = place.removeprefix("--")
    for tool in ("claude", "codex", "gemini", "opencode"):
        machine.guard("install", tool, place)
        (row,) = machine.guard("status", tool, place, "--no-probe").splitlines()[1:]
        assert row.split()[:3] == [tool, named, "asks"]
        machine.guard("uninstall", tool, place)
    assert [path.name for path in machine.project.iterdir()] == []
    assert [path for path in machine.home.rglob("*") if path.is_file()] == []
    assert machine.home.is_dir()


def test_installation_on_a_terminal_needs_a_yes(machine: Machine) -> None:
    """The policy and the hook are two files, and two questions."""
    files, seen = (machine.policy, machine.settings("claude")), []
    stories = {("n\r",): 1, ("\r",): 1, ("\x03",): 130, ("y\r", "n\r"): 1, ("y\r",): 0}
    preset = "tests, confined or careful"
    for answers, code in stories.items():
        command = ["guard", "install", "claude", "--project"]
        terminal = pexpect.spawn(
            "forge", command, env=machine.env, cwd=str(machine.project), timeout=LIMIT
        )
        if not machine.policy.exists():
            terminal.expect_exact(preset)
            terminal.send("nonsense\r")
            terminal.expect_exact("'nonsense' is not one of")
            terminal.send("yes\r")
        for keys in answers:
            terminal.expect_exact("Write it?")
            terminal.send(keys)
        terminal.expect(pexpect.EOF)
        terminal.close()
        seen.append((terminal.exitstatus == code, *(file.exists() for file in files)))
    assert "Preset tests" in machine.policy.read_text()
    assert seen == [(True, False, False)] * 3 + [(True, True, False), (True, True, True)]


@pytest.mark.long
def test_unreadable_settings_are_unchanged(machine: Machine) -> None:
    settings = machine.settings("gemini")
    settings.parent.mkdir()
    for text, told in (
        ('{"a": 1, // mine\n}', "is not valid JSON"),
        ('{"hooks": []}', "'hooks' is not an object"),
        ('{"hooks": {"BeforeTool": {}}}', "'hooks' is not an object"),
    ):
        settings.write_text(text)
        done = machine.run("forge", "guard", "install", "gemini", "--project")
        assert (done.returncode, settings.read_text(), machine.policy.exists()) == (1, text, False)
        assert told in done.stderr
    done = machine.run("forge", "guard", "install", "cursor")
    assert done.returncode == 2
    assert "supported: claude, codex, gemini, opencode" in done.stderr


@pytest.mark.long
def test_existing_policy_is_kept_and_a_broken_one_reported(
    machine: Machine, tmp_path: Path
) -> None:
    machine.policy.parent.mkdir()
    machine.policy.write_text("name: guard\nnonsense: 1\n")
    done = machine.run("forge", "guard", "install", "claude", "--project")
    assert (done.returncode, machine.settings("claude").exists()) == (3, False)
    assert "nonsense" in done.stderr


def test_preset_replaces_another_preset_but_not_a_custom_policy(machine: Machine) -> None:
    shown = machine.guard("install", "codex", "--project")
    assert "preset careful: " in shown
    assert "codex cannot ask, so it may change no file" in shown
    assert "tests and linters are refused" in machine.guard(
        "install", "codex", "--project", "--preset", "confined"
    )
    assert "(confined)" in machine.guard("status", "codex").splitlines()[0]
    machine.policy.write_text(machine.policy.read_text() + "# mine\n")
    done = machine.run("forge", "guard", "install", "codex", "--project", "--preset", "tests")
    assert (done.returncode, "is not an unchanged preset" in done.stderr) == (1, True)
    assert machine.policy.read_text().endswith("# mine\n")
    done = machine.run("forge", "guard", "install", "codex", "--preset", "none")
    assert (done.returncode, "presets: tests, confined, careful" in done.stderr) == (2, True)
