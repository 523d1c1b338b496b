"""Paths that try to leave a zone, or to enter one without a question: links, names and spellings.

Covers forge_cli.sandbox.files.place.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Access
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.declared import open_zones
from forge_cli.schema.config import parse_config
from tests.support.rows import each_row

PRE_APPROVED = {"write": "preApproved", "delete": "preApproved"}
ZONES: list[dict[str, Any]] = [
    {"name": "scratch", "mode": "rw", "approval": PRE_APPROVED},
    {"name": "output", "mode": "rw", "approval": {"write": "ask", "delete": "blocked"}},
    {"name": "src", "mode": "ro"},
    {"name": "inner", "path": "scratch/in/ner", "mode": "ro"},
    {
        "name": "shut",
        "path": "scratch/shut",
        "mode": "rw",
        "approval": {"write": "blocked", "delete": "blocked"},
    },
]
FILES = (
    "scratch/a.txt",
    "scratch/d/e/f.txt",
    "scratch/in/ner/ro.txt",
    "scratch/shut/s.txt",
    "scratch/Caf\u00e9.txt",
)
FILES += ("scratch/one+two", "output/o.md", "src/s.py", "outside/secret.txt")
LINKS = {
    "scratch/chain": "chain2",
    "scratch/chain2": "../src/chain3",
    "src/chain3": "../scratch/d/e/f.txt",
    "scratch/away": "away2",
    "scratch/away2": "../src/away3",
    "src/away3": "{root}/outside/secret.txt",
    "scratch/up": "..",
    "scratch/self": ".",
    "scratch/dots": "d/../../outside",
    "scratch/dots-in": "d/e/../../in/ner",
    "scratch/nothing": "not/yet",
    "scratch/nothing-out": "../outside/new",
    "scratch/nothing-ask": "../output/new",
    "scratch/nothing-ro": "../src/new",
    "scratch/loop": "loop2",
    "scratch/loop2": "loop",
    "scratch/host": "/proc/self/root",
    "scratch/stdin": "/proc/self/fd/0",
    "scratch/null": "/dev/null",
    "scratch/to-zone": "../src",
    "scratch/to-inner": "in/ner",
    "scratch/to-in": "in",
    "scratch/to-shut": "shut/new",
    "scratch/git": ".git",
    "scratch/plain": ".env",
    "scratch/.env.local": "d/e/f.txt",
    "scratch/.bashrc": "d/e/f.txt",
    "scratch/to-d": "d",
    "scratch/to-e": "to-d/e",
    "scratch/to-pipe": "pipe",
    "scratch/abs": "{root}/scratch/d/e/f.txt",
    "output/into": "../scratch/a.txt",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("world")))
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    for name, target in LINKS.items():
        (root / name).symlink_to(target.format(root=root))
    (root / "scratch/empty").mkdir()
    (root / "scratch/hard").hardlink_to(root / "outside/secret.txt")
    os.mkfifo(root / "scratch/pipe")
    with chdir(root / "scratch"), socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    before = listing(root)
    yield root
    assert listing(root) == before


def listing(root: Path) -> set[tuple[str, int, int]]:
    return {(str(path), path.lstat().st_ino, path.lstat().st_mtime_ns) for path in root.rglob("*")}


@pytest.fixture
def guarded(world: Path) -> Sandbox:
    config = parse_config(SandboxConfig, {"zones": ZONES})
    return Sandbox(
        open_zones(config, workspace=world, user_home=world / "home", file="worker.yaml")
    )


def answer(sandbox: Sandbox, access: Access, path: str) -> str:
    try:
        return sandbox.judge(path, access).approval.value
    except ToolError as refusal:
        assert str(refusal).isprintable()
        return "refused"


CASES = {
    ("read", "preApproved"): """
        /scratch/chain /scratch/chain2 /scratch/self/self/a.txt /scratch/up/src/s.py /scratch/up/scratch/up/output/o.md
        /scratch/dots-in/ro.txt /scratch/nothing /scratch/hard /scratch/.bashrc /scratch/abs /output/into
        /scratch/a.txt/../a.txt /scratch/none/../a.txt /src/s.py/../../scratch/a.txt /scratch/%2e%2e/x
        /inner/../src/s.py //scratch//./a.txt /scratch/Cafe\u0301.txt /scratch/to-shut /shut/s.txt
    """,
    (
        "read",
        "ask",
    ): "/scratch/plain /scratch/.env.local /scratch/.EnV /scratch/\u200b.env /src/.env.d/x /src/.env.",
    ("read", "refused"): """
        /scratch/away /scratch/away2 /src/away3 /scratch/up/outside/secret.txt /scratch/dots/secret.txt /scratch/loop
        /scratch/host/etc/passwd /scratch/stdin /scratch/null /scratch/pipe /scratch/to-pipe /scratch/socket
        /scratch/a.txt/ /scratch/a.txt/. /scratch/a.txt/.. /scratch/a.txt/b /scratch/empty / /scratch /scratch/
        /none/../scratch/a.txt /shut/../../scratch/a.txt /Scratch/a.txt scratch/a.txt ./scratch/a.txt file:///scratch/a
        /scratch%2fa.txt /scratch/a\0 /scratch/a\x1b[2J /scratch/a\0/../a.txt /scratch/\ud800 \udcff /scratch\\a.txt
    """,
    (
        "list",
        "preApproved",
    ): "/ // /. /scratch/.. /scratch/d/ /scratch/d/.. /scratch/to-zone /scratch/dots-in /scratch/a.txt/..",
    (
        "list",
        "refused",
    ): "/.. . .. /scratch/up /scratch/dots /scratch/host /scratch/a.txt /scratch/a.txt/b /scratch/pipe /../scratch",
    (
        "info",
        "preApproved",
    ): "/ /scratch/none /scratch/a.txt/b /scratch/a.txt/b/../c /scratch/nothing /scratch/.env",
    (
        "info",
        "refused",
    ): "/scratch/away /scratch/nothing-out /scratch/pipe /scratch/up /scratch/loop /none",
    ("write", "preApproved"): """
        /scratch/chain /scratch/nothing /scratch/abs /scratch/in/new /scratch/to-e/f.txt /scratch/.git/../ok
        /output/into /scratch/.gitx /scratch/.gitignore /scratch/... /scratch/~/x /scratch/-n /scratch/*
        /scratch/a\\..\\b /scratch/\u00e9\u00e9 /scratch/CAF\u00c9.txt /scratch/a.txt.
    """,
    ("write", "ask"): """
        /scratch/nothing-ask /scratch/up/output/new /scratch/git/hooks/x /scratch/git /scratch/plain /scratch/.env.local
        /scratch/.bashrc /scratch/self/.git/x /scratch/.GIT/x /scratch/.Git /scratch/x/.gIt/y /scratch/.git.
        /scratch/.FoRgE/a /scratch/.ENV.production /scratch/.envrc /scratch/.MCP.JSON /scratch/a/mcp.json
        /scratch/.Profile /scratch/config.fish /scratch/\uff0egit/x /scratch/.gi\u200bt/config /scratch/.g\u00adit/x
        /scratch/.\uff27\uff29\uff34/x /scratch/.env\u200b /scratch/hard /scratch/Cafe\u0301.txt /scratch/one\uff0btwo
        /output/.git/x
    """,
    (
        "write",
        "blocked",
    ): "/shut/new /scratch/shut/s.txt /scratch/to-shut /scratch/self/shut/new/deep /shut/.git",
    ("write", "refused"): """
        /scratch/away /scratch/nothing-out /scratch/nothing-ro /scratch/dots/x /scratch/dots-in/x /scratch/to-inner/x
        /scratch/to-in/ner/x /scratch/to-zone/x /scratch/up/src/s.py /scratch/up/x /scratch/loop/x /scratch/null
        /scratch/to-pipe /scratch/.git/ /scratch/new/ /scratch/new/. /scratch /scratch/in/ner /scratch/d / /src/.git
        /scratch/a.txt/b /scratch/\u202ea /scratch/a\u2066b /scratch/a\x7fb /scratch/a\u061cb
    """,
    ("delete", "preApproved"): """
        /scratch/chain /scratch/away /scratch/nothing-out /scratch/loop /scratch/null /scratch/to-zone /scratch/to-pipe
        /scratch/to-shut /scratch/to-e/f.txt /scratch/empty/ /scratch/hard /scratch/none
    """,
    ("delete", "ask"): "/scratch/.bashrc /scratch/.env.local /scratch/.git /scratch/.git./x",
    ("delete", "blocked"): "/output/o.md /output/into /shut/s.txt /scratch/shut/s.txt /output/.git",
    ("delete", "refused"): """
        / /scratch /scratch/ /scratch/d/.. /scratch/in /scratch/in/ner /inner /scratch/shut /scratch/to-in/ner
        /scratch/to-zone/ /scratch/to-d/ /scratch/to-d/e /scratch/d /scratch/pipe /scratch/socket /scratch/a.txt/
        /scratch/dots-in/ro.txt /src/s.py /src/chain3 /scratch/up/src/s.py /scratch/up/outside /scratch/a.txt/b
    """,
}
EACH = [
    (access, path, expected)
    for (access, expected), paths in CASES.items()
    for path in paths.split()
]


@each_row(("access", "path", "expected"), EACH)
def test_each_access_has_its_expected_answer(
    guarded: Sandbox, access: str, path: str, expected: str
) -> None:
    assert answer(guarded, Access(access), path) == expected
    if expected == "refused":
        with pytest.raises(ToolError):
            act(guarded, access, path)


@each_row(
    ("path", "expected"),
    [
        (f"/scratch/{'n' * 255}", "preApproved"),
        (f"/scratch/{'n' * 256}", "refused"),
        (f"/scratch/{'é' * 127}", "preApproved"),
        (f"/scratch/{'é' * 128}", "refused"),
        (f"/scratch/{'n' * 256}/../a.txt", "refused"),
        (f"/scratch/{'/'.join(['n' * 250] * 17)}", "refused"),
        (f"/scratch/{'./' * 2500}a.txt", "refused"),
        ("/scratch/.git ", "ask"),
        ("/scratch/.env ", "ask"),
        ("/scratch/a b", "preApproved"),
        ("/scratch /a", "refused"),
        (" /scratch/a", "refused"),
        ("/scratch/a\tb", "refused"),
        ("/scratch/a\nb", "refused"),
        ("/scratch/a\u2028b", "refused"),
        ("/scratch/a\x85b", "refused"),
        ("", "refused"),
    ],
)
def test_long_names_and_blanks(guarded: Sandbox, path: str, expected: str) -> None:
    assert answer(guarded, Access.WRITE, path) == expected


def act(sandbox: Sandbox, access: str, path: str) -> None:
    match access:
        case "read":
            sandbox.read_bytes(path)
        case "list":
            sandbox.list(path)
        case "info":
            sandbox.stat(path)
        case "write":
            sandbox.write_bytes(path, b"written")
        case "delete":
            sandbox.delete(path)
