"""Keys: the environment takes precedence, the file is private, and a keyring is used if there is one.

Covers forge_cli.files.keys.
"""

import json
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from forge_cli.core.errors import UsageError, WorkerError
from forge_cli.files.keys import KeyStore, ProviderKey, find_key, stored_keys, variable_for
from forge_cli.sandbox.secrets import own_redactor
from tests.support.deadline import deadline

SECRET = "sk-ant-0123456789-0123456789-wxyz"
OTHER = "sk-ant-9876543210-9876543210-abcd"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setitem(sys.modules, "keyring", None)
    return tmp_path / "home"


@pytest.fixture
def keyring(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """A keyring in memory, as the package of that name would offer it."""
    kept: dict[tuple[str, str], str] = {}
    module: Any = ModuleType("keyring")
    module.get_keyring = lambda: type("Backend", (), {"priority": 5})
    module.get_password = lambda service, name: kept.get((service, name))
    module.set_password = lambda service, name, value: kept.__setitem__((service, name), value)
    module.delete_password = lambda service, name: kept.pop((service, name))
    monkeypatch.setitem(sys.modules, "keyring", module)
    return kept


def test_stored_key_is_found(home: Path) -> None:
    assert find_key("ANTHROPIC_API_KEY") is None
    KeyStore(home).put("ANTHROPIC_API_KEY", SECRET)
    assert find_key("ANTHROPIC_API_KEY") == ProviderKey(
        "ANTHROPIC_API_KEY", SECRET, str(home / "keys.json")
    )
    assert SECRET not in repr(find_key("ANTHROPIC_API_KEY"))


def test_key_in_the_environment_takes_precedence(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KeyStore(home).put("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", OTHER)
    found = find_key("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    assert found == ProviderKey("ANTHROPIC_AUTH_TOKEN", OTHER, "environment")


def test_keyring_stores_the_value_and_the_file_the_name(
    home: Path, keyring: dict[tuple[str, str], str]
) -> None:
    key = KeyStore(home).put("A_KEY", SECRET)
    assert key.origin == "keyring"
    assert keyring == {("forge", "A_KEY"): SECRET}
    assert json.loads((home / "keys.json").read_text()) == {"A_KEY": None}
    assert find_key("A_KEY") == key
    assert KeyStore(home).remove("A_KEY")
    assert keyring == {}


def test_insecure_keyring_is_not_used(home: Path, keyring: dict[tuple[str, str], str]) -> None:
    sys.modules["keyring"].get_keyring = lambda: type("Backend", (), {"priority": 0})  # type: ignore[attr-defined]
    assert KeyStore(home).put("A_KEY", SECRET).origin == str(home / "keys.json")
    assert keyring == {}


@pytest.mark.parametrize("name", ["", "anthropc", "A KEY", "1KEY", "A=B", "../x", "A" * 129])
def test_invalid_key_name_is_refused(name: str) -> None:
    with pytest.raises(
        UsageError, match="is not the name of a key\n  use anthropic, openai, or a variable"
    ):
        variable_for(name)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", ":1:1: this is not a file of keys: Expecting value"),
        (b"nonsense", ":1:1: this is not a file of keys: Expecting value"),
        (
            b'{\n  "A": "secret",\n  "B": secret}',
            ":3:8: this is not a file of keys: Expecting value",
        ),
        (
            b'{\n  "A": "secr\xe9t"}',
            ":2:13: byte 0xe9 at offset 14 is not UTF-8; save the file as UTF-8",
        ),
        (b"[]", ":1:1: this is not a file of keys"),
        (b'{"A": 1}', ":1:1: this is not a file of keys: A is not text"),
        (b'{"A": {"secret": 1}}', ":1:1: this is not a file of keys: A is not text"),
        (b"[" * 100_000, ":1:1: this is not a file of keys: "),
    ],
)
def test_invalid_key_file_is_named_but_not_shown(home: Path, content: bytes, problem: str) -> None:
    home.mkdir()
    (home / "keys.json").write_bytes(content)
    with pytest.raises(WorkerError) as caught:
        find_key("ANTHROPIC_API_KEY")
    assert str(caught.value).startswith(f"{home}/keys.json{problem}")
    assert str(caught.value).endswith(
        "\n  move it away, and store your keys again with forge keys set"
    )
    assert "secr" not in str(caught.value)
    assert stored_keys() == {}


def test_stored_keys_are_redacted_under_any_name(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KeyStore(home).put("MY_SERVICE", SECRET)
    KeyStore(home).put("ANTHROPIC_API_KEY", "stored-" + SECRET)
    monkeypatch.setenv("ANTHROPIC_API_KEY", OTHER)
    said = own_redactor().redact_text(f"{SECRET} {OTHER} stored-{SECRET}")
    assert said == "[redacted:MY_SERVICE] [redacted:ANTHROPIC_API_KEY] [redacted:ANTHROPIC_API_KEY]"


def test_concurrent_writers_lose_nothing(home: Path) -> None:
    names = [f"KEY_{number}" for number in range(12)]
    threads = [
        threading.Thread(target=KeyStore(home).put, args=(name, SECRET + name)) for name in names
    ]
    with deadline(20):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert stored_keys() == {name: SECRET + name for name in names}
