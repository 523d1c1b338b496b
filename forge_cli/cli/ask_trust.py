"""Trust in the files of a folder, asked on a terminal or given by a hash in CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from forge_cli.cli.notices import ask
from forge_cli.core.text import cut, readable, visible
from forge_cli.files.bringing import Brought, describe_capabilities, find_brought, hash_brought
from forge_cli.files.difference import unified_diff
from forge_cli.files.home import forge_home
from forge_cli.files.settings_files import project_file, untrusted_project
from forge_cli.files.trust import TrustError, TrustStore
from forge_cli.process.stdin import is_interactive

MAX_SHOWN = 4000
"""Characters of a file that are shown before the question."""
ASKED_FOR = ("settings", "hook")
VARIABLE = "FORGE_TRUST"


def offer_trust(workspace: Path) -> None:
    """Show what a folder would change, and ask whether to trust it.

    Without a terminal, untrusted files are not used.

    Asks only if the folder has settings, or if a trusted file has changed; then it shows the
    difference.
    """
    if not is_interactive():
        return
    store = TrustStore(forge_home())
    # the usual case, decided before the folder is searched
    if untrusted_project(forge_home(), workspace) is None and not store.trusted():
        return
    try:
        # in the home folder, .forge/config.yaml is the user's own and needs no trust
        own = project_file(workspace).is_file() and not _is_own(workspace)
        found = [
            each
            for each in find_brought(workspace, strict=False)
            if own or each.kind not in ASKED_FOR
        ]
    except OSError:
        return  # an unreadable file is reported when it is used
    news = [each for each in found if each.worker is None and not each.is_trusted(store)]
    if not any(each.kind in ASKED_FOR or each.was_trusted(store) for each in news):
        return
    sys.stderr.write(f"This folder would: {visible(describe_capabilities(news))}.\n")
    for each in news:
        _show(each, store)
    question = "Use these files until one changes? [y]es, [n]o > "
    if ask(question).lower() in ("y", "yes"):
        for each in news:
            each.trust(store)


def _is_own(workspace: Path) -> bool:
    own = forge_home() / "config.yaml"
    return own.exists() and own.samefile(project_file(workspace))


def _show(each: Brought, store: TrustStore) -> None:
    """Show the difference to what was trusted, or the text of new files that are not code."""
    for path, content in each.files.items():
        if store.holds_file(path, content):
            continue
        show_file(path, each.kind, store.kept_text(path), content)
    sys.stderr.write("\n")


def show_file(path: Path, kind: str, before: str | None, content: bytes) -> None:
    """Print the difference to the trusted version of a file, or its whole text."""
    text = content.decode(errors="replace")
    state = ", changed" if before is not None else ""
    sys.stderr.write(f"\n{visible(os.path.relpath(path))} ({kind}{state})\n")
    if before is not None:
        lines: Sequence[str] = unified_diff(before, text, "trusted", "now")
    else:
        lines = readable(cut(text, MAX_SHOWN)).splitlines()
    for line in lines:
        shown = visible(line.rstrip("\n"), keep="\t")
        sys.stderr.write(f"  {shown}\n")


def trust_by_hash(folder: Path) -> None:
    """Trust the files of a folder if FORGE_TRUST is their hash.

    ``forge trust --print-hash`` prints the hash.
    """
    if wanted := os.environ.get(VARIABLE, "").strip():
        _trust_by_hash(folder.resolve(), wanted)


# a command may look up several workers, and each lookup would hash the folder again
@lru_cache(maxsize=8)
def _trust_by_hash(folder: Path, wanted: str) -> None:
    found = find_brought(folder)
    if not found:
        return
    now = hash_brought(found, folder)
    store = TrustStore(forge_home())
    if now != wanted.lower():
        problem = f"{VARIABLE} does not match the files of {folder}: their hash is {now}"
        raise TrustError(problem, hint="review the changes, then set that hash in the pipeline")
    for each in found:
        if not each.is_trusted(store):
            each.trust(store)
