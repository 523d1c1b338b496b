"""Keys of providers: from the environment, else from what ``forge keys set`` has stored for this user."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home, make_private
from forge_cli.files.lock import hold_file_lock
from forge_cli.files.places import read_kept, whole_file
from forge_cli.files.replace import replace_file

PROVIDERS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
"""Short names that ``forge keys`` takes for variables."""
SHOWN = 4
"""Characters of a key that people may see, if it is much longer."""
SERVICE = "forge"
"""Under which name keys lie in a keyring."""
_REMEMBERED: dict[tuple[str, int, int], dict[str, str]] = {}
"""The keys of one state of a file, so that a keyring is asked once."""
_NO_KEYS = "this is not a file of keys"
_STORE_AGAIN = "move it away, and store your keys again with forge keys set"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

Entries = dict[str, str | None]
"""Values by variable; None where the value lies in the keyring."""


@dataclass(frozen=True)
class ProviderKey:
    """A key, the variable that it is meant for, and where it comes from."""

    variable: str
    value: str = field(repr=False)
    origin: str

    @property
    def shown(self) -> str:
        """Its end, for people who have several; of a short one nothing."""
        return f"...{self.value[-SHOWN:]}" if len(self.value) >= 4 * SHOWN else "..."


def find_key(*variables: str) -> ProviderKey | None:
    """The key that one of these variables holds, or else that is stored for one; None where there is none."""
    for variable in variables:
        if value := os.environ.get(variable, "").strip():
            return ProviderKey(variable, value, "environment")
    store = KeyStore(forge_home())
    return next((key for variable in variables if (key := store.find(variable))), None)


def stored_keys(home: Path | None = None) -> dict[str, str]:
    """Every stored key by its variable, for redaction."""
    try:
        return KeyStore(home or forge_home()).values()
    except ForgeError:
        return {}


def variable_for(name: str) -> str:
    """``anthropic`` and ``openai`` are short for their variables; any other name is one."""
    variable = PROVIDERS.get(name, name)
    # A name in lower case is more likely a provider that is misspelled.
    if not _VARIABLE.fullmatch(variable) or variable.islower():
        hint = f"it is {', '.join(PROVIDERS)}, or a variable such as MY_API_KEY"
        raise UsageError(f"'{name}' is not the name of a key", hint=hint)
    return variable


class KeyStore(Struct, frozen=True):
    """``keys.json`` in forge's home, for this user alone; values lie in the system's keyring where there is one.

    The file then has the names only: forge does not wait for a keyring that holds nothing of its own.
    """

    home: Path

    @property
    def file(self) -> Path:
        return self.home / "keys.json"

    def values(self) -> dict[str, str]:
        stamp = self._stamp()
        if stamp not in _REMEMBERED:
            found = {
                name: _from_keyring(name) if value is None else value
                for name, value in self._entries().items()
            }
            # Only the latest state: an older one may hold keys that were removed.
            _REMEMBERED.clear()
            _REMEMBERED[stamp] = {name: value for name, value in found.items() if value}
        return dict(_REMEMBERED[stamp])

    def find(self, variable: str) -> ProviderKey | None:
        value = self.values().get(variable)
        return ProviderKey(variable, value, self._origin(variable)) if value else None

    def all(self) -> list[ProviderKey]:
        """All of them; one that a keyring does not give out has no value."""
        values = self.values()
        return [
            ProviderKey(name, values.get(name, ""), self._origin(name))
            for name in sorted(self._entries())
        ]

    def put(self, variable: str, value: str) -> ProviderKey:
        """Store a key; one of that name is replaced."""
        with self._changing() as entries:
            entries[variable] = None if _into_keyring(variable, value) else value
        return ProviderKey(variable, value, self._origin(variable))

    def remove(self, variable: str) -> bool:
        """Forget a key; whether there was one."""
        with self._changing() as entries:
            if variable not in entries:
                return False
            if entries.pop(variable) is None:
                _out_of_keyring(variable)
        return True

    def _origin(self, variable: str) -> str:
        return "keyring" if self._entries().get(variable) is None else str(self.file)

    def _entries(self) -> Entries:
        """The content of the file."""
        found = read_kept(self.file, _NO_KEYS, _STORE_AGAIN)
        if wrong := next(
            (name for name, value in found.items() if not isinstance(value, str | None)), None
        ):
            raise whole_file(
                self.file, f"{_NO_KEYS}: {visible(wrong)} is not text", hint=_STORE_AGAIN
            )
        return found

    @contextmanager
    def _changing(self) -> Iterator[Entries]:
        """The entries, locked while they change and written afterwards."""
        make_private(self.home)
        with hold_file_lock(self.home / ".keys.lock"):
            before = self._entries()
            entries = dict(before)
            yield entries
            if entries != before:
                replace_file(self.file, json.dumps(entries, indent=2) + "\n", mode=0o600)
        _REMEMBERED.clear()

    def _stamp(self) -> tuple[str, int, int]:
        try:
            found = os.stat(self.file)
        except OSError:
            return str(self.file), 0, 0
        return str(self.file), found.st_mtime_ns, found.st_ino


def find_keyring() -> Any:
    """The system's keyring, if the package ``keyring`` is installed and finds one that keeps secrets."""
    try:
        keyring = import_module("keyring")
        # A backend below 1 is not recommended: the one that always fails has 0.
        return keyring if keyring.get_keyring().priority >= 1 else None
    except Exception:  # third-party code
        return None


def _from_keyring(variable: str) -> str | None:
    keyring = find_keyring()
    try:
        return str(keyring.get_password(SERVICE, variable) or "") if keyring else None
    except Exception:  # third-party code: a keyring that is locked
        return None


def _into_keyring(variable: str, value: str) -> bool:
    keyring = find_keyring()
    try:
        if keyring:
            keyring.set_password(SERVICE, variable, value)
    except Exception:  # third-party code
        return False
    return keyring is not None


def _out_of_keyring(variable: str) -> None:
    keyring = find_keyring()
    with suppress(Exception):  # third-party code: somebody else has removed it
        if keyring:
            keyring.delete_password(SERVICE, variable)
