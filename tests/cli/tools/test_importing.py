"""``forge tools import``: tools from folders, archives and git repositories, and refused ones.

Covers forge_cli.cli.tools.importing, forge_cli.toolsets.executables.importing, forge_cli.toolsets.executables.incoming,
forge_cli.toolsets.executables.archives, forge_cli.toolsets.executables.repositories,
forge_cli.toolsets.executables.imported, forge_cli.files.staging.
"""

import io
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from anyio import run
from hypothesis import given, settings
from hypothesis import strategies as st

from forge_cli.core.errors import ForgeError
from forge_cli.files.staging import staging_folder
from forge_cli.testing import Project
from forge_cli.toolsets.executables import archives, incoming, repositories
from forge_cli.toolsets.executables.contents import MAX_BYTES
from forge_cli.toolsets.executables.importing import Importer

MANIFEST = "name: greet\ndescription: Greets\nentrypoint: greet.sh\nparameters: [{name: who, required: true}]\n"
SOURCE = "echo hello\n"
TOOL = {"tool.yaml": MANIFEST, "greet.sh": SOURCE}


def write_tool(folder: Path, files: dict[str, str] = TOOL) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tar(path: Path, *entries: tarfile.TarInfo | tuple[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                archive.addfile(info, io.BytesIO(entry[1]))
    return path


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


GOOD = [(f"greet/{name}", text.encode()) for name, text in TOOL.items()]


@pytest.fixture
def left(project: Project) -> Callable[[], list[str]]:
    """Everything in the home but caches."""

    def names() -> list[str]:
        found = (path.relative_to(project.home).as_posix() for path in project.home.rglob("*"))
        return sorted(each for each in found if not each.startswith("cache"))

    return names


@pytest.fixture
def git(tmp_path: Path, need: Callable[[str], None]) -> Callable[..., str]:
    need("git")

    def git(*args: str, cwd: Path = tmp_path) -> str:
        settings = (
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.org",
            "-c",
            "protocol.file.allow=always",
        )
        return subprocess.run(
            ["git", *settings, *args],
            cwd=cwd,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout

    return git


@pytest.fixture
def repository(tmp_path: Path, git: Callable[..., str]) -> Path:
    """A bare repository with a tool in a folder, and two commits."""
    work = tmp_path / "work"
    write_tool(work / "tools" / "greet")
    git("init", "-q", "-b", "main", str(work))
    git("add", "-A", cwd=work)
    git("commit", "-qm", "one", cwd=work)
    (work / "README.md").write_text("read me\n")
    git("add", "-A", cwd=work)
    git("commit", "-qm", "two", cwd=work)
    git("clone", "-q", "--bare", str(work), "tools.git")
    return tmp_path / "tools.git"


def test_folder_is_shown_imported_and_called(cli, project: Project, tmp_path: Path) -> None:
    source = write_tool(tmp_path / "src" / "anywhere", {**TOOL, "data/a.bin": "x"})
    (source / "greet.sh").chmod(0o775)
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("[core]")
    done = cli("tools", "import", str(tmp_path / "src"), "--yes")
    assert (done.code, done.err) == (0, "")
    assert "greet 1.0.0: Greets" in done.out
    assert "  starts:      greet.sh (bash)" in done.out
    assert "    who (a string, required)" in done.out
    assert (
        f"greet.sh    11 bytes, sha256 {sha256(SOURCE.encode()).hexdigest()}, can be executed"
        in done.out
    )
    folder = project.home / "tools" / "greet"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"tool.yaml", "greet.sh", "data/a.bin"}
    assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
    assert cli("tools", "call", "greet", "who=Ada").code == 4
    assert cli("tools", "call", "greet", "who=Ada", "-y").out == "hello\n"
    assert cli("tools", "build", "greet").code == 0


@pytest.mark.parametrize(
    ("answer", "imported"),
    [("yes", True), ("y", True), ("no", False), ("", False), ("s\nno", False), ("s\ns\ny", True)],
)
def test_import_asks_a_person(
    cli,
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    imported: bool,
) -> None:
    source = write_tool(tmp_path / "src", {**TOOL, "greet.sh": "echo '\x1b[2Jhello'\n"})
    answers = iter(answer.split("\n"))
    monkeypatch.setattr("forge_cli.cli.tools.importing.is_interactive", lambda: True)
    monkeypatch.setattr("forge_cli.cli.tools.importing.ask", lambda prompt, at_end: next(answers))
    done = cli("tools", "import", str(source), "--as", f"greet{len(answer)}{imported}")
    assert done.code == (0 if imported else 4)
    assert (project.home / "tools" / f"greet{len(answer)}{imported}").exists() == imported
    assert ("  echo '\\x1b[2Jhello'" in done.err) == answer.startswith("s")
    assert "\x1b" not in done.err + done.out


def test_import_without_a_terminal_shows_all_and_imports_nothing(cli, left, tmp_path: Path) -> None:
    source = write_tool(tmp_path / "src")
    done = cli("tools", "import", str(source))
    assert done.code == 4
    assert "sha256" in done.out
    assert (
        done.err
        == "forge: nothing was imported: there is no terminal to ask; --yes imports without asking\n"
    )
    assert left() == []
    done = cli("tools", "import", str(source), "--json")
    assert (done.code, json.loads(done.out)["imported"], left()) == (4, [], [])


def test_import_result_is_printed_as_json(cli, project: Project, tmp_path: Path) -> None:
    archive = tar(tmp_path / "greet.tar.gz", *GOOD)
    done = cli("tools", "import", str(archive), "--json", "-y", "--as", "hello")
    found = json.loads(done.out)
    assert (done.code, found["imported"], found["kind"]) == (0, ["hello"], "archive")
    assert found["sha256"] == sha256(archive.read_bytes()).hexdigest()
    (tool,) = found["tools"]
    assert (tool["name"], tool["declared"], tool["folder"]) == ("hello", "greet", "greet")
    assert tool["inputSchema"]["required"] == ["who"]
    assert [each["path"] for each in tool["files"]] == ["greet.sh", "tool.yaml"]
    for each in tool["files"]:
        content = (project.home / "tools" / "hello" / each["path"]).read_bytes()
        assert (each["size"], each["sha256"]) == (len(content), sha256(content).hexdigest())


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("a.tar", "w"),
        ("a.tar.gz", "w:gz"),
        ("a.tgz", "w:gz"),
        ("a.tar.bz2", "w:bz2"),
        ("a.tar.xz", "w:xz"),
        ("a", "w"),
    ],
)
def test_every_kind_of_tar_is_imported(cli, tmp_path: Path, name: str, mode: str) -> None:
    done = cli(
        "tools",
        "import",
        str(tar(tmp_path / name, *GOOD, mode=mode)),
        "-y",
        "--as",
        f"t{len(name)}{mode[1:4].strip(':')}",
    )
    assert (done.code, done.err) == (0, "")


