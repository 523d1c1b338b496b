"""``forge docs``: every page, as Markdown in a pipe and drawn on a terminal.

Covers forge_cli.cli.docs.
"""

import json
import re
from pathlib import Path

import pytest

from forge_cli.cli import docs
from forge_cli.cli.docs import for_terminal

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(path.stem for path in ROOT.glob("docs/*.md"))


def test_docs_lists_all_pages(cli) -> None:
    rows = json.loads(cli("docs", "--json").out)
    assert [row["page"] for row in rows] == PAGES
    assert all(row["title"] and row["about"] and "](" not in row["about"] for row in rows)
    lines = cli("docs").out.splitlines()
    assert lines[0].split() == ["page", "title", "about"]
    assert len(lines) == len(PAGES) + 1


@pytest.mark.parametrize("name", ["mcp", "mcp.md", "MCP"])
def test_docs_in_a_pipe_prints_the_markdown(cli, name: str) -> None:
    done = cli("docs", name)
    assert (done.code, done.out) == (0, (ROOT / "docs" / "mcp.md").read_text())


def test_missing_page_is_an_error(cli) -> None:
    done = cli("docs", "wokers")
    assert (done.code, done.err) == (
        2,
        "forge: there is no page 'wokers'\n  did you mean 'workers'?\n",
    )


def test_docs_reports_missing_documentation(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "PLACES", ())
    assert cli("docs").err.startswith("forge: this installation has no documentation")


@pytest.mark.parametrize("page", PAGES)
def test_docs_on_a_terminal_hides_marks_for_browsers_and_tests(page: str) -> None:
    shown = for_terminal((ROOT / "docs" / f"{page}.md").read_text())
    assert not re.search(r"^ *<!--|^!\[|^```\w+ \S|\]\([\w.#/-]*\)", shown, re.MULTILINE)


def test_links_become_commands() -> None:
    text = "See [the gate](approvals.md#order), [below](#here) and [MCP](https://example.org).\n"
    shown = "See the gate (forge docs approvals), below and [MCP](https://example.org).\n"
    assert for_terminal(text) == shown


@pytest.mark.long
def test_docs_on_a_terminal_fit_its_width(terminal, project) -> None:
    plain = terminal("docs", "approvals", columns=60)
    assert plain.end() == 0
    assert plain.lines[0] == "# Approvals"
    paragraph = plain.lines[2 : plain.lines.index("", 2)]
    assert all(30 < len(line) <= 60 for line in paragraph[:-1])
    assert any(line.startswith(" ────") for line in plain.lines)
    project.write("pager", "#!/bin/sh\nread line\necho paged: $line\n").chmod(0o755)
    drawn = terminal(
        "docs", "approvals", columns=60, TERM="xterm", rows=40, PAGER=str(project.folder / "pager")
    )
    assert drawn.end() == 0
    assert drawn.seen == "paged: \x1b[1mApprovals\x1b[0m\r\n"
    long = terminal("docs", "approvals", columns=60, TERM="xterm", rows=40, PAGER="no-such-pager")
    assert long.end() == 0
    assert long.seen.startswith("\x1b[1mApprovals\x1b[0m\r\n")
    assert "](" not in long.seen
