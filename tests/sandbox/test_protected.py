"""The table of protected names: each with its reason, in the documentation as well."""

from pathlib import Path

from forge_cli.sandbox.protected import TABLE, is_protected, is_secret, protected_among
from forge_cli.sandbox.search.files import IgnoreLevel

from ..rows import each_row

DOCS = Path(__file__).parents[2] / "docs/approvals.md"


def test_the_documentation_has_the_same_table() -> None:
    rows = [f"| {', '.join(f'`{name}`' for name in row.names)} | {row.why} |" for row in TABLE]
    text = DOCS.read_text()
    assert [row for row in rows if row not in text] == []


def test_every_name_is_found_with_its_reason() -> None:
    failures = []
    for row in TABLE:
        for name in row.names:
            parts = name.replace("*", "x").rstrip("/").split("/")
            for way in (parts, ["deep", *parts], [*parts, "below"], [part.upper() for part in parts]):
                found = protected_among(way)
                if found is None or found[1] != row.why:
                    failures.append((way, found))
    assert failures == []


def test_a_name_in_a_folder_counts_only_there() -> None:
    assert protected_among(["a", ".github", "workflows", "x.yml"]) == (".github/workflows", "a CI service runs it")
    assert protected_among(["workflows", "x.yml"]) is None
    assert protected_among([".github", "docs", "workflows"]) is None
    assert protected_among(["workflows"], ".github") == (".github/workflows", "a CI service runs it")
    assert protected_among([".forgejo", "workflows", "x.yml"]) == (".forgejo/workflows", "a CI service runs it")
    assert protected_among(["src"], ".claude") is None
    assert is_protected("workflows", ".github")
    assert not is_protected("workflows")


@each_row("name", ["lefthook.yaml", ".lefthook.toml", ".devcontainer.json", ".pre-commit-config.yml", ".pnpmfile.cjs"])
def test_other_spellings_of_a_name_that_programs_read_are_protected(name: str) -> None:
    assert is_protected(name)


@each_row(("name", "secret"), [(".env", True), (".ENV.local", True), (".environment", True), ("env", False)])
def test_files_and_searches_agree_on_what_may_hold_secrets(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
    assert IgnoreLevel().leaves_out(name.encode(), name.encode(), is_folder=False) is secret