def test_zip_with_and_without_modes_is_imported(cli, project: Project, tmp_path: Path) -> None:
    info = zipfile.ZipInfo("top/greet/greet.sh")
    info.external_attr = (stat.S_IFREG | 0o755) << 16
    manifest = MANIFEST.encode()
    source = zipped(
        tmp_path / "a.zip",
        ("top/", b""),
        ("top/greet/tool.yaml", manifest),
        (info, SOURCE.encode()),
    )
    assert cli("tools", "import", str(source), "-y").code == 0
    assert os.access(project.home / "tools" / "greet" / "greet.sh", os.X_OK)
    plain = zipped(tmp_path / "b.zip", *GOOD)
    assert cli("tools", "import", str(plain), "-y", "--as", "other").code == 0


def test_import_never_overwrites_a_tool(cli, project: Project, tmp_path: Path) -> None:
    cli("tools", "new", "greet", "--lang", "sh")
    folder = project.home / "tools" / "greet"
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = cli("tools", "import", str(write_tool(tmp_path / "src")), "-y")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"forge: the tool 'greet' exists already in {folder}\n"
        "  import it as --as NAME, or remove the other: forge tools remove greet\n"
    )
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (project.home / "tools" / "broken").symlink_to("nowhere")
    assert cli("tools", "import", str(tmp_path / "src"), "-y", "--as", "broken").code == 2
    assert cli("tools", "remove", "greet").code == 0
    assert cli("tools", "import", str(tmp_path / "src"), "-y").code == 0


