"""Programs that only read: no file changes what they do, except those that their words name."""

from __future__ import annotations

from collections.abc import Sequence

from forge_cli.bashrules.programs.git import GitWords, git_is
from forge_cli.bashrules.programs.table import program_named


def makes_no_links(argv: Sequence[str]) -> bool:
    """Return True if a command makes no links and only makes or removes plain files."""
    return only_reads(argv) or "no_links" in program_named(argv[0]).kind


def leaves_operands_alone(argv: Sequence[str]) -> bool:
    """Return True if a command neither runs nor loads the files that its words name."""
    return argv[0] == "git" or makes_no_links(argv) or "data" in program_named(argv[0]).kind


def only_reads(argv: Sequence[str]) -> bool:
    """Return True if a command does the same in any folder, except for the files it reads."""
    if argv[0] != "git":
        return "reader" in program_named(argv[0]).kind
    place = GitWords(argv).subcommand(0)
    return place >= len(argv) or git_is(argv[place], "reader")
