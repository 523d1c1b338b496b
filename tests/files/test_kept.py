"""What was read of a file is kept for as long as its content is the same, and counts only where it is sound."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli.core.errors import Mark
from forge_cli.core.marks import MarkedDict, MarkedList
from forge_cli.files import kept, parsing
from forge_cli.files.document import Document, read_document

TEXT = """\
name: helper
limits: {max_turns: 3, max_cost: 0.25}
toolsets:
  shell:
    rules:
      - {pattern: "git push", approval: blocked}
      - [1, -2.5, null, true, "0777", ""]
  empty: {}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "worker.yaml"
    file.write_text(TEXT)
    return file


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are parsed."""
    names: list[str] = []
    parse = parsing.parse_mapping

    def noting(text: str, file: str) -> MarkedDict:
        names.append(os.path.basename(file))
        return parse(text, file)

    monkeypatch.setattr(parsing, "parse_mapping", noting)
    return names


def entries(home: Path) -> list[Path]:
    return sorted((home / "documents").iterdir())


def told(data: object) -> object:
    """Everything that is known of data, marks included."""
    if isinstance(data, MarkedDict):
        return data.mark, {name: (data.keys_at[name], data.values_at[name], told(data[name])) for name in data}
    if isinstance(data, MarkedList):
        return data.mark, data.items_at, [told(item) for item in data]
    return type(data), data


def facts(document: Document) -> object:
    return told(document.data), document.body, document.file


def test_a_file_that_did_not_change_is_not_parsed_again(file: Path, parsed: list[str]) -> None:
    first = read_document(file)
    assert facts(read_document(file)) == facts(first)
    assert parsed == ["worker.yaml"]


def test_marks_name_the_file_as_it_is_spelled_now(file: Path, parsed: list[str]) -> None:
    read_document(file)
    document = read_document(file, shown="./worker.yaml")
    assert document.data.mark == Mark("./worker.yaml")
    assert parsed == ["worker.yaml"]


def test_the_body_below_front_matter_is_kept_too(tmp_path: Path, parsed: list[str]) -> None:
    file = tmp_path / "helper.md"
    file.write_text("---\nname: helper\n---\nYou help.\n")
    assert facts(read_document(file)) == facts(read_document(file))
    assert read_document(file).body == "You help.\n"
    assert parsed == ["helper.md"]


def test_what_changed_is_read_as_it_is_now_and_what_it_was_is_forgotten(file: Path, home: Path) -> None:
    read_document(file)
    os.utime(file, (stamp := file.stat().st_mtime, stamp))
    file.write_text(TEXT.replace("blocked", "ask    "))
    os.utime(file, (stamp, stamp))
    assert read_document(file).data["toolsets"]["shell"]["rules"][0]["approval"] == "ask"
    (entry,) = entries(home)
    assert "blocked" not in entry.read_text()


def test_the_same_text_is_not_taken_for_a_file_of_another_form(tmp_path: Path) -> None:
    text = "---\nname: helper\n"
    plain, front = tmp_path / "worker.yaml", tmp_path / "worker.md"
    plain.write_text(text)
    front.write_text(f"{text}---\nbody\n")
    read_document(plain)
    plain.rename(front)
    with pytest.raises(Exception, match="never closed"):
        read_document(front)


def damage(entry: Path, how: str) -> None:
    match how:
        case "cut":
            entry.write_bytes(entry.read_bytes()[:-20])
        case "looser":
            entry.write_bytes(entry.read_bytes().replace(b"blocked", b"allowed"))
        case "empty":
            entry.write_bytes(b"")
        case "open to others":
            entry.write_bytes(entry.read_bytes().replace(b"blocked", b"allowed"))
            entry.chmod(0o666)
        case "folder":
            entry.unlink()
            entry.mkdir()
        case "pipe":
            entry.unlink()
            os.mkfifo(entry)
        case "sound but nonsense":
            text = json.dumps({"data": {"at": [1], "of": 7}, "body": None}).encode()
            entry.write_bytes(entry.read_bytes()[:64] + kept.sha256(text).hexdigest().encode() + text)


@pytest.mark.parametrize("how", ["cut", "looser", "empty", "open to others", "folder", "pipe", "sound but nonsense"])
def test_what_is_damaged_is_as_if_it_were_not_there(file: Path, home: Path, how: str) -> None:
    first = read_document(file)
    damage(entries(home)[0], how)
    assert facts(read_document(file)) == facts(first)


def test_what_others_could_have_written_does_not_count(file: Path, home: Path, parsed: list[str]) -> None:
    read_document(file)
    entries(home)[0].chmod(0o620)
    read_document(file)
    assert parsed == ["worker.yaml", "worker.yaml"]


def test_it_is_for_its_user_alone(file: Path, home: Path) -> None:
    umask = os.umask(0)
    try:
        read_document(file)
    finally:
        os.umask(umask)
    assert [entry.stat().st_mode & 0o777 for entry in entries(home)] == [0o600]
    assert (home / "documents").stat().st_mode & 0o777 == 0o700


def test_what_earlier_versions_kept_in_the_cache_is_removed(file: Path, home: Path) -> None:
    old = home / "cache/documents"
    old.mkdir(parents=True)
    (old / "0.json").write_text("a part of the config")
    (home / "cache/tools.json").write_text("{}")
    read_document(file)
    assert os.listdir(home / "cache") == ["tools.json"]
    assert facts(read_document(file))


def test_a_home_that_cannot_be_written_only_costs_time(file: Path, home: Path, parsed: list[str]) -> None:
    home.write_text("in the way")
    read_document(file)
    assert facts(read_document(file))
    assert parsed == ["worker.yaml", "worker.yaml"]


def test_there_are_not_too_many(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 2)
    for number in range(4):
        file = tmp_path / f"{number}.yaml"
        file.write_text(f"name: w{number}\n")
        read_document(file)
    assert len(entries(home)) == 2


def test_what_is_wrong_is_told_each_time(file: Path, home: Path) -> None:
    file.write_text("name: [\n")
    for _ in range(2):
        with pytest.raises(Exception, match="missing before this place"):
            read_document(file)
    assert not home.exists()


def test_a_process_that_finds_it_loads_no_yaml(file: Path) -> None:
    read_document(file)
    look = "import sys, pathlib; from forge_cli.files.document import read_document as read; "
    look += "assert read(pathlib.Path(sys.argv[1])).data['name'] == 'helper'; assert 'yaml' not in sys.modules"
    subprocess.run([sys.executable, "-c", look, str(file)], check=True, timeout=60)
