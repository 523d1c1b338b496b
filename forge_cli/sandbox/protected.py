"""Protected names, as text: files that make a later command do something else, and files that hold secrets."""

from __future__ import annotations

from forge_cli.sandbox.names import folded
from forge_cli.sandbox.secret import DOT_ENV

FOLDERS = frozenset({".git", ".forge", ".cargo", ".vscode", ".husky", ".devcontainer"})
"""What lies in a folder of such a name is protected with it."""
_MCP = frozenset({".mcp.json", "mcp.json"})
_BASH = frozenset({".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"})
_ZSH = frozenset({".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"})
_OTHER_SHELLS = frozenset({".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", "config.fish"})
_SETTINGS = frozenset({".gitconfig", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".netrc"})
"""Settings of programs that name other programs, or where code comes from; sources such as conftest.py are not."""
WORKERS = frozenset({"worker.yaml", "worker.yml", "worker.md"})
_NAMES = FOLDERS | _MCP | _BASH | _ZSH | _OTHER_SHELLS | _SETTINGS | WORKERS
TOOLS, WORKER_SUFFIX = "tools.py", ".worker"


def is_secret(name: str) -> bool:
    """Whether a file of that name is read only after asking; a search skips it."""
    return folded(name).startswith(DOT_ENV)


def is_protected(name: str) -> bool:
    """Whether a file or folder of that name is written or deleted only after asking, wherever it is."""
    return is_secret(name) or folded(name) in _NAMES or folded(name).endswith(WORKER_SUFFIX)
