"""Keys of providers that ``forge keys set`` has stored for this user, as they are read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from forge_cli.core.errors import ForgeError
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.files.places import read_kept, whole_file

SERVICE = "forge"
"""Under which name keys lie in a keyring."""
REMEMBERED: dict[tuple[str, int, int], dict[str, str]] = {}
"""The keys of one state of a file, so that a keyring is asked once."""
_NO_KEYS = "this is not a file of keys"
_STORE_AGAIN = "move it away, and store your keys again with forge keys set"

Entries = dict[str, str | None]
"""Values by variable; None where the value lies in the keyring."""


def stored_keys(home: Path | None = None) -> dict[str, str]:
    """Every stored key by its variable, for redaction."""
    try:
        return StoredKeys(home or forge_home()).values()
    except ForgeError:
        return {}


@dataclass(frozen=True)
class StoredKeys:
    """``keys.json`` in forge's home, for this user alone; values lie in the system's keyring where there is one.

    The file then has the names only: forge does not wait for a keyring that holds nothing of its own.
    """

    home: Path

    @property
    def file(self) -> Path:
        return self.home / "keys.json"

    def values(self) -> dict[str, str]:
        stamp = self._stamp()
        if stamp not in REMEMBERED:
            entries = self.entries()
            found = {name: _from_keyring(name) if value is None else value for name, value in entries.items()}
            REMEMBERED.clear()
            REMEMBERED[stamp] = {name: value for name, value in found.items() if value}
        return dict(REMEMBERED[stamp])

    def entries(self) -> Entries:
        """The content of the file."""
        found = read_kept(self.file, _NO_KEYS, _STORE_AGAIN)
        if wrong := next((name for name, value in found.items() if not isinstance(value, str | None)), None):
            raise whole_file(self.file, f"{_NO_KEYS}: {visible(wrong)} is not text", hint=_STORE_AGAIN)
        return found

    def _stamp(self) -> tuple[str, int, int]:
        file = os.path.join(self.home, "keys.json")
        try:
            found = os.stat(file)
        except OSError:
            return file, 0, 0
        return file, found.st_mtime_ns, found.st_ino


def find_keyring() -> Any:
    """The system's keyring, if the package ``keyring`` is installed and finds one that keeps secrets."""
    try:
        keyring = import_module("keyring")
        return keyring if keyring.get_keyring().priority >= 1 else None
    except Exception:  # third-party code
        return None


def _from_keyring(variable: str) -> str | None:
    keyring = find_keyring()
    try:
        return str(keyring.get_password(SERVICE, variable) or "") if keyring else None
    except Exception:  # third-party code: a keyring that is locked
        return None