@pytest.mark.parametrize(
    "line",
    [
        "name: greet",
        "name:   greet # the name",
        "'name': 'greet'",
        'name: "greet"',
        "{name: greet, description: Greets, entrypoint: greet.sh}",
    ],
)
def test_new_name_changes_nothing_else(cli, project: Project, tmp_path: Path, line: str) -> None:
    rest = (
        "" if line.startswith("{") else "description: é greet\nentrypoint: greet.sh # name: greet\n"
    )
    source = write_tool(
        tmp_path / "src", {"tool.yaml": f"# name: greet\n{line}\n{rest}", "greet.sh": SOURCE}
    )
    name = f"hello{len(line)}"
    assert cli("tools", "import", str(source), "-y", "--as", name).code == 0
    text = (project.home / "tools" / name / "tool.yaml").read_text()
    assert text.count(f'"{name}"') == 1
    assert len(text.splitlines()) == len((source / "tool.yaml").read_text().splitlines())


@pytest.mark.parametrize(
    "name", ["", "a b", "../x", "-x", "1x", "a" * 65, "é", "create_custom_tool"]
)
def test_invalid_tool_names_are_refused(cli, left, tmp_path: Path, name: str) -> None:
    done = cli("tools", "import", str(write_tool(tmp_path / "src")), "-y", "--as", name)
    assert (done.code in (2, 3), done.err != "", left()) == (True, True, [])


def test_several_or_selected_tools_are_imported(cli, project: Project, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        write_tool(
            tmp_path / "src" / name,
            {**TOOL, "tool.yaml": MANIFEST.replace("name: greet", f"name: {name}")},
        )
    write_tool(tmp_path / "src" / "one" / "inner")
    source = str(tmp_path / "src")
    assert cli("tools", "import", source, "--as", "x", "-y").code == 2
    assert cli("tools", "import", source, "four", "-y").code == 2
    assert cli("tools", "import", source, "two", "--as", "zwei", "-y").code == 0
    assert cli("tools", "import", source, "-y").code == 0
    tools = project.home / "tools"
    assert sorted(path.name for path in tools.iterdir() if path.name[0] != ".") == [
        "one",
        "three",
        "two",
        "zwei",
    ]
    assert (tools / "one" / "inner" / "tool.yaml").exists()
    done = cli("tools", "import", source, "-y")
    assert done.code == 2
    write_tool(
        tmp_path / "src" / "again",
        {**TOOL, "tool.yaml": MANIFEST.replace("name: greet", "name: one")},
    )
    done = cli("tools", "import", source, "one", "-y")
    assert (done.code, "2 tools named one: again, one" in done.err) == (1, True)


def test_import_of_an_invalid_tool_imports_nothing_unless_deselected(
    cli, left, tmp_path: Path
) -> None:
    write_tool(tmp_path / "src" / "greet")
    write_tool(
        tmp_path / "src" / "bad",
        {"tool.yaml": "name: bad\ndescription: Bad\nentrypoint: gone.sh\n"},
    )
    done = cli("tools", "import", str(tmp_path / "src"), "-y")
    assert done.code == 3
    assert f"{tmp_path}/src/bad/tool.yaml:3:13: entrypoint: 'gone.sh'" in done.err
    assert left() == []
    assert cli("tools", "import", str(tmp_path / "src"), "greet", "-y").code == 0


def test_origin_is_shown_until_the_tool_is_removed(cli, project: Project, tmp_path: Path) -> None:
    archive = tar(tmp_path / "greet.tar.gz", *GOOD)
    assert cli("tools", "import", str(archive), "-y").code == 0
    shown = cli("tools", "show", "greet").out
    digest = sha256(archive.read_bytes()).hexdigest()
    assert f"imported: {archive} (sha256 {digest[:16]}), greet, on 20" in " ".join(shown.split())
    (project.home / "tools" / "greet" / "greet.sh").write_text("echo other\n")
    origin = json.loads(cli("tools", "show", "greet", "--json").out)["imported"]
    assert (origin["source"], origin["sha256"], origin["changed"]) == (str(archive), digest, True)
    assert cli("tools", "remove", "greet").code == 0
    assert list((project.home / "tools").glob("[!.]*")) == []
    assert not (project.home / "imported").exists()
    cli("tools", "new", "greet", "--lang", "sh")
    assert "imported" not in cli("tools", "show", "greet").out


def test_tools_of_a_worker_cannot_write_the_import_record(
    cli, project: Project, tmp_path: Path
) -> None:
    assert cli("tools", "import", str(write_tool(tmp_path / "src")), "-y").code == 0
    before = (project.home / "imported" / "greet.json").read_bytes()
    project.write("worker.yaml", "name: w\ntoolsets: {filesystem: {}, executables: {}}\n")
    for path in ("/tools/../imported/greet.json", str(project.home / "imported" / "greet.json")):
        done = cli(
            "tools",
            "call",
            "write_file",
            "--worker",
            "worker.yaml",
            "-y",
            f"path={path}",
            "content={}",
        )
        assert done.code == 1
    assert (project.home / "imported" / "greet.json").read_bytes() == before


def test_repository_is_imported_with_its_commit(
    cli, project: Project, repository: Path, git: Callable[..., str]
) -> None:
    commit = git("rev-parse", "HEAD", cwd=repository).strip()
    for number, source in enumerate((str(repository), f"file://{repository}")):
        done = cli("tools", "import", source, "-y", "--as", f"greet{number}")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"{source}, commit {commit}\n")
        origin = json.loads(cli("tools", "show", f"greet{number}", "--json").out)["imported"]
        assert (origin["source"], origin["commit"], origin["folder"]) == (
            source,
            commit,
            "tools/greet",
        )
        folder = project.home / "tools" / f"greet{number}"
        assert sorted(path.name for path in folder.iterdir()) == ["greet.sh", "tool.yaml"]


