r"""Every fenced block of the documentation is run, so that what it shows is what happens.

The first word after the fence says what a block is, and the blocks of a document share a folder with the examples:

- any language and a FILE: the block must be sound and is written there (``~/`` is a home of its own);
- ``python``: executed;
- ``console``: ``$ command`` lines for bash, with nobody at the keyboard, each followed by what it prints, in which
  ``...`` stands for anything, and by ``[exit N]`` unless it succeeds (``> `` continues a line that ends in ``\``);
- ``terminal``: the same with somebody at the keyboard, who types what follows ``[?] why > ``;
- ``json``: parses, as a whole or line by line;
- ``text``: cannot be run, so each piece of it between ``...`` has to stand in the source;
- ``sh``: one of the two commands for a fresh clone, each with a test of its own;
- ``bash``: needs a key or the network, so it is not run; bash reads it, and what it says to forge is parsed.

A reader is at a terminal: a command that is shown to be denied has to say that nobody can be asked (``-p``,
``< /dev/null``).

``<!-- needs: go -->`` on the line before a fence: where that is missing (``conftest.py`` knows the names), the block is
left out, and the test is skipped once everything else has been run.
"""

import ast
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pexpect
import pytest
import typer
import yaml

from forge_cli import __version__
from forge_cli.cli.commands import lazy_commands
from forge_cli.cli.overview import COMMANDS
from tests.support.warm import Warm

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "SECURITY.md"]
DOCUMENTS += [*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
SOURCE = "\n".join(path.read_text() for path in sorted(ROOT.glob("forge_cli/**/*.py")))
HOME = os.environ.get("HOME", "/")
BIN = Path(sys.executable).parent

INSTALL = (
    "python3 -m venv .venv && .venv/bin/pip install -q . && "
    '.venv/bin/forge run examples/calculator "What is the 20th Fibonacci number?"'
)
TEST = "python3 -m venv .venv && .venv/bin/pip install -q nox && .venv/bin/nox"

FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")
NEEDS = re.compile(r" *<!-- needs: (.+) -->")
TYPED = re.compile(r"(.*(?:\[\?\] why|Enter writes it, Esc goes back) > )(.*)")
SAYS_ALONE = re.compile(r" (-p|< /dev/null)( |$)")
NOT_OURS = re.compile(r"FORGE_.*|PYTEST_.*|PYTHON.*|CI|.*_API_KEY|.*_TOKEN")


PIP = """
import os, subprocess, sys

command, *options, package = sys.argv[1:]
assert command == "install"
os.environ.pop("PYTHONPATH", None)
os.environ["UV_CACHE_DIR"] = {cache!r}
pip = [{uv!r}, "pip", "install", "--python", sys.executable, "--reinstall", "--no-deps", "--target", {site!r}, package]
sys.exit(subprocess.call(pip + ["-q"] * ("-q" in options)))
"""
"""Stands in for ``pip``, ``python -m pip`` and ``uv pip``, which would change the environment of the tests.

uv does it in a moment, and keeps what it needs to build a package.
"""


def read_shell(text: str) -> None:
    subprocess.run(["bash", "-n", "-c", text], check=True)


READERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "python": ast.parse,
    "sh": read_shell,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}
"""What a file has to be, whether or not a later block uses it."""


@dataclass(frozen=True)
class Block:
    """The text between two fences, and its place."""

    place: str
    kind: str
    file: str
    lines: tuple[str, ...]
    needs: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


def blocks(text: str, document: str) -> Iterator[Block]:
    lines = iter(enumerate(text.splitlines(), 1))
    needs: tuple[str, ...] = ()
    for number, line in lines:
        if stated := NEEDS.fullmatch(line):
            needs = tuple(stated[1].split())
        elif opening := FENCE.fullmatch(line):
            indent, fence, info = opening.groups()
            inside: list[str] = []
            for _, line in lines:
                if re.fullmatch(rf" *{fence[0]}{{{len(fence)},}} *", line):
                    break
                inside.append(line.removeprefix(indent))
            else:
                raise AssertionError(f"{document}:{number}: this fence is never closed")
            kind, file, *more = [*info.split(), "", ""]
            assert not any(more), f"{document}:{number}: what is '{info.strip()}'?"
            yield Block(f"{document}:{number}", kind, file, tuple(inside), needs)
            needs = ()
        else:
            needs = ()


