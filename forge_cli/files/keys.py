"""Keys of providers: from the environment, else those stored by ``forge keys set``."""

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
"""Short names for variables in ``forge keys``."""
_MAX_SHOWN = 4
"""The most characters of a key that are shown, if it is much longer."""
SERVICE = "forge"
"""The service name of forge's keys in a keyring."""
_REMEMBERED: dict[tuple[str, int, int], dict[str, str]] = {}
"""The keys for one state of the file, so that the keyring is asked only once."""
_NO_KEYS = "this is not a file of keys"
_STORE_AGAIN = "move it away, and store your keys again with forge keys set"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

Entries = dict[str, str | None]
"""Values by variable; None if the value is in the keyring."""


@dataclass(frozen=True)
class ProviderKey:
    """A key with its variable and origin."""

    variable: str
    value: str = field(repr=False)
    origin: str

    @property
    def shown(self) -> str:
        """The last characters, to tell keys apart; nothing of a short key."""
        if len(self.value) < 4 * _MAX_SHOWN:
            return "..."
        return f"...{self.value[-_MAX_SHOWN:]}"


def find_key(*variables: str) -> ProviderKey | None:
    """Return the key in one of these variables, else a stored one; None without a key."""
    for variable in variables:
        if value := os.environ.get(variable, "").strip():
            return ProviderKey(variable, value, "environment")
    store = KeyStore(forge_home())
    for variable in variables:
        if key := store.find(variable):
            return key
    return None


def stored_keys(home: Path | None = None) -> dict[str, str]:
    """Return all stored keys by variable, for redaction."""
    try:
        return KeyStore(home or forge_home()).values()
    except ForgeError:
        return {}


def variable_for(name: str) -> str:
    """Return the variable of a provider's short name; any other name is a variable."""
    variable = PROVIDERS.get(name, name)
    # A name in lower case is more likely a provider that is misspelled.
    if not _VARIABLE.fullmatch(variable) or variable.islower():
        hint = f"use {', '.join(PROVIDERS)}, or a variable such as MY_API_KEY"
        raise UsageError(f"'{name}' is not the name of a key", hint=hint)
    return variable


class KeyStore(Struct, frozen=True):
    """The private file ``keys.json``; if possible, the values are in the system's keyring.

    The file always has the names, so that forge does not wait for a keyring without its keys.
    """

    home: Path

    @property
    def file(self) -> Path:
        return self.home / "keys.json"

    def values(self) -> dict[str, str]:
        stamp = self._stamp()
        if stamp not in _REMEMBERED:
            found: dict[str, str] = {}
            for name, stored in self._entries().items():
                value = _from_keyring(name) if stored is None else stored
                if value:
                    found[name] = value
            # Only the latest state: an older one may hold keys that were removed.
            _REMEMBERED.clear()
            _REMEMBERED[stamp] = found
        return dict(_REMEMBERED[stamp])

    def find(self, variable: str) -> ProviderKey | None:
        value = self.values().get(variable)
        if not value:
            return None
        return ProviderKey(variable, value, self._origin(variable))

    def all(self) -> list[ProviderKey]:
        """Return all keys; one that the keyring refuses has an empty value."""
        values = self.values()
        return [
            ProviderKey(name, values.get(name, ""), self._origin(name))
            for name in sorted(self._entries())
        ]

    def put(self, variable: str, value: str) -> ProviderKey:
        """Store a key; an existing key of that name is replaced."""
        with self._changing() as entries:
            entries[variable] = None if _into_keyring(variable, value) else value
        return ProviderKey(variable, value, self._origin(variable))

    def remove(self, variable: str) -> bool:
        """Remove a key; return True if it existed."""
        with self._changing() as entries:
            if variable not in entries:
                return False
            if entries.pop(variable) is None:
                _out_of_keyring(variable)
        return True

    def _origin(self, variable: str) -> str:
        if self._entries().get(variable) is None:
            return "keyring"
        return str(self.file)

    def _entries(self) -> Entries:
        """Return the content of the file."""
        found = read_kept(self.file, _NO_KEYS, _STORE_AGAIN)
        for name, value in found.items():
            if not isinstance(value, str | None):
                problem = f"{_NO_KEYS}: {visible(name)} is not text"
                raise whole_file(self.file, problem, hint=_STORE_AGAIN)
        return found

    @contextmanager
    def _changing(self) -> Iterator[Entries]:
        """Lock the entries, and write them after a change."""
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
    """Return the system's keyring if the package ``keyring`` finds one that keeps secrets."""
    try:
        keyring = import_module("keyring")
        # A backend below 1 is not recommended: the one that always fails has 0.
        if keyring.get_keyring().priority >= 1:
            return keyring
        return None
    except Exception:  # third-party code
        return None


def _from_keyring(variable: str) -> str | None:
    keyring = find_keyring()
    try:
        if keyring is None:
            return None
        # A missing password is remembered as empty, so that the keyring is not asked again.
        return str(keyring.get_password(SERVICE, variable) or "")
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
    with suppress(Exception):  # third-party code: another program has removed the key
        if keyring:
            keyring.delete_password(SERVICE, variable)
