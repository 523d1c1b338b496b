"""Keys of providers: from the environment, else from what ``forge keys set`` has stored for this user."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from forge_cli.core.errors import UsageError
from forge_cli.files.home import forge_home, make_private
from forge_cli.files.keys import REMEMBERED, SERVICE, Entries, StoredKeys, find_keyring
from forge_cli.files.lock import locked
from forge_cli.files.replace import replace_file

PROVIDERS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
"""Short names that ``forge keys`` takes for variables."""
SHOWN = 4
"""Characters of a key that people may see, if it is much longer."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


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


def variable_for(name: str) -> str:
    """``anthropic`` and ``openai`` are short for their variables; any other name is one."""
    variable = PROVIDERS.get(name, name)
    if not _VARIABLE.fullmatch(variable) or variable.islower():
        hint = f"it is {', '.join(PROVIDERS)}, or a variable such as MY_API_KEY"
        raise UsageError(f"'{name}' is not the name of a key", hint=hint)
    return variable


class KeyStore(StoredKeys):
    """The stored keys, to be found, listed and changed."""

    def find(self, variable: str) -> ProviderKey | None:
        value = self.values().get(variable)
        return ProviderKey(variable, value, self._origin(variable)) if value else None

    def all(self) -> list[ProviderKey]:
        """All of them; one that a keyring does not give out has no value."""
        values = self.values()
        return [ProviderKey(name, values.get(name, ""), self._origin(name)) for name in sorted(self.entries())]

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
        return "keyring" if self.entries().get(variable) is None else str(self.file)

    @contextmanager
    def _changing(self) -> Iterator[Entries]:
        """The entries, locked while they change and written afterwards."""
        make_private(self.home)
        with locked(self.home / ".keys.lock"):
            before = self.entries()
            entries = dict(before)
            yield entries
            if entries != before:
                replace_file(self.file, json.dumps(entries, indent=2) + "\n", mode=0o600)
        REMEMBERED.clear()


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