def test_large_repository_is_not_downloaded_completely(
    cli, left, tmp_path: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = write_tool(tmp_path / "src")
    (work / "noise").write_bytes(os.urandom(200_000))
    git("init", "-q", "-b", "main", str(work))
    git("add", "-A", cwd=work)
    git("commit", "-qm", "one", cwd=work)
    monkeypatch.setattr(repositories, "MAX_FETCHED", 100_000)
    done = cli("tools", "import", f"file://{work}", "-y")
    assert (done.code, "is larger than 0 MiB, or damaged" in done.err) == (1, True), done.err
    assert left() == []


def test_import_executes_nothing_of_a_repository(
    cli, repository: Path, tmp_path: Path, git: Callable[..., str]
) -> None:
    mark = tmp_path / "mark"
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\necho $0 >> {mark}\nexec cat\n")
    script.chmod(0o755)
    (repository / "hooks").mkdir(exist_ok=True)
    for name in (
        "post-checkout",
        "pre-receive",
        "post-upload-pack",
        "reference-transaction",
        "post-index-change",
    ):
        shutil.copy(script, repository / "hooks" / name)
    for key in (
        "uploadpack.packObjectsHook",
        "core.fsmonitor",
        "core.sshCommand",
        "filter.evil.smudge",
        "core.pager",
    ):
        git("config", key, str(script), cwd=repository)
    work = tmp_path / "work"
    (work / ".gitattributes").write_text("* filter=evil\n")
    (work / ".gitmodules").write_text(
        '[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch ' + str(mark) + '"\n'
    )
    git("add", "-A", cwd=work)
    git(
        "update-index",
        "--add",
        "--cacheinfo",
        f"160000,{git('rev-parse', 'HEAD', cwd=work).strip()},x",
        cwd=work,
    )
    git("commit", "-qm", "three", cwd=work)
    git("push", "-q", str(repository), "main", cwd=work)
    mark.unlink(missing_ok=True)
    done = cli("tools", "import", str(repository), "-y")
    assert (done.code, done.err) == (0, "")
    assert not mark.exists()


def test_links_and_submodules_of_a_repository_are_omitted(
    cli, left, tmp_path: Path, git: Callable[..., str]
) -> None:
    work = write_tool(tmp_path / "src")
    git("init", "-q", "-b", "main", str(work))
    git("add", "-A", cwd=work)
    git("commit", "-qm", "one", cwd=work)
    git(
        "update-index",
        "--add",
        "--cacheinfo",
        f"160000,{git('rev-parse', 'HEAD', cwd=work).strip()},x",
        cwd=work,
    )
    git("commit", "-qm", "two", cwd=work)
    done = cli("tools", "import", f"file://{work}", "-y")
    assert (done.code, "'x' is a submodule, which is not fetched" in done.err) == (1, True)
    git("rm", "-q", "--cached", "x", cwd=work)
    (work / "secrets").symlink_to("/etc/passwd")
    git("add", "-A", cwd=work)
    git("commit", "-qm", "three", cwd=work)
    done = cli("tools", "import", f"file://{work}", "-y")
    assert (done.code, "'secrets' is a link" in done.err, left()) == (1, True, [])


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("ext::sh -c id", "does not fetch with this protocol"),
        ("http://127.0.0.1/x.git", "does not fetch with this protocol"),
        ("git://127.0.0.1/x.git", "does not fetch with this protocol"),
        ("ftp://127.0.0.1/x.git", "does not fetch with this protocol"),
        ("fd::17", "does not fetch with this protocol"),
        ("https://127.0.0.1:1/x.tar.gz", "is an archive, but forge downloads repositories only"),
        ("https://127.0.0.1:1/x.zip?raw=1", "is an archive, but forge downloads repositories only"),
        ("file:///nowhere/at/all.git", "git cannot fetch file"),
        ("ssh://-oProxyCommand=id/x", "git cannot fetch ssh"),
        ("nowhere", "'nowhere' does not exist"),
        ("/dev/null", "is neither a folder nor a file"),
    ],
)
def test_unsupported_addresses_are_refused(cli, left, address: str, sentence: str) -> None:
    done = cli("tools", "import", address, "-y")
    assert done.code in (1, 2)
    assert sentence in done.err
    assert left() == []