@dataclass
class Step:
    """One command of a console, and its documented output."""

    command: str
    shown: list[str] = field(default_factory=list)
    code: int = 0


def steps(block: Block) -> list[Step]:
    found: list[Step] = []
    for line in block.lines:
        if (
            found
            and not found[-1].shown
            and found[-1].command.endswith("\\")
            and line.startswith("> ")
        ):
            found[-1].command += f"\n{line[2:]}"
        elif line.startswith("$ "):
            found.append(Step(line[2:]))
        else:
            assert found, f"{block.place}: the first line must be a command"
            if ended := re.fullmatch(r"\[exit (\d+)\]", line):
                found[-1].code = int(ended[1])
            else:
                found[-1].shown.append(line)
    return found


def pattern(shown: list[str]) -> str:
    """The output as a regular expression: ``...`` alone is any lines, inside a line any text."""
    return "".join(
        "(?:.*\n)*"
        if line == "..."
        else ".*".join(map(re.escape, line.rstrip().split("..."))) + "\n"
        for line in shown
    )


def normal(output: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in output.replace("\r\n", "\n").splitlines())


class Desk:
    """The place where the blocks of one document are run."""

    def __init__(
        self,
        place: Path,
        warm: Warm,
        need: Callable[[str], None],
        unconfined: str = "",
        cache: Path | None = None,
    ) -> None:
        self.home, self.folder = place / "home", place / "clone"
        self.warm, self.need, self.unconfined = warm, need, unconfined
        self.home.mkdir()
        if cache:
            (self.home / ".forge").mkdir(0o700)
            shutil.copytree(cache, self.home / ".forge" / "cache")
        unwanted = shutil.ignore_patterns("__pycache__", "notes", "scratch")
        shutil.copytree(ROOT / "examples", self.folder / "examples", ignore=unwanted)
        site = place / "site"
        site.mkdir()
        kept = os.environ.get("UV_CACHE_DIR", f"{HOME}/.cache/uv")
        (site / "pip.py").write_text(PIP.format(site=str(site), uv=str(BIN / "uv"), cache=kept))
        self.own_command("pip", f'exec {sys.executable} {site / "pip.py"} "$@"')
        self.own_command("uv", f'shift; exec {sys.executable} {site / "pip.py"} "$@"')
        self.env = {
            **{name: value for name, value in os.environ.items() if not NOT_OURS.fullmatch(name)},
            "HOME": str(self.home),
            "PATH": os.pathsep.join(
                map(str, [warm.forge.parent, place / "bin", BIN, os.environ["PATH"]])
            ),
            "TERM": "dumb",
            "NO_COLOR": "1",
            "PYTEST_DEBUG_TEMPROOT": str(place),
        }

    def env_for(self, command: str) -> dict[str, str]:
        """The environment of a command; a lock would name the folder of the stand-in for ``pip``."""
        site = self.home.parent / "site"
        is_named = re.search(r"\block(ed)?\b", command) and len(os.listdir(site)) == 1
        return self.env if is_named else {**self.env, "PYTHONPATH": str(site)}

    def own_command(self, name: str, script: str) -> None:
        """Stand in for a command that would change the environment of the tests."""
        path = self.home.parent / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def carry_out_all(self, text: str, document: str) -> None:
        left_out: list[BaseException] = []
        for block in blocks(text, document):
            try:
                for name in block.needs:
                    self.need(name)
            except pytest.skip.Exception as reason:
                left_out.append(reason)
            else:
                self.carry_out(block)
        if left_out:
            raise left_out[0]

    def carry_out(self, block: Block) -> None:
        match block:
            case Block() if block.file:
                self.write(block)
            case Block(kind="python"):
                done = self.process([str(self.warm.python), "-c", block.text])
                assert done.returncode == 0, f"{block.place}\n{done.stdout}"
            case Block(kind="console"):
                for step in steps(block):
                    alone = "was not called; denied" not in "".join(
                        step.shown
                    ) or SAYS_ALONE.search(step.command)
                    assert alone, f"{block.place}: on a terminal this asks: $ {step.command}"
                    done = self.process(["bash", "-o", "pipefail", "-c", step.command])
                    self.compare(block, step, done.stdout, done.returncode)
            case Block(kind="terminal"):
                for step in steps(block):
                    self.compare(block, step, *self.converse(step))
            case Block(kind="json"):
                parse(block)
            case Block(kind="text"):
                for piece in (piece.strip() for line in block.lines for piece in line.split("...")):
                    assert piece in SOURCE, f"{block.place}: nothing in the source says {piece!r}"
            case Block(kind="sh"):
                assert block.text.strip() in (INSTALL, TEST), f"{block.place}: no test runs this"
            case Block(kind="bash"):
                read_shell(block.text)
                for line in block.lines:
                    if line.startswith("forge "):
                        parse_command(shlex.split(line)[1:])
            case _:
                raise AssertionError(
                    f"{block.place}: nobody knows how to run a block of '{block.kind}'"
                )

    def write(self, block: Block) -> None:
        path = (
            self.home / block.file[2:] if block.file.startswith("~/") else self.folder / block.file
        )
        assert path.resolve().is_relative_to(self.home.parent.resolve()), (
            f"{block.place}: outside the folder"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        if block.kind in READERS:
            READERS[block.kind](block.text)

    def process(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        streams = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        env = self.env_for(" ".join(command))
        return subprocess.run(
            command, cwd=self.folder, env=env, text=True, timeout=100, check=False, **streams
        )

    def converse(self, step: Step) -> tuple[str, int]:
        """Run a command on a terminal, typing the documented input."""
        said = io.StringIO()
        child = pexpect.spawn(
            "bash",
            ["-c", step.command],
            cwd=self.folder,
            env=self.env_for(step.command),
            encoding="utf-8",
            dimensions=(50, 120),
            timeout=100,
        )
        child.logfile_read = said
        for typed in filter(None, map(TYPED.fullmatch, step.shown)):
            prompt, answer = typed.groups()
            child.expect_exact(prompt.rstrip())
            child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        return said.getvalue(), child.exitstatus

    def compare(self, block: Block, step: Step, output: str, code: int) -> None:
        """Compare the output; without confinement, a command may say so in addition."""
        shown = "\n".join(step.shown)
        told = f"{block.place}: $ {step.command}\n--- promised\n{shown}\n--- happened [exit {code}]\n{output}"
        assert code == step.code, told
        happened = normal(output)
        for sentence in self.unconfined.splitlines(keepends=True):
            happened = re.sub(rf"(?m)^(?: *[\w-]+: )?{re.escape(sentence)}", "", happened)
        matches = re.fullmatch(pattern(step.shown), happened) is not None
        assert matches, told


def parse_command(argv: list[str]) -> None:
    """Understand a command line of forge, and carry out nothing."""
    name = next((name for name in COMMANDS if argv[: len(name.split())] == name.split()), None)
    assert name, f"there is no command {argv}"
    command = lazy_commands()[name].load()
    try:
        command.make_context(name, argv[len(name.split()) :]).close()
    except typer.TyperException as error:
        raise AssertionError(f"{argv}: {error.format_message()}") from error


def parse(block: Block) -> None:
    try:
        json.loads(block.text)
    except ValueError:
        for line in block.lines:
            json.loads(line)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Path:
    """The cached list of installed plugins."""
    desk = Desk(tmp_path_factory.mktemp("cache"), warm, pytest.skip)
    assert desk.process(["forge", "tools", "list"]).returncode == 0
    return desk.home / ".forge" / "cache"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_block_does_what_it_shows(
    document: Path,
    tmp_path: Path,
    warm: Warm,
    cache: Path,
    need: Callable[[str], None],
    unconfined: str,
    unconfined_rules: str,
) -> None:
    desk = Desk(tmp_path, warm, need, unconfined + unconfined_rules, cache)
    desk.carry_out_all(document.read_text(), name_of(document))


def commands_for_a_clone() -> list[str]:
    readme = (ROOT / "README.md").read_text()
    return [block.text.strip() for block in blocks(readme, "README.md") if block.kind == "sh"]


def test_readme_has_one_command_to_start_and_one_to_test() -> None:
    assert commands_for_a_clone() == [INSTALL, TEST]


@pytest.mark.long
@pytest.mark.timeout(280)
def test_install_command_works_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for file in files_of_the_repository():
        (clone / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, clone / file)
    quick = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_NO_COMPILE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    env = {**os.environ, "HOME": HOME, "FORGE_HOME": str(tmp_path / "home"), **quick}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(
        ["bash", "-c", INSTALL], cwd=clone, env=env, text=True, timeout=270, check=False, **streams
    )
    assert done.returncode == 0, done.stdout
    assert "The 20th Fibonacci number is 6765.\n" in done.stdout


def files_of_the_repository() -> list[str]:
    """Tracked files and untracked ones that are not ignored; all files outside of a checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    visible = [path for path in ROOT.iterdir() if path.name[0] != "."]
    everything = [name_of(path) for top in visible for path in [top, *top.glob("**/*")]]
    found = listed.stdout.split("\0") if listed.returncode == 0 else everything
    return [name for name in found if name and (ROOT / name).is_file()]


def test_ci_runs_the_test_command() -> None:
    assert f"bash -c '{TEST}'" in (ROOT / ".ci/run").read_text()


def links(document: Path) -> Iterator[tuple[Path, str]]:
    """The file and the anchor of every link that does not leave the repository."""
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", document.read_text()):
        yield (document.parent / target).resolve() if target else document, anchor


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKED = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/adr/*.md"))]
"""Pages whose links are checked and whose blocks are not run."""


@pytest.mark.parametrize("document", [*DOCUMENTS, *LINKED])
def test_links_have_targets(document: Path) -> None:
    lost = [str(path) for path, _ in links(document) if not path.exists()]
    assert lost == []
    assert [
        f"{path}#{anchor}"
        for path, anchor in links(document)
        if anchor and anchor not in anchors(path)
    ] == []


def test_readme_links_to_every_page() -> None:
    linked = {path for path, _ in links(ROOT / "README.md")}
    assert [name_of(path) for path in DOCUMENTS[1:] if path.resolve() not in linked] == []


TOWNCRIER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]


def test_changelog_has_a_dated_section_for_each_release() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    released = [version for version in versions if not version.endswith(" (unreleased)")]
    assert len(versions) - len(released) <= 1
    if ".dev" in __version__:
        assert versions[0] == f"{__version__.partition('.dev')[0]} (unreleased)"
    else:
        assert released[0].startswith(f"{__version__} (")
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", each) for each in released)


def test_changelog_has_the_sections_of_towncrier_only() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    sections = set(re.findall(r"^### (.+)$", changelog, re.MULTILINE))
    assert sections == {kind["name"] for kind in TOWNCRIER["type"]}
    assert TOWNCRIER["start_string"] in changelog


def is_fragment(name: str) -> bool:
    """Return True if towncrier would take a file of this name from ``changes/``."""
    kinds = "|".join(kind["directory"] for kind in TOWNCRIER["type"])
    return re.fullmatch(rf"(\+[a-z0-9]+(-[a-z0-9]+)*|\d+)\.({kinds})\.md", name) is not None


def test_change_fragments_have_valid_names() -> None:
    fragments = {path.name for path in (ROOT / "changes").iterdir()} - {"README.md"}
    assert [name for name in sorted(fragments) if not is_fragment(name)] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("+redo-keeps-links.fixed.md", True),
        ("123.breaking.md", True),
        ("+a-note.misc.md", False),
        ("a-note.added.md", False),
        ("+A_Note.added.md", False),
        ("+a-note.added.rst", False),
    ],
)
def test_change_fragment_is_named_for_its_section(name: str, expected: bool) -> None:
    assert is_fragment(name) is expected


def test_files_to_read_first_have_about_2000_lines() -> None:
    page = (ROOT / "docs/internals.md").read_text()
    section = page.split("## The 2,000 lines to read first")[1].split("\n## ")[0]
    files = re.findall(r"^\| \d+ \| `(forge_cli/[\w/]+\.py)`", section, re.MULTILINE)
    assert 5 <= len(files) <= 10
    assert 1_500 < sum(len((ROOT / file).read_text().splitlines()) for file in files) < 2_500


UNCONFINED = "warning: nothing is confined\n"


def test_block_with_a_missing_requirement_is_skipped_and_others_run(
    tmp_path: Path, warm: Warm
) -> None:
    def need(name: str) -> None:
        if name == "two":
            pytest.skip(f"needs {name}")

    text = "<!-- needs: one {} -->\n```console\n$ touch {}\n```\n```console\n$ touch after\n```\n"
    with pytest.raises(pytest.skip.Exception, match="needs two"):
        Desk(tmp_path, warm, need).carry_out_all(text.format("two", "ran"), "lacking.md")
    made = {path.name for path in (tmp_path / "clone").iterdir()}
    assert made == {"examples", "after"}
    with pytest.raises(AssertionError):
        Desk(tmp_path / "clone", warm, need).carry_out_all(
            "<!-- needs: two -->\n\n```console\n$ false\n```", "far.md"
        )


def test_command_without_confinement_may_warn_exactly_once(
    tmp_path: Path, warm: Warm, need: Callable[[str], None]
) -> None:
    text = "```console\n$ printf '{}warning: nothing is confined\\nyes\\n'\nyes\n```\n"
    Desk(tmp_path, warm, need, UNCONFINED).carry_out_all(
        text.format("") + text.format("  checker: "), "unconfined.md"
    )


SOUND = """
```yaml deep/down.yaml
a: 1
```
```console
$ cat deep/down.yaml && echo no >&2 && \\
> exit 3
a: ...
...
[exit 3]
```
```python
assert open("deep/down.yaml").read() == "a: 1\\n"
```
```json
{"a": 1}
{"b": 2}
```
```json
{
  "a": 1
}
```
```text ~/notes.txt
kept
```
```console
$ cat ~/notes.txt; test -t 0 || echo headless
kept
headless
```
```terminal
$ printf 'really? [?] why > '; read x; test -t 0 && echo "you said $x"
really? [?] why > n go away
you said n go away
```
"""


def test_correct_blocks_pass(tmp_path: Path, warm: Warm, need: Callable[[str], None]) -> None:
    Desk(tmp_path, warm, need).carry_out_all(SOUND, "sound.md")
    kinds = {"console", "json", "python", "terminal", "text", "yaml"}
    assert {block.kind for block in blocks(SOUND, "sound.md")} == kinds


@pytest.mark.parametrize(
    "text",
    [
        "```ruby\nputs 1\n```",
        "```\nsomething\n```",
        "```yaml\na: 1\n```",
        "```console\n$ echo no\nyes\n```",
        "```console\n$ echo yes\n```",
        "```console\n$ echo yes\nyes\nand more\n```",
        "```console\n$ false\n```",
        "```console\n$ echo 'warning: nothing else is confined'; echo yes\nyes\n```",
        "```console\n$ true\n[exit 1]\n```",
        "```console\noutput of nothing\n```",
        "```terminal\n$ echo no\nyes\n```",
        "```python\n1 / 0\n```",
        "```json\n{]\n```",
        '```json\n{"a": 1}\nand more\n```',
        "```text\nthis phrase is said by nobody at all\n```",
        "```sh\nrm -rf /\n```",
        "```bash\nif true\n```",
        "```bash\nforge run coder --nonsense\n```",
        "```console\n$ echo it was not called; denied\nit was not called; denied\n```",
        "```yaml ../../outside.yaml\na: 1\n```",
        "```yaml a.yaml\na: [1\n```",
        "```python a.py\ndef\n```",
        "```sh a.sh\nif true\n```",
        "```console\n$ true",
    ],
)
def test_incorrect_block_fails(
    text: str, tmp_path: Path, warm: Warm, need: Callable[[str], None]
) -> None:
    desk = Desk(tmp_path, warm, need, UNCONFINED)
    with pytest.raises(
        (AssertionError, ValueError, SyntaxError, yaml.YAMLError, subprocess.CalledProcessError)
    ):
        desk.carry_out_all(text, "broken.md")
