"""Minimal edits of YAML files that people wrote; everything else stays unchanged."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import NEW_ENTRY, GrantRule, flow
from forge_cli.core.errors import WorkerError
from forge_cli.core.results import Diff
from forge_cli.files.document import FRONT_MATTER_SUFFIXES, parse_document, split_front_matter
from forge_cli.files.replace import replace_file

_INDENT = 2
"""Spaces of indentation for new lines."""
_BOM = "\ufeff"


class CannotEditError(Exception):
    """The file cannot be changed safely; the message is the reason."""


class FileEdit(Struct, frozen=True):
    """A file before and after an edit."""

    file: Path
    before: bytes | None
    after: bytes

    @property
    def diff(self) -> Diff:
        """The difference between both contents."""
        before = None if self.before is None else self.before.decode()
        return Diff.of(str(self.file), before, self.after.decode())

    def write(self) -> None:
        """Replace the whole file; raise CannotEditError if it changed in the meantime."""
        # For a new file; an old one keeps its mode.
        mode = 0o600
        try:
            if _read(self.file) != self.before:
                raise CannotEditError(f"{self.file} has changed since it was shown")
            if self.before is not None:
                mode = _replaceable_mode(self.file)
            replace_file(self.file, self.after, mode=mode)
            self.file.chmod(mode)
        except OSError as error:
            raise CannotEditError(f"{self.file} cannot be written: {error.strerror}") from None


def plan_edit(file: Path, rules: Iterable[GrantRule], *, user: bool = False) -> FileEdit:
    """Plan the addition of rules to a worker file, or to the user's config with ``user``.

    Raise CannotEditError if that cannot be done safely.
    """
    file = file.resolve()
    before = _read(file)
    text, encode = _decoded(before or b"")
    yaml_text, rest = _parts(file, text)
    for rule in rules:
        if user and rule.user_at is None:
            raise CannotEditError(f"{rule} has no place in {file.name}")
        if user:
            rule = for_user(rule)
        yaml_text = _add(yaml_text, rule.at, rule, file)
    return FileEdit(file, before, encode(yaml_text + rest))


def plan_removal(file: Path, at: Sequence[str]) -> FileEdit:
    """Plan the removal of a key and of mappings that contain nothing else.

    Raise CannotEditError if that cannot be done safely.
    """
    file = file.resolve()
    before = _read(file)
    text, encode = _decoded(before or b"")
    old = _parse(text, file)
    lone = _lone(old, at)
    new = _without(text, lone)
    # The text was cut by positions; only parsing it again proves that nothing else is missing.
    if _parse(new, file) != _dropped(old, lone):
        raise CannotEditError(f"{file.name} is written in a way that cannot be edited safely")
    return FileEdit(file, before, encode(new))


def _lone(data: Any, at: Sequence[str]) -> Sequence[str]:
    """Return the path of the outermost mapping without anything else than the removed key."""
    nodes = [data]
    for step in at[:-1]:
        nodes.append(nodes[-1][step])
    depth = len(at)
    while depth > 1 and len(nodes[depth - 1]) == 1:
        depth -= 1
    return at[:depth]


def _dropped(data: Any, at: Sequence[str]) -> Any:
    if len(at) == 1:
        return {key: value for key, value in data.items() if key != at[0]}
    return {**data, at[0]: _dropped(data[at[0]], at[1:])}


def _without(text: str, at: Sequence[str]) -> str:
    """Return the text without a key and its value: whole lines, or a part inside brackets."""
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for step in at[:-1]:
        node = next(value for key, value in node.value if key.value == step)
    place = next(place for place, (key, _) in enumerate(node.value) if key.value == at[-1])
    start = node.value[place][0].start_mark.index
    end = _end(node.value[place][1])
    # Without brackets the key has whole lines, which go with their indentation.
    if not node.flow_style:
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end)
        before = text[:line_start]
        # The last line may have no newline at its end.
        return before + text[line_end + 1 :] if line_end >= 0 else before
    # With the comma behind it; the last item goes with the comma before it.
    if place + 1 < len(node.value):
        return text[:start] + text[node.value[place + 1][0].start_mark.index :]
    if place:
        start = _end(node.value[place - 1][1])
    return text[:start] + text[end:]


def for_user(rule: GrantRule) -> GrantRule:
    """Return a rule for the user's config.yaml; unchanged if it has no place there."""
    if rule.user_at is None:
        return rule
    says = rule.says if rule.user_says is None else rule.user_says
    return replace(rule, at=rule.user_at, says=says, entry=None)


