"""The environment of git: settings, proxies and, for a push, keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
KEPT = (
    *("LOGNAME", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "GNUPGHOME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *PROXIES,
    *(name.upper() for name in PROXIES),
)
QUIET = {
    "LC_ALL": "",  # so that LC_MESSAGES counts, while the encoding stays that of the user
    "LC_MESSAGES": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": ":",
    "GIT_PAGER": "cat",
}
KEYS = (".ssh", ".git-credentials", ".config/git/credentials", ".config/gh", ".netrc")


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return variables with settings that override all files; unlike ``-c`` for any name."""
    found = {name: os.environ[name] for name in KEPT if name in os.environ} | QUIET
    found["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def settings_files() -> list[Path]:
    """Return the user's settings files, which a confined git needs to read."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return [Path.home() / ".gitconfig", config / "git"]


def key_files() -> list[Path]:
    """Return the files of the user's credentials for remotes, and the socket of the key agent."""
    files = [Path.home() / name for name in KEYS]
    if agent := os.environ.get("SSH_AUTH_SOCK"):
        files.append(Path(agent))
    return files
