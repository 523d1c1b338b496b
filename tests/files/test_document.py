"""YAML files as they are read, and how ``forge_cli.files.parsing`` reads their text."""

from __future__ import annotations

import json
import os
import re
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.errors import ExitCode, Mark, WorkerError
from forge_cli.files import parsing
from forge_cli.files.document import (
    MAX_BYTES,
    Document,
    parse_document,
    read_document,
    split_front_matter,
)
from forge_cli.schema.marks import MarkedDict, MarkedList, where_in
from tests.support.rows import each_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from hashlib import sha256
from pathlib import Path

PARSERS = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]


@pytest.fixture(params=PARSERS, ids=["python", "libyaml"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "LOADER", request.param)


def refused(text: str | bytes) -> WorkerError:
    with pytest.raises(WorkerError) as caught:
        parse_document(text, "w.yaml")
    return caught.value


def places(data: Any) -> Iterator[tuple[Mark, str]]:
    """Every key below ``data`` with its mark."""
    for key, value in data.items() if isinstance(data, dict) else ():
        yield data.keys_at[key], key
        yield from places(value)
    for item in data if isinstance(data, list) else ():
        yield from places(item)


def text_at(text: str, mark: Mark) -> str:
    return text.split("\n")[mark.line - 1][mark.column - 1 :]


# values


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("# nothing", None),
        ("0", 0),
        ("-0", 0),
        ("7", 7),
        ("-12", -12),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.50", 1.5),
        (".5", 0.5),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        ("1.5E-2", 0.015),
        ("0.0", 0.0),
    ],
)
def test_plain_scalars_have_their_types(written: str, value: object) -> None:
    read = parse_document(f"a: {written}", "w.yaml")["a"]
    assert read == value
    assert type(read) is type(value)


NARROWED = """
yes no on off y n Yes NO Off tRUE Null NULL 0777 007 -01 00 +1 1_000 1,000 0x1F 0o17 0b1 12:30:45 1:30 2024-01-01
2001-12-14t21:59:43.10-05:00 1. 1.0.0 01.5 1e 1e+ e5 .inf -.inf .nan .NaN Infinity NaN . -- = << ٣ １
"""


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("written", NARROWED.split())
def test_yaml_1_1_booleans_and_dates_stay_text(written: str) -> None:
    assert parse_document(f"a: {written}", "w.yaml") == {"a": written}


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "written", ["true", "null", "~", "", "12", "1.5", "a: b", "!x", "*a", "&a", "- a", "{", "<<"]
)
def test_quoted_scalar_is_text(written: str) -> None:
    assert parse_document(f"""a: "{written}"\nb: '{written}'""", "w.yaml") == {
        "a": written,
        "b": written,
    }


@pytest.mark.usefixtures("parser")
def test_special_yaml_keys_have_no_meaning() -> None:
    text = "<<: {a: 1}\n=: 2\nyes: 3\n'1': 4\n\"true\": 5\n? long\n: 6\n"
    assert parse_document(text, "w.yaml") == {
        "<<": {"a": 1},
        "=": 2,
        "yes": 3,
        "1": 4,
        "true": 5,
        "long": 6,
    }


@pytest.mark.usefixtures("parser")
def test_text_blocks_are_read() -> None:
    text = 'a: |\n  x: 1\n  # y\n\n   z\nb: >-\n  one\n  two\nc: one\n  two\nd: "\\t\\u00e9\\0"\n'
    assert parse_document(text, "w.yaml") == {
        "a": "x: 1\n# y\n\n z\n",
        "b": "one two",
        "c": "one two",
        "d": "\té\0",
    }


# marks


@pytest.mark.usefixtures("parser")
def test_mappings_lists_keys_and_values_have_marks() -> None:
    text = "# top\nname: reporter\nsandbox:\n  zones:\n    - name: a\n      mode: rw\n    - {name: é, mode: ro}\n    -\n"
    data = parse_document(text, "./w.yaml")
    zones = data["sandbox"]["zones"]

    assert isinstance(data, MarkedDict)
    assert isinstance(zones, MarkedList)
    assert data.mark == Mark("./w.yaml", 2, 1)
    assert data.values_at["name"] == Mark("./w.yaml", 2, 7)
    assert data["sandbox"].keys_at == {"zones": Mark("./w.yaml", 4, 3)}
    assert zones.mark == Mark("./w.yaml", 5, 5)
    assert zones.items_at == (
        Mark("./w.yaml", 5, 7),
        Mark("./w.yaml", 7, 7),
        Mark("./w.yaml", 8, 6),
    )
    assert where_in(data, ("sandbox", "zones", 1, "mode")) == Mark("./w.yaml", 7, 23)
    assert where_in(data, ("sandbox", "zones", 1, "mode"), key=True) == Mark("./w.yaml", 7, 17)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_line_endings_and_byte_order_mark_do_not_shift_marks(ending: str, start: str) -> None:
    text = ending.join(["name: x", "text: |", "  one", "  two", "last: {🙂: 1}", ""])
    data = parse_document((start + text).encode(), "w.yaml")
    assert data == {"name": "x", "text": "one\ntwo\n", "last": {"🙂": 1}}
    assert data.keys_at["name"] == Mark("w.yaml", 1, 1)
    assert data["last"].values_at["🙂"] == Mark("w.yaml", 5, 11)