def lines_to_paste(rules: Iterable[GrantRule], *, user: bool = False) -> str:
    """Return rules as YAML for people who add them by hand."""
    data: Any = None
    for rule in rules:
        if user:
            rule = for_user(rule)
        named = rule.entry
        if named is None and rule.at[:2] == ("sandbox", "zones"):
            named = {"name": rule.at[2]}
        data = _put(data, rule.at, replace(rule, entry=named))
    lines: list[str] = []
    for key, value in data.items():
        lines += _block(key, value, 0)
    return "\n".join(lines)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotEditError(f"{file} cannot be read: {error.strerror}") from None


def _replaceable_mode(file: Path) -> int:
    """Return the mode of a file that can be replaced by another one."""
    info = file.stat()
    # A replacement is a new file: other names would keep the old one, and its owner would change.
    if info.st_nlink > 1 or info.st_uid != os.geteuid():
        raise CannotEditError(f"{file} has other names, or another owner")
    return stat.S_IMODE(info.st_mode)


def _decoded(raw: bytes) -> tuple[str, Callable[[str], bytes]]:
    """Return the text with plain line ends, and a function that restores its form as bytes."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise CannotEditError("it is not UTF-8") from None
    mark = _BOM if text.startswith(_BOM) else ""
    plain = text.removeprefix(_BOM).replace("\r\n", "\n")
    is_crlf = "\r\n" in text

    def encode(changed: str) -> bytes:
        if is_crlf:
            changed = changed.replace("\n", "\r\n")
        return (mark + changed).encode()

    # Only if all lines end alike can the rest be written back byte for byte.
    if "\r" in plain or encode(plain) != raw:
        raise CannotEditError("its lines end in different ways")
    return plain, encode


def _parts(file: Path, text: str) -> tuple[str, str]:
    """Return the YAML of a file and the text below it."""
    if file.suffix.lower() not in FRONT_MATTER_SUFFIXES:
        return text, ""
    try:
        front, _ = split_front_matter(text, file.name)
    except WorkerError as error:
        raise CannotEditError(str(error)) from None
    return front, text[len(front) :]


def _add(text: str, at: tuple[str, ...], rule: GrantRule, file: Path) -> str:
    """Return the text with a rule added, and check it by parsing it again."""
    old = _parse(text, file)
    # A rule must not give a worker a toolset that it does not have.
    if at[0] == "toolsets" and at[1] not in (old.get("toolsets") or {}):
        raise CannotEditError(f"{file.name} does not name the toolset {at[1]}")
    wanted = _put(old, at, rule)
    if wanted == old:
        return text
    new = _insert(text, at, rule)
    if _parse(new, file) != wanted:
        raise CannotEditError(f"{file.name} is written in a way that cannot be edited safely")
    return new


def _parse(text: str, file: Path) -> Any:
    try:
        # A file that has only comments counts as an empty mapping.
        if yaml.compose(text, Loader=yaml.SafeLoader) is None:
            return {}
        return parse_document(text, file.name)
    except (WorkerError, yaml.YAMLError) as error:
        raise CannotEditError(f"{file.name} cannot be read: {error}") from None


def _put(node: Any, at: Sequence[str], rule: GrantRule) -> Any:
    """Return the data with a rule at its place."""
    if not at:
        return rule.says
    step, *rest = at
    if step == NEW_ENTRY and (node is None or isinstance(node, list)):
        return [*(node or ()), rule.says]
    if isinstance(node, list) or (node is None and rule.entry and step == rule.entry["name"]):
        return _put_entry(node or [], step, rest, rule)
    if step == NEW_ENTRY or not (node is None or isinstance(node, dict)):
        raise CannotEditError(f"{rule} does not fit the value that is there")
    found = dict(node or {})
    return {**found, step: _put(found.get(step), rest, rule)}


def _put_entry(entries: list[Any], name: str, rest: Sequence[str], rule: GrantRule) -> list[Any]:
    """Return a list with a rule in the entry of that name."""
    for place, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get("name") == name:
            return [*entries[:place], _put(entry, rest, rule), *entries[place + 1 :]]
    if rule.entry is None:
        raise CannotEditError(f"there is no entry '{name}' for {rule}")
    return [*entries, _put(dict(rule.entry), rest, rule)]


def _insert(text: str, at: Sequence[str], rule: GrantRule) -> str:
    """Return the text with a rule, inserted at the deepest node on its path that exists."""
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None:
        return _after_line(text, len(text), _block(at[0], _put(None, at[1:], rule), 0))
    for place, step in enumerate(at):
        rest = at[place + 1 :]
        if isinstance(node, yaml.SequenceNode):
            entry = next((item for item in node.value if _is_named(item, step)), None)
            if entry is None:
                return _append(text, node, _put([], at[place:], rule)[0])
            node = entry
            continue
        pair = next(((key, value) for key, value in node.value if key.value == step), None)
        if pair is None:
            return _append_key(text, node, step, _put(None, rest, rule))
        if _is_null(pair[1]) and rest:
            return _fill(text, node, pair, _put(None, rest, rule))
        node = pair[1]
    return _replace(text, node, flow(rule.says))


def _is_named(node: yaml.Node, name: str) -> bool:
    return isinstance(node, yaml.MappingNode) and any(
        (key.value, value.value) == ("name", name) for key, value in node.value
    )


def _is_null(node: yaml.Node) -> bool:
    return (
        isinstance(node, yaml.ScalarNode) and node.style is None and node.value in ("", "~", "null")
    )


def _append(text: str, node: Any, item: Any) -> str:
    """Return the text with an item added to a list."""
    if node.flow_style:
        return _into_flow(text, node, flow(item))
    return _after_line(text, _end(node), [" " * node.start_mark.column + f"- {flow(item)}"])


def _append_key(text: str, node: Any, key: str, value: Any) -> str:
    """Return the text with a key added to a mapping."""
    if node.flow_style:
        return _into_flow(text, node, f"{flow(key)}: {flow(value)}")
    return _after_line(text, _end(node), _block(key, value, node.value[0][0].start_mark.column))


def _fill(text: str, parent: Any, pair: tuple[Any, Any], value: Any) -> str:
    """Return the text with a value for a key that has none."""
    key, empty = pair
    if parent.flow_style or empty.value:
        return _replace(text, empty, flow(value))
    # Without the first line: the key itself is there already.
    return _after_line(text, key.end_mark.index, _block("", value, key.start_mark.column)[1:])


def _replace(text: str, node: Any, by: str) -> str:
    start = node.start_mark.index
    end = node.end_mark.index
    # An empty value has no text, not even the blank behind the colon.
    gap = " " if start == end else ""
    return f"{text[:start]}{gap}{by}{text[end:]}"


def _into_flow(text: str, node: Any, addition: str) -> str:
    """Return the text with an addition after the last item between brackets."""
    if not node.value:
        place = node.start_mark.index + 1
        return text[:place] + addition + text[place:]
    last = node.value[-1]
    place = (last[1] if isinstance(last, tuple) else last).end_mark.index
    return f"{text[:place]}, {addition}{text[place:]}"


def _end(node: Any) -> int:
    """Return the end of the last item in a node, without comments and blank lines after it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    if isinstance(last, tuple):
        return max(map(_end, last))
    return _end(last)


def _after_line(text: str, place: int, lines: Sequence[str]) -> str:
    """Return the text with lines added below the line of a place."""
    if place and text[place - 1] == "\n":
        line_end = place - 1
    else:
        line_end = text.find("\n", place)
    added = "\n".join(lines)
    if line_end < 0:
        if not text:
            return f"{added}\n"
        return f"{text}\n{added}"
    return f"{text[:line_end]}\n{added}{text[line_end:]}"


def _block(key: str, value: Any, indent: int) -> list[str]:
    """Return a key and its value as lines; entries of lists are one line each."""
    pad = " " * indent
    match value:
        case dict():
            lines = [f"{pad}{flow(key)}:"]
            for inner, item in value.items():
                lines += _block(inner, item, indent + _INDENT)
            return lines
        case list():
            return [
                f"{pad}{flow(key)}:",
                *(f"{pad}{' ' * _INDENT}- {flow(item)}" for item in value),
            ]
        case _:
            return [f"{pad}{flow(key)}: {flow(value)}"]