def test_password_in_an_address_is_not_shown(cli, left) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    done = cli("tools", "import", f"https://ada:verysecretword@127.0.0.1:{port}/x.git", "-y")
    assert done.code == 1
    assert "verysecretword" not in done.err + done.out
    assert f"git cannot fetch https://127.0.0.1:{port}/x.git" in done.err
    assert left() == []


def test_empty_repository_or_missing_git_is_an_error(
    cli, left, tmp_path: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "-q", "--bare", "empty.git")
    done = cli("tools", "import", str(tmp_path / "empty.git"), "-y")
    assert (done.code, "has no commit" in done.err) == (1, True)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli("tools", "import", str(tmp_path / "empty.git"), "-y")
    assert (done.code, "git is needed to fetch repositories" in done.err, left()) == (1, True, [])


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (entry("../evil"), "leads out of the source"),
        (entry("greet/../../evil"), "leads out of the source"),
        (entry("greet/../tool.yaml"), "leads out of the source"),
        (entry("/etc/evil"), "leads out of the source"),
        (entry("C:/evil"), "leads out of the source"),
        (entry("greet\\..\\evil"), "contains a backslash"),
        (entry("greet/a\nb"), "contains a control character"),
        (entry("greet/a\u202eb"), "changes the direction of text"),
        (entry("greet/" + "a" * 300), "is longer than 255 bytes"),
        (entry("/".join(["d"] * 40)), "folders deep"),
        (entry("greet/GREET.SH"), "would be the same file"),
        (entry("greet/tool.yaml"), "would be the same file"),
        (entry("./greet//greet.sh"), "would be the same file"),
        (entry("greet/greet.sh/inside"), "is a file, but"),
        (entry("../evil", tarfile.DIRTYPE), "leads out of the source"),
        (entry("greet/link", tarfile.SYMTYPE, "/etc/passwd"), "is a link"),
        (entry("greet/link", tarfile.SYMTYPE, "greet.sh"), "is a link"),
        (entry("greet/hard", tarfile.LNKTYPE, "greet/greet.sh"), "is a link"),
        (entry("greet/hard", tarfile.LNKTYPE, "/etc/passwd"), "is a link"),
        (entry("greet/null", tarfile.CHRTYPE), "is neither a file nor a folder"),
        (entry("greet/disk", tarfile.BLKTYPE), "is neither a file nor a folder"),
        (entry("greet/pipe", tarfile.FIFOTYPE), "is neither a file nor a folder"),
        (entry("greet/sparse", tarfile.GNUTYPE_SPARSE), "is sparse"),
        (entry("greet/suid", mode=0o4755), "has the setuid or setgid bit"),
        (entry("greet/sgid", mode=0o2755), "has the setuid or setgid bit"),
    ],
)
def test_import_refuses_archives_that_reach_outside(
    cli, left, tmp_path: Path, bad: tarfile.TarInfo, sentence: str
) -> None:
    done = cli("tools", "import", str(tar(tmp_path / "a.tar.gz", *GOOD, bad)), "-y")
    assert (done.code, done.out) == (1, "")
    assert sentence in done.err
    assert left() == []


