"""Programs that only read what they are told to: no file beside those that their words name changes what they do."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.bashrules.programs.git import GitWords, git_is
from forge_cli.bashrules.programs.table import program_named


def makes_no_links(argv: Sequence[str]) -> bool:
    """Whether a command surely leaves every path its meaning, but for plain files that it makes or removes."""
    return only_reads(argv) or "no_links" in program_named(argv[0]).kind


def leaves_operands_alone(argv: Sequence[str]) -> bool:
    """Whether a command neither runs nor loads the files that its words name."""
    return argv[0] == "git" or makes_no_links(argv) or "data" in program_named(argv[0]).kind


def only_reads(argv: Sequence[str]) -> bool:
    """Whether a command does the same in any folder, but for the files that it is told to read."""
    if argv[0] != "git":
        return "reader" in program_named(argv[0]).kind
    place = GitWords(argv).subcommand(0)
    return place >= len(argv) or git_is(argv[place], "reader")
