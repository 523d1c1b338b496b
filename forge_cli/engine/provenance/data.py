"""The tables of deeds and of roles of arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from msgspec import Struct

from forge_cli.engine.provenance.words import normalise, stem
from forge_cli.files.parsing import LOADER

Role = Literal["destination", "content", "detail"]
_FOLDER = Path(__file__).parent
_NAME_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


class Deeds(Struct, frozen=True):
    """The words by which people name what a call does, as stems."""

    classes: Mapping[str, frozenset[str]]
    """By the stem of a verb."""
    objects: Mapping[str, frozenset[str]]
    """By the stem of an object: more words for a deed with it."""
    programs: Mapping[str, frozenset[str]]
    subcommands: Mapping[str, int]
    senders: frozenset[str]
    sending_options: frozenset[str]
    sending_words: frozenset[str]
    looks: Mapping[str, frozenset[str]]
    """By program: subcommands that only read from the network."""
    hard: frozenset[str]
    short_hard: Mapping[str, Mapping[str, str]]
    usual: frozenset[str]


@cache
def deeds() -> Deeds:
    """Read the table of deeds."""
    data = load_table("deeds.yaml")
    classes: dict[str, frozenset[str]] = {}
    for words in data["classes"]:
        classes[stem(words[0])] = _stems(words)
    sending = data["sending"]
    return Deeds(
        classes=classes,
        objects={stem(name): _stems(words) for name, words in data["objects"].items()},
        programs={name: _stems(words) for name, words in data["programs"].items()},
        subcommands=data["subcommands"],
        senders=frozenset(sending["programs"]),
        sending_options=frozenset(sending["options"]),
        sending_words=_stems(sending["words"]),
        looks={program: frozenset(words) for program, words in data["looks"].items()},
        hard=frozenset(data["hard"]),
        short_hard=data["short_hard"],
        usual=frozenset(data["usual"]),
    )


@cache
def role_of(name: str) -> Role:
    """Return the role of an argument by its name; the strictest for an unknown name."""
    for word in reversed(words_of_name(name)):
        role = _roles().get(word)
        if role is not None:
            return role
    return "destination"


def words_of_name(name: str) -> list[str]:
    """Return the words of a name such as ``createCalendarEvent`` or ``mail__send``."""
    return [normalise(word) for word in _NAME_WORDS.findall(name)]


@cache
def _roles() -> Mapping[str, Role]:
    """Return the role of each known word of a name."""
    data = load_table("roles.yaml")
    found: dict[str, Role] = {}
    found.update(dict.fromkeys(data["content"], "content"))
    found.update(dict.fromkeys(data["detail"], "detail"))
    found.update(dict.fromkeys(data["identity"], "destination"))
    return found


def _stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(stem, words))


def load_table(name: str) -> Any:
    """Read a table of this folder."""
    return yaml.load((_FOLDER / name).read_text("utf-8"), LOADER)  # noqa: S506 - a safe loader