# refusals


@pytest.mark.usefixtures("parser")
@each_row(
    ("text", "line", "column", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 1, "duplicate key 'a' (first on line 1); keep one"),
        ("x: {b: 1, 'b': 2}", 1, 11, "duplicate key 'b' (first on line 1)"),
        ('"\\e[2J": 1\n"\\e[2J": 2', 2, 1, r"duplicate key '\x1b[2J' (first on line 1)"),
        ("a: &x 1\nb: 2\n", 1, 4, "quote the text, or write out the value"),
        ("a: &x {b: 1}", 1, 4, "quote the text, or write out the value"),
        ("a: *x", 1, 4, "quote the text, or write out the value"),
        ("include: *.py", 1, 10, "quote the text, or write out the value"),
        ("a: !!str 1", 1, 4, "remove the tag, or quote the text"),
        ("a: !!python/object/apply:os.system [ls]", 1, 4, "remove the tag, or quote the text"),
        ("a: !custom {}", 1, 4, "remove the tag, or quote the text"),
        ('a: ! "12"', 1, 4, "remove the tag, or quote the text"),
        ("a: ! 12", 1, 4, "remove the tag, or quote the text"),
        ("!!map\na: 1", 1, 1, "remove the tag, or quote the text"),
        ("!a b: 1", 1, 1, "remove the tag, or quote the text"),
        ("%YAML 1.1\n---\na: 1", 1, 1, "YAML directives ('%') are not supported; remove"),
        ("%TAG ! tag:x,1:\n---\na: 1", 1, 1, "YAML directives ('%') are not supported; remove"),
        ("%X\n---\na: 1", 1, 1, "YAML directives ('%') are not supported; remove"),
        ("1: a", 1, 1, "a key must be text, not a number; quote it"),
        ("a: {1.50: a}", 1, 5, "a key must be text, not a number; quote it"),
        ("true: a", 1, 1, "a key must be text, not true or false; quote it"),
        ("~: a", 1, 1, "a key must be text, not empty; quote it"),
        ("? [a]\n: b", 1, 3, "a key must be text, not a list; quote it"),
        ("a: {{b: c}: d}", 1, 5, "a key must be text, not a mapping; quote it"),
        ("a: 1\n---\nb: 2", 2, 1, "only one document per file is supported"),
        ("---\n---\nb: 2", 2, 1, "only one document per file is supported"),
        ("a: 1\n...\nb: 2", 3, 1, "unexpected text after the end of the document; remove it"),
        ("", 1, 1, "write at least one 'key: value'"),
        ("# only a comment\n", 1, 1, "write at least one 'key: value'"),
        ("---\n", 1, 1, "write at least one 'key: value'"),
        ("- a\n- b", 1, 1, "the file must contain keys and values ('key: value'), not just a list"),
        (
            "\nhello world",
            2,
            1,
            "the file must contain keys and values ('key: value'), not just text",
        ),
        ("12", 1, 1, "the file must contain keys and values ('key: value'), not just a number"),
        ("a: 18446744073709551616", 1, 4, "exceeds 64 bits; quote it"),
        ("a: -9223372036854775809", 1, 4, "exceeds 64 bits; quote it"),
        ("a: " + "9" * 5000, 1, 4, "exceeds 64 bits; quote it"),
        ("a: -1e999", 1, 4, "this number is too large; quote it"),
        ("a:\n\tb: 1", 2, 1, "a tab indents this line; use spaces"),
        ("a:\n  b: 1\n  \tc: 2", 3, 3, "a tab indents this line; use spaces"),
        ("a: b: c", 1, 5, "unexpected ':'; quote the text or check"),
        ("a: b\n c: d", 2, 3, "unexpected ':'; quote the text or check the indentation"),
        ("a: 1\nb\n", 2, 1, "missing ':' after this key; add one"),
        ("a:\n  - 1\n b: 2", 3, 2, "check the indentation"),
        ("a: 'x\nb: 1\n", 1, 4, "this quote is never closed; close it"),
        ('a: "x\nb: 1\n', 1, 4, "this quote is never closed; close it"),
        ("a: 'it's'", 1, 8, "check the indentation and the quotes"),
        (
            "a: [1,\n  2\n\n",
            2,
            4,
            "closing bracket before this place; the bracket opens on line 1",
        ),
        (
            "a: {b: 1\nc: {}}",
            2,
            2,
            "closing bracket before this place; the bracket opens on line 1",
        ),
        ("a: @here", 1, 4, "text cannot begin with this character; quote it"),
        ("a: |x\n  y", 1, 5, "text after '|' or '>' must start on the next line"),
        ("a: - b", 1, 4, "a list cannot begin here"),
        ("a: ? b", 1, 4, "unexpected '?'; quote the text"),
        ("ok: 1\na: x\0y", 2, 5, "U+0000 is not text; delete it"),
        ("a: \x1b[2J", 1, 4, "U+001B is not text; delete it"),
        ("a: \x7f", 1, 4, "U+007F is not text; delete it"),
        ("a: é\x85", 1, 5, "U+0085 is not text; delete it"),
        ("a: \ud800", 1, 4, "U+D800 is not text; delete it"),
        ("a: x\u2028y", 1, 5, "U+2028 is invisible; delete it"),
        ("\ufeff\ufeffa: 1", 1, 1, "U+FEFF is invisible; delete it"),
        (
            b"ok: 1\na: \xc3\xa9\xff",
            2,
            5,
            "byte 0xff at offset 11 is not UTF-8; save the file as UTF-8",
        ),
        (b"\xef\xbb\xbfa: \xe9", 1, 4, "byte 0xe9 at offset 6 is not UTF-8"),
        ("a: 1".encode("utf-16"), 1, 1, "byte 0xff at offset 0 is not UTF-8"),
        (b"a: " + b"x" * MAX_BYTES, 1, 1, "larger than 256 KiB"),
    ],
)
def test_surprising_yaml_is_refused(text: str | bytes, line: int, column: int, says: str) -> None:
    error = refused(text)
    assert error.where == Mark("w.yaml", line, column)
    assert says in error.message
    assert "\n" not in str(error)
    assert error.exit_code == ExitCode.INVALID


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "escape", [r"\ud800", r"\ud83d\ude00", r"\uDFFF", r"\Uffffffff", r"\U00110000", r"\q", r"\xzz"]
)
def test_invalid_escape_is_an_error(escape: str) -> None:
    error = refused(f'ok: 1\na: "{escape}"')
    assert "unknown escape; write the character itself" in error.message
    assert error.where is not None


