"""Every case of tests/cases/paths.jsonl: the verdict of the sandbox on a path, without other changes."""

import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.approval import Approval
from forge_cli.core.errors import ToolError, WorkerError
from forge_cli.core.zones import Access
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.declared import open_zones
from forge_cli.schema.config import parse_config
from tests.support.rows import each_row

Case = dict[str, Any]

CASES: list[Case] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "cases" / "paths.jsonl").read_text().splitlines()
]
EXPECTED = {Approval.PRE_APPROVED: "allow", Approval.ASK: "ask", Approval.BLOCKED: "blocked"}
SWAPS = {"swap_after_check", "swap_after_approval"}
NEW_CONTENT = b"written by the test"


def make(root: Path, step: dict[str, Any]) -> None:
    path = root / step["path"]
    path.parent.mkdir(parents=True, exist_ok=True)
    match step["op"]:
        case "mkdir":
            path.mkdir(parents=True, exist_ok=True)
        case "file":
            path.write_text(step["content"])
        case "symlink":
            path.symlink_to(step["target"].replace("${ROOT}", str(root)))
        case "hardlink":
            path.hardlink_to(root / step["target"])
        case "fifo":
            os.mkfifo(path)
        case "socket":
            make_socket(path)
        case "chmod":
            path.chmod(int(str(step["mode"]), 8))
        case unknown:
            raise AssertionError(f"the cases have a new step: {unknown}")


def make_socket(path: Path) -> None:
    """Bound by its name alone: the whole path may be too long for a socket's address."""
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(before)


def prepare(root: Path, case: Case) -> None:
    linked = {step["path"] for step in case["setup"] if step["op"] == "symlink"}
    for zone in case["zones"]:
        if zone["path"] not in linked and not zone["path"].startswith("/"):
            (root / zone["path"]).mkdir(parents=True, exist_ok=True)
    for step in case["setup"]:
        if step["op"] not in SWAPS:
            make(root, step)


def swap(root: Path, case: Case) -> None:
    for step in case["setup"]:
        if step["op"] in SWAPS:
            (root / step["path"]).rename(root / "swapped-away")
            make(root, step["with"])


def open_sandbox(root: Path, case: Case) -> Sandbox:
    config = parse_config(SandboxConfig, {"zones": case["zones"]})
    zones = open_zones(config, workspace=root, user_home=root / "home", file="worker.yaml")
    return Sandbox(zones, workspace=root)


def act(sandbox: Sandbox, case: Case) -> None:
    match case["op"]:
        case "read":
            sandbox.read_bytes(case["path"])
        case "list":
            sandbox.list(case["path"])
        case "write":
            sandbox.write_bytes(case["path"], NEW_CONTENT)
            assert sandbox.read_bytes(case["path"]) == NEW_CONTENT
        case "delete":
            sandbox.delete(case["path"])
            assert not sandbox.exists(case["path"])
        case unknown:
            raise AssertionError(f"the cases have a new operation: {unknown}")


def answer(sandbox: Sandbox, case: Case) -> str:
    try:
        return EXPECTED[sandbox.judge(case["path"], Access(case["op"])).approval]
    except ToolError as refusal:
        assert str(refusal).isprintable()
        return "deny"


def outside(root: Path, zones: list[dict[str, Any]]) -> dict[str, bytes | str]:
    """All files outside the zones, with their content."""
    inside = [Path(os.path.realpath(root / zone["path"])) for zone in zones]
    found = (
        path for path in root.rglob("*") if not any(path.is_relative_to(zone) for zone in inside)
    )
    return {
        str(path): path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else "" for path in found
    }


@each_row("case", CASES)
def test_case_has_the_expected_verdict(case: Case, tmp_path: Path) -> None:
    prepare(tmp_path, case)
    try:
        sandbox = open_sandbox(tmp_path, case)
    except WorkerError as refusal:
        assert case["expect"] == "deny"
        assert refusal.where is not None
        return

    verdict = answer(sandbox, case)

    swapped = any(step["op"] == "swap_after_check" for step in case["setup"])
    assert verdict == ("allow" if swapped else case["expect"])
    swap(tmp_path, case)
    before = outside(tmp_path, case["zones"])
    if case["expect"] == "deny":
        with pytest.raises(ToolError):
            act(sandbox, case)
    elif case["expect"] != "blocked":
        act(sandbox, case)
    assert outside(tmp_path, case["zones"]) == before


def test_root_lists_the_zones_and_nothing_of_the_host(tmp_path: Path) -> None:
    case = next(case for case in CASES if case["id"] == "trav-14")
    prepare(tmp_path, case)

    entries = open_sandbox(tmp_path, case).list("/")

    assert [entry.name for entry in entries] == ["output", "scratch", "src"]
    assert {entry.kind for entry in entries} == {"directory"}
