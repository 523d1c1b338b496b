"""The shipped coder at the tasks of a morning: how many questions it asks, and keys to answer them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pexpect
import yaml
from table import Row, main

TASKS: Mapping[str, Sequence[Mapping[str, object]]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text()
)
FILES = {
    ".env": "KEY=secret\n",
    ".gitignore": ".venv/\nbuild/\ndist/\n*.egg-info/\n.env\nnode_modules/\n",
    "Makefile": "build:\n\tmkdir -p dist\n\tcp src/shop/*.py dist/\n",
    "README.md": "# shop\n\nA shop.\n",
    "package.json": '{"name": "shop", "version": "1.0.0", "scripts": {"build": "sh scripts/bundle.sh"}}\n',
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\n[tool.setuptools.packages.find]\nwhere = ["src"]\n',
    "scripts/bundle.sh": "mkdir -p dist && cat src/shop/*.py > dist/bundle.txt\n",
    "scripts/run.sh": "#!/bin/sh\necho running\n",
    "src/shop/__init__.py": "",
    "src/shop/cart.py": "def total(prices):\n    return 0\n",
    "src/shop/tax.py": "def tax(price):\n    return price * 0.2\n",
    "tests/test_cart.py": (
        "import unittest\n\nfrom shop.cart import total\n\n\nclass Cart(unittest.TestCase):\n"
        "    def test_total(self):\n        self.assertEqual(total([1, 2]), 3)\n"
    ),
}
MODES = ("ask", "accept edits", "draft")
_ASKED = r"\[y\]es\s+once,.*?why\s+>"
_SETS = r"\[y\]es,\s+\[n\]o,.*?>"
_PAGE = r"-- \[Enter\].*?>"
_REVIEW = r"\[a\] take (\[s\] leave \[r\])?.*?>"
_DONE = r"Done with the task\."
_SUBJECT = re.compile(r"coder wants to call .*?(?=\r|\n)")
_BOTH = re.compile(
    r"(s\d) +for this session: commands that begin with git add and commands\s+that\s+begin"
)
"""The grant that people usually give for commits."""
_FEWEST = {
    ("build", "accept edits"): 3,
    ("add a feature", "accept edits"): 1,
    **{(name, "draft"): 1 for name in TASKS if name != "look outside"},
}


@dataclass
class Asked:
    """Questions of one task with their subjects, and the keys that answered them."""

    keys: int = 0
    about: list[str] = field(default_factory=list)


def make_project(folder: Path) -> Path:
    """Make a small package with a git history."""
    work = folder / "work"
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *who, *command], cwd=work, check=True)
    for name, value in (("user.name", "a"), ("user.email", "a@b.example")):
        subprocess.run(["git", "config", name, value], cwd=work, check=True)
    return work


def script_of(task: Sequence[Mapping[str, object]]) -> str:
    """Return the script of a model that makes these calls, one a turn."""
    turns: list[object] = []
    for each in task:
        ((tool, given),) = each.items()
        args = {"command": given} if isinstance(given, str) else given
        turns.append({"calls": [{"tool": tool, "input": args}]})
    return json.dumps({"turns": [*turns, {"text": "Done with the task."}]})


def play(name: str, mode: str, *, seconds: float = 300) -> Asked:
    """Run a task in a conversation with a person who always says yes."""
    with tempfile.TemporaryDirectory(prefix="forge-day-") as place:
        folder = Path(place)
        work = make_project(folder)
        (folder / "script.yaml").write_text(script_of(TASKS[name]))
        (folder / "home").mkdir()
        (folder / "home" / "config.yaml").write_text("titles: false\n")
        env = {**os.environ, "FORGE_HOME": str(folder / "home"), "TERM": "dumb", "NO_COLOR": "1"}
        words = ["-m", "forge_cli", "chat", "coder", "-m", f"script:{folder}/script.yaml"]
        if mode == "draft":
            words.append("--draft")
        child = pexpect.spawn(
            sys.executable,
            words,
            cwd=str(work),
            env=env,
            encoding="utf-8",
            timeout=seconds,
            dimensions=(50, 100),
        )
        if log := os.environ.get("DAY_LOG"):
            child.logfile_read = open(log, "a")  # noqa: SIM115
        child.delaybeforesend = None
        if mode != "draft":
            child.sendline(f"/mode {mode}")
        child.sendline("go")
        asked = Asked()
        while (found := child.expect([_ASKED, _SETS, _PAGE, _DONE])) != 3:
            asked.keys += 1
            if found == 2:
                child.send("e\n")
                continue
            said = f"{child.before}{child.after}"
            asked.about += _SUBJECT.findall(said)[-1:] or ["?"]
            if both := _BOTH.search(said):
                asked.keys += 1
                child.send(f"{both[1]}\n")
                continue
            child.send("y\n")
        child.sendline("/exit")
        while child.expect([_REVIEW, pexpect.EOF]) == 0:
            child.send("r\n" if child.match[1] else "a\n")
        child.close()
        return asked


def measure(rounds: int) -> list[Row]:
    """Run each task once in each mode; the questions do not depend on time.

    The review of a draft is not counted: it is one question more.
    """
    rows = []
    for name in TASKS:
        for mode in MODES:
            asked = play(name, mode)
            detail = f"{asked.keys} keys"
            rows.append(
                Row(
                    f"{name}, {mode}: questions",
                    len(asked.about),
                    _FEWEST.get((name, mode)),
                    detail,
                )
            )
            print("\n".join(asked.about), file=sys.stderr)
    return rows


if __name__ == "__main__":
    main(measure, rounds=1)
