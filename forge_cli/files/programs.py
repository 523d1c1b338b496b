"""Command lines of unconfined programs, and the project files that these run and obey."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path, PurePath

from msgspec import Struct

from forge_cli.files.sources import Sources, imported_names, module_paths

_CODE = frozenset(
    (
        *(
            ".py",
            ".pyw",
            ".pyz",
            ".pyc",
            ".so",
            ".js",
            ".mjs",
            ".cjs",
            ".ts",
            ".mts",
            ".cts",
            ".jsx",
            ".tsx",
            ".node",
        ),
        *(
            ".sh",
            ".bash",
            ".zsh",
            ".fish",
            ".rb",
            ".pl",
            ".pm",
            ".php",
            ".lua",
            ".r",
            ".R",
            ".jl",
            ".ex",
            ".exs",
        ),
        *(
            ".go",
            ".rs",
            ".java",
            ".kt",
            ".kts",
            ".scala",
            ".clj",
            ".groovy",
            ".jar",
            ".war",
            ".class",
            ".cs",
            ".dll",
        ),
        *(
            ".swift",
            ".dart",
            ".wasm",
            ".hs",
            ".ml",
            ".nim",
            ".zig",
            ".erl",
            ".awk",
            ".sed",
            ".tcl",
            ".ps1",
            ".bat",
        ),
    )
)
_SETTINGS = frozenset(
    (".json", ".jsonc", ".json5", ".toml", ".yaml", ".yml", ".ini", ".cfg", ".conf", ".env", ".xml")
)
_DATA = frozenset(
    (".db", ".sqlite", ".sqlite3", ".duckdb", ".log", ".pid", ".sock", ".csv", ".tsv", ".parquet")
)
"""Data files that programs write themselves."""
_NODE = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx", ".json", ".node")
_NODE_PROGRAMS = frozenset(
    ("node", "nodejs", "tsx", "ts-node", "nodemon", "npm", "npx", "pnpm", "pnpx", "yarn", "bun")
)
_PYTHON_FILES = (
    "pyproject.toml",
    "uv.lock",
    "uv.toml",
    "poetry.lock",
    "poetry.toml",
    "pdm.lock",
    ".venv",
)
_NODE_FILES = ("package.json", "node_modules", "tsconfig.json", "bunfig.toml")
_COMPOSE_FILES = (
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
    "Dockerfile",
)
_OBEYS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("uv", "uvx", "poetry", "pdm", "hatch", "rye", "pixi"), (*_PYTHON_FILES, "pixi.toml")
    ),
    "pipenv": ("Pipfile", "Pipfile.lock"),
    **dict.fromkeys((*_NODE_PROGRAMS, "bunx"), _NODE_FILES),
    "deno": ("deno.json", "deno.jsonc", "import_map.json", *_NODE_FILES),
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    "just": ("justfile", ".justfile", "Justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "cargo": ("Cargo.toml", "build.rs", "src"),
    "go": ("go.mod", "go.work"),
    **dict.fromkeys(("docker", "docker-compose", "podman", "podman-compose"), _COMPOSE_FILES),
    **dict.fromkeys(("bundle", "rake", "ruby"), ("Gemfile", "Gemfile.lock", "Rakefile")),
    **dict.fromkeys(("php", "composer"), ("composer.json", "vendor")),
    **dict.fromkeys(
        ("gradle", "gradlew"), ("build.gradle", "build.gradle.kts", "settings.gradle", "buildSrc")
    ),
    **dict.fromkeys(("mvn", "mvnw"), ("pom.xml",)),
    **dict.fromkeys(
        ("nix", "nix-shell", "nix-build"), ("flake.nix", "flake.lock", "shell.nix", "default.nix")
    ),
    **dict.fromkeys(("foreman", "honcho", "overmind", "hivemind"), ("Procfile", "Procfile.dev")),
    **dict.fromkeys(("mix", "elixir"), ("mix.exs", "mix.lock", "lib", "config")),
    **dict.fromkeys(("mise", "rtx"), ("mise.toml", ".mise.toml")),
}
"""The files in its working folder that each program obeys."""
_FOLDER_OPTIONS = frozenset(
    ("--directory", "--project", "--prefix", "--cwd", "--chdir", "--dir", "--from", "-C", "cd")
)
_CODE_OPTIONS = frozenset(
    (
        *(
            "-I",
            "-L",
            "-cp",
            "-classpath",
            "--class-path",
            "--module-path",
            "--spec",
            "--with",
            "--with-editable",
        ),
        *(
            "--loader",
            "--experimental-loader",
            "--import",
            "--require",
            "-r",
            "--include",
            "--load-path",
            "--package",
        ),
    )
)
"""Options whose value is code, as a file, a folder, or several folders with colons."""
_FILE_OPTIONS = frozenset(("--manifest-path", "--justfile", "--taskfile", "--makefile"))
"""Options whose value is a file in the working folder."""
_TAKES_FOLDER = frozenset(
    ("go", "npx", "pnpx", "bunx", "bun", "node", "npm", "pipx", "uvx", "deno", "nix", "cargo")
)
"""Programs that run a folder if its name contains a slash."""
_LINES = {
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    ".justfile",
    "Procfile",
    "Procfile.dev",
}
"""Files whose lines are commands, like those of shell scripts."""
_RECIPES = _LINES - {"Procfile", "Procfile.dev"}
_TARGET = re.compile(r"([\w.% /-]+?)\s*:(?!=)\s*([^#]*)")
_QUOTED = re.compile(r"""["']([^"'\n]+)["']""")
_LONGEST_SCRIPT = 64 * 1024
_TAKES_LINE = re.compile("-[A-Za-z]*[cS]|--run|--command|--cmd|--exec")
"""Options followed by a whole command line: ``sh -c``, ``bash -lc``, ``env -S``."""
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_RELATIVE = re.compile(
    r"""(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)["'](\.{1,2}/[^"'\n]+)["']"""
)
_SEARCHED = ("PYTHONPATH", "NODE_PATH", "RUBYLIB", "PERL5LIB")
_BARE = re.compile(r"[^-\s][^\s]*")
"""A word that can be the path of a missing file, not an option or a sentence."""
# Levels of scripts that start other scripts; deeper ones are not followed.
_DEPTH = 4


class StartedFiles(Struct, frozen=True):
    """The files that a command line starts, imports and obeys."""

    words: frozenset[Path]
    """Files that the command line names, existing or not."""
    around: frozenset[Path]
    """Imported files, and folders that count with everything in them."""
    searched: frozenset[Path] = frozenset()
    """Folders of scripts, in which Python looks for every module first."""
    imported: frozenset[str] = frozenset()
    """Top-level names that these scripts import, which may be compiled modules."""

    @property
    def all(self) -> frozenset[Path]:
        return self.words | self.around


def started_files(
    argv: Sequence[str],
    folder: Path,
    env: Mapping[str, str] | None = None,
    outer: Iterable[Path] = (),
) -> StartedFiles:
    """Return the files of a command that starts in a folder.

    A folder that a script imports from counts as a whole. The exception is the working folder, a
    folder in ``outer``, or a parent of these: there only imported files count.
    """
    found = _Finding(folder, (folder, *outer))
    found.follow(list(argv))
    for name, value in (env or {}).items():
        found.follow_variable(name, value)
    return StartedFiles(
        frozenset(found.words),
        frozenset(found.around),
        frozenset(found.searched),
        frozenset(found.imported),
    )


class _Finding:
    def __init__(self, folder: Path, outer: Iterable[Path]) -> None:
        self._bases = [folder]
        self._outer = frozenset(chain.from_iterable((each, *each.parents) for each in outer))
        self.words: set[Path] = set()
        self.around: set[Path] = set()
        self.searched: set[Path] = set()
        self.imported: set[str] = set()
        self._read: set[Path] = set()
        """Scripts whose lines have been followed."""
        self._words: Sequence[str] = ()
        """The current command line."""

    def follow(self, words: Sequence[str], depth: int = 0) -> None:
        """Follow each word of a command line; a program counts anywhere, as after ``timeout 9``."""
        before = ""
        # Lines of scripts are followed from in here, and the outer line goes on afterwards.
        around = self._words
        self._words = words
        for at, word in enumerate(words):
            if _TAKES_LINE.fullmatch(before) and " " in word and depth < _DEPTH:
                self._follow_code_word(word, words[:at])
                self.follow(_split(word), depth + 1)
            elif before == "-m" or (word.startswith("-m") and _is_python(words[:at])):
                self._follow_module(word.removeprefix("-m"))
            option, _, value = word.partition("=")
            if before in _FOLDER_OPTIONS or option in _FOLDER_OPTIONS:
                self._enter(value if option in _FOLDER_OPTIONS else word)
            if option in _FILE_OPTIONS or before in _FILE_OPTIONS:
                self._enter(os.path.dirname(value or word))
            self._follow_option(before, word)
            self._follow_program(word, depth)
            named = word
            if value and (word.startswith("-") or option.isidentifier()):
                named = value
            self._follow_word(named, words[:at], depth)
            before = word
        self._words = around

    def follow_variable(self, name: str, value: str) -> None:
        """Follow the value of an environment variable."""
        if name in _SEARCHED:
            for entry in filter(None, value.split(os.pathsep)):
                # Only PYTHONPATH is searched by name; other variables name whole folders of code.
                path = Path(os.path.normpath(self._bases[0] / os.path.expanduser(entry)))
                if self._is_apart(path):
                    if path.exists():
                        self.around.add(path)
                elif name == "PYTHONPATH":
                    self.searched.add(path)
        else:
            for word in _split(value):
                self._follow_word(word.rpartition("=")[2], (), 0)

    def _enter(self, name: str) -> None:
        path = self._bases[0] / os.path.expanduser(name)
        if path.is_dir() and path not in self._bases:
            self._bases.append(path)
            if self._is_apart(path):
                self.around.add(path)

    def _follow_option(self, before: str, word: str) -> None:
        """Follow a folder of code that is the value of an option, in the same word or the next."""
        option, _, value = word.partition("=")
        if before in _CODE_OPTIONS:
            value = word
        elif word.startswith(("-I", "-L")) and len(word) > 2:
            value = word[2:]
        elif option not in _CODE_OPTIONS:
            return
        for base in self._bases:
            for each in filter(None, value.split(os.pathsep)):
                path = Path(os.path.normpath(base / os.path.expanduser(each)))
                if path.is_dir() and self._is_apart(path):
                    self.around.add(path)

    def _follow_code_word(self, code: str, before: Sequence[str]) -> None:
        """Follow Python code on the command line: its imports and quoted paths."""
        if not _is_python(before[:-1]):
            return
        for base in self._bases:
            if not self._is_apart(base):
                self.searched.add(base)
            self._follow_sources(Sources.below(base, imported_names(code.encode())))
            for text in _QUOTED.findall(code):
                path = Path(os.path.normpath(base / text))
                if path.is_dir() and self._is_apart(path):
                    self.around.add(path)

    def _follow_lines(self, path: Path, depth: int) -> None:
        """Follow the commands in a shell script, Makefile or similar, once per file."""
        if path in self._read or depth >= _DEPTH:
            return
        self._read.add(path)
        for line in _command_lines(path, self._words):
            words = _split(line)
            if len(words) > 1:
                self.follow(words, depth + 1)
            elif words:
                self._follow_word(words[0], (), depth + 1)

    def _follow_program(self, word: str, depth: int) -> None:
        name = PurePath(word).name.lower().removesuffix(".cmd").removesuffix(".exe")
        for base in self._bases:
            obeyed: list[Path] = []
            for each in _OBEYS.get(name, ()):
                path = base / each
                if path.exists():
                    obeyed.append(path)
            self.around.update(obeyed)
            for path in obeyed:
                if path.name in _LINES or path.name == "package.json":
                    self._follow_lines(path, depth)
            if name == "go":
                self.around.update(base.glob("*.go"))

    def _follow_module(self, name: str) -> None:
        if not _MODULE.fullmatch(name):
            return
        for base in self._bases:
            if not self._is_apart(base):
                self.searched.add(base)
            sources = Sources.below(base, [name])
            if sources.files:
                self._follow_sources(sources)
            else:
                self.words.update(module_paths(base, name.split(".")))

    def _follow_word(self, word: str, before: Sequence[str], depth: int) -> None:
        """Follow a word that is a file, or would be if it existed; folders are usually data."""
        if not word or len(word) > 1000 or "\0" in word or "://" in word:
            return
        module, colon, _ = word.partition(":")
        for base in self._bases:
            path = base / os.path.expanduser(word)
            if path.is_file():
                self._follow_file(path, depth)
            elif (
                path.is_dir()
                and os.sep in word
                and _TAKES_FOLDER.intersection(map(_program, before))
            ):
                if self._is_apart(Path(os.path.normpath(path))):
                    self.around.add(path)
            elif colon and (base / module).is_file():
                self._follow_file(base / module, depth)
            elif (
                # PACKAGE.MODULE:NAME, by which servers such as uvicorn are told what to run
                colon
                and _MODULE.fullmatch(module)
                and any(map(os.path.isfile, module_paths(base, module.split("."))))
            ):
                self._follow_module(module)
            elif (
                before
                and PurePath(before[-1]).name in _NODE_PROGRAMS
                and (script := _node_file(path))
            ):
                self._follow_file(script, depth)
            elif path.suffix in _CODE | _SETTINGS and _BARE.fullmatch(word) and not path.exists():
                # It is missing now, but the command would run it as soon as it exists.
                self.words.add(path)

    def _follow_file(self, path: Path, depth: int) -> None:
        if path.suffix in _DATA:
            return
        path = Path(os.path.normpath(path))
        self.words.add(path)
        real = Path(os.path.realpath(path))
        # A program in the bin of a virtual environment runs code from all of that.
        environment = path.parent.parent
        if (environment / "pyvenv.cfg").is_file():
            self.around.add(environment)
        elif is_code(path):
            for each in dict.fromkeys((path, real)):
                self._follow_code(each)
        if path.name in _LINES or path.suffix == ".mk" or _is_shell_script(path):
            self._follow_lines(path, depth)

    def _follow_code(self, path: Path) -> None:
        """Follow the folder of code; if that is the whole project, only its imports."""
        if self._is_apart(path.parent):
            self.around.add(path.parent)
        elif path.suffix in (".py", ".pyw") or _names_python(path):
            self.searched.add(path.parent)
            self._follow_sources(Sources.beside(path))
        if path.suffix in _NODE:
            self.around.update(_required(path))
            for folder in path.parents:
                if any(folder.is_relative_to(base) for base in self._bases):
                    for name in _NODE_FILES:
                        if (folder / name).exists():
                            self.around.add(folder / name)

    def _follow_sources(self, sources: Sources) -> None:
        self.imported |= sources.tops | {
            path.relative_to(sources.folder).parts[0] for path in sources.absent
        }
        for path in (*sources.paths, *sources.absent):
            first = sources.folder / path.relative_to(sources.folder).parts[0]
            is_package = first.is_dir() and (first / "__init__.py").exists()
            self.around.add(first if is_package else path)

    def _is_apart(self, folder: Path) -> bool:
        """Return True if a folder is neither the project nor a parent of it."""
        return folder not in self._outer and Path(os.path.realpath(folder)) not in self._outer


def is_code(path: Path) -> bool:
    """Return True if a file is a program, by its name, mode or first two bytes."""
    if path.suffix in _CODE:
        return True
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!" or os.access(path, os.X_OK)
    except OSError:
        return False


def _program(word: str) -> str:
    return PurePath(word).name.lower()


def _is_shell_script(path: Path) -> bool:
    if path.suffix in (".sh", ".bash", ".zsh", ".fish"):
        return True
    try:
        with open(path, "rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and any(name.endswith(b"sh") for name in first[2:].split())


def _command_lines(path: Path, wanted: Sequence[str]) -> list[str]:
    """Return the commands of a shell script, or of the ``wanted`` targets of another file."""
    try:
        with open(path, "rb") as file:
            text = file.read(_LONGEST_SCRIPT).decode(errors="replace").replace("\\\n", " ")
    except OSError:
        return []
    if path.name == "package.json":
        return _scripts_of(text, wanted)
    if path.name in _RECIPES or path.suffix == ".mk":
        return _recipes_of(text, wanted)
    return text.splitlines()


def _scripts_of(text: str, wanted: Sequence[str]) -> list[str]:
    try:
        scripts = dict(json.loads(text)["scripts"])
    except (ValueError, LookupError, TypeError):
        return []
    found: list[str] = []
    for name in wanted:
        # npm runs the scripts preNAME and postNAME with NAME.
        for each in (f"pre{name}", name, f"post{name}"):
            if each in scripts:
                found.append(str(scripts[each]))
    return found


def _recipes_of(text: str, wanted: Sequence[str]) -> list[str]:
    """Return the commands of targets and their dependencies; of the first target by default."""
    recipes: dict[str, tuple[list[str], list[str]]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line[:1].isspace():
            # "@", "-" and "+" are signs for make, not a part of the command.
            lines.append(line.strip().lstrip("@-+"))
        elif (found := _TARGET.match(line)) and not found[1].startswith("."):
            lines = []
            recipes.update((name, (found[2].split(), lines)) for name in found[1].split())
    # Without a target, make builds the first one.
    waiting = [name for name in wanted if name in recipes] or list(recipes)[:1]
    seen = dict.fromkeys(waiting)
    for name in waiting:  # the list grows by the dependencies of each target
        waiting += [each for each in recipes[name][0] if each in recipes and each not in seen]
        seen.update(dict.fromkeys(recipes[name][0]))
    return list(chain.from_iterable(recipes[name][1] for name in waiting))


def _names_python(path: Path) -> bool:
    """Return True if the first line of a script names Python."""
    try:
        with open(path, "rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first


def _is_python(words: Sequence[str]) -> bool:
    return bool(words) and PurePath(words[-1]).name.startswith(("python", "pypy"))


def _split(line: str) -> list[str]:
    read = shlex.shlex(line.replace("`", " "), posix=True, punctuation_chars=True)
    read.whitespace_split = True
    read.commenters = ""
    try:
        return list(read)
    except ValueError:  # a quote that is not closed
        return line.split()


def _node_file(path: Path) -> Path | None:
    """Return the file that node finds for a name without a suffix, or for a folder."""
    # Without a name, as for "/", there is nothing that a suffix could follow.
    named: list[Path] = []
    if path.name:
        named += [path.with_name(f"{path.name}{suffix}") for suffix in _NODE]
    named += [path / f"index{suffix}" for suffix in _NODE]
    return next((each for each in named if each.is_file()), None)


def _required(path: Path) -> set[Path]:
    """Return the files that a node script imports by relative paths, recursively."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        each = waiting.pop()
        for name in _relative_names(each, _stamp(each)):
            place = Path(os.path.normpath(each.parent / name))
            real: Path | None = place
            if not place.is_file():
                # TypeScript names the compiled file, so another suffix is tried as well.
                real = _node_file(place) or _node_file(place.with_suffix(""))
            if real is not None and real not in found:
                waiting.append(real)
            found.add(real or place)
    return found


@lru_cache(maxsize=1024)
def _relative_names(path: Path, stamp: tuple[int, int]) -> tuple[str, ...]:
    # ``stamp`` is only a part of the cache key: a changed file is read again.
    try:
        return tuple(_RELATIVE.findall(path.read_text("utf-8", errors="replace")))
    except OSError:
        return ()


def _stamp(path: Path) -> tuple[int, int]:
    try:
        info = path.stat()
    except OSError:
        return 0, 0
    return info.st_mtime_ns, info.st_size
