"""Protected names, as text: files that make another program run or obey something, and files that hold secrets."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from forge_cli.sandbox.names import folded

DOT_ENV = ".env"
"""The beginning of the names of files that may hold secrets."""
TOOLS, WORKER_SUFFIX = "tools.py", ".worker"
WORKERS = frozenset({"worker.yaml", "worker.yml", "worker.md"})


class ProtectedNames(Struct, frozen=True):
    """Names with the reason why they ask; a slash at the end marks a folder, protected with all that lies in it."""

    why: str
    names: tuple[str, ...]
    of_packages: bool = True
    """Whether they count among installed packages as well, which come with files that no program obeys there."""


_SECRET = ProtectedNames("it may hold secrets, and shells and programs load it", (f"{DOT_ENV}*",))
TABLE = (
    ProtectedNames("forge obeys it", (".forge/", *sorted(WORKERS), f"*{WORKER_SUFFIX}")),
    _SECRET,
    ProtectedNames("git runs what it names", (".git/", ".gitconfig", ".husky/")),
    ProtectedNames(
        "git, or a hook of git, obeys it",
        (
            *(".gitattributes", ".gitmodules", ".pre-commit-config.*", "prek.toml"),
            *("lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook-local.*"),
        ),
        of_packages=False,
    ),
    ProtectedNames("other assistants start what it names", (".mcp.json", "mcp.json")),
    ProtectedNames(
        "other assistants obey it",
        (
            *(".claude/", ".codex/", ".gemini/", ".opencode/", ".cursor/", ".windsurf/", ".continue/", ".roo/"),
            *(".kiro/", ".amazonq/", ".junie/", ".clinerules", ".cursorrules", ".windsurfrules", ".goosehints"),
            *("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "opencode.json"),
            *(".aider.conf.yml", "opencode.jsonc", ".github/copilot-instructions.md", ".github/instructions/"),
        ),
        of_packages=False,
    ),
    ProtectedNames(
        "editors start what it names",
        (".vscode/", ".idea/", ".devcontainer/", ".devcontainer.json", ".zed/", ".fleet/"),
        of_packages=False,
    ),
    ProtectedNames(
        "a CI service runs it",
        (
            *(".github/workflows/", ".github/actions/", ".gitea/workflows/", ".forgejo/workflows/", ".gitlab-ci.yml"),
            *(".circleci/", ".buildkite/", ".woodpecker/", ".woodpecker.*", ".travis.yml", ".drone.*", ".cirrus.*"),
            *(".appveyor.yml", "appveyor.yml", "azure-pipelines.*", "bitbucket-pipelines.yml", "Jenkinsfile"),
        ),
        of_packages=False,
    ),
    ProtectedNames(
        "shells run it",
        (
            *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
            *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc"),
            *(".login", ".logout", "config.fish", "mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml"),
        ),
    ),
    ProtectedNames(
        "it names programs, keys, or where code comes from",
        (
            *(".cargo/", ".npmrc", ".pnpmfile.*", ".yarnrc", ".yarnrc.yml", ".pypirc", ".netrc"),
            *("rust-toolchain", "rust-toolchain.toml", ".tool-versions"),
        ),
    ),
)
"""A name needs another program that runs or obeys it by itself: sources such as conftest.py or a Makefile do not."""
FOLDERS = frozenset({".git", ".forge", ".cargo", ".vscode", ".husky", ".devcontainer"})
"""Folders that also protect what lies in a zone which begins below one; assistants keep worktrees in theirs."""
PACKAGES = frozenset({"node_modules", "bower_components", "site-packages", "dist-packages", "vendor", "third_party"})
"""Folders of installed packages."""

_ROWS = {folded(name.rstrip("/")): row for row in TABLE for name in row.names}
PAIRED = frozenset(name.partition("/")[0] for name in _ROWS if "/" in name)
"""Folders in which only some names are protected."""


def is_secret(name: str) -> bool:
    """Whether a file of that name is read only after asking; a search skips it."""
    return folded(name).startswith(DOT_ENV)


def is_protected(name: str, around: str = "", *, in_packages: bool = False) -> bool:
    """Whether a file or folder of that name is written or deleted only after asking, wherever it is.

    ``around`` is the name of the folder that it lies in, ``in_packages`` whether that belongs to an installed package.
    """
    row = _row(name, around)
    return row is not None and (row.of_packages or not in_packages)


def protected_among(parts: Iterable[str], around: str = "") -> tuple[str, str] | None:
    """The first protected name on a way that begins in the folder ``around``, and why it is."""
    for folder, name in pairwise((around, *parts)):
        if row := _row(name, folder):
            return (name if _row(name) else f"{folder}/{name}"), row.why
    return None


def _row(name: str, around: str = "") -> ProtectedNames | None:
    key = folded(name)
    if key.startswith(DOT_ENV):
        return _SECRET
    stem, _, suffix = key.rpartition(".")
    found = _ROWS.get(key) or _ROWS.get(f"{stem}.*") or _ROWS.get(f"*.{suffix}")
    return found or (_ROWS.get(f"{folded(around)}/{key}") if around else None)
