"""Asking whether a project's own settings may be used, before a worker starts."""

from __future__ import annotations

import sys
from pathlib import Path

from forge_cli.cli.ask import ask
from forge_cli.cli.stdin import is_interactive
from forge_cli.core.text import cut, readable, visible
from forge_cli.files.home import forge_home
from forge_cli.files.project import hook_files, read_project
from forge_cli.files.settings import untrusted_project
from forge_cli.files.trust import TrustStore

SHOWN = 4000
"""Characters of the file that are shown before the question."""


def offer_trust(workspace: Path) -> None:
    """Show the settings of a project that nobody has agreed to, and ask; without a terminal they are not used."""
    file = untrusted_project(forge_home(), workspace)
    if file is None or not is_interactive():
        return
    try:
        before = file.read_bytes()
    except OSError:
        return
    text = readable(cut(before.decode(errors="replace"), SHOWN))
    sys.stderr.write(f"This folder has settings of its own, {visible(str(file))}:\n\n")
    sys.stderr.writelines(f"  {line}\n" for line in text.splitlines())
    sys.stderr.write("\nThey can make things stricter, never looser.\n")
    agreed = ask("Use them, until the file changes? [y]es, [n]o > ").lower() in ("y", "yes")
    if not agreed or file.read_bytes() != before:
        return
    store, project = TrustStore(forge_home()), read_project(file)
    store.add_file(file)
    if programs := hook_files(project, workspace):
        sys.stderr.writelines(f"It has hooks that run {visible(str(program))}.\n" for program in programs)
        if ask("Run these hooks, until a file changes? [y]es, [n]o > ").lower() in ("y", "yes"):
            for program in programs:
                store.add_file(program)
