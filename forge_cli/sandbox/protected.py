"""Protected names: files that other programs run or obey, and files that hold secrets."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from forge_cli.sandbox.names import folded

DOT_ENV = ".env"
"""The prefix of the names of files that may hold secrets."""
_TEMPLATES = (".example", ".sample", ".template", ".dist")
OBEYED = "forge obeys it"
GIT_HOOK = "git runs it as a hook"
TOOLS = "tools.py"
WORKER_SUFFIX = ".worker"
WORKERS = frozenset({"worker.yaml", "worker.yml", "worker.md"})


class ProtectedNames(Struct, frozen=True):
    """Names with the reason why they ask; a trailing slash marks a folder with all its contents."""

    why: str
    names: tuple[str, ...]
    of_packages: bool = True
    """True if the names also count in installed packages, whose own files no program obeys."""


_SECRET = ProtectedNames("it may hold secrets, and shells and programs load it", (f"{DOT_ENV}*",))
TABLE = (
    ProtectedNames(OBEYED, (".forge/", *sorted(WORKERS), f"*{WORKER_SUFFIX}")),
    _SECRET,
    ProtectedNames("git runs what it names", (".git/", ".gitconfig", ".husky/", ".config/git/")),
    ProtectedNames(
        "git or a git hook obeys it",
        (
            ".gitattributes",
            ".gitmodules",
            ".pre-commit-config.*",
            "prek.toml",
            "lefthook.*",
            ".lefthook.*",
            "lefthook-local.*",
            ".lefthook-local.*",
            ".huskyrc",
            ".huskyrc.*",
            ".lintstagedrc",
            ".lintstagedrc.*",
            "lint-staged.config.*",
            ".overcommit.yml",
            ".git-hooks/",
            ".simple-git-hooks.*",
            "simple-git-hooks.*",
        ),
        of_packages=False,
    ),
    ProtectedNames(
        "other version control systems run what it names",
        (
            ".hg/hgrc",
            ".hg/hgrc-not-shared",
            ".hgrc",
            ".jj/repo/config.toml",
            ".jj/config.toml",
            ".config/jj/",
        ),
    ),
    ProtectedNames("other assistants start what it names", (".mcp.json", "mcp.json")),
    ProtectedNames(
        "other assistants obey it",
        (
            ".claude/",
            ".codex/",
            ".gemini/",
            ".opencode/",
            ".cursor/",
            ".windsurf/",
            ".continue/",
            ".roo/",
            ".kiro/",
            ".amazonq/",
            ".junie/",
            ".clinerules",
            ".cursorrules",
            ".windsurfrules",
            ".goosehints",
            "AGENTS.md",
            "AGENTS.override.md",
            "CLAUDE.md",
            "CLAUDE.local.md",
            "GEMINI.md",
            "opencode.json",
            ".aider.conf.yml",
            "opencode.jsonc",
            ".github/copilot-instructions.md",
            ".github/instructions/",
            ".github/prompts/",
            ".github/chatmodes/",
            ".github/agents/",
            ".github/hooks/",
            ".github/skills/",
            ".agents/",
            ".agent/",
            "AGENT.md",
            ".rules",
            ".augment/",
            ".augment-guidelines",
            ".cline/",
            ".crush/",
            ".crush.json",
            "crush.json",
            "CRUSH.md",
            ".factory/",
            ".goose/",
            ".kilocode/",
            ".kilocodemodes",
            ".roomodes",
            ".openhands/",
            ".qwen/",
            "QWEN.md",
            ".trae/",
            ".warp/",
            "WARP.md",
            ".aiexclude",
            ".aiderignore",
            ".cursorignore",
            ".cursorindexingignore",
            ".geminiignore",
            ".rooignore",
        ),
        of_packages=False,
    ),
    ProtectedNames(
        "editors start what it names",
        (
            ".vscode/",
            ".idea/",
            ".devcontainer/",
            ".devcontainer.json",
            ".zed/",
            ".fleet/",
            ".run/",
            ".vs/",
            ".nova/",
            ".helix/",
            ".externalToolBuilders/",
            "*.code-workspace",
            "*.sublime-project",
            ".yarn/sdks/",
            ".exrc",
            ".vimrc",
            ".gvimrc",
            ".nvim.lua",
            ".nvimrc",
            ".lvimrc",
            ".emacs",
            ".emacs.d/",
            ".dir-locals.el",
            ".dir-locals-2.el",
            ".gitpod.yml",
            ".idx/",
            ".replit",
            ".codesandbox/",
        ),
        of_packages=False,
    ),
    ProtectedNames(
        "a CI service runs it",
        (
            ".github/workflows/",
            ".github/actions/",
            ".gitea/workflows/",
            ".forgejo/workflows/",
            ".gitlab-ci.yml",
            ".circleci/",
            ".buildkite/",
            ".woodpecker/",
            ".woodpecker.*",
            ".travis.yml",
            ".drone.*",
            ".cirrus.*",
            ".appveyor.yml",
            "appveyor.yml",
            "azure-pipelines.*",
            "bitbucket-pipelines.yml",
            "Jenkinsfile",
            ".semaphore/",
            ".teamcity/",
            ".harness/",
            ".tekton/",
            ".builds/",
            ".build.yml",
            "codemagic.yaml",
            "cloudbuild.*",
            "buildspec.*",
            ".readthedocs.*",
        ),
        of_packages=False,
    ),
    ProtectedNames(
        "shells run it",
        (
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".bash_aliases",
            ".profile",
            ".inputrc",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".zlogout",
            ".kshrc",
            ".mkshrc",
            ".cshrc",
            ".tcshrc",
            ".login",
            ".logout",
            "config.fish",
            "mise.toml",
            ".mise.toml",
            "mise.local.toml",
            ".mise.local.toml",
            ".mise/",
            "mise/config.toml",
            ".config/mise/",
            ".config/mise.toml",
            ".tmux.conf",
            ".screenrc",
        ),
    ),
    ProtectedNames(
        "a debugger or an interactive program runs it when it starts",
        (
            ".gdbinit",
            ".gdbearlyinit",
            ".lldbinit",
            ".pdbrc",
            ".pdbrc.py",
            ".Rprofile",
            ".Renviron",
            ".irbrc",
            ".pryrc",
            ".ghci",
            ".iex.exs",
            ".erlang",
            ".octaverc",
            ".radare2rc",
            ".sqliterc",
            ".psqlrc",
            ".my.cnf",
            ".pythonrc",
            ".pythonrc.py",
            ".ipython/",
            ".jupyter/",
            ".lessfilter",
            ".curlrc",
            ".wgetrc",
        ),
    ),
    ProtectedNames(
        "builds, tests and containers load it without being told to",
        (
            ".mvn/",
            ".bazelrc",
            ".bazeliskrc",
            "user.bazelrc",
            ".buckconfig",
            ".buckconfig.local",
            ".jvmopts",
            ".sbtopts",
            "gradle/wrapper/",
            ".rspec",
            ".rspec-local",
            "compose.override.*",
            "docker-compose.override.*",
        ),
        of_packages=False,
    ),
    ProtectedNames(
        "searches obey it, and may then read what holds secrets",
        (".ignore", ".rgignore"),
        of_packages=False,
    ),
    ProtectedNames(
        "it names programs, keys, or where code comes from",
        (
            ".cargo/",
            ".npmrc",
            ".pnpmfile.*",
            ".yarnrc",
            ".yarnrc.yml",
            ".yarn/releases/",
            ".yarn/plugins/",
            ".pypirc",
            ".netrc",
            "pip.conf",
            ".condarc",
            ".gemrc",
            ".bundle/config",
            ".ssh/",
            ".gnupg/",
            "rust-toolchain",
            "rust-toolchain.toml",
            ".tool-versions",
        ),
    ),
)
"""Only files that a program runs or obeys by itself; not sources such as conftest.py or a
Makefile."""
FOLDERS = frozenset({".git", ".forge", ".cargo", ".vscode", ".husky", ".devcontainer"})
"""Folders that also protect a zone inside them; those of assistants contain worktrees."""
PACKAGES = frozenset(
    {"node_modules", "bower_components", "site-packages", "dist-packages", "vendor", "third_party"}
)
"""Folders of installed packages."""


def _rows_by_name() -> dict[str, ProtectedNames]:
    rows: dict[str, ProtectedNames] = {}
    for row in TABLE:
        for name in row.names:
            rows[folded(name.rstrip("/"))] = row
    return rows


_ROWS = _rows_by_name()
LATER_REASONS = frozenset({row.why for row in TABLE if row.why != OBEYED} | {GIT_HOOK})
"""The reasons of files that no unconfined program loads while a session runs."""
PAIRED = frozenset(chain.from_iterable(name.split("/")[:-1] for name in _ROWS))
"""Folders in which only some names are protected."""


def is_secret(name: str) -> bool:
    """Return True if a file of this name is read only after asking; searches skip it."""
    return folded(name).startswith(DOT_ENV) and not is_env_template(name)


def is_env_template(name: str) -> bool:
    """Return True if a file of this name only lists the settings, so that it may be read."""
    return folded(name).startswith(DOT_ENV) and folded(name).endswith(_TEMPLATES)


def is_protected(name: str, around: str = "", *, in_packages: bool = False) -> bool:
    """Return True if a file or folder of this name is changed only after asking, wherever it is.

    ``around`` is the name of its folder, or of the last two (``.jj/repo``). ``in_packages`` is True
    inside an installed package.
    """
    row = _row(name, around)
    return row is not None and (row.of_packages or not in_packages)


def protected_among(parts: Iterable[str], around: str = "") -> tuple[str, str] | None:
    """Return the first protected name of a path in the folder ``around``, and the reason."""
    folders: tuple[str, ...] = (around,)
    for name in parts:
        ways = ("", folders[-1], "/".join(folders))
        for way in ways:
            if row := _row(name, way):
                return (f"{way}/{name}" if way else name), row.why
        folders = (*folders, name)[-2:]
    return None


def _row(name: str, around: str = "") -> ProtectedNames | None:
    key = folded(name)
    if key.startswith(DOT_ENV):
        return _SECRET
    stem, _, suffix = key.rpartition(".")
    found = _ROWS.get(key) or _ROWS.get(f"{stem}.*") or _ROWS.get(f"*.{suffix}")
    if found or not around:
        return found
    folders = folded(around)
    return _ROWS.get(f"{folders}/{key}") or _ROWS.get(f"{folders.rpartition('/')[2]}/{key}")