# depth and size


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("opening", "closing"),
    [("[", "]"), ("{a: ", "}"), ("\n [", "]"), ("[{a: ", "}]")],
)
def test_yaml_depth_is_limited(opening: str, closing: str) -> None:
    levels = opening.count("[") + opening.count("{")
    fits, deeper = 49 // levels, 49 // levels + 1
    assert parse_document(f"a: {opening * fits}{closing * fits}", "w.yaml")
    assert (
        "nested deeper than 50 levels; flatten it"
        in refused(f"a: {opening * deeper}{closing * deeper}").message
    )


HOSTILE = {
    "top-level lists": "[" * 200_000,
    "lists": "a: " + "[" * 200_000,
    "lists on lines": "a: " + "[\n" * 100_000,
    "mappings": "a: " + "{a: " * 50_000,
    "dashes": "a:\n  " + "- " * 100_000,
    "question marks": "? " * 100_000,
    "staircase": "".join(" " * depth + "a:\n" for depth in range(700)),
    "many values": "a: [" + "1," * 120_000 + "]",
    "many empty mappings": "a: [" + "{}," * 80_000 + "]",
    "many deep lists": "a: [" + ("[" * 48 + "]" * 48 + ",") * 2_600 + "]",
    "many documents": "---\n" * 60_000,
    "many directives": "%a\n" * 80_000,
    "tags": "a: " + "!" * 200_000,
    "alias bomb": "a: &a [x, x]\n" + "".join(f"k{n}: [*a, *a]\n" for n in range(1_000)),
    "digits": "a: " + "1" * 200_000,
    "exponent": "a: 1e" + "9" * 200_000,
    "unclosed": 'a: "' + "x\n" * 100_000,
    "colons": "a: " + ":" * 200_000,
}


