"""Searching and listing: results, excluded files, and limits.

Covers forge_cli.sandbox.search.grep, forge_cli.sandbox.search.program and forge_cli.sandbox.search.files.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Zone
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.search.files import SIZE_MAX, list_dir
from forge_cli.sandbox.search.grep import MAX_COUNTED, Engine, Matches, grep

ENGINES = [pytest.param("ripgrep", marks=pytest.mark.needs("rg")), "python"]

Search = Callable[..., Matches]


@pytest.fixture
def sandbox(open_sandbox: Callable[..., Sandbox]) -> Sandbox:
    """Without a working directory, so that every file is named by its zone."""
    return Sandbox(open_sandbox().zones)


@pytest.fixture(params=ENGINES)
def search(request: pytest.FixtureRequest, sandbox: Sandbox) -> Search:
    engine: Engine = request.param

    def searched(
        pattern: str, path: str = "/scratch", include: str | None = None, **options: object
    ) -> Matches:
        async def main() -> Matches:
            with anyio.fail_after(60):
                return await grep(sandbox, pattern, path, include, engine=engine, **options)  # type: ignore[arg-type]

        return anyio.run(main)

    return searched


def write(root: Path, **files: str) -> None:
    """Files in the zone ``scratch``; two underscores are a slash."""
    for name, text in files.items():
        path = root / "scratch" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class TestGrep:
    def test_lines_are_told_with_path_and_number(self, search: Search, root: Path) -> None:
        write(root, b="one\ntwo\r\n", a__c="two\n\ntwo and two")
        assert search("two") == Matches(
            "two",
            "/scratch",
            ("/scratch/a/c:1:two", "/scratch/a/c:3:two and two", "/scratch/b:2:two"),
            total=3,
        )

    def test_search_without_matches_says_so(self, search: Search) -> None:
        found = search("x", "/scratch")
        assert found.text() == "No match for 'x' in '/scratch'."

    def test_matches_beyond_the_limit_are_counted(self, search: Search, root: Path) -> None:
        write(root, a="x\n" * 5, b="x\n")
        found = search("x", limit=2)
        assert (found.lines, found.total) == (("/scratch/a:1:x", "/scratch/a:2:x"), 6)
        assert found.text().endswith("/scratch/a:2:x\n[4 more]")

    def test_counting_comes_to_an_end(self, search: Search, root: Path) -> None:
        write(root, a="x\n" * (MAX_COUNTED + 500), b="x\n")
        found = search("x", limit=1)
        assert found.total == MAX_COUNTED + 1
        assert f"[stopped after more than {MAX_COUNTED} lines;" in found.text()

    def test_long_lines_are_cut(self, search: Search, root: Path) -> None:
        write(root, a="x" * 600 + "\n" + "y" * 2_000_000 + "z")
        assert search("x").lines == (f"/scratch/a:1:{'x' * 475}... [125 more characters]",)
        assert search("yz$").total == 1

    def test_bytes_that_are_no_text_are_replaced(self, search: Search, root: Path) -> None:
        (root / "scratch/a").write_bytes(b"caf\xe9 hit\n")
        assert search("hit$").lines == ("/scratch/a:1:caf\ufffd hit",)

    def test_binary_and_very_large_files_are_left_out(self, search: Search, root: Path) -> None:
        (root / "scratch/binary").write_bytes(b"hit\n" * 50_000 + b"\0")
        (root / "scratch/large").write_bytes(b"hit\n" + b"x" * SIZE_MAX)
        (root / "scratch/largest").write_bytes(b"hit\n" + b"x" * (SIZE_MAX - 4))
        (root / "scratch/picture").write_bytes(b"\0\n hit\n")
        (root / "scratch/other").write_bytes(b"\0\n")
        found = search("hit")
        assert found.lines == ("/scratch/largest:1:hit",)
        assert found.left_out == {"large": 1, "binary": 2}
        assert found.text().endswith(
            "\n[left out: 2 files with a match in binary data, 1 file over 10 MiB]"
        )
        assert search("hit", "/scratch/binary").left_out == {"binary": 1}
        assert (
            search("none").text()
            == "No match for 'none' in '/scratch'.\n[left out: 1 file over 10 MiB]"
        )
        assert search("hit", include="*.py").left_out == {}

    def test_rule_does_not_bring_back_what_is_never_searched(
        self, search: Search, root: Path
    ) -> None:
        write(
            root,
            **{
                ".gitignore": "!.*\n!.env\n!.git/\n",
                ".env": "hit",
                ".git__config": "hit",
                ".shown": "hit",
            },
        )
        (root / "scratch/.env.large").write_bytes(b"x" * (SIZE_MAX + 1))
        found = search("hit")
        assert (found.lines, found.left_out) == (("/scratch/.shown:1:hit",), {})

    def test_intentionally_skipped_files_are_not_counted(self, search: Search, root: Path) -> None:
        write(
            root,
            **{
                ".gitignore": "/ignored",
                "ignored": "x" * (SIZE_MAX + 1),
                ".hidden": "hit\0",
                ".env": "hit\0",
            },
        )
        assert search("hit").left_out == {}

    def test_files_whose_names_no_tool_can_use_are_counted(
        self, search: Search, root: Path
    ) -> None:
        write(
            root, **{"two\nlines": "hit", "odd\x1b__name": "hit", "other\n": "miss", "plain": "hit"}
        )
        found = search("hit")
        assert (found.lines, found.left_out) == (("/scratch/plain:1:hit",), {"name": 2})

    @pytest.mark.needs("user")
    def test_unreadable_files_are_counted(self, search: Search, root: Path) -> None:
        write(root, file="hit", folder__x="hit", other="hit")
        (root / "scratch/file").chmod(0)
        (root / "scratch/folder").chmod(0)
        found = search("hit")
        (root / "scratch/folder").chmod(0o700)
        assert (found.lines, found.left_out) == (("/scratch/other:1:hit",), {"unreadable": 2})

    def test_hidden_files_are_left_out_unless_named(self, search: Search, root: Path) -> None:
        write(root, **{".hidden": "hit", ".folder__x": "hit", ".git__config": "hit"})
        assert search("hit").lines == ()
        assert search("hit", "/scratch/.folder").lines == ("/scratch/.folder/x:1:hit",)
        assert search("hit", "/scratch/.git/config").lines == ("/scratch/.git/config:1:hit",)

    def test_rules_of_git(self, search: Search, root: Path) -> None:
        rules = "*.log\n!keep.log\n/build/\nlib/**/gen\n# *.txt\n!.github\n"
        write(root, **{".gitignore": rules, "sub__.gitignore": "!*.log\n*.txt\n"})
        write(
            root, **{"x.log": "hit", "keep.log": "hit", "build__x": "hit", "sub__build__x": "hit"}
        )
        write(
            root,
            **{
                "lib__a__b__gen__x": "hit",
                "sub__x.log": "hit",
                "sub__x.txt": "hit",
                ".github__ci.yml": "hit",
            },
        )
        write(root, **{"other__x.txt": "hit"})
        assert [line.split(":")[0].removeprefix("/scratch/") for line in search("hit").lines] == [
            ".github/ci.yml",
            "keep.log",
            "other/x.txt",
            "sub/build/x",
            "sub/x.log",
        ]

    def test_rules_above_the_start_count_up_to_the_zone(self, search: Search, root: Path) -> None:
        (root / ".gitignore").write_text("*\n")
        write(root, **{".gitignore": "*.log\n/a/b/c\n", "a__.gitignore": "/b/d\n!/b/e.log"})
        write(root, **{f"a__b__{name}": "hit" for name in ("c", "d", "e", "x.log", "e.log")})
        assert search("hit", "/scratch/a/b").lines == (
            "/scratch/a/b/e:1:hit",
            "/scratch/a/b/e.log:1:hit",
        )

    @pytest.mark.parametrize("name", [".env", ".env.local", ".ENV", "\uff0eenv", "sub__.env__key"])
    def test_secrets_are_left_out_whatever_git_says(
        self, search: Search, root: Path, name: str
    ) -> None:
        write(root, **{name: "hit", ".gitignore": "!.env*\n!.ENV\n", "plain": "hit"})
        assert search("hit").lines == ("/scratch/plain:1:hit",)
        with pytest.raises(ToolError, match="may hold secrets"):
            search("hit", f"/scratch/{name.replace('__', '/')}")

    def test_link_to_secrets_is_no_way_around(self, search: Search, root: Path) -> None:
        write(root, **{".env": "hit"})
        (root / "scratch/notes").symlink_to(".env")
        assert search("hit").lines == ()
        with pytest.raises(ToolError, match="may hold secrets"):
            search("hit", "/scratch/notes")

    def test_links_are_not_followed(self, search: Search, root: Path) -> None:
        write(root, real__x="secret")
        for name, target in (
            ("out", root / "outside"),
            ("file", root / "outside/secret.txt"),
            ("in", "real"),
            ("up", ".."),
        ):
            (root / "scratch" / name).symlink_to(target)
        assert search("secret").lines == ("/scratch/real/x:1:secret",)
        assert search("secret", "/scratch/in").lines == ("/scratch/real/x:1:secret",)
        with pytest.raises(ToolError, match="leads outside every zone"):
            search("secret", "/scratch/out")

    def test_special_files_do_not_hold_the_search_up(self, search: Search, root: Path) -> None:
        write(root, x="hit")
        os.mkfifo(root / "scratch/pipe")
        assert search("hit").lines == ("/scratch/x:1:hit",)

    def test_paths_that_do_not_exist_are_refused(self, search: Search) -> None:
        with pytest.raises(ToolError, match="'/scratch/x' does not exist"):
            search("hit", "/scratch/x")

    def test_include_chooses_files(self, search: Search, root: Path) -> None:
        write(
            root,
            **{
                "a.py": "hit",
                "sub__b.py": "hit",
                "sub__c.txt": "hit",
                ".a.py": "hit",
                "x.log": "hit",
            },
        )
        write(root, **{".gitignore": "ignored.py", "ignored.py": "hit"})
        failures = []
        for include, expected in [
            ("*.py", "a.py sub/b.py"),
            ("/*.py", "a.py"),
            ("./sub/", "sub/b.py sub/c.txt"),
            ("sub/*.py", "sub/b.py"),
            ("**/*.{py,txt}", "a.py sub/b.py sub/c.txt"),
            ("{sub/c,a}.*", "a.py sub/c.txt"),
            ("[!a].py", "sub/b.py"),
            ("nothing", ""),
        ]:
            lines = search("hit", "/scratch", include).lines
            found = " ".join(line.split(":")[0].removeprefix("/scratch/") for line in lines)
            if found != expected:
                failures.append((include, found))
        assert failures == []
        assert search("hit", "/scratch/sub", "/b*").lines == ("/scratch/sub/b.py:1:hit",)

    def test_file_in_two_zones_counts_once(self, root: Path) -> None:
        write(root, inner__x="hit", **{".gitignore": "hidden", "hidden__x": "hit"})
        zones = [("outer", "scratch"), ("inner", "scratch/inner"), ("hidden", "scratch/hidden")]
        sandbox = Sandbox([Zone(name, root / path) for name, path in zones])
        found = anyio.run(grep, sandbox, "hit")
        assert (found.lines, found.total) == (("/hidden/x:1:hit", "/inner/x:1:hit"), 2)

    def test_pattern_that_never_ends_is_stopped(self, sandbox: Sandbox, root: Path) -> None:
        write(root, a="hit aa\n", b="a" * 60 + "!\n")

        async def main() -> Matches:
            with anyio.fail_after(60):
                return await grep(sandbox, "(a|aa)+$", "/scratch", engine="python", timeout=2)

        found = anyio.run(main)
        assert found.lines == ("/scratch/a:1:hit aa",)
        assert found.text().endswith(
            "[stopped after 2 seconds; use a folder, a file pattern or a longer pattern]"
        )


class TestProgram:
    """Which ripgrep is used."""

    def program(self, folder: Path, script: str) -> None:
        folder.mkdir(parents=True)
        (folder / "rg").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "rg").chmod(stat.S_IRWXU)

    def test_ripgrep_inside_a_zone_is_not_run(
        self, sandbox: Sandbox, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.program(root / "scratch/bin", f"touch {root}/was-run")
        (root / "bin").symlink_to(root / "scratch/bin")
        monkeypatch.setenv("PATH", f"{root / 'bin'}:/usr/bin:/bin")
        write(root, a="hit")
        assert anyio.run(grep, sandbox, "hit").lines == ("/scratch/a:1:hit",)
        assert not (root / "was-run").exists()

    def test_search_without_ripgrep_gives_the_same_answer(
        self, sandbox: Sandbox, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(root))
        write(root, a="hit")
        assert anyio.run(grep, sandbox, "hit").lines == ("/scratch/a:1:hit",)
        with pytest.raises(ToolError, match="ripgrep .rg. is not installed"):
            anyio.run(lambda: grep(sandbox, "hit", engine="ripgrep"))

    @pytest.mark.parametrize("pattern", ["--files", "-e", "--pre=x", "-"])
    def test_pattern_is_no_option(self, search: Search, root: Path, pattern: str) -> None:
        write(root, a=f"x {pattern} y", **{"-e": "hit", "--pre": "hit"})
        assert search(pattern).lines == (f"/scratch/a:1:x {pattern} y",)
        assert search("hit", "/scratch/-e").lines == ("/scratch/-e:1:hit",)


TEXT = "def f(x) {\n\n  Größe = 12\t# x{2\r\nClass Word_1\n"
MEANINGS = [
    ("f", [1]),
    (r"f\(x\) {", [1]),
    (r"\bword", []),
    (r"(?i)\bword", [4]),
    ("(?i:GRÖSSE|GRÖßE)", [3]),
    (r"^\s*\w+ = \d+", [3]),
    ("^$", [2]),
    ("1$", [4]),
    (r"[^\n]+1", [3, 4]),
    ("x{2", [3]),
    ("[A-C]l?a", [4]),
    (r"(?<=def )f", [1]),
    (r"(s)\1", [4]),
    (r"\t", [3]),
]


def test_patterns_mean_the_same_with_and_without_ripgrep(search: Search, root: Path) -> None:
    """What ripgrep does not know is left to Python, such as a look around or a brace that repeats nothing."""
    write(root, a=TEXT)
    failures = []
    for pattern, expected in MEANINGS:
        found = [int(line.split(":")[1]) for line in search(pattern).lines]
        if found != expected:
            failures.append((pattern, found))
    assert failures == []


def test_pattern_that_cannot_be_used_is_refused_with_the_reason(search: Search) -> None:
    failures = []
    for pattern, problem in [
        ("", "the pattern is empty"),
        ("a" * 1001, "has 1001 characters; the limit is 1000"),
        ("(", "'(' is not a regular expression: missing ), unterminated subpattern at position 0"),
        ("a)", "unbalanced parenthesis"),
        ("[a", "unterminated character set"),
        ("a\\", "bad escape (end of pattern)"),
        ("*a", "nothing to repeat at position 0"),
        ("a{2,1}", "min repeat greater than max repeat"),
        (r"a\nb", "matches are within a line"),
        ("a\nb", "matches are within a line"),
        ("a\0", "has a character that no text contains"),
        ("\ud800", "has a character that no text contains"),
        ("[b-a]", "bad character range b-a"),
        ("(" * 500 + ")" * 499, "is not a regular expression"),
    ]:
        try:
            failures.append((pattern, search(pattern).text()))
        except ToolError as refused:
            if problem not in str(refused):
                failures.append((pattern, str(refused)))
    assert failures == []


class TestListDir:
    def test_tree_in_order(self, sandbox: Sandbox, root: Path) -> None:
        write(root, b="", a__c="", a__b__d="", a__b__deep__er="", **{"a.txt": "", ".hidden": ""})
        (root / "scratch/empty").mkdir()
        found = list_dir(sandbox, "/scratch", depth=3)
        assert found.files == (
            ".hidden",
            "a/",
            "a/b/",
            "a/b/d",
            "a/b/deep/",
            "a/c",
            "a.txt",
            "b",
            "empty/",
        )
        assert found.count == 9
        assert list_dir(sandbox, "/scratch", depth=1).files == (
            ".hidden",
            "a/",
            "a.txt",
            "b",
            "empty/",
        )

    def test_zones(self, sandbox: Sandbox, root: Path) -> None:
        write(root, a="")
        assert list_dir(sandbox, "/").files == ("output/", "scratch/", "scratch/a", "src/")

    def test_listing_shows_highest_levels_and_counts_the_rest(
        self, sandbox: Sandbox, root: Path
    ) -> None:
        write(root, **{f"a__{number}": "" for number in range(9)}, z="")
        found = list_dir(sandbox, "/scratch", limit=3)
        assert found.files == ("a/", "a/0", "z")
        assert found.text().endswith("[8 more]")

    def test_links_and_git_are_named_and_not_entered(self, sandbox: Sandbox, root: Path) -> None:
        write(root, real__x="", **{".git__config": ""})
        for name, target in (
            ("out", root / "outside"),
            ("in", "real"),
            ("loop", "."),
            ("nowhere", "gone"),
        ):
            (root / "scratch" / name).symlink_to(target)
        files = (".git/", "in/", "loop/", "nowhere", "out", "real/", "real/x")
        assert list_dir(sandbox, "/scratch", depth=9).files == files

    def test_names_that_no_tool_could_use_are_escaped(self, sandbox: Sandbox, root: Path) -> None:
        (root / "scratch/a\nb").mkdir()
        assert list_dir(sandbox, "/scratch").files == ("a\\nb/",)

    @pytest.mark.parametrize(
        ("path", "problem"),
        [("/scratch/a", "is a file"), ("/scratch/x", "does not exist"), ("/x", "is in no zone")],
    )
    def test_unlistable_folder_is_refused(
        self, sandbox: Sandbox, root: Path, path: str, problem: str
    ) -> None:
        write(root, a="")
        with pytest.raises(ToolError, match=problem):
            list_dir(sandbox, path)
