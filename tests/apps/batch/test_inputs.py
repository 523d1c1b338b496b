"""The inputs of a batch.

Covers forge_cli.apps.batch.inputs.
"""

import re
from io import BytesIO
from pathlib import Path

import pytest

from forge_cli.apps.batch.inputs import BatchInputs, TaskTemplate, default_results, folder_name
from forge_cli.core.errors import ForgeError, Mark, UsageError


def tasks(source: Path | str, template: str | None = None, **options: object) -> dict[str, str]:
    inputs = BatchInputs(str(source), TaskTemplate(template), **options)  # type: ignore[arg-type]
    return {item.key: item.task for item in inputs.checked()}


def test_row_has_a_task_or_fields_for_one(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": "x", "task": "one", "n": 7}\n\n{"task": "two", "n": [1, null]}\n')
    assert tasks(file) == {"x": "one", "3": "two"}
    assert tasks(file, "{task}: {n} {{n}}") == {"x": "one: 7 {n}", "3": "two: [1, null] {n}"}


def test_rows_of_a_table_are_named_by_their_number(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    long = "x" * 300_000
    file.write_bytes(f'\ufeffname,note\nAna,"two\nlines"\nÖzil,\nBo,{long}\n'.encode())
    assert tasks(file, "{name}: {note}") == {
        "1": "Ana: two\nlines",
        "2": "Özil: ",
        "3": f"Bo: {long}",
    }


def test_files_are_items_named_by_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("n/b.md", "n/a.md", "n/c.txt", "n/.hidden"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"text of {name}")
    assert tasks("n", "{name}", workspace=tmp_path) == {
        "n/a.md": "a.md",
        "n/b.md": "b.md",
        "n/c.txt": "c.txt",
    }
    assert tasks("n/*.md", "{path}: {text}", workspace=tmp_path) == {
        "n/a.md": "n/a.md: text of n/a.md",
        "n/b.md": "n/b.md: text of n/b.md",
    }
    assert tasks("n/a*", "{path}") == {"n/a.md": str(tmp_path / "n/a.md")}
    assert tasks("n", "{name}", leave_out=[tmp_path / "n/a.md", tmp_path / "n/b.md"]) == {
        "n/c.txt": "c.txt"
    }


def test_standard_input_provides_rows() -> None:
    assert tasks("-", data=BytesIO(b'{"task": "a"}\n{"task": "b"}')) == {"1": "a", "2": "b"}
    inputs = BatchInputs("-", TaskTemplate(), data=BytesIO(b'{"task": "a"}\n'))
    assert [item.task for _ in range(2) for item in inputs] == ["a", "a"]


def test_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge_cli.apps.batch.inputs.MAX_LINE", 1 << 20)
    with pytest.raises(ForgeError, match="-:2:1: this line is longer than 1 MiB"):
        tasks("-", data=BytesIO(b'{"task": "a"}\n' + b" " * (2 << 20)))


@pytest.mark.parametrize(
    ("name", "content", "place", "problem"),
    [
        ("a.jsonl", b'{"task": "x"}\n{"task": }\n', (2, 10), "not JSON"),
        ("a.jsonl", b'{"task": "x"}\n[1]\n', (2, 1), "must be a JSON object"),
        ("a.jsonl", b'{"task": "x"}\n{"task": \r\n', (2, 10), "not JSON"),
        ("a.jsonl", '{"t": "é'.encode() + b"\xff", (1, 9), "byte 0xff at offset 9 is not UTF-8"),
        (
            "a.jsonl",
            b'{"task": "x"}\n{"t": "\xe9',
            (2, 8),
            "byte 0xe9 is not UTF-8; save the file as UTF-8",
        ),
        ("a.csv", b"task\nx\ny\xff\n", (3, 2), "byte 0xff is not UTF-8"),
        ("a.jsonl", b"\n \n", (1, 1), "it is empty"),
        ("a.jsonl", b'{"task": " "}', (1, 1), "the task is empty"),
        ("a.jsonl", b'{"task": "x", "id": ""}', (1, 1), "'id' must be"),
        (
            "a.jsonl",
            b'{"task": "x", "id": 1}\n\n{"task": "y", "id": "1"}',
            (3, 1),
            "duplicate key '1' (first on line 1)",
        ),
        ("a.csv", b'id,task\na,"x\ny"\na,z\n', (4, 1), "duplicate key 'a' (first on line 2)"),
        ("a.csv", b'task\nx\n"y\nz\n', (3, 1), "invalid CSV: unexpected end of data"),
        ("a.csv", b"task,b\nx,y\n\nz\n", (4, 2), "has 1 fields, the first one has 2"),
        ("a.csv", b"task,task\nx,y\n", (1, 2), "duplicate column 'task'"),
        ("a.csv", b'task\n"x"y\n', (2, 1), "invalid CSV"),
        ("a.txt", b"x", (1, 1), "unknown file type"),
    ],
)
def test_unreadable_input_is_reported_with_its_place(
    tmp_path: Path, name: str, content: bytes, place: tuple[int, int], problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ForgeError) as caught:
        tasks(tmp_path / name)
    assert caught.value.where == Mark(str(tmp_path / name), *place)
    assert (problem in caught.value.message, caught.value.exit_code) == (True, 3)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (
            "a.jsonl",
            '{"id": "a", "task": "x"}\n',
            '{"id": "a", "task": "x"}\n{"id": "a", "task": "again"}\nrubbish\n',
        ),
        ("a.csv", "id,task\na,x\n", "id,task\nb,y\n"),
    ],
)
def test_rows_are_fixed_at_the_start(tmp_path: Path, name: str, before: str, after: str) -> None:
    file = tmp_path / name
    file.write_text(before)
    inputs = BatchInputs(str(file), TaskTemplate())
    assert [item.key for item in inputs.checked()] == ["a"]
    file.write_text(after)
    assert [(item.key, item.task) for item in inputs] == [("a", "x")]