@pytest.mark.long
@each_row("text", HOSTILE.values())
def test_hostile_text_is_refused_at_once(text: str) -> None:
    assert len(text) <= MAX_BYTES
    start = time.process_time()
    error = refused(text)
    assert time.process_time() - start < 2
    assert len(error.message) < 200


# files


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def unreadable(path: Path) -> str:
    with pytest.raises(WorkerError) as caught:
        read_document(path)
    return str(caught.value).replace(str(path), "w")


@pytest.mark.parametrize("name", ["worker.yaml", "worker.yml", "WORKER.YAML", "script"])
def test_plain_yaml_has_no_body(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, "name: x\n")
    read = read_document(path)
    digest = sha256(path.read_bytes()).hexdigest()
    assert read == Document({"name": "x"}, None, str(path), digest)  # type: ignore[arg-type]
    assert read.data.mark.file == str(path)


@pytest.mark.parametrize("name", ["worker.md", "x.worker", "X.MD"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_front_matter_is_read_with_its_body(tmp_path: Path, name: str, ending: str) -> None:
    lines = [
        "\ufeff---",
        "name: x",
        "limits:",
        "  max_turns: 3",
        "--- ",
        "",
        "You write.",
        "---",
        "é: [",
        "",
    ]
    path = write(tmp_path, name, ending.join(lines))
    read = read_document(path)
    assert read.data == {"name": "x", "limits": {"max_turns": 3}}
    assert read.body == "\nYou write.\n---\né: [\n"
    assert read.file == str(path)
    assert read.data["limits"].keys_at["max_turns"] == Mark(str(path), 4, 3)


def test_front_matter_may_have_no_body() -> None:
    assert split_front_matter("---\na: 1\n---", "w.md") == ("---\na: 1\n", "")
    assert split_front_matter("---\na: |\n  ---\n---\n", "w.md") == ("---\na: |\n  ---\n", "")


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("", "w:1:1", "no front matter here; begin the file with a line '---'"),
        ("name: x\n---\nbody", "w:1:1", "no front matter here; begin the file with a line '---'"),
        (
            "\n---\nname: x\n---\n",
            "w:1:1",
            "no front matter here; begin the file with a line '---'",
        ),
        (
            "---\nname: x\n ---\n",
            "w:1:1",
            "the front matter is never closed; add a line '---' below it",
        ),
        (
            "---",
            "w:1:1",
            "the front matter is never closed; add a line '---' below it",
        ),
        ("---\n---\nbody", "w:1:1", "write at least one 'key: value'"),
        ("---\na: 1\na: 2\n---\nbody", "w:3:1", "duplicate key 'a' (first on line 2)"),
        (
            "---\na: [\n---\nbody",
            "w:2:5",
            "missing ',' or closing bracket before this place; the bracket opens on line 2",
        ),
        ("---\na: 1\n---\nbo\x1bdy", "w:4:3", "U+001B is not text; delete it"),
    ],
)
def test_invalid_front_matter_is_an_error(tmp_path: Path, text: str, where: str, says: str) -> None:
    error = unreadable(write(tmp_path, "w.md", text))
    assert error.startswith(f"{where}: ")
    assert says in error


def test_body_may_contain_invalid_yaml() -> None:
    assert split_front_matter("---\na: 1\n---\nx\u2028y\ufeff", "w.md")[1] == "x\u2028y\ufeff"


def test_path_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    write(tmp_path, "file", "")
    problems = {
        "missing": "w: no such file; check the path",
        "file/w.yaml": "w: no such file; check the path",
        ".": "w: this is a folder; name a file in it",
        "fifo": "w: not a regular file; save the text to a file and name that",
        "device": "w: not a regular file; save the text to a file and name that",
        "loop": "w: cannot be read (Too many levels of symbolic links); check the path",
    }
    assert {name: unreadable(tmp_path / name) for name in problems} == problems


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("helper.yml", "helper.yaml"),
        ("helper.md", "helper.yaml"),
        ("helper", "helper.yaml"),
        ("hepler.yaml", "helper.yaml"),
        ("notes.worker", "notes.md"),
        ("secret.yaml", None),
        ("sub/helper.yaml", None),
    ],
)
def test_missing_file_suggests_a_similar_name(tmp_path: Path, name: str, near: str | None) -> None:
    for each in ("helper.yaml", "notes.md", "secret.txt"):
        write(tmp_path, each, "a: 1")
    (tmp_path / "sub.yaml").mkdir()
    remedy = f"did you mean '{near}'?" if near else "check the path"
    assert unreadable(tmp_path / name) == f"w: no such file; {remedy}"


