"""``find -exec READER {} +`` as what it does: a command that lists files, and one that gets their names."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from forge_cli.bashrules.allow.lexer import ADDED_BY_XARGS, ShellWord, Unknown
from forge_cli.bashrules.allow.values import Simple
from forge_cli.bashrules.programs.table import word_set

_READERS = word_set(
    "cat cksum cut egrep fgrep file grep head ls md5sum nl od sed sha1sum sha256sum stat tac tail wc xxd"
)
_NAME = "{}"


def with_found_names(commands: Sequence[Simple]) -> list[Simple]:
    """Return the commands, each ``find`` that starts a reader as a listing with ``xargs`` behind it."""
    parted: list[Simple] = []
    places = []
    for command in commands:
        places.append(len(parted))
        parted += _listing_and_reader(command) or [command]
    return [replace(command, beside=places[command.beside]) for command in parted]


def _listing_and_reader(command: Simple) -> list[Simple] | None:
    texts = command.texts
    if texts[:1] != ["find"] or texts.count("-exec") != 1 or texts[-1] not in (";", "+"):
        return None
    at = texts.index("-exec")
    inner, said = command.words[at + 1 : -1], texts[at + 1 : -1]
    is_last = said[-1:] == [_NAME]
    named = [text for text in said if _NAME in text]
    if named != [_NAME] or said[0] not in _READERS:
        return None
    if any(word.unknown or word.glob for word in inner) or not (is_last or texts[-1] == ";"):
        return None
    listing = replace(command, words=command.words[:at])
    words = inner[:-1] if is_last else [ShellWord("-I"), ShellWord(_NAME), *inner]
    fed = Unknown(ADDED_BY_XARGS, printed_by=(tuple(listing.texts),))
    return [
        listing,
        replace(command, words=[ShellWord("xargs"), *words], piped=True, sure=False, fed=fed),
    ]
