"""Where forge keeps what belongs to the person who uses it."""

from pathlib import Path

import pytest

from forge_cli.files.home import forge_home


@pytest.mark.parametrize(
    ("named", "meant"),
    [("/x/my forge", "/x/my forge"), ("~/mine", "/home/me/mine"), ("mine", "/there/mine"), ("", "/home/me/.forge")],
)
def test_the_home(monkeypatch: pytest.MonkeyPatch, named: str, meant: str) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("FORGE_HOME", named)
    monkeypatch.setattr("os.getcwd", lambda: "/there")
    assert forge_home() == Path(meant)