def odd(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("../evil", "leads out of the source"),
        ("greet/../../evil", "leads out of the source"),
        ("/etc/evil", "leads out of the source"),
        ("D:/evil", "leads out of the source"),
        ("..\\evil", "contains a backslash"),
        ("greet/Tool.YAML", "would be the same file"),
        ("greet/tool.yaml/x", "is a file, but"),
        (odd("greet/link", stat.S_IFLNK | 0o777), "is a link"),
        (odd("greet/null", stat.S_IFCHR | 0o666), "is neither a file nor a folder"),
        (odd("greet/pipe", stat.S_IFIFO | 0o666), "is neither a file nor a folder"),
        (odd("greet/suid", stat.S_IFREG | 0o4755), "has the setuid or setgid bit"),
        (odd("greet/sgid", 0o2755), "has the setuid or setgid bit"),
    ],
)
def test_import_refuses_zips_that_reach_outside(
    cli, left, tmp_path: Path, name: str | zipfile.ZipInfo, sentence: str
) -> None:
    done = cli("tools", "import", str(zipped(tmp_path / "a.zip", *GOOD, (name, b"evil"))), "-y")
    assert (done.code, done.out) == (1, "")
    assert sentence in done.err
    assert left() == []


def test_links_beside_the_tools_are_ignored(cli, project: Project, tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "a.tar", *GOOD, entry("link", tarfile.SYMTYPE, "/etc/passwd"), mode="w"
    )
    assert cli("tools", "import", str(archive), "-y").code == 0
    assert [path.name for path in (project.home / "tools").glob("[!.]*")] == ["greet"]


