"""Commands that packages bring: entry points ``command.NAME``, listed without an import and called like forge's own.

Covers forge_cli.cli.foreign and forge_cli.engine.plugins.foreign.
"""

import json
from pathlib import Path

import pytest

from forge_cli.testing import Project
from tests.support.distributions import write_distribution

GREET = '''
import sys
from typing import Annotated

import typer

from forge_cli.errors import UsageError

open({seen!r}, "a").write("imported\\n")
app = typer.Typer(rich_markup_mode=None)


@app.command()
def add(word: str) -> None:
    """Add a word."""
    typer.echo(f"added {{word}}")


@app.command()
def drop(word: str, force: bool = False) -> None:
    """Drop a word that was added; one that nobody has added is not an error, and the others stay."""
    raise typer.Exit(5 if force else 0)


def greet(name: Annotated[str, typer.Argument(help="Whom to greet.")] = "world") -> None:
    """Greet somebody."""
    match name:
        case "nobody":
            raise UsageError("nobody is there", hint="name somebody")
        case "bug":
            raise LookupError("two\\nlines")
        case "leaver":
            sys.exit("gone already")
        case "quitter":
            sys.exit(7)
        case _:
            typer.echo(f"Hello, {{name}}!")


async def wave(name: str = "world") -> None:
    """Wave at somebody."""
    typer.echo(f"o/ {{name}}")


@app.command("wave")
async def wave_twice() -> None:
    """Wave."""
    typer.echo("o/ o/")


thing = 7
'''
SUMMARY = "Summary: Greet somebody, politely.\n"


class Site:
    """A folder of installed packages, and forge with it on its path."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project, self.folder = project, folder
        self.seen = folder / "seen"

    def add(self, name: str, *entries: str) -> None:
        code = {name.replace("-", "_"): GREET.format(seen=str(self.seen))}
        write_distribution(self.folder, name, entries, metadata=SUMMARY, **code)

    def forge(self, *args: str) -> tuple[int, str, str]:
        done = self.project.forge(*args, env={"PYTHONPATH": str(self.folder)})
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def site(project: Project, tmp_path: Path) -> Site:
    return Site(project, tmp_path / "site")


def test_plugin_function_and_app_are_commands_not_imported_by_the_help(site: Site) -> None:
    site.add(
        "greeter",
        "command.greet = greeter:greet",
        "command.words = greeter:app",
        "command.tools.add = greeter:app",
        "command.a.b.wave = greeter:wave",
    )
    code, out, _ = site.forge("--help")
    section = out.partition("From packages:\n")[2].partition("\n\n")[0]
    assert (code, [line.split(maxsplit=1) for line in section.splitlines()]) == (
        0,
        [
            ["a", "Commands of a package."],
            *([name, "Greet somebody, politely."] for name in ("greet", "words")),
        ],
    )
    assert "  add " in site.forge("tools", "--help")[1]
    assert not site.seen.exists()
    assert site.forge("greet") == (0, "Hello, world!\n", "")
    assert "and the others stay.\n" in site.forge("words", "--help")[1]
    assert site.forge("words", "add", "sea") == (0, "added sea\n", "")
    assert site.forge("words", "drop", "sea", "--force")[0] == 5
    assert site.forge("words", "wave") == (0, "o/ o/\n", "")
    assert site.forge("a", "b", "wave", "--name", "Ana") == (0, "o/ Ana\n", "")
    assert site.forge("tools", "add", "sea") == (0, "added sea\n", "")
    assert "Usage: forge greet [OPTIONS] [name]" in site.forge("help", "greet")[1]
    assert "forge words add" in site.forge("words", "add", "--help")[1]


@pytest.mark.long
def test_failing_plugin_command_is_reported_in_a_sentence(site: Site) -> None:
    site.add(
        "greeter",
        "command.greet = greeter:greet",
        "command.thing = greeter:thing",
        "command.gone = greeter:gone",
    )
    assert site.forge("greet", "nobody") == (2, "", "forge: nobody is there\n  name somebody\n")
    told = "forge: the command 'greet' of greeter 1.0 failed: LookupError: two lines\n"
    assert site.forge("greet", "bug") == (1, "", told)
    assert "Traceback" in site.forge("greet", "bug", "--debug")[2]
    assert site.forge("greet", "leaver") == (1, "", "forge: gone already\n")
    assert site.forge("greet", "quitter") == (7, "", "")
    code, out, err = site.forge("greet", "--nonsense")
    assert (code, out, err.splitlines()[-1]) == (2, "", "forge: No such option: --nonsense")
    remedy = "\n  ask its author, or forge plugins uninstall greeter\n"
    told = "forge: the plugin 'command.thing' of greeter 1.0 names neither a Typer app nor a function, but 7"
    assert site.forge("thing") == (3, "", told + remedy)
    code, out, err = site.forge("gone")
    assert (code, out) == (3, "")
    assert err.startswith("forge: the plugin 'command.gone' of greeter 1.0 cannot be loaded: ")


@pytest.mark.long
def test_broken_plugin_command_is_a_row_of_the_plugins(site: Site) -> None:
    site.add(
        "greeter",
        "command.greet = greeter:greet",
        "command.gone = greeter:gone",
        "command.Bad Name = greeter:greet",
    )
    site.add("sound", "command.hello = sound:greet", "command.a.b.c = sound:greet")
    rows = {
        row["distribution"]: row for row in json.loads(site.forge("plugins", "list", "--json")[1])
    }
    assert "the plugin 'command.gone' of greeter 1.0 cannot be loaded" in rows["greeter"]["error"]
    assert "error" not in rows["sound"]
    code, out, _ = site.forge("plugins", "check", "greeter", "--json")
    failed = {(check["subject"], check["check"]) for check in json.loads(out) if not check["ok"]}
    assert (code, failed) == (1, {("command.gone", "loads"), ("command.Bad Name", "entry point")})
    assert site.forge("plugins", "check", "sound")[0] == 0


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["run", "tools", "tools.list", "run.fast", "batch.status"])
def test_built_in_command_names_cannot_be_replaced(site: Site, name: str) -> None:
    site.add("greeter", f"command.{name} = greeter:greet")
    code, out, _ = site.forge(*name.split("."), "--help")
    assert (code, "Greet" in out, site.seen.exists()) == (0, False, False)
    rows = {
        row["distribution"]: row for row in json.loads(site.forge("plugins", "list", "--json")[1])
    }
    shown = f"command '{name.replace('.', ' ')}'"
    told = f"the {shown} of greeter 1.0 is not used: forge has its own {shown}"
    assert rows["greeter"]["error"] == told


def test_command_of_two_packages_is_refused(site: Site) -> None:
    site.add("greeter", "command.greet = greeter:greet")
    site.add("other", "command.greet = other:greet")
    code, out, err = site.forge("greet")
    assert (code, out) == (1, "")
    assert err.startswith(
        "forge: the command 'greet' is offered by greeter 1.0 and other 1.0\n  uninstall one of them"
    )


def test_excluded_package_provides_no_command(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add("greeter", "command.greet = greeter:greet")
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "other")
    assert site.forge("greet")[0] == 2
    assert "greet" not in site.forge("--help")[1]
