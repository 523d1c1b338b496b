"""``forge models list``: the providers, what each needs, and which of them is broken.

Covers forge_cli.cli.models.list.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL")
SECRET = "sk-test-0123456789-0123456789"

ECHO = """
from forge_cli import ModelFactory, hookimpl

print("printed on import")

def missing():
    {missing}

@hookimpl
def forge_models():
    return [ModelFactory("echo", lambda name, env: None, needs="an echo", missing=missing)]
"""


@pytest.fixture(autouse=True)
def _nothing_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-model-echo")


@pytest.fixture
def provider(install, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Install a package with a provider of models, in this process."""

    def installed(code: str) -> Path:
        site = install("forge-model-echo", "echo_provider", code, "model.echo = echo_provider")
        monkeypatch.syspath_prepend(str(site))
        return site

    yield installed
    sys.modules.pop("echo_provider", None)


def rows(cli) -> dict[str, dict]:
    done = cli("models", "list", "--json")
    assert done.code == 0
    return {row["provider"]: row for row in json.loads(done.out)}


def test_without_keys_each_provider_says_what_it_needs(cli) -> None:
    found = rows(cli)
    assert list(found) == ["anthropic", "openai", "script"]
    assert {key: type(value) for key, value in found["anthropic"].items()} == {
        "model": str,
        "provider": str,
        "origin": str,
        "ready": bool,
        "needs": str,
        "missing": str,
    }
    assert found["anthropic"]["model"] == "anthropic:..."
    assert found["anthropic"]["origin"].startswith("forge-workers ")
    assert [row["ready"] for row in found.values()] == [False, False, True]
    assert found["anthropic"]["missing"].startswith("ANTHROPIC_API_KEY is not set")
    assert found["openai"]["missing"].startswith("OPENAI_API_KEY is not set")
    assert found["script"]["missing"] is None


@pytest.mark.parametrize(
    ("name", "value", "ready"),
    [
        ("ANTHROPIC_API_KEY", SECRET, {"anthropic", "script"}),
        ("ANTHROPIC_AUTH_TOKEN", SECRET, {"anthropic", "script"}),
        ("OPENAI_API_KEY", SECRET, {"openai", "script"}),
        ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1", {"openai", "script"}),
        ("ANTHROPIC_API_KEY", "  ", {"script"}),
        ("ANTHROPIC_API_KEY", f"{SECRET} and more", {"script"}),
    ],
)
def test_with_a_key_a_provider_is_ready_and_the_key_is_not_shown(
    cli, monkeypatch: pytest.MonkeyPatch, name: str, value: str, ready: set[str]
) -> None:
    monkeypatch.setenv(name, value)
    assert {provider for provider, row in rows(cli).items() if row["ready"]} == ready
    for words in ([], ["--json"]):
        done = cli("models", "list", *words)
        assert SECRET not in done.out + done.err


def test_a_table_for_people(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    done = cli("models", "list")
    assert (done.code, done.err) == (0, "")
    head, *lines = done.out.splitlines()
    assert head.split() == ["model", "ready", "needs"]
    assert [line.split()[:2] for line in lines] == [
        ["anthropic:...", "no"],
        ["openai:...", "yes"],
        ["script:...", "yes"],
    ]
    assert "ANTHROPIC_API_KEY" in lines[0]


def test_a_provider_from_a_package(cli, provider) -> None:
    provider(ECHO.format(missing="return 'nobody calls; call first'"))
    done = cli("models", "list", "--json")
    assert done.err == "printed on import\n"
    assert {row["provider"]: row for row in json.loads(done.out)}["echo"] == {
        "model": "echo:...",
        "provider": "echo",
        "origin": "forge-model-echo 1.2",
        "ready": False,
        "needs": "an echo",
        "missing": "nobody calls; call first",
    }


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise RuntimeError('no voice\\x1b[2J')", "cannot be loaded: RuntimeError: no voice\x1b[2J"),
        ("", "offers no model provider 'echo'"),
        (ECHO.format(missing="return 1 / 0"), "cannot tell what it needs: ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_provider_is_a_row_and_harms_nobody_else(cli, provider, code: str, problem: str) -> None:
    provider(code)
    found = rows(cli)
    assert list(found) == ["anthropic", "openai", "script", "echo"]
    assert found["echo"]["error"] == f"the plugin 'model.echo' of forge-model-echo 1.2 {problem}"
    assert (found["echo"]["ready"], found["echo"]["missing"]) == (False, None)
    assert not any("error" in row for name, row in found.items() if name != "echo")
    done = cli("models", "list")
    line = done.out.splitlines()[-1]
    assert done.code == 0
    assert line.startswith("echo:...")
    assert line.endswith(problem.replace("\x1b", "\\x1b"))
