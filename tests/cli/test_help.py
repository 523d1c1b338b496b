"""Help, suggestions and colours."""

import re

import pytest

from forge_cli.cli.commands import COMMANDS, GROUPS

HELPS = [[], *([group] for group in GROUPS), *(name.split() for name in COMMANDS)]


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help(cli, words: list[str], flag: str) -> None:
    done = cli(*words, flag)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(" ".join(["Usage: forge", *words]))
    assert "--help" in done.out
    assert "\x1b" not in done.out
    assert not set("{}") & set(done.out.splitlines()[0])
    assert "[[" not in done.out.splitlines()[0]
    assert "..." not in re.sub(r"\]\.\.\.|[A-Z:]\.\.\.", "", done.out), "a help text is cut off"
    assert max(map(len, done.out.splitlines())) <= 100


def test_the_usage_of_run(cli) -> None:
    out = cli("run", "--help").out
    assert out.startswith("Usage: forge run [OPTIONS] WORKER [TASK|-]\n")
    for code, meaning in [(0, "done"), (1, "failed"), (2, "usage"), (3, "invalid"), (4, "--on-ask fail"), (5, "limit")]:
        assert re.search(rf"^ +{code} +.*{re.escape(meaning)}", out, re.MULTILINE)
    for code in (7, 130, 143):
        assert re.search(rf"^ +{code} +\w", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rnu"], "forge: No such command 'rnu'. Did you mean 'run'?\n"),
        (["tools", "lst"], "forge: No such command 'lst'. Did you mean 'list'?\n"),
        (["worker", "chekc"], "forge: No such command 'chekc'. Did you mean 'check'?\n"),
        (["nothing-like-it"], "forge: No such command 'nothing-like-it'.\n"),
        (["run", "w", "t", "--outpt", "x"], "forge: No such option: --outpt (Possible options: --output"),
        (["tools", "list", "--jsn"], "--json"),
        (["approve", "w", "t", "--bach", "x"], "--batch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_was_probably_meant(cli, words: list[str], sentence: str) -> None:
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert done.err.startswith("Usage: forge")


@pytest.mark.parametrize(
    "words",
    [
        ["tools", "list", "worker.yaml"],
        ["run", "worker.yaml", "go", "--trace", "debug"],
        ["approve", "worker.yaml", "peek"],
    ],
    ids=lambda words: words[0],
)
def test_a_pipe_gets_no_colours_unless_they_are_forced(cli, tester, monkeypatch, words: list[str]) -> None:
    done = cli(*words)
    assert "\x1b" not in done.out + done.err
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = cli(*words)
    assert "\x1b" not in done.out
    if words[0] == "run":
        assert "\x1b[" in done.err
        monkeypatch.setenv("NO_COLOR", "1")
        assert not re.search(r"\x1b\[(\d+;)*3\d", cli(*words).err)