@pytest.mark.needs("user")
def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "w.yaml", "a: 1")
    path.chmod(0)
    assert unreadable(path) == "w: permission denied; check its owner and mode"


@each_row("name", ["a\0b.yaml", "a\ud800.yaml", "x" * 5000 + ".yaml"])
def test_impossible_file_name_is_refused(tmp_path: Path, name: str) -> None:
    assert re.fullmatch(
        r"w: cannot be read \([^\n]+\); check the path", unreadable(tmp_path / name)
    )


def test_largest_file_is_read_and_a_larger_one_refused(tmp_path: Path) -> None:
    fits = "a: " + "x" * (MAX_BYTES - 3)
    assert read_document(write(tmp_path, "w.yaml", fits)).data == {"a": fits[3:]}
    assert "larger than 256 KiB" in unreadable(write(tmp_path, "w.yaml", fits + "x"))


# properties

TOKENS = r"""
a c: : [ ] { } ' " # - ~ 1 1e9 0x1 true << * *a & &a ! !! !!str !< !%ED %A0 % @ ` | > >- --- ... \ \ud800 \x \U é 🙂
"""
SPACES = [
    "b: ",
    "- ",
    "? ",
    ": ",
    ", ",
    " #",
    "%YAML 1.1\n",
    "---\n",
    "|\n",
    " ",
    "\t",
    "\n",
    "\n  ",
    "\n    ",
    "\r",
    "\r\n",
]
PIECES = st.sampled_from(SPACES) | st.sampled_from(TOKENS.split()) | st.text(max_size=3)
yaml_like = st.lists(PIECES | st.sampled_from("\ufeff\u2028\x85"), max_size=40).map("".join)


def outcome(text: str | bytes) -> MarkedDict | WorkerError:
    try:
        return parse_document(text, "w.yaml")
    except WorkerError as error:
        return error


def check(text: str | bytes) -> None:
    match outcome(text):
        case MarkedDict() as data:
            json.dumps(data).encode()
        case WorkerError(where=Mark(line=line, column=column)) as error:
            assert "\n" not in str(error)
            lines = re.split(
                r"\r\n|\r|\n", text if isinstance(text, str) else text.decode(errors="replace")
            )
            assert 1 <= line <= len(lines)
            assert 1 <= column <= len(lines[line - 1]) + 1
        case other:
            pytest.fail(f"no mark: {other}")


@pytest.mark.parametrize("loader", PARSERS)
@given(text=yaml_like)
def test_any_text_is_parsed_or_refused(loader: Any, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "LOADER", loader)
        check(text)
        check(f"a: 1\nb:\n  {text}")


@given(
    st.binary(max_size=30) | yaml_like.map(str.encode),
    st.sampled_from([b"", b"---\n"]),
    st.sampled_from([b"", b"\n---\n"]),
)
def test_any_front_matter_is_parsed_or_refused(raw: bytes, before: bytes, after: bytes) -> None:
    try:
        front, body = split_front_matter(before + raw + after, "w.md")
    except WorkerError:
        return
    assert front.startswith("---")
    assert len(front) + len(body) <= len(before + raw + after)
    check(front)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=15,
)


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON with the characters themselves, but for those that no text file should hold."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text
    )


@pytest.mark.long
@given(st.dictionaries(words, values, max_size=5), st.sampled_from([None, 0, 2]))
def test_json_is_read_with_marks_on_its_keys(data: dict[str, Any], indent: int | None) -> None:
    text = as_json(data, indent)
    read = parse_document(text, "w.yaml")
    assert json.dumps(read) == json.dumps(data)
    for mark, key in places(read):
        assert text_at(text, mark).startswith(as_json(key))
    for key, value in read.items():
        assert text_at(text, read.values_at[key]).startswith(as_json(value)[0])


names = st.text("abcnoy_éß🙂", min_size=1, max_size=8)
trees = st.dictionaries(
    names,
    st.recursive(
        st.integers(0, 99) | names,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.long
@given(trees, st.booleans())
def test_marks_are_at_the_keys(tree: dict[str, Any], front: bool) -> None:
    text = yaml.safe_dump(tree, allow_unicode=True, sort_keys=False)
    if front:
        text = f"---\n{text}---\n{text}"
    read = parse_document(split_front_matter(text, "w.md")[0] if front else text, "w.md")
    assert read == tree
    for mark, key in places(read):
        assert text_at(text, mark).lstrip("'\"").startswith(key)