def test_files_are_fixed_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    for source in (str(tmp_path), f"{tmp_path}/*.md"):
        inputs = BatchInputs(source, TaskTemplate("{name}"))
        assert [item.task for item in inputs.checked()] == ["a.md"]
        (tmp_path / "b.md").write_text("b")
        assert [item.task for item in inputs] == ["a.md"]
        (tmp_path / "b.md").unlink()


def test_recursive_pattern_follows_no_link_to_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.md", "b/c.md", "b/d/e.md", "b/.f/g.md", "other/h.md"):
        (tmp_path / "notes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / name).write_text(name)
    (tmp_path / "notes/b/up").symlink_to("..")
    (tmp_path / "notes/d").symlink_to("b/d")
    deep = ["notes/a.md", "notes/b/c.md", "notes/b/d/e.md", "notes/other/h.md"]
    assert list(tasks("notes/**/*.md", "{path}")) == deep
    assert list(tasks("notes/**", "{path}")) == deep
    assert list(tasks(f"{tmp_path}/**/e.md", "{path}")) == [f"{tmp_path}/notes/b/d/e.md"]
    assert list(tasks("**/b/**/e.md", "{path}")) == ["notes/b/d/e.md"]
    assert list(tasks("notes/[d]/*.md", "{path}")) == ["notes/d/e.md"]


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("Sum up {title", "unmatched '{' at character 8"),
        ("Sum up title}", "unmatched '}' at character 13"),
        ('{"a": {title}}', "unmatched '{' at character 1"),
        (" ", "--task is empty"),
    ],
)
def test_template_with_an_incomplete_field_is_a_usage_error(
    tmp_path: Path, template: str, problem: str
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"title": "x", "none": null}\n')
    with pytest.raises(UsageError, match=re.escape(problem)):
        tasks(file, template)
    assert tasks(file, '{{"a": "{title}{none}"}}') == {"1": '{"a": "x"}'}


def test_changed_row_has_another_digest(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"

    def digest(row: str, template: str | None = None) -> str:
        file.write_text(row)
        (item,) = BatchInputs(str(file), TaskTemplate(template))
        return item.digest

    first = digest('{"task": "a", "n": 1}')
    assert digest('{"n": 1, "task": "a"}') == first
    assert (
        len({first, digest('{"task": "a", "n": 2}'), digest('{"task": "a", "n": 1}', "x{n}")}) == 3
    )
    # as earlier versions have written it beside results: with another one, all of them would be done again
    assert digest('{"task": "Öl", "n": [1.5, null]}') == "96b611b618e88c5a72929eaa10f8c214"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("in/tickets.jsonl", "tickets.results.jsonl"),
        ("a.b.csv", "a.b.results.jsonl"),
        ("-", "stdin.results.jsonl"),
        ("notes/", "notes.results.jsonl"),
        ("notes/*.md", "notes.results.jsonl"),
        ("*.md", "batch.results.jsonl"),
        (".", "batch.results.jsonl"),
    ],
)
def test_results_are_named_after_the_inputs(source: str, name: str) -> None:
    assert default_results(source) == name


def test_every_key_has_its_own_folder() -> None:
    keys = ["a", "a/b", "a%2Fb", "..", ".", "%2E%2E", "a b", "é", "\ud800", "%uD800", "\udcff"]
    keys += ["x" * 255, "x" * 256, "x" * 257, "é" * 200, "é" * 201, "/" * 200]
    names = [folder_name(key) for key in keys]
    assert len(set(names)) == len(keys)
    assert all(len(name.encode()) <= 200 for name in names)
    assert not any("/" in name or name in (".", "..") for name in names)
