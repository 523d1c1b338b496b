"""Command lines, and the files of a project that the programs on them run and obey.

Covers forge_cli.files.programs.
"""

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.files.programs import started_files

FILES = {
    "server.py": "import helper, package.part\nimport absent",
    "helper.py": "",
    "package/__init__.py": "",
    "package/part.py": "",
    "tools/server.py": "",
    "dist/server.js": "",
    "server.ts": 'import x from "./lib/one.js"\nimport fs from "fs"',
    "lib/one.ts": 'export * from "./two"',
    "lib/two.ts": "",
    "node_modules/dep/index.js": "",
    "package.json": "{}",
    "pyproject.toml": "",
    "conf.toml": "",
    "data.db": "",
    "docs/a.md": "",
    "start": "#!/bin/sh\n",
    "Makefile": "",
    "env/pyvenv.cfg": "",
    "env/bin/python": "#!\n",
    "cmd/main.go": "",
}
IMPORTED = {
    "helper.py",
    "helper/__init__.py",
    "package",
    "package.py",
    "absent.py",
    "absent/__init__.py",
}
"""Modules that the script at the top imports, as they are, or as they would be found first."""
AT_THE_TOP = {"server.py", *IMPORTED}
NODE = {"package.json", "node_modules"}
ROWS: dict[str, set[str]] = {
    "python3 tools/server.py": {"tools/server.py", "tools"},
    "python server.py": AT_THE_TOP,
    "./server.py": AT_THE_TOP,
    "python -m server": AT_THE_TOP | {"server/__init__.py"},
    "python -mserver": AT_THE_TOP | {"server/__init__.py"},
    "python -m package.part": {"package", "package.py"},
    "uv run server.py": AT_THE_TOP | {"pyproject.toml"},
    "uv run --directory tools server.py": AT_THE_TOP
    | {"tools", "tools/server.py", "pyproject.toml"},
    "uvicorn server:app": AT_THE_TOP | {"server/__init__.py"},
    "fastmcp run server.py:app": AT_THE_TOP,
    "env/bin/python tools/server.py": {"env/bin/python", "env", "tools/server.py", "tools"},
    "node dist/server.js": {"dist/server.js", "dist"} | NODE,
    "node dist/server": {"dist/server.js", "dist"} | NODE,
    "npx tsx server.ts": {"server.ts", "lib/one.ts", "lib/two.ts"} | NODE,
    "npm run serve": NODE,
    "sh -c 'cd tools && python server.py'": AT_THE_TOP | {"tools", "tools/server.py"},
    "timeout 9 env A=1 python3 tools/server.py": {"tools/server.py", "tools"},
    "./start --config=conf.toml": {"start", "conf.toml"},
    "./start --config conf.toml": {"start", "conf.toml"},
    "./start --config=new.toml": {"start", "new.toml"},
    "server --db data.db docs": set(),
    "make serve": {"Makefile"},
    "go run ./cmd/main.go": {"cmd/main.go", "cmd"},
    "npx -y @scope/server@1.0.0 docs": NODE,
    "server --url https://example.com/server.py": set(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("programs").resolve()
    for name, text in FILES.items():
        file = top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return top


@pytest.mark.parametrize("line", ROWS)
def test_files_of_a_command_line_are_found(folder: Path, line: str) -> None:
    found = {str(path.relative_to(folder)) for path in started_files(shlex.split(line), folder).all}
    assert found == ROWS[line]


def test_files_named_by_variables_are_found(folder: Path) -> None:
    env = {
        "PYTHONPATH": "lib:missing:.",
        "CONFIG": "conf.toml",
        "NODE_OPTIONS": "--require ./dist/server.js",
    }
    found = {str(path.relative_to(folder)) for path in started_files(["server"], folder, env).all}
    assert found == {"lib", "conf.toml", "dist", "dist/server.js"} | NODE


def test_link_to_a_script_counts_with_the_script(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "start.py"
    link.symlink_to(folder / "tools/server.py")
    found = started_files([str(link)], folder).all
    assert {link, tmp_path, folder / "tools"} <= found


def test_folder_around_a_zone_does_not_count_completely(folder: Path) -> None:
    found = started_files(["python", "tools/server.py"], folder, outer=[folder / "tools"]).all
    assert found == {folder / "tools/server.py"}


@given(st.lists(st.text(max_size=20), max_size=6))
def test_any_command_line_is_analysed_without_an_error(folder: Path, words: list[str]) -> None:
    for path in started_files(words, folder).all:
        assert path not in (folder, *folder.parents)


FOLLOWED = {
    "run.sh": "#!/bin/sh\nexec python3 src/main.py --port 1\n",
    "src/main.py": "",
    "other/extra.py": "",
    "Makefile": "first:\n\techo other/extra.py\nserve: build\n\t@python3 src/main.py\nbuild:\n\t./make.sh\n",
    "make.sh": "",
    "package.json": '{"scripts": {"start": "node dist/s.js", "prestart": "sh make.sh", "test": "sh other/extra.py"}}',
    "dist/s.js": "",
    "lib/x.rb": "",
    "mymod.py": "",
    "pkg/server.py": "",
    "sub/Cargo.toml": "",
    "sub/src/main.rs": "",
    "flake.nix": "",
    "Procfile": "web: python3 src/main.py",
}
LINES = {
    "./run.sh": "src/main.py",
    "sh -c 'exec ./run.sh'": "src/main.py",
    "make serve": "src/main.py make.sh",
    "make -f Makefile serve": "src/main.py",
    "npm start": "dist/s.js make.sh",
    "foreman start": "src/main.py",
    "python3 -c 'import mymod'": "mymod.py",
    """python3 -c 'import sys; sys.path.insert(0, "lib"); import x'""": "lib/x.py",
    "ruby -Ilib server.rb": "lib/x.rb",
    "ruby -I lib server.rb": "lib/x.rb",
    "java -cp build:lib Main": "lib/Main.class",
    "cargo run --manifest-path sub/Cargo.toml": "sub/src/main.rs",
    "uv run --with-editable ./pkg server": "pkg/server.py",
    "pipx run --spec ./pkg server": "pkg/server.py",
    "npx -y ./pkg": "pkg/index.js",
    "go run ./pkg": "pkg/main.go",
    "nix-shell --run 'python3 src/main.py'": "src/main.py",
    "nix run .": "flake.nix",
}


@pytest.mark.parametrize("line", LINES)
def test_scripts_targets_and_options_are_followed(tmp_path: Path, line: str) -> None:
    for name, text in FOLLOWED.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    found = started_files(shlex.split(line), tmp_path).all

    wanted = [tmp_path / name for name in LINES[line].split()]
    assert [path for path in wanted if not any(path.is_relative_to(each) for each in found)] == []
    assert not any((tmp_path / "other/extra.py").is_relative_to(each) for each in found)


def test_folder_of_a_top_level_script_is_searched_first(folder: Path) -> None:
    assert started_files(["python3", "server.py"], folder).searched == {folder}
    assert started_files(["python3", "tools/server.py"], folder).searched == set()