def broken_archives(folder: Path) -> dict[str, bytes]:
    packed = tar(folder / "good.tar.gz", *GOOD, ("greet/noise", os.urandom(20_000))).read_bytes()
    plain = tar(
        folder / "good.tar", *GOOD, ("greet/noise", os.urandom(20_000)), mode="w"
    ).read_bytes()
    other = zipped(folder / "good.zip", *GOOD, ("greet/noise", os.urandom(20_000))).read_bytes()
    squeezed = tar(folder / "good.tar.bz2", *GOOD, mode="w:bz2").read_bytes()
    return {
        "empty": b"",
        "text": b"this is no archive at all\n" * 100,
        "html": b"<!doctype html><title>Sign in</title>",
        "half-gz": packed[: len(packed) // 2],
        "gz-head": packed[:12],
        "flipped-gz": packed[:5000] + bytes([packed[5000] ^ 255]) + packed[5001:],
        "half-tar": plain[:2000],
        "half-zip": other[: len(other) // 2],
        "zip-head": other[:40],
        "flipped-zip": other.replace(SOURCE.encode(), b"echo hallo\n"),
        "bz2": squeezed[:60] + b"\0" * 40,
        "xz": b"\xfd7zXZ\0" + b"\0" * 100,
        "zst": b"\x28\xb5\x2f\xfd" + b"\0" * 600,
        "7z": b"7z\xbc\xaf\x27\x1c" + b"\0" * 600,
        "zeros": b"\0" * 10_240,
    }


def test_broken_archive_is_one_message(cli, left, tmp_path: Path) -> None:
    for name, data in broken_archives(tmp_path).items():
        (tmp_path / "a.tar.gz").write_bytes(data)
        done = cli("tools", "import", str(tmp_path / "a.tar.gz"), "-y")
        assert (done.code, done.out) == (1, ""), name
        assert done.err.startswith(f"forge: {tmp_path}/a.tar.gz "), (name, done.err)
        assert done.err.count("\n") == 2, (name, done.err)
        assert left() == [], name


def test_encrypted_zip_is_one_message(cli, left, tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", *GOOD)
    data = bytearray(path.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = -1
        while (place := data.find(magic, place + 1)) >= 0:
            data[place + offset] |= 1
    path.write_bytes(data)
    done = cli("tools", "import", str(path), "-y")
    assert (done.code, "is encrypted; pack it again without a password" in done.err, left()) == (
        1,
        True,
        [],
    )


class Zeros(io.RawIOBase):
    """So many bytes that are not in memory."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int = -1) -> bytes:
        given = min(size, self.left)
        self.left -= given
        return b"\0" * given


def test_archive_that_expands_too_much_is_refused(
    cli, left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED", 4 << 20)
    monkeypatch.setattr(incoming, "MAX_ENTRIES", 200)
    info = entry("beside")
    info.size = (4 << 20) + 1
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.addfile(info, Zeros(info.size))  # type: ignore[arg-type]
    done = cli("tools", "import", str(tmp_path / "a.tar.gz"), "-y")
    assert (done.code, "is larger than 4 MiB unpacked" in done.err) == (1, True)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in [*GOOD, ("greet/large", b"\0" * (MAX_BYTES + 1))]:
            packed.writestr(name, data)
    done = cli("tools", "import", str(tmp_path / "a.zip"), "-y")
    assert (done.code, "larger than 16 MiB" in done.err) == (1, True)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    place = data.rindex(b"PK\x01\x02")
    data[place + 24 : place + 28] = (5).to_bytes(4, "little")  # it says that it is small
    (tmp_path / "a.zip").write_bytes(data)
    assert cli("tools", "import", str(tmp_path / "a.zip"), "-y").code == 1
    many = tar(
        tmp_path / "many.tar", *GOOD, *(entry(f"d/{number}") for number in range(200)), mode="w"
    )
    done = cli("tools", "import", str(many), "-y")
    assert (done.code, "more than 200 files and folders" in done.err, left()) == (1, True, [])


@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        ("link", lambda path: path.symlink_to("/etc/passwd"), "'link' is a link"),
        ("pipe", os.mkfifo, "'pipe' is neither a file nor a folder"),
        (
            "suid",
            lambda path: (path.touch(), path.chmod(0o4755)),
            "'suid' has the setuid or setgid bit",
        ),
        ("large", lambda path: (path.touch(), os.truncate(path, MAX_BYTES)), "larger than 16 MiB"),
        ("bad\nname", lambda path: path.touch(), "contains a control character"),
        ("TOOL.yaml", lambda path: path.touch(), "would be the same file"),
    ],
)
def test_folders_have_the_same_limits(
    cli, left, tmp_path: Path, name: str, make, sentence: str
) -> None:
    source = write_tool(tmp_path / "src")
    make(source / name)
    done = cli("tools", "import", str(source), "-y")
    assert (done.code, done.out) == (1, "")
    assert sentence in done.err
    assert left() == []


@pytest.mark.parametrize(
    ("files", "code", "sentence"),
    [
        ({"readme": "x"}, 1, "contains no tool.yaml, so no tool"),
        ({"tool.yaml": "name: ["}, 3, "tool.yaml:1:"),
        ({"tool.yaml": "\0"}, 3, "tool.yaml:1:1"),
        ({"tool.yaml": MANIFEST}, 3, "tool.yaml:3:13: entrypoint: 'greet.sh': No such file"),
        (
            {**TOOL, "tool.yaml": MANIFEST.replace("greet.sh", "../../x.sh")},
            3,
            "is not inside the folder of the tool",
        ),
        (
            {**TOOL, "tool.yaml": MANIFEST.replace("name: greet", "name: run_custom_tool")},
            3,
            "forge has a tool named",
        ),
        ({**TOOL, "tool.yaml": MANIFEST + "network: true\n"}, 3, "unknown key 'network'"),
        ({**TOOL, "tool.yaml": "#" * 300_000}, 1, "is larger than 256 KiB"),
    ],
)
def test_import_refuses_invalid_tools(
    cli, left, tmp_path: Path, files: dict[str, str], code: int, sentence: str
) -> None:
    done = cli("tools", "import", str(write_tool(tmp_path / "src", files)), "-y")
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert left() == []


def test_imported_text_cannot_control_the_terminal(cli, tmp_path: Path) -> None:
    manifest = (
        'name: greet\ndescription: "a\\e[2J\\u202Eb"\nentrypoint: greet.sh\nusage: "\\e]0;x\\a"\n'
    )
    done = cli(
        "tools", "import", str(write_tool(tmp_path / "src", {**TOOL, "tool.yaml": manifest}))
    )
    assert "\\x1b[2J\\u202eb" in done.out
    assert not {"\x1b", "\u202e", "\a"} & set(done.out + done.err)


def test_tool_that_replaces_a_built_in_one_is_announced(cli, tmp_path: Path) -> None:
    done = cli("tools", "import", str(write_tool(tmp_path / "src")), "--as", "read_file", "-y")
    assert done.code == 0
    assert done.err.startswith(
        "forge: forge has a built-in tool named read_file. The new one replaces it"
    )


def test_unwritable_home_stores_nothing(
    cli, left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        write_tool(
            tmp_path / "src" / name,
            {**TOOL, "tool.yaml": MANIFEST.replace("name: greet", f"name: {name}")},
        )
    moved = Path.rename

    def full(path: Path, target: Path) -> Path:
        if target.name == "two" and target.parent.name == "tools":
            raise OSError(28, "No space left on device")
        return moved(path, target)

    monkeypatch.setattr(Path, "rename", full)
    done = cli("tools", "import", str(tmp_path / "src"), "-y")
    assert (done.code, "No space left on device" in done.err) == (1, True)
    assert left() == []


def test_leftovers_of_a_killed_import_are_removed(
    cli, left, project: Project, tmp_path: Path
) -> None:
    write_tool(tmp_path / "src")
    for remove in (["tools", "import", str(tmp_path / "src"), "-y"], ["doctor", "--clean"]):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            with staging_folder(project.home / "tools") as place:
                (place / "half").mkdir()
                os.write(writer, b"x")
                signal.pause()
        assert os.read(reader, 1) == b"x"
        waiting = [name for name in left() if ".forge-" in name]
        assert len(waiting) == 2
        cli("doctor", "--clean")
        assert [name for name in left() if ".forge-" in name] == waiting
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
        assert cli(*remove).code == 0
        assert [name for name in left() if ".forge-" in name] == []


PARTS = st.sampled_from(
    ["..", ".", "", "a", "tool.yaml", "greet", "/", "\\", "~", "C:", "\0", "\n", "é", "A", "\ud800"]
)
PATHS = st.lists(PARTS | st.text(max_size=5), min_size=1, max_size=6).map("/".join)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@settings(deadline=None, max_examples=60)
@given(names=st.lists(PATHS, max_size=4), as_zip=st.booleans())
def test_import_refuses_names_that_lead_outside(names: list[str], as_zip: bool) -> None:
    with TemporaryDirectory() as place:
        home = Path(place, "home")
        archive = Path(place, "a")
        entries = [*GOOD, *((name, b"evil") for name in names)]
        try:
            if as_zip:
                zipped(archive, *entries)
            else:
                tar(archive, *entries, mode="w")
        except (ValueError, IndexError):  # a name that cannot be packed
            return
        importer = Importer(home)
        try:
            offered = run(importer.look, str(archive))
        except ForgeError:
            assert not (home / "tools").exists()
            return
        (folder,) = importer.install(offered)
        assert folder == home / "tools" / "greet"
        inside = {
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        }
        assert {"tool.yaml", "greet.sh"} <= inside
        everything = {path for path in Path(place).rglob("*") if path.is_file()}
        kept = ("home/imported/", "home/versions/", "home/tools/greet/", "home/tools/.stats.jsonl")
        outside = {path.relative_to(place).as_posix() for path in everything if path != archive}
        assert all(path.startswith(kept) for path in outside)
