"""The trust in a result: by its tool, its files and its command.

Covers forge_cli.engine.provenance.commands and forge_cli.engine.provenance.places as well.
"""

from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.approval import Effect
from forge_cli.engine.provenance.places import PlaceRead
from forge_cli.engine.provenance.sources import ResultFacts, trust_in
from forge_cli.files.provenance import Provenance

READ = frozenset({Effect.READ})
ONLINE = frozenset({Effect.READ, Effect.NETWORK})


@pytest.fixture
def zones(tmp_path: Path) -> dict[str, Path]:
    for name in ("code/vendor", "other"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("code/a.txt", "code/CODEOWNERS", "code/vendor/b.txt", "outside.txt"):
        (tmp_path / name).write_text("words")
    return {"code": tmp_path / "code", "vendor": tmp_path / "code" / "vendor"}


def trust(zones: dict[str, Path], rule: Provenance | None = None, **facts: Any) -> str:
    known = ResultFacts(**{"tool": "t", **facts})
    return trust_in(known, {}, rule or Provenance(), zones, zones["code"]).trust


def test_results_of_the_network_are_untrusted(zones: dict[str, Path]) -> None:
    assert trust(zones, toolset="web", effects=ONLINE) == "untrusted"
    assert trust(zones, server="github") == "untrusted"
    assert trust(zones, effects=ONLINE) == "untrusted"
    assert trust(zones, effects=frozenset({Effect.NETWORK})) == "neutral"
    assert trust(zones, effects=READ) == "neutral"


def test_tool_says_what_its_results_are(zones: dict[str, Path]) -> None:
    assert trust(zones, output="untrusted", effects=READ) == "untrusted"
    assert trust(zones, output="trusted", effects=READ) == "trusted"


def test_exact_name_counts_before_a_kind(zones: dict[str, Path]) -> None:
    contacts = Provenance(trusted=("mcp:contacts",))
    assert trust(zones, contacts, server="contacts") == "trusted"
    assert trust(zones, contacts, server="github") == "untrusted"
    both = Provenance(trusted=("mcp:contacts",), untrusted=("mcp:contacts",))
    assert trust(zones, both, server="contacts") == "untrusted"
    assert trust(zones, Provenance(untrusted=("tool:t",)), effects=READ) == "untrusted"
    assert trust(zones, Provenance(untrusted=("tool:t",)), output="trusted") == "untrusted"


def test_files_outside_of_zones_are_untrusted(zones: dict[str, Path]) -> None:
    outside = (PlaceRead(zones["code"].parent / "outside.txt", None),)
    assert trust(zones, places=outside, toolset="filesystem", effects=READ) == "untrusted"


def test_files_in_zones_are_trusted_if_git_tracks_them(zones: dict[str, Path]) -> None:
    place = PlaceRead(zones["code"] / "a.txt", "code")
    facts = ResultFacts(tool="read_file", toolset="filesystem", effects=READ, places=(place,))
    found = trust_in(facts, {}, Provenance(), zones, zones["code"])
    assert (found.trust, found.files, found.tracked) == ("trusted", (place.path,), True)


@pytest.mark.parametrize(
    ("source", "name"),
    [("file:CODEOWNERS", "CODEOWNERS"), ("file:*.txt", "a.txt"), ("zone:code", "a.txt")],
)
def test_trusted_file_need_not_be_tracked(zones: dict[str, Path], source: str, name: str) -> None:
    place = PlaceRead(zones["code"] / name, "code")
    facts = ResultFacts(tool="read_file", toolset="filesystem", effects=READ, places=(place,))
    found = trust_in(facts, {}, Provenance(trusted=(source,)), zones, zones["code"])
    assert (found.trust, found.tracked, found.files) == ("trusted", False, (place.path,))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat a.txt", "trusted"),
        ("cat a.txt ../outside.txt", "untrusted"),
        ("cat /etc/hostname", "untrusted"),
        ("git status", "neutral"),
        ("mkdir new && touch new/x", "neutral"),
        ("pytest -q", "neutral"),
        ("python -m pytest", "neutral"),
        ("gh issue view 5", "untrusted"),
        ("curl https://x.example", "untrusted"),
        ("git pull", "untrusted"),
        ("python fetch.py", "untrusted"),
        ("eval $X", "untrusted"),
    ],
)
def test_command_is_trusted_by_what_it_can_have_read(
    zones: dict[str, Path], line: str, expected: str
) -> None:
    assert trust(zones, command=line, had_network=True, toolset="shell") == expected


def test_command_without_network_brings_nothing_from_there(zones: dict[str, Path]) -> None:
    assert trust(zones, command="python fetch.py", had_network=False) == "neutral"
    assert trust(zones, command="python fetch.py", had_network=True, reached=False) == "neutral"
    assert trust(zones, command="pytest", had_network=True, reached=True) == "untrusted"


@pytest.mark.parametrize(
    "line", ["cat vendor/b.txt", "grep -r x .", "rg x", "ls -R", "cat vendor/../vendor/b.txt"]
)
def test_untrusted_zone_is_untrusted_also_below_a_folder(zones: dict[str, Path], line: str) -> None:
    rule = Provenance(untrusted=("zone:vendor",))
    assert trust(zones, rule, command=line) == "untrusted"
    assert trust(zones, rule, command="cat a.txt") == "trusted"


def test_command_is_meant_by_its_first_words(zones: dict[str, Path]) -> None:
    rule = Provenance(untrusted=("command:gh issue view",))
    assert trust(zones, rule, command="gh issue view 5", had_network=False) == "untrusted"
    assert trust(zones, rule, command="cd x && gh issue view 5") == "untrusted"
    assert trust(zones, rule, command="gh issue viewer") == "neutral"
