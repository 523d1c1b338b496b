"""``forge tools new``, ``build``, ``diff`` and ``remove``: tools of one's own, made and looked after by hand.

Covers forge_cli.cli.tools.own, forge_cli.toolsets.executables.manage, forge_cli.toolsets.executables.toolchain,
forge_cli.toolsets.executables.scaffold.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.testing import Project

LANGUAGES = [pytest.param("go", marks=pytest.mark.needs("go")), "sh", "py"]


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(cli, project: Project) -> Callable[..., Path]:
    """A new tool, with another source if one is given."""

    def new(name: str, source: str | None = None, lang: str = "sh") -> Path:
        assert cli("tools", "new", name, "--lang", lang).code == 0
        folder = project.home / "tools" / name
        if source is not None:
            (folder / f"{name}.{lang}").write_text(source)
        return folder

    return new


@pytest.mark.few(1)
def test_tool_is_made_built_diffed_and_removed(cli, project: Project, language: str) -> None:
    made = cli("tools", "new", "greet", "--lang", language, "-d", "Greets somebody")
    folder = project.home / "tools" / "greet"
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith(f"Made {folder}, which works already:\n  greet.{language}")
    assert "forge tools test greet" in made.out
    assert 'description: "Greets somebody"\n' in (folder / "tool.yaml").read_text()

    built = cli("tools", "build", "greet")
    assert (built.code, built.err) == (0, "")
    assert built.out.startswith(
        f"greet: {'compiled into' if language == 'go' else f'greet.{language} is sound'}"
    )
    assert cli("tools", "diff", "greet").out.startswith("greet: never approved")

    tested = cli("tools", "test", "greet")
    expected = "ok      greet: schema, description, parameters, timeout, input, build, example 1\n"
    assert (tested.code, tested.out, tested.err) == (0, expected, "")
    called = cli("tools", "call", "greet", "-y")
    assert (called.code, called.out) == (0, "example: \n")
    assert cli("tools", "call", "greet", "-y", "example=a b").out == "example: a b\n"
    assert cli("tools", "diff", "greet").out.startswith("greet: nothing changed since 2")

    source = folder / f"greet.{language}"
    source.write_text(source.read_text().replace(": %", " is %").replace("example:", "example is"))
    changed = cli("tools", "diff", "greet")
    assert (changed.code, changed.err) == (0, "")
    assert changed.out.startswith("greet: changed since 2")
    assert f"--- greet/greet.{language}\n+++ greet/greet.{language}\n@@ " in changed.out
    assert "tool.yaml" not in changed.out
    assert cli("tools", "call", "greet", "-y", "example=new").out == "example is new\n"
    assert cli("tools", "diff", "greet").out.startswith("greet: nothing changed")

    removed = cli("tools", "remove", "greet")
    assert (removed.code, removed.out, removed.err) == (0, f"removed {folder}\n", "")
    assert not folder.exists()
    assert not (project.home / "approved" / "greet").exists()
    assert cli("tools", "remove", "greet").code == 2


@pytest.mark.long
@pytest.mark.few(1)
def test_new_tool_passes_its_test_in_every_language(project: Project, language: str) -> None:
    assert project.forge("tools", "new", "greet", "--lang", language).returncode == 0
    tested = project.forge("tools", "test")
    assert (tested.returncode, tested.stderr) == (0, "")
    assert tested.stdout.endswith(", build, example 1\n")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Greet", "'Greet' is not a valid tool name; use up to 64 of a-z"),
        ("../greet", "'../greet' is not a valid tool name"),
        ("a" * 65, "is not a valid tool name"),
        ("run_custom_tool", "choose another name"),
    ],
)
def test_invalid_tool_names_are_refused(cli, project: Project, name: str, sentence: str) -> None:
    done = cli("tools", "new", name, "--lang", "sh")
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert not (project.home / "tools").exists()


def test_new_tool_is_counted_once(make) -> None:
    stats = make("greet").parent / ".stats.jsonl"
    assert stats.read_text().count('"event": "created"') == 1


def test_new_never_overwrites(cli, make) -> None:
    folder = make("greet", "echo mine\n")
    done = cli("tools", "new", "greet", "--lang", "sh")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"forge: {folder} exists already;")
    assert (folder / "greet.sh").read_text() == "echo mine\n"


def test_new_without_a_language(
    cli, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli("tools", "new", "greet").code == 0
    assert (project.home / "tools" / "greet" / "greet.py").exists()
    done = cli("tools", "new", "other", "--lang", "rb")
    assert (done.code, done.out) == (2, "")
    assert "'rb' is not one of 'go', 'sh', 'py'" in done.err


def test_invalid_description_is_refused(cli, project: Project) -> None:
    done = cli("tools", "new", "greet", "--lang", "sh", "-d", "a\x1b[2Jb")
    assert (done.code, done.out) == (2, "")
    assert "control character U+001B" in done.err
    assert not (project.home / "tools").exists()


@pytest.mark.parametrize(
    ("lang", "source", "said"),
    [
        ("sh", "echo a\nif true\n", "greet is not valid for "),
        ("sh", "echo a\nif true\n", "\ngreet.sh:3: syntax error"),
        (
            "py",
            "x = 1\ny = (2 3)\n",
            "greet is not valid Python:\ngreet.py:2:6: invalid syntax",
        ),
        ("py", "x = '\0'\n", "greet is not valid Python:\ngreet.py"),
        pytest.param(
            *(
                "go",
                "package main\n\nfunc main() {\n\tnothing()\n}\n",
                "greet.go:4:2: undefined: nothing",
            ),
            marks=pytest.mark.needs("go"),
        ),
    ],
)
def test_source_with_an_error_fails_to_build(cli, make, lang: str, source: str, said: str) -> None:
    folder = make("greet", source, lang)
    done = cli("tools", "build", "greet")
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert done.err.endswith(f"\n  the source is {folder / f'greet.{lang}'}\n")
    assert not (folder / "__pycache__").exists()


def test_build_executes_nothing(cli, make, tmp_path: Path) -> None:
    for lang, source in [
        ("sh", f"touch {tmp_path}/ran\n"),
        ("py", f"open('{tmp_path}/ran', 'w')\n"),
    ]:
        make(f"a-{lang}", source, lang)
        assert cli("tools", "build", f"a-{lang}").code == 0
    assert not (tmp_path / "ran").exists()


def test_missing_packages_fail_the_build(
    cli, make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    make(
        "greet",
        '# /// script\n# dependencies = ["nothing-like-it"]\n# ///\nimport nothing_like_it\n',
        "py",
    )
    done = cli("tools", "build", "greet")
    assert (done.code, done.out) == (1, "")
    assert "greet needs nothing-like-it, which " in done.err
    assert "install uv" in done.err


@pytest.mark.needs("go")
def test_build_reuses_a_compiled_program(cli, make) -> None:
    make("greet", lang="go")
    first, second = (cli("tools", "build", "greet").out for _ in range(2))
    assert first.startswith("greet: compiled into ")
    assert second == first.replace("compiled into", "nothing to do, already compiled:")


def test_build_without_a_toolchain(
    cli, make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make("greet", lang="go")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli("tools", "build", "greet")
    assert (done.code, done.out) == (1, "")
    assert "no Go toolchain on the PATH; install Go" in done.err


def test_directly_started_program_is_built(cli, make) -> None:
    folder = make("greet")
    (folder / "greet.sh").rename(folder / "greet.bin")
    (folder / "greet.bin").chmod(0o755)
    (folder / "tool.yaml").write_text(
        (folder / "tool.yaml").read_text().replace("greet.sh", "greet.bin")
    )
    done = cli("tools", "build", "greet")
    assert (done.code, done.out) == (
        0,
        "greet: greet.bin is an executable file; there is nothing to build\n",
    )


@pytest.mark.parametrize("command", ["build", "diff", "remove"])
def test_missing_tool_is_an_error(cli, project: Project, make, command: str) -> None:
    root = project.home / "tools"
    done = cli("tools", command, "greet")
    assert (done.code, done.out) == (2, "")
    assert (
        done.err == f"forge: there is no tool 'greet' in {root}\n  make one: forge tools new NAME\n"
    )
    make("greet")
    assert cli("tools", command, "great").err.endswith("\n  did you mean 'greet'?\n")
    for name in (
        "../tools/greet",
        ".",
        "..",
        str(root / "greet"),
        ".stats.jsonl",
        "greet/",
        "x\x1b[2Jy",
    ):
        done = cli("tools", command, name)
        assert (done.code, done.out) == (2, "")
        assert "\x1b" not in done.err
    assert (root / "greet" / "tool.yaml").exists()


def test_broken_tool_is_an_error(cli, make) -> None:
    folder = make("greet")
    cli("tools", "call", "greet", "-y")
    manifest = folder / "tool.yaml"
    manifest.write_text(manifest.read_text().replace("timeout: 30", "timeout: -1"))
    done = cli("tools", "build", "greet")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"forge: {manifest}:13:10: timeout: ")
    changed = cli("tools", "diff", "greet")
    assert changed.code == 0
    assert "-timeout: 30\n+timeout: -1\n" in changed.out
    assert cli("tools", "remove", "greet").code == 0


def test_diff_shows_added_removed_and_binary_files(cli, make) -> None:
    folder = make("greet")
    for name, content in {"gone.txt": b"old words\n", "blob": b"\0one", "same": b"\0same"}.items():
        (folder / name).write_bytes(content)
    cli("tools", "call", "greet", "-y")
    (folder / "gone.txt").unlink()
    (folder / "new.txt").write_text("new words \x1b[2J\u202e")
    (folder / "blob").write_bytes(b"\0three")
    (folder / "greet.sh").chmod(0o755)
    out = cli("tools", "diff", "greet").out
    assert "greet/gone.txt was deleted\n" in out
    assert "-old words\n" in out
    assert "--- /dev/null\n+++ greet/new.txt\n" in out
    assert "+new words \\x1b[2J\\u202e\n\\ No newline at end of file\n" in out
    assert "greet/blob differs, and is not text or too long: 4 bytes (sha256 " in out
    assert "greet/greet.sh can be executed now\n" in out
    assert "same" not in out
    assert "\x1b" not in out


def test_colours_are_only_for_terminals(cli, make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make("greet")
    cli("tools", "call", "greet", "-y")
    (folder / "greet.sh").write_text("echo other\n")
    assert "\x1b" not in cli("tools", "diff", "greet").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32m+ echo other" in cli("tools", "diff", "greet").out


def test_denied_call_approves_no_version(cli, make) -> None:
    folder = make("greet")
    cli("tools", "call", "greet", "-y")
    (folder / "greet.sh").write_text("echo other\n")
    assert cli("tools", "call", "greet").code == 4
    assert cli("tools", "build", "greet").code == 0
    assert "+echo other\n" in cli("tools", "diff", "greet").out


def test_call_through_the_proxy_approves_the_version(cli, make) -> None:
    make("greet")
    assert cli("tools", "call", "run_custom_tool", "tool_name=greet", "-y").code == 0
    assert cli("tools", "diff", "greet").out.startswith("greet: nothing changed")


def test_remove_does_not_follow_links(cli, project: Project, make, tmp_path: Path) -> None:
    folder = make("greet")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    (folder / "inner").symlink_to(outside)
    (project.home / "tools" / "linked").symlink_to(outside)
    (project.home / "tools" / "dangling").symlink_to(tmp_path / "nowhere")
    assert (
        cli("tools", "remove", "linked").out
        == f"removed the link {project.home / 'tools' / 'linked'}\n"
    )
    assert cli("tools", "remove", "dangling").code == 0
    assert cli("tools", "remove", "greet").code == 0
    assert (outside / "kept.txt").read_text() == "kept"
    assert [path.name for path in (project.home / "tools").iterdir() if path.name[0] != "."] == []


def test_approved_versions_are_written_by_the_gate_only(cli, project: Project, make) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {executables: {}, filesystem: {}}\n")
    make("greet")
    refused = cli(
        *("tools", "call", "write_file", "--worker", "worker.yaml", "-y"),
        *("path=/tools/../approved/greet/0.json", "content={}"),
    )
    assert refused.code == 1
    linked = project.home / "tools" / "out"
    linked.symlink_to(project.home / "approved")
    through = ("path=/tools/out/greet/0.json", "content={}")
    assert cli("tools", "call", "write_file", "--worker", "worker.yaml", "-y", *through).code == 1


@pytest.mark.needs("bwrap")
def test_programs_cannot_write_approved_versions(cli, project: Project, make) -> None:
    make(
        "greet",
        'cd "$FORGE_TOOL_DIR/../.." && mkdir -p approved/greet && echo {} > approved/greet/0.json\n',
    )
    cli("tools", "call", "greet", "-y")
    assert [path.name for path in (project.home / "approved" / "greet").iterdir()] != ["0.json"]
    assert not (project.home / "approved" / "greet" / "0.json").exists()


def test_new_reports_an_unwritable_home(cli, project: Project) -> None:
    project.home.write_text("in the way")
    done = cli("tools", "new", "greet", "--lang", "sh")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        f"forge: {project.home}/tools/greet cannot be made: Not a directory\n  make room, or "
    )


def test_circular_link_can_be_removed_and_affects_no_other_tool(
    cli, project: Project, make
) -> None:
    loop = make("greet").parent / "loop"
    loop.symlink_to("loop")
    assert cli("tools", "call", "greet", "-y").code == 0
    assert f"{loop}: cannot be read: Too many levels" in cli("tools", "list").out
    assert cli("tools", "remove", "loop").out == f"removed the link {loop}\n"
    assert cli("tools", "show", "greet").code == 0
