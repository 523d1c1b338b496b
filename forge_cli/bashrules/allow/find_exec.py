"""``find -exec READER {} +`` read as a listing and a reader that gets the listed names."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from forge_cli.bashrules.allow.lexer import ADDED_BY_XARGS, ShellWord, Unknown
from forge_cli.bashrules.allow.values import Simple
from forge_cli.bashrules.programs.table import word_set

_READERS = word_set(
    "cat cksum cut egrep fgrep file grep head ls md5sum nl od sed sha1sum sha256sum stat tac tail "
    "wc xxd"
)
_PLACEHOLDER = "{}"


def with_found_names(commands: Sequence[Simple]) -> list[Simple]:
    """Return the commands, with ``find -exec READER`` as a listing and ``xargs`` after it."""
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
    inner = command.words[at + 1 : -1]
    reader = texts[at + 1 : -1]
    if not reader or reader[0] not in _READERS:
        return None
    if [text for text in reader if _PLACEHOLDER in text] != [_PLACEHOLDER]:
        return None
    is_last = reader[-1] == _PLACEHOLDER
    # POSIX lets `+` follow `{}` only; after anything else it is an argument.
    if any(word.unknown or word.glob for word in inner) or not (is_last or texts[-1] == ";"):
        return None
    listing = replace(command, words=command.words[:at])
    words = inner[:-1]
    if not is_last:
        words = [ShellWord("-I"), ShellWord(_PLACEHOLDER), *inner]
    fed = Unknown(ADDED_BY_XARGS, printed_by=(tuple(listing.texts),))
    return [
        listing,
        replace(command, words=[ShellWord("xargs"), *words], piped=True, sure=False, fed=fed),
    ]
