"""The section ``provenance:``: errors with their place, and which part of which file counts."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from forge_cli.core.errors import WorkerError
from forge_cli.files.project import merge_settings
from forge_cli.files.provenance import (
    ALONE,
    Provenance,
    ProvenanceSection,
    merge_provenance,
)
from forge_cli.files.settings import Settings, read_settings
from forge_cli.files.worker import Worker, load_worker
from forge_cli.schema.config import parse_config


def section(text: str) -> ProvenanceSection:
    return parse_config(ProvenanceSection, yaml.safe_load(text), file="x.yaml")


def merged(**files: Any) -> Provenance:
    sections = {name: section(text) for name, text in files.items() if isinstance(text, str)}
    low = {name: sections.pop(name) for name in ("project", "organisation") if name in sections}
    found = merge_provenance(**sections, tightening=low, parent=files.get("parent"))
    return found.rule


def ignored(**files: str) -> list[str]:
    sections = {name: section(text) for name, text in files.items()}
    low = {name: sections.pop(name) for name in ("project",) if name in sections}
    return list(merge_provenance(**sections, tightening=low).ignored)


def test_default_asks_after_text_of_the_network() -> None:
    rule = merged()
    assert (rule.untrusted, rule.other, rule.undoable) == (ALONE, "ask", "allow")
    assert (rule.from_person, rule.where) == (False, None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "untrusted: [wep]",
            "3:15: provenance.untrusted[0]: 'wep' is not a source; did you mean 'web'?",
        ),
        ("untrusted: [mpc:x]", "3:15: provenance.untrusted[0]: 'mpc:x' is not a source"),
        ("trusted: ['zone:']", "3:13: provenance.trusted[0]: 'zone:' needs a name after the colon"),
        ("after_untrusted: {other: allow}", "3:28: provenance.after_untrusted.other"),
        (
            "after_untrusted: {others: ask}",
            "3:21: provenance.after_untrusted: unknown key 'others'",
        ),
        ("unless: person", "3:11: provenance.unless"),
        ("counts_as_mine: [said]", "3:20: provenance.counts_as_mine"),
        ("authority: {send: []}", "3:15: provenance.authority.send"),
        ("anything: 1", "3:3: provenance: unknown key 'anything'"),
    ],
)
def test_error_names_the_place(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "worker.yaml"
    file.write_text(f"name: w\nprovenance:\n  {text}\n")
    with pytest.raises(WorkerError) as caught:
        load_worker(file)
    assert f"worker.yaml:{error}" in str(caught.value)


@pytest.mark.parametrize(
    ("person", "worker", "other"),
    [
        ("{}", "after_untrusted: {other: 'off'}", "off"),
        ("after_untrusted: {other: ask}", "after_untrusted: {other: 'off'}", "ask"),
        ("after_untrusted: {other: 'off'}", "after_untrusted: {other: ask}", "ask"),
        ("after_untrusted: {other: ask}", "after_untrusted: {other: blocked}", "blocked"),
        ("after_untrusted: {other: blocked}", "after_untrusted: {other: ask}", "blocked"),
    ],
)
def test_stricter_of_person_and_worker_counts(person: str, worker: str, other: str) -> None:
    assert merged(person=person, worker=worker).other == other


@pytest.mark.parametrize("name", ["project", "organisation"])
def test_project_and_organisation_can_only_tighten(name: str) -> None:
    loose = (
        "{after_untrusted: {other: 'off'}, trusted: ['mcp:x'], unless: from_person, "
        "authority: {send: [to]}, untrusted: ['zone:vendor']}"
    )
    rule = merged(**{name: loose})
    assert rule == Provenance(untrusted=(*ALONE, "zone:vendor"))
    assert merged(**{name: "after_untrusted: {other: blocked, undoable: ask}"}).other == "blocked"
    assert merged(**{name: "counts_as_mine: [typed]"}).counts_as_mine == ("typed",)


def test_ignored_parts_are_reported_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("provenance:\n  after_untrusted: {other: 'off'}\n  trusted: [web]\n")
    settings = merge_settings(Settings.empty(), read_settings(file))
    found = settings.provenance_of(Worker.of(name="w"))
    assert found.rule == Provenance()
    assert found.ignored == (
        f"{file}:2:28: provenance.after_untrusted.other ignored: the project can only tighten",
        f"{file}:3:3: provenance.trusted ignored: the project can only tighten",
    )


def test_worker_cannot_trust_what_the_person_does_not() -> None:
    person = "trusted: ['mcp:contacts']"
    worker = "{trusted: ['mcp:contacts', web], unless: from_person, untrusted: ['zone:v']}"
    rule = merged(person=person, worker=worker)
    assert (rule.trusted, rule.from_person) == (("mcp:contacts",), False)
    assert rule.untrusted == ("zone:v",)
    assert len(ignored(person=person, worker=worker)) == 2


def test_arguments_with_authority_add_up() -> None:
    rule = merged(person="authority: {send: [to]}", worker="authority: {send: [cc], open: [repo]}")
    assert rule.authority == {"send": ("to", "cc"), "open": ("repo",)}


def test_child_is_at_least_as_strict_as_its_parent() -> None:
    parent = merged(worker="after_untrusted: {other: blocked, undoable: ask}")
    rule = merged(worker="{after_untrusted: {other: ask}, trusted: [web]}", parent=parent)
    assert (rule.other, rule.undoable, rule.trusted) == ("blocked", "ask", ())
