"""Rules added to a file: their place, and all other text unchanged."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.approval import GrantRule, flow
from forge_cli.files.document import parse_document
from forge_cli.files.edit import CannotEditError, lines_to_paste, plan_edit

SHELL = GrantRule(
    ("toolsets", "shell", "rules", "-"),
    {"pattern": "git commit", "approval": "preApproved"},
    "",
    ("policy", "shell", "rules", "-"),
)
TOOL = GrantRule(("toolsets", "custom", "approval", "tools", "look"), "preApproved", "")
ZONE = GrantRule(("sandbox", "zones", "code", "approval", "write"), "preApproved", "")
DEFAULT = {"name": "workspace", "path": ".", "mode": "rw"}
WORKSPACE = [
    GrantRule(
        ("sandbox", "zones", "workspace", "approval", access), "preApproved", "", entry=DEFAULT
    )
    for access in ("write", "delete")
]
NETWORK = GrantRule(("sandbox", "network", "-"), "example.org:443", "")
ENTRY = '{pattern: "git commit", approval: preApproved}'


def added(
    tmp_path: Path, text: str, *rules: GrantRule, user: bool = False, name: str = "w.yaml"
) -> str:
    file = tmp_path / name
    file.write_bytes(text.encode())
    edit = plan_edit(file, rules, user=user)
    assert file.read_bytes() == text.encode(), "a plan changes nothing"
    edit.write()
    return file.read_bytes().decode()


@pytest.mark.parametrize(
    ("before", "rule", "after"),
    [
        (
            "toolsets:\n  shell:  # mine\n    rules:\n      - {pattern: ls, approval: ask}  # why not\n"
            "\n  # files\n  filesystem:\n",
            SHELL,
            "toolsets:\n  shell:  # mine\n    rules:\n      - {pattern: ls, approval: ask}  # why not\n"
            f"      - {ENTRY}\n\n  # files\n  filesystem:\n",
        ),
        (
            "toolsets:\n  shell:\n    rules:\n    - pattern: ls\n      reason: |\n        because\n",
            SHELL,
            f"toolsets:\n  shell:\n    rules:\n    - pattern: ls\n      reason: |\n        because\n    - {ENTRY}\n",
        ),
        ("toolsets:\n  shell:\n", SHELL, f"toolsets:\n  shell:\n    rules:\n      - {ENTRY}\n"),
        (
            "toolsets:\n  shell: null # no\n",
            SHELL,
            f"toolsets:\n  shell: {{rules: [{ENTRY}]}} # no\n",
        ),
        (
            "toolsets: {shell: , plan: }",
            SHELL,
            f"toolsets: {{shell: {{rules: [{ENTRY}]}} , plan: }}",
        ),
        ("toolsets:\n  shell: {}\n", SHELL, f"toolsets:\n  shell: {{rules: [{ENTRY}]}}\n"),
        ("toolsets:\n  shell: {rules: []}\n", SHELL, f"toolsets:\n  shell: {{rules: [{ENTRY}]}}\n"),
        (
            "toolsets:\n  shell:\n    timeout: 3",
            SHELL,
            f"toolsets:\n  shell:\n    timeout: 3\n    rules:\n      - {ENTRY}",
        ),
        (
            "toolsets:\n  custom:\n    approval: {default: ask}\n",
            TOOL,
            "toolsets:\n  custom:\n    approval: {default: ask, tools: {look: preApproved}}\n",
        ),
        (
            "sandbox:\n  zones:\n    - {name: code, approval: {write: ask, delete: ask}}\n",
            ZONE,
            "sandbox:\n  zones:\n    - {name: code, approval: {write: preApproved, delete: ask}}\n",
        ),
        (
            "sandbox:\n  zones:\n    - {name: code}\n    - {name: b}\n",
            ZONE,
            "sandbox:\n  zones:\n    - {name: code, approval: {write: preApproved}}\n    - {name: b}\n",
        ),
        (
            "sandbox:\n  zones:\n    - name: code\n      approval:\n        write:\n",
            ZONE,
            "sandbox:\n  zones:\n    - name: code\n      approval:\n        write: preApproved\n",
        ),
        (
            "sandbox: {network: [a.org]}\n",
            NETWORK,
            'sandbox: {network: [a.org, "example.org:443"]}\n',
        ),
        (
            "sandbox:\n  isolation: auto\nname: w\n",
            WORKSPACE[0],
            "sandbox:\n  isolation: auto\n  zones:\n"
            "    - {name: workspace, path: ., mode: rw, approval: {write: preApproved}}\nname: w\n",
        ),
    ],
)
def test_edit_adds_the_least_text(tmp_path: Path, before: str, rule: GrantRule, after: str) -> None:
    assert added(tmp_path, before, rule) == after


@pytest.mark.parametrize(
    "before",
    ["", "# nothing yet\n", "# nothing yet", "model: x\n", "policy:\n", "policy: {web: {}}\n"],
)
def test_user_config_is_edited(tmp_path: Path, before: str) -> None:
    after = added(tmp_path, before, SHELL, user=True)
    assert parse_document(after, "")["policy"]["shell"] == {"rules": [SHELL.says]}
    assert all(line in after for line in before.splitlines() if "policy" not in line)


def test_missing_file_is_created_readable_only_by_its_user(tmp_path: Path) -> None:
    edit = plan_edit(tmp_path / "home" / "config.yaml", [SHELL], user=True)
    assert (edit.diff.original, edit.diff.is_new) == (None, True)
    edit.write()
    assert edit.file.read_text() == f"policy:\n  shell:\n    rules:\n      - {ENTRY}\n"
    assert edit.file.stat().st_mode & 0o777 == 0o600


def test_front_matter_line_endings_and_byte_order_mark_stay(tmp_path: Path) -> None:
    front = "---\nname: w\ntoolsets:\n  shell:\n"
    rules = f"    rules:\n      - {ENTRY}\n"
    body = "---\nYou are.\ntoolsets:\n"
    assert added(tmp_path, front + body, SHELL, name="w.md") == front + rules + body
    windows = ("\ufeff" + front[4:]).replace("\n", "\r\n")
    assert added(tmp_path, windows, SHELL) == windows + rules.replace("\n", "\r\n")


def test_mode_stays_and_a_link_is_followed(tmp_path: Path) -> None:
    file, link = tmp_path / "w.yaml", tmp_path / "link.yaml"
    file.write_text("toolsets: {shell: }\n")
    file.chmod(0o640)
    link.symlink_to(file)
    plan_edit(link, [SHELL]).write()
    assert (link.is_symlink(), file.stat().st_mode & 0o777) == (True, 0o640)
    assert ENTRY in file.read_text()
    assert sorted(os.listdir(tmp_path)) == ["link.yaml", "w.yaml"]


def test_existing_rule_is_not_added_again(tmp_path: Path) -> None:
    after = added(tmp_path, "toolsets:\n  shell:\n", *WORKSPACE, SHELL)
    assert yaml.safe_load(after)["sandbox"]["zones"] == [
        {**DEFAULT, "approval": {"write": "preApproved", "delete": "preApproved"}}
    ]
    assert added(tmp_path, after, *WORKSPACE) == after


@pytest.mark.parametrize(
    ("text", "rule", "why"),
    [
        ("toolsets:\r\n  shell:\n", SHELL, "its lines end in different ways"),
        ("toolsets: {plan: }\n", SHELL, "does not name the toolset shell"),
        ("name: w\n", SHELL, "does not name the toolset shell"),
        ("toolsets: {shell: {rules: 7}}\n", SHELL, "does not fit the value that is there"),
        ("toolsets: {custom: [{module: ./a.py}]}\n", TOOL, "no entry 'approval'"),
        ("sandbox: {zones: [{name: b}]}\n", ZONE, "no entry 'code'"),
        ("sandbox: {network: true}\n", NETWORK, "does not fit the value that is there"),
        ("toolsets: &a {shell: }\n", SHELL, "cannot be read"),
        ("toolsets: {shell: \n", SHELL, "cannot be read"),
    ],
)
def test_file_that_cannot_be_edited_says_why(
    tmp_path: Path, text: str, rule: GrantRule, why: str
) -> None:
    file = tmp_path / "w.yaml"
    file.write_bytes(text.encode())
    with pytest.raises(CannotEditError, match=why):
        plan_edit(file, [rule])


def test_rule_without_a_place_in_the_user_config_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(CannotEditError, match="has no place in config.yaml"):
        plan_edit(tmp_path / "config.yaml", [ZONE], user=True)


def test_file_changed_meanwhile_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("toolsets: {shell: }\n")
    edit = plan_edit(file, [SHELL])
    file.write_text("toolsets: {shell: {timeout: 1}}\n")
    with pytest.raises(CannotEditError, match="has changed since it was shown"):
        edit.write()
    (tmp_path / "twin.yaml").hardlink_to(file)
    with pytest.raises(CannotEditError, match="has other names"):
        plan_edit(file, [SHELL]).write()
    assert file.read_text() == "toolsets: {shell: {timeout: 1}}\n"


def test_lines_to_paste_equal_the_edit() -> None:
    pasted = yaml.safe_load(lines_to_paste([*WORKSPACE, ZONE, SHELL]))
    assert [zone["name"] for zone in pasted["sandbox"]["zones"]] == ["workspace", "code"]
    assert pasted["toolsets"]["shell"]["rules"] == [SHELL.says]
    assert yaml.safe_load(lines_to_paste([SHELL], user=True)) == {
        "policy": {"shell": {"rules": [SHELL.says]}}
    }


NAMES = st.sampled_from(["a", "b-c", "with blank", "7", "no", "'"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 99)
    | st.sampled_from(["x", "a: b", "# c", "two\nlines\n", "", "- d"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
SECTIONS = st.fixed_dictionaries(
    {}, optional={"rules": st.none() | st.lists(VALUES, max_size=3), "more": VALUES}
)
WORKERS = st.fixed_dictionaries(
    {"toolsets": st.fixed_dictionaries({"shell": st.none() | SECTIONS}, optional={"a": VALUES})},
    optional={"z": VALUES},
)


@given(WORKERS, st.sampled_from([None, True, False]), st.booleans(), st.integers(2, 4))
def test_rule_is_added_to_any_file_without_another_change(
    worker: dict[str, Any], style: bool | None, comments: bool, indent: int
) -> None:
    text = yaml.safe_dump(
        worker, default_flow_style=style, indent=indent, sort_keys=False, allow_unicode=True
    )
    if comments and style is False and "|" not in text and '"' not in text and "'" not in text:
        text = "".join(f"{line}  # {number}\n" for number, line in enumerate(text.splitlines()))
    with TemporaryDirectory() as folder:
        after = added(Path(folder), text, SHELL)
    rules = (worker["toolsets"]["shell"] or {}).get("rules") or []
    section = {**(worker["toolsets"]["shell"] or {}), "rules": [*rules, SHELL.says]}
    assert yaml.safe_load(after) == {**worker, "toolsets": {**worker["toolsets"], "shell": section}}
    assert [line.partition("#")[2] for line in after.splitlines() if "  # " in line] == (
        [line.partition("#")[2] for line in text.splitlines() if "  # " in line]
    )


@given(VALUES)
def test_flow_style_is_valid_yaml(value: Any) -> None:
    assert parse_document(f"x: {flow(value)}\n", "")["x"] == value
