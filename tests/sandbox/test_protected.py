"""The table of protected names: each with its reason, in the documentation as well."""

from pathlib import Path

import pytest

from forge_cli.sandbox.git.ignore_rules import IgnoreLevel
from forge_cli.sandbox.protected import TABLE, is_protected, is_secret, protected_among

DOCS = Path(__file__).parents[2] / "docs/approvals.md"


def test_documentation_has_the_same_table() -> None:
    rows = [f"- **{row.why}**: {', '.join(f'`{name}`' for name in row.names)}" for row in TABLE]
    text = " ".join(DOCS.read_text().split())
    assert [row for row in rows if f"{row} -" not in text and f"{row} Also" not in text] == []


def test_protected_names_have_reasons() -> None:
    failures = []
    for row in TABLE:
        for name in row.names:
            parts = name.replace("*", "x").rstrip("/").split("/")
            for way in (
                parts,
                ["deep", *parts],
                [*parts, "below"],
                [part.upper() for part in parts],
            ):
                found = protected_among(way)
                if found is None or found[1] != row.why:
                    failures.append((way, found))
    assert failures == []


def test_name_in_a_folder_counts_only_there() -> None:
    assert protected_among(["a", ".github", "workflows", "x.yml"]) == (
        ".github/workflows",
        "a CI service runs it",
    )
    assert protected_among(["workflows", "x.yml"]) is None
    assert protected_among([".github", "docs", "workflows"]) is None
    assert protected_among(["workflows"], ".github") == (
        ".github/workflows",
        "a CI service runs it",
    )
    assert protected_among([".forgejo", "workflows", "x.yml"]) == (
        ".forgejo/workflows",
        "a CI service runs it",
    )
    assert protected_among(["src"], ".claude") is None
    assert is_protected("workflows", ".github")
    assert not is_protected("workflows")


def test_name_in_two_folders_counts_only_there() -> None:
    why = "other version control systems run what it names"
    assert protected_among(["a", ".jj", "repo", "config.toml"]) == (".jj/repo/config.toml", why)
    assert protected_among([".JJ", "Repo", "Config.toml"]) == (".JJ/Repo/Config.toml", why)
    assert protected_among(["repo", "config.toml"]) is None
    assert protected_among([".jj", "repo", "store", "config.toml"]) is None
    assert is_protected("config.toml", ".jj/repo")
    assert not is_protected("config.toml", "repo")


EVERYDAY = (
    *(
        "src/app.py",
        "conftest.py",
        "tests/conftest.py",
        "Makefile",
        "pyproject.toml",
        "package.json",
        "setup.py",
    ),
    *(
        ".gitignore",
        ".dockerignore",
        "compose.yaml",
        "docker-compose.yml",
        "Dockerfile",
        ".python-version",
        ".nvmrc",
    ),
    *(
        "tsconfig.json",
        ".eslintrc.json",
        ".prettierrc",
        ".editorconfig",
        "build.gradle",
        "pom.xml",
        "go.mod",
    ),
    *(
        "gradle/libs.versions.toml",
        ".yarn/cache/x.zip",
        ".hg/store/x",
        "run/main.py",
        "docs/rules.md",
        "repo/config.toml",
    ),
    *(
        "Cargo.toml",
        "vite.config.ts",
        "README.md",
        ".github/dependabot.yml",
        ".github/ISSUE_TEMPLATE/bug.md",
        "mise/x",
    ),
)


@pytest.mark.parametrize("name", EVERYDAY)
def test_sources_that_people_edit_all_day_do_not_ask(name: str) -> None:
    assert protected_among(name.split("/")) is None


@pytest.mark.parametrize(
    "name",
    [
        "lefthook.yaml",
        ".lefthook.toml",
        ".devcontainer.json",
        ".pre-commit-config.yml",
        ".pnpmfile.cjs",
    ],
)
def test_alternative_spellings_of_names_are_protected(name: str) -> None:
    assert is_protected(name)


STARTED = (
    *(
        ".hg/hgrc",
        ".mvn/extensions.xml",
        ".bazelrc",
        ".gdbinit",
        ".pdbrc",
        ".Rprofile",
        ".exrc",
        ".nvim.lua",
        ".rspec",
    ),
    *(
        ".yarn/releases/yarn.cjs",
        "compose.override.yaml",
        "docker-compose.override.yml",
        ".run/x.run.xml",
        ".rules",
    ),
    *(
        ".github/prompts/a.md",
        ".config/git/config",
        ".ignore",
        ".irbrc",
        ".lldbinit",
        "a.code-workspace",
        ".ssh/rc",
    ),
)


@pytest.mark.parametrize("name", STARTED)
def test_files_that_programs_run_by_themselves_are_protected(name: str) -> None:
    assert protected_among(["deep", *name.split("/")]) is not None


@pytest.mark.parametrize(
    ("name", "secret"),
    [(".env", True), (".ENV.local", True), (".environment", True), ("env", False)],
)
def test_files_and_searches_agree_on_what_may_hold_secrets(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
    assert IgnoreLevel().leaves_out(name.encode(), name.encode(), is_folder=False) is secret
