"""How a worker's child processes are started: confined as its file says, or not, and then saying so.

Covers forge_cli.sandbox.isolation.confinement, forge_cli.sandbox.isolation.kept_files and
forge_cli.sandbox.isolation.shared_files.
"""

import os
import pwd
import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli.core.errors import ExitCode, ToolError, WorkerError
from forge_cli.core.processes import Finished
from forge_cli.files.document import read_document
from forge_cli.sandbox.files.consent import OwnFiles
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.isolation.isolation import Mechanism, best_mechanism
from forge_cli.sandbox.loaded import LoadedFiles, LoadedPath
from forge_cli.sandbox.processes.command import bash_argv
from forge_cli.sandbox.worker_processes import NOT_CONFINED, WorkerProcesses
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.declared import open_zones
from forge_cli.schema.config import parse_config

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a project in it."""
    for name in ("project/scratch", "project/src", ".ssh", ".forge"):
        (place / name).mkdir(parents=True)
    (place / ".ssh" / "id").write_text("secret")
    (place / "project" / "worker.yaml").write_text("name: w\n")
    monkeypatch.setenv("HOME", str(place))
    return place


@pytest.fixture
def no_mechanism(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine that has nothing to confine a process with."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("forge_cli.sandbox.isolation.landlock.landlock_version", lambda: 0)
    best_mechanism.cache_clear()
    yield
    best_mechanism.cache_clear()


def sandbox(place: Path, text: str) -> Sandbox:
    file = place / "sandbox.yaml"
    file.write_text(text)
    config = parse_config(SandboxConfig, read_document(file).data, file=str(file))
    zones = open_zones(config, workspace=place / "project", user_home=place, file=str(file))
    return Sandbox(zones, protected=[place / "project" / "worker.yaml"], isolation=config.wanted())


def processes(place: Path, wanted: Sandbox) -> tuple[WorkerProcesses, list[str]]:
    """The processes of a worker, and its notices except the one that names a strong mechanism."""
    said: list[str] = []

    def notify(level: str, sentence: str) -> None:
        if (level, sentence) != ("debug", "commands: confined (bwrap)"):
            said.append(f"{level}: {sentence}")

    return WorkerProcesses(
        wanted, workspace=place / "project", home=place / ".forge", notify=notify
    ), said


async def run(
    place: Path, text: str, line: str, *, weakness: str | None = None, **options: Any
) -> Finished:
    made, said = processes(place, sandbox(place, text))
    async with made.children:
        done = await made.run(bash_argv(line), timeout=60, **options)
    assert said == (
        [f"warning: commands: confined, weaker (Landlock: {weakness})"] if weakness else []
    )
    return done


ZONES = "zones: [{name: scratch, path: ./scratch, mode: rw}, {name: src, path: ./src}]"
TOUCH = 'for path in scratch/a src/a a ../a ../.forge/a; do touch "$path" 2>/dev/null && echo "$path"; done; true'


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("level", ["auto", "required"])
async def test_writable_zones_are_all_that_can_be_written(place: Path, level: str) -> None:
    done = await run(place, f"isolation: {level}\n{ZONES}", TOUCH)
    assert done.stdout == "scratch/a\n"


@pytest.mark.needs("bwrap")
async def test_default_worker_is_confined_with_a_writable_zone(place: Path) -> None:
    done = await run(place, "zones:", TOUCH)
    assert done.stdout == "scratch/a\nsrc/a\na\n"


async def test_off_is_off(place: Path) -> None:
    done = await run(place, f"isolation: off\n{ZONES}", TOUCH)
    assert done.stdout == "scratch/a\nsrc/a\na\n../a\n../.forge/a\n"


@pytest.mark.needs("bwrap")
async def test_secrets_are_hidden_and_the_workers_own_files_are_kept(place: Path) -> None:
    done = await run(
        place, "isolation: auto", "ls -A ~/.ssh; cat worker.yaml; echo x >> worker.yaml"
    )
    assert (done.stdout, done.exit_code) == ("name: w\n", 1)
    assert (place / "project/worker.yaml").read_text() == "name: w\n"


@pytest.mark.needs("bwrap")
async def test_protected_names_that_a_command_makes_are_renamed_and_reported(place: Path) -> None:
    project = place / "project"
    (project / ".env").write_text("kept")
    made, said = processes(place, sandbox(place, "isolation: auto"))
    async with made.children:
        first = await made.run(
            bash_argv("mkdir -p src/new/.git; echo x > .env.local; echo x > .env"), timeout=60
        )
        again = await made.run(bash_argv("touch src/new/file"), timeout=60)
        child = made.start(bash_argv("touch .mcp.json"), cwd=project)
        with anyio.fail_after(60):
            await child.ended.wait()
    told = [
        re.sub(r"[0-9a-f]{8}\)", "X)", name)
        for name in (*first.appeared, *child.finished().appeared)
    ]
    assert told == [
        f"{project}/.env.local (renamed to removed-by-forge.env.local.X)",
        f"{project}/src/new/.git (renamed to removed-by-forge.git.X)",
        f"{project}/.mcp.json (renamed to removed-by-forge.mcp.json.X)",
    ]
    assert again.appeared == ()
    assert [line.partition(": '")[0] for line in said] == [
        "warning: a command has made protected names"
    ] * 2
    assert sorted(path.name for path in project.iterdir() if path.name.startswith(".")) == [".env"]
    assert (project / ".env").read_text() == "kept"


@pytest.mark.needs("bwrap")
async def test_protected_name_that_somebody_else_made_meanwhile_stays(place: Path) -> None:
    project, own = place / "project", sandbox(place, "isolation: auto")
    made, _ = processes(place, own)
    async with made.children:
        child = made.start(bash_argv("cat; touch .zshrc"), cwd=project)
        own.write_bytes(".env", b"A=1")
        own.write_bytes("new/.vscode/settings.json", b"{}")
        await made.run(bash_argv("git init -q deep"), timeout=60, names=True)
        with anyio.fail_after(60):
            assert child.stdin is not None
            child.stdin.close()
            await child.ended.wait()
    assert (project / ".env").read_bytes() == b"A=1"
    assert (project / "new/.vscode/settings.json").exists()
    assert (project / "deep/.git").is_dir()
    assert not (project / ".zshrc").exists()


@pytest.mark.needs("bwrap")
async def test_protected_names_hold_among_any_number_of_files(place: Path) -> None:
    project = place / "project"
    (project / "aaa").mkdir()
    for number in range(4200):
        (project / f"aaa/{number}").touch()
    (project / "pkg/api/.git").mkdir(parents=True)
    (project / "pkg/api/.env").touch()
    done = await run(
        place,
        "isolation: auto",
        "for f in .git/config .env; do echo x >pkg/api/$f || echo held; done",
    )
    assert done.stdout == "held\nheld\n"


@pytest.mark.needs("bwrap")
async def test_parts_of_the_home_are_read_where_they_are_named(place: Path) -> None:
    done = await run(place, "read: [~/.ssh]", "cat ~/.ssh/id; ls -A ~")
    assert done.stdout == "secret.ssh\nproject\n"


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("isolation: auto", True),
        ("isolation: auto\nnetwork: false", False),
        ("isolation: required", False),
        ("isolation: required\nnetwork: true", True),
    ],
)
async def test_network_follows_the_level_unless_something_is_said(
    place: Path, text: str, shared: bool
) -> None:
    done = await run(place, text, "readlink /proc/self/ns/net")
    assert done.stdout.startswith("net:")
    assert (done.stdout.strip() == os.readlink("/proc/self/ns/net")) is shared


@pytest.fixture
def repository(place: Path) -> Path:
    """A folder as git has it, with hooks and settings."""
    folder = place / "project" / ".git"
    for name in ("objects", "hooks", "modules/inner", "worktrees/tree"):
        (folder / name).mkdir(parents=True)
    for name in ("HEAD", "config", "hooks/pre-commit", "worktrees/tree/gitdir"):
        (folder / name).write_text("old\n")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text()
        for file in folder.rglob("*")
        if file.is_file()
    }


OPENED = {
    "hooks": "echo x > .git/hooks/pre-commit; echo x > .git/hooks/new; mv .git/hooks .git/away; rm -rf .git/hooks",
    "settings": "echo x >> .git/config; echo x > .git/c; mv -f .git/c .git/config; rm -f .git/c .git/config",
    "what is not there": "echo x > .git/commondir; mkdir .git/config.worktree; touch .git/config.worktree/x",
    "nested ones": "echo x > .git/modules/inner/config; echo x > .git/worktrees/tree/gitdir; mv .git/modules .git/m",
    "the folder itself": "mv .git .away; rm -rf .git/HEAD.lock; mkdir .git2; mv .git2 .git/hooks",
}


@pytest.mark.few(2)
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("line", OPENED.values(), ids=OPENED)
async def test_opened_folder_keeps_hooks_and_settings(
    place: Path, repository: Path, line: str
) -> None:
    before = contents(repository)
    done = await run(
        place, "isolation: auto", f"{line}; echo new > .git/HEAD", writable=[repository]
    )
    assert (done.exit_code, contents(repository)) == (0, before | {"HEAD": "new\n"})
    free = await run(place, "isolation: off", f"{line}; echo new > .git/HEAD")
    assert (free.exit_code, contents(repository)) != (0, before | {"HEAD": "new\n"}), (
        "it would have done no harm"
    )


@pytest.mark.needs("bwrap")
async def test_unopened_folder_stays_unchanged(place: Path, repository: Path) -> None:
    (place / "project/src/.forge").mkdir()
    for zones, opened in [
        ("zones:", []),
        (ZONES, [repository]),
        ("zones:", [place / "project/src/.forge"]),
    ]:
        line = "echo new > .git/HEAD; echo new > src/.forge/new; ls src/.forge"
        done = await run(place, f"isolation: auto\n{zones}", line, writable=opened)
        assert (done.stdout, (repository / "HEAD").read_text()) == ("", "old\n")


@pytest.mark.needs("bwrap")
async def test_read_only_zone_inside_a_writable_one_stays_as_it_is(place: Path) -> None:
    (place / "project/src/.git/objects").mkdir(parents=True)
    zones = "zones: [{name: all, path: ., mode: rw}, {name: src, path: ./src}]"
    await run(place, zones, "touch src/.git/x", writable=[place / "project/src/.git"])
    assert [path.name for path in (place / "project/src/.git").iterdir()] == ["objects"]


@pytest.mark.needs("bwrap")
async def test_way_to_an_opened_folder_cannot_be_moved(place: Path) -> None:
    folder = place / "project/src/.git"
    folder.mkdir(parents=True)
    (folder / "config").write_text("old")
    line = "mv src away && mkdir -p src/.git && echo new > src/.git/config"
    await run(place, "isolation: auto", line, writable=[folder])
    assert (folder / "config").read_text() == "old"


@pytest.mark.needs("bwrap")
async def test_link_to_hooks_leads_afterwards_where_it_did(place: Path, repository: Path) -> None:
    shutil.move(repository / "hooks", place / "hooks")
    (repository / "hooks").symlink_to(place / "hooks")
    line = "rm .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit"
    await run(place, "isolation: auto", line, writable=[repository])
    assert contents(repository / "hooks") == {"pre-commit": "old\n"}


@pytest.mark.needs("bwrap")
async def test_hidden_path_can_be_shown_to_one_command(place: Path) -> None:
    assert (await run(place, "isolation: auto", "cat ~/.ssh/id")).stdout == ""
    assert (
        await run(place, "isolation: auto", "cat ~/.ssh/id", readable=[place / ".ssh"])
    ).stdout == "secret"


def confined(place: Path, wanted: Sandbox) -> tuple[bool, list[str]]:
    made, said = processes(place, wanted)
    made.check()
    return made.confined, said


def test_off_has_nothing_to_say(place: Path) -> None:
    assert confined(place, sandbox(place, "isolation: off")) == (False, [])


@pytest.mark.usefixtures("no_mechanism")
def test_auto_says_what_is_missing_to_the_first_toolset_that_asks(place: Path) -> None:
    wanted = sandbox(place, "isolation: auto")
    assert confined(place, wanted) == (False, [f"warning: {NOT_CONFINED}"])
    assert confined(place, wanted) == (False, [])
    assert confined(place, sandbox(place, "isolation: auto")) == (
        False,
        [f"warning: {NOT_CONFINED}"],
    )


def test_confinement_is_reported_once(place: Path, only: Mechanism) -> None:
    lines: list[tuple[str, str]] = []
    wanted = sandbox(place, "isolation: auto")
    for _ in range(2):
        made = WorkerProcesses(
            wanted,
            workspace=place / "project",
            home=place / ".forge",
            notify=lambda *said: lines.append(said),
        )
        made.check()
        made.warn_of_rules()
        assert made.confined
    weaker = ("warning", f"commands: confined, weaker (Landlock: {only.weakness})")
    assert lines == [weaker if only.weakness else ("debug", "commands: confined (bwrap)")]


def test_list_of_names_needs_a_network_of_its_own(place: Path, only: Mechanism) -> None:
    made, _ = processes(place, sandbox(place, "network: [api.example.org]"))
    with pytest.raises(WorkerError, match="lists names") if only.weakness else nullcontext():
        made.check()


async def test_weaker_mechanism_holds_zones_and_the_home_and_reports_protected_names(
    place: Path, only: Mechanism
) -> None:
    made, said = processes(place, sandbox(place, f"isolation: auto\nnetwork: false\n{ZONES}"))
    line = f"{TOUCH}; cat ~/.ssh/id; echo > /dev/tcp/127.0.0.1/9; touch scratch/.env"
    async with made.children:
        done = await made.run(bash_argv(line), timeout=60)
    assert (done.stdout, done.confined, "Network is unreachable" in done.stderr) == (
        "scratch/a\n",
        True,
        bool(only.weakness),
    )
    [appeared] = done.appeared
    assert appeared.startswith(f"{place}/project/scratch/.env (renamed to removed-by-forge.env.")
    assert said[-1] == f"warning: a command has made protected names: '{appeared}'"


WRITES = {
    "overwrite": "echo evil > code/a.py",
    "append": "echo evil >> code/a.py",
    "truncate": ": > code/a.py",
    "replace": "echo evil > b; mv b code/a.py",
    "write by another name": "ln code/a.py b && echo evil > b",
    "write by a link": "ln -s code/a.py b; echo evil > b",
    "delete": "rm -f code/a.py",
    "mode": "chmod 777 code/a.py",
    "link in its place": "echo evil > b; ln -sf ../b code/a.py",
    "folder in its place": "rm -f code/a.py; mkdir code/a.py; echo evil > code/a.py/__init__.py",
    "move the folder": "mv code other; mkdir code; echo evil > code/a.py",
    "remove the folder": "rm -rf code",
    "link for the folder": "mkdir b; echo evil > b/a.py; mv code c && ln -s b code",
    "new file": "echo evil > code/new.py",
    "new folder": "mkdir -p code/new; echo evil > code/new/__init__.py",
    "compiled": "mkdir -p code/__pycache__; echo evil > code/__pycache__/a.cpython-311.pyc",
    "single file": "echo evil > one.sh",
    "link to it": "ln -sf b alias.sh; echo evil > alias.sh",
    "write by a hard link": "ln code/a.py b; echo evil > b",
    "in the background": "(sleep 0.2; echo evil > code/a.py) & true",
}


@pytest.mark.few(16)
@pytest.mark.parametrize("how", WRITES)
async def test_loaded_files_are_not_changed_by_any_confined_command(
    place: Path, only: Mechanism, how: str
) -> None:
    project = place / "project"
    (project / "code").mkdir()
    (project / "code/a.py").write_text("own")
    (project / "one.sh").write_text("own")
    (project / "alias.sh").symlink_to("one.sh")
    (project / "code/a.py").chmod(0o644)
    loaded = LoadedFiles(
        tuple(LoadedPath(project / name, "it is loaded") for name in ("code", "one.sh", "alias.sh"))
    )
    zones = sandbox(place, "isolation: auto").zones
    made, said = processes(place, Sandbox(zones, own=OwnFiles((), lambda: loaded)))
    async with made.children:
        done = await made.run(bash_argv(WRITES[how]), timeout=60)
        again = await made.run(bash_argv("touch free"), timeout=60)

    files = [path.name for path in (project / "code").rglob("*") if path.is_file()]
    assert [name for name in files if not name.startswith("removed-by-forge")] == ["a.py"]
    assert (project / "code/a.py").read_text() == "own"
    assert (project / "code/a.py").stat().st_mode & 0o777 == 0o644
    assert [(project / name).read_text() for name in ("one.sh", "alias.sh")] == ["own", "own"]
    assert os.readlink(project / "alias.sh") == "one.sh"
    assert not list(project.rglob("*.pyc"))
    assert (again.appeared, (project / "free").exists()) == ((), True)
    if only.weakness and how not in ("compiled", "in the background"):
        assert done.appeared
        assert said[-1].startswith("warning: a command has changed what it must not: ")


SHARED = {
    ".git/hooks/pre-commit": "it is in a folder whose name is protected",
    ".git/config": "the same, in the folder itself",
    ".env": "its name is protected",
    "deep/.claude/agents/a/b.md": "the same, below others",
    "worker.yaml": "it is the worker's own",
    "code/a.py": "it is loaded",
}
BY_OTHER_NAME = {
    "write": "echo evil > other",
    "append": "echo evil >> other",
    "cut": "truncate -s 0 other",
    "in place": "echo e | dd of=other conv=notrunc status=none",
    "copy": "echo evil > b; cp b other",
    "one more name": "ln other third; echo evil > third",
    "mode": "chmod 777 other",
    "same size and time": "touch -r other t; echo evi > other; touch -r t other",
    "written and gone": "echo evil > other; rm other",
}


@pytest.mark.few(3)
@pytest.mark.parametrize("how", BY_OTHER_NAME)
@pytest.mark.parametrize("name", SHARED)
async def test_protected_files_are_not_changed_through_hard_links(
    place: Path, only: Mechanism, name: str, how: str
) -> None:
    project = place / "project"
    file = project / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("own\n")
    file.chmod(0o644)
    os.link(file, project / "other")
    loaded = LoadedFiles((LoadedPath(project / "code", "it is loaded"),))
    own = OwnFiles([project / "worker.yaml"], lambda: loaded)
    opened = sandbox(place, "isolation: auto")
    made, said = processes(
        place, Sandbox(opened.zones, protected=[project / "worker.yaml"], own=own)
    )
    async with made.children:
        done = await made.run(bash_argv(BY_OTHER_NAME[how]), timeout=60)
        again = await made.run(bash_argv("touch free"), timeout=60)
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("own\n", 0o644)
    assert len(done.appeared) == 1
    assert done.appeared[0].startswith(f"{file} (put back")
    assert said[-1].startswith(
        f"warning: a command has changed what it must not: '{file} (put back"
    )
    assert (again.appeared, (project / "free").exists()) == ((), True)


async def test_file_that_is_shared_and_left_alone_stays_as_it_is(
    place: Path, only: Mechanism
) -> None:
    hook = place / "project/.git/hooks/pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("own")
    os.link(hook, place / "project/other")
    made, _ = processes(place, sandbox(place, "isolation: auto"))
    async with made.children:
        done = await made.run(
            bash_argv("cat other; ln other third; mv other fourth; rm third"), timeout=60
        )
    assert (done.stdout, done.appeared) == ("own", ())
    assert hook.stat().st_ino == (place / "project/fourth").stat().st_ino


async def test_file_written_with_consent_during_a_command_stays(
    place: Path, only: Mechanism
) -> None:
    project = place / "project"
    for name in ("a.py", "b.py"):
        (project / name).write_text("own")
    loaded = LoadedFiles(
        tuple(LoadedPath(project / name, "it is loaded") for name in ("a.py", "b.py"))
    )
    opened = Sandbox(sandbox(place, "isolation: auto").zones, own=OwnFiles((), lambda: loaded))
    opened.written.add(str(project / "b.py"))  # by a call of before
    made, _ = processes(place, opened)
    async with made.children:
        child = made.start(bash_argv("read line; echo evil > b.py"), cwd=project)
        (project / "a.py").write_text("allowed")
        opened.written.add(str(project / "a.py"))
        assert child.stdin is not None
        await child.stdin.write(b"go\n")
        with anyio.fail_after(60):
            await child.ended.wait()

    assert [(project / name).read_text() for name in ("a.py", "b.py")] == ["allowed", "own"]


@pytest.mark.usefixtures("no_mechanism")
def test_required_is_an_error_with_its_place(place: Path) -> None:
    with pytest.raises(WorkerError) as caught:
        confined(place, sandbox(place, "zones: []\nisolation: required"))
    assert str(caught.value).startswith(f"{place / 'sandbox.yaml'}:2:12: isolation is required")
    assert (caught.value.exit_code, "bubblewrap" in str(caught.value)) == (ExitCode.INVALID, True)


@pytest.mark.usefixtures("no_mechanism")
async def test_required_starts_nothing_where_nobody_checked_before(place: Path) -> None:
    with pytest.raises(ToolError, match="nothing was started: .*isolation is required"):
        await run(place, "isolation: required", "touch x")


OBEYED = (
    *(
        ".claude/settings.json",
        ".codex/config.toml",
        ".cursor/mcp.json",
        ".github/workflows/x.yml",
        ".gitlab-ci.yml",
    ),
    *(
        ".pre-commit-config.yaml",
        ".idea/workspace.xml",
        ".gitattributes",
        "AGENTS.md",
        "sub/CLAUDE.md",
        "sub/.envrc",
    ),
    *("sub/.github/workflows/x.yml", "sub/.circleci/config.yml", ".github/copilot-instructions.md"),
)


async def test_protected_names_that_a_command_makes_are_set_aside(
    place: Path, only: Mechanism
) -> None:
    project = place / "project"
    lines = "".join(f"mkdir -p {os.path.dirname(name) or '.'}; echo x >{name}\n" for name in OBEYED)
    made, _ = processes(place, sandbox(place, "isolation: auto"))
    async with made.children:
        done = await made.run(
            bash_argv(f"{lines}mkdir -p node_modules/a/.github/workflows .github/other"), timeout=60
        )
    assert [name for name in OBEYED if (project / name).exists()] == []
    assert len(done.appeared) == len(OBEYED)
    assert (project / "node_modules/a/.github/workflows").is_dir()
    assert (project / ".github/other").is_dir()


async def test_protected_names_cannot_be_changed_or_moved(place: Path, only: Mechanism) -> None:
    project = place / "project"
    for name in OBEYED:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("old")
    lines = "".join(
        f"echo x >{name}; rm -f {name}; echo x >{name}.new && mv {name}.new {name}\n"
        for name in OBEYED
    )
    moves = "for each in .github sub/.github .claude AGENTS.md; do mv $each away && echo $each; done; true"
    made, _ = processes(place, sandbox(place, "isolation: auto"))
    async with made.children:
        done = await made.run(bash_argv(f"{lines}{moves}"), timeout=60)
    if not only.weakness:
        assert ({name: (project / name).read_text() for name in OBEYED}, done.stdout) == (
            dict.fromkeys(OBEYED, "old"),
            "",
        )


WAYS_HOME = (
    *(
        "cat {home}/.ssh/id",
        "cat {home}/notes",
        "cat {home}/../{home.name}/notes",
        "cat /proc/self/root{home}/notes",
    ),
    *(
        "cd {home} && cat notes",
        "ls -A {home}",
        "find {home} -type f",
        "cp -r {home} copy && cat copy/notes",
    ),
    *(
        "ln -s {home} link && cat link/notes",
        "ln {home}/notes hard && cat hard",
        "mv {home}/notes . && cat notes",
    ),
    *(
        "HOME={home} && cat ~/notes",
        "tar cf - {home}",
        "exec 3<{home}/notes && cat <&3",
        "cd {home}/.. && grep -r . {home.name}",
    ),
)


async def test_homes_of_variable_and_account_are_hidden(
    place: Path, only: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, other = place / "project/home", place / "other"
    for folder in (home, other):
        (folder / ".ssh").mkdir(parents=True)
        (folder / ".ssh/id").write_text("the secret")
        (folder / "notes").write_text("the secret")
    known = pwd.struct_passwd(("me", "x", os.getuid(), os.getgid(), "", str(other), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: known)
    monkeypatch.setenv("HOME", str(home))
    line = "\n".join(
        f"({way.format(home=folder)})" for folder in (home, other) for way in (*WAYS_HOME, "true")
    )
    done = await run(
        place,
        "isolation: auto\nzones: [{name: src, path: ./src}]\nnetwork: false",
        line,
        weakness=only.weakness,
    )
    assert "secret" not in done.stdout
    assert "notes" not in done.stdout


MOVED = (
    *(
        ("sub/.git/config", "sub"),
        ("sub/.npmrc", "sub"),
        ("a/sub/.env", "a"),
        ("a/sub/.env", "a/sub"),
    ),
    *(("a/sub/.claude/settings.json", "a/sub"), ("a/sub/.github/workflows/x.yml", "a")),
)


@pytest.mark.needs("bwrap")
async def test_protected_name_that_was_moved_away_and_made_anew_is_put_aside(place: Path) -> None:
    project, failures = place / "project", []
    for name, moved in MOVED:
        shutil.rmtree(project)
        for each, _ in MOVED:
            (project / each).parent.mkdir(parents=True, exist_ok=True)
            (project / each).write_text("old")
        made, _ = processes(place, sandbox(place, "isolation: auto"))
        line = f"mv {moved} away && mkdir -p {os.path.dirname(name)} && echo evil >{name}"
        async with made.children:
            done = await made.run(bash_argv(line), timeout=60)
            again = await made.run(bash_argv("true"), timeout=60)
        if done.exit_code or not done.appeared or again.appeared or (project / name).exists():
            failures.append((name, moved, done.stderr, done.appeared, again.appeared))
    assert failures == []


def _leads_to(place: Path) -> str | None:
    return os.readlink(place) if place.is_symlink() else None


LOOSE = {
    "a missing file": ("touch extra.py", "extra.py"),
    "a missing package": ("mkdir helper; touch helper/__init__.py", "helper/__init__.py"),
    "through a link to a folder": (
        "mkdir evil; touch evil/__init__.py; ln -s evil helper",
        "helper",
    ),
    "a link to a file": ("touch evil; ln -s evil extra.py", "extra.py"),
    "a link that leads nowhere": ("ln -s nowhere extra.py", "extra.py"),
    "a folder": ("mkdir extra.py", "extra.py"),
    "another link": ("touch evil; ln -sfn evil linked.py", "linked.py"),
    "a file for a link": ("rm linked.py; touch linked.py", "linked.py"),
    "another folder for a link to one": ("rm lib; mkdir lib; touch lib/tools.py", "lib"),
    "another link to a folder": ("mkdir evil; touch evil/tools.py; ln -sfn evil lib", "lib"),
    "what a link leads to": ("touch later.py", "later.py"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("names", [False, True])
async def test_own_files_that_are_missing_or_links_are_put_aside(
    place: Path, only: Mechanism, names: bool
) -> None:
    """Also where the line names git, which may make other protected names."""
    project, failures = place / "project", []
    for what, (line, name) in LOOSE.items():
        shutil.rmtree(project)
        (project / "real").mkdir(parents=True)
        for own in ("real/other.py", "real/tools.py"):
            (project / own).write_text("")
        links = {"linked.py": "real/other.py", "lib": "real", "dangling.py": "later.py"}
        for link, target in links.items():
            (project / link).symlink_to(target)
        zones = sandbox(place, "isolation: auto").zones
        own_files = (
            "extra.py",
            "helper/__init__.py",
            "linked.py",
            "lib/tools.py",
            "dangling.py",
            "real/other.py",
        )
        made, _ = processes(place, Sandbox(zones, protected=[project / each for each in own_files]))
        async with made.children:
            done = await made.run(bash_argv(line), timeout=60, names=names)
            again = await made.run(bash_argv("true"), timeout=60)
        found = {
            link: target for link in links if (target := _leads_to(project / link)) is not None
        }
        told = [each.partition(" (renamed to removed-by-forge.")[0] for each in done.appeared]
        expected = [
            f"{project}/{name}",
            *([f"{project}/{name} (put back)"] if name in links else []),
        ]
        if (
            told != expected
            or found != links
            or (name not in links and name in os.listdir(project))
            or again.appeared
        ):
            failures.append((what, done.appeared, found, again.appeared, done.stderr))
    assert failures == []


async def test_own_files_that_were_written_with_consent_stay(place: Path, only: Mechanism) -> None:
    project = place / "project"
    own = Sandbox(
        sandbox(place, "isolation: auto").zones, protected=[project / "helper/__init__.py"]
    )
    made, _ = processes(place, own)
    async with made.children:
        child = made.start(bash_argv("cat"), cwd=project)
        own.write_bytes("helper/__init__.py", b"V = 1")
        with anyio.fail_after(60):
            assert child.stdin is not None
            child.stdin.close()
            await child.ended.wait()
        done = await made.run(bash_argv("echo evil > helper/__init__.py"), timeout=60)
    assert (project / "helper/__init__.py").exists()
    assert only.weakness or done.exit_code == 1
