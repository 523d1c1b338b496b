"""Help, examples, suggestions and colours.

Covers forge_cli.cli.help, forge_cli.cli.overview.
"""

import re
import shlex
from contextlib import suppress

import pytest
import typer

from forge_cli.cli.commands import lazy_commands
from forge_cli.cli.overview import COMMANDS, ROOT, TABLE, examples_of
from forge_cli.cli.tools.call import read_invocation
from tests.support.rows import each_row

EXAMPLES = {
    "" if name == ROOT else name: examples for name, (_, *examples) in TABLE.items() if examples
}
LOADED = lazy_commands()
HELPS = [
    [],
    *([name] for name in TABLE if name not in (ROOT, *COMMANDS)),
    *(name.split() for name in COMMANDS),
]


@each_row("words", HELPS)
def test_every_command_has_help_without_types_and_with_examples(cli, words: list[str]) -> None:
    done = cli(*words, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(" ".join(["Usage: forge", *words]))
    assert "--help" in done.out
    assert "\x1b" not in done.out
    assert "<" not in done.out
    assert not set("{}") & set(done.out.splitlines()[0])
    assert "[[" not in done.out.splitlines()[0]
    assert "..." not in re.sub(r"\]\.\.\.|[A-Z:]\.\.\.", "", done.out), "a help text is cut off"
    assert max(map(len, done.out.splitlines())) <= 80
    _, _, examples = done.out.partition("\nExamples:\n")
    shown = [line.strip() for line in examples.partition("\n\n")[0].splitlines()]
    assert shown == list(examples_of(words))
    assert 1 <= len(shown) <= 3


@pytest.mark.parametrize("words", [[], ["run"], ["tools", "call"], ["sessions"]])
def test_help_can_be_asked_for_in_three_ways(cli, words: list[str]) -> None:
    assert cli(*words, "-h") == cli(*words, "--help") == cli("help", *words)


@each_row(("name", "example"), [(name, line) for name, lines in EXAMPLES.items() for line in lines])
def test_every_example_is_a_command_line_that_can_be_parsed(name: str, example: str) -> None:
    argv = shlex.split(
        example.partition("forge ")[2]
        if "| forge " not in example
        else example.partition("| forge ")[2]
    )
    words = name.split()
    if words:
        assert argv[: len(words)] == words, "it belongs to another command"
    else:
        words = max(
            (known.split() for known in COMMANDS if argv[: len(known.split())] == known.split()),
            key=len,
        )
    command = LOADED[" ".join(words)].load()
    with suppress(typer.Exit), command.make_context(words[-1], argv[len(words) :]) as context:
        assert context.args == []
        if "forge.argv" in context.meta:
            assert read_invocation(context.meta["forge.argv"]).tool


def test_help_of_a_tool_shows_its_fields(cli, tester) -> None:
    done = cli("tools", "call", "echo", "--worker", "worker.yaml", "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "Usage: forge tools call echo --worker worker.yaml [KEY=VALUE]...\n\n  Say something back.\n\nFields:\n"
        "  text (a string, required): What to say.\n"
        "  times (an integer, default 1): How often to say it.\n"
        "  loud (true or false or null, default null)\n\n"
        "approval: ask, risk: high\n"
        "forge tools call --help shows the options of forge itself.\n"
    )
    assert (
        "It has no parameters."
        in cli("tools", "call", "boom", "--help", "--worker", "worker.yaml").out
    )
    assert cli("tools", "call", "read_file", "--help").out.startswith(
        "Usage: forge tools call read_file [KEY=VALUE]"
    )
    done = cli("tools", "call", "ecko", "--worker", "worker.yaml", "--help")
    assert (done.code, done.err) == (2, "forge: there is no tool 'ecko'\n  did you mean 'echo'?\n")


@pytest.mark.parametrize("command", ["run", "chat", "web", "batch"])
def test_many_options_are_grouped(cli, command: str) -> None:
    out = cli(command, "--help").out
    groups = dict(re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", out, re.MULTILINE))
    assert [name for name in groups if name != "Arguments"][:2] == ["Often used", "Limits"]
    assert "--model" in groups["Often used"]
    assert "--read-only" in groups["More"]
    assert "Options:" not in out
    if command == "run":
        assert all(
            flag in groups["Sessions"]
            for flag in ("--resume", "--fork", "--ephemeral", "--record", "--replay")
        )
        assert "--output-format" in groups["Output"]


def test_run_help_has_its_usage_and_exit_codes(cli) -> None:
    out = cli("run", "--help").out
    assert out.startswith("Usage: forge run [OPTIONS] WORKER [TASK|-]\n")
    for code, meaning in [
        (0, "done"),
        (1, "failed"),
        (2, "usage"),
        (3, "invalid"),
        (4, "--on-ask fail"),
        (5, "limit"),
    ]:
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
        (
            ["run", "w", "t", "--outpt", "x"],
            "forge: No such option: --outpt (Possible options: --output",
        ),
        (["tools", "list", "--jsn"], "--json"),
        (["approve", "w", "t", "--bach", "x"], "--batch"),
    ],
)
def test_typos_get_a_suggestion(cli, words: list[str], sentence: str) -> None:
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert done.err.startswith("Usage: forge")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words",
    [
        ["tools", "list", "worker.yaml"],
        ["run", "worker.yaml", "go", "--trace", "debug"],
        ["approve", "worker.yaml", "peek"],
    ],
    ids=lambda words: words[0],
)
def test_pipe_gets_no_colours_unless_forced(cli, tester, monkeypatch, words: list[str]) -> None:
    done = cli(*words)
    assert "\x1b" not in done.out + done.err
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = cli(*words)
    assert ("\x1b[" in done.out, "\x1b[" in done.err) == (words[0] != "run", words[0] == "run")
    monkeypatch.setenv("NO_COLOR", "1")
    done = cli(*words)
    assert not re.search(r"\x1b\[(\d+;)*3\d", done.out + done.err)
