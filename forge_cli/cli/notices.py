"""What commands say beside their data."""

from __future__ import annotations

import sys

from forge_cli import ui
from forge_cli.core.text import visible
from forge_cli.engine.plugins.scan import find_unknown_names, installed
from forge_cli.files.home import forge_home


def warn(sentence: str) -> None:
    """Say what is not an error, on standard error."""
    sys.stderr.write(ui.wrap.wrap_for(sys.stderr, f"forge: {visible(sentence)}") + "\n")


def warn_of_unknown_plugins() -> None:
    """Say which names in FORGE_LOAD_PLUGINS mean nothing."""
    for problem in find_unknown_names(installed(forge_home() / "cache")):
        sys.stderr.write(ui.wrap.wrap_for(sys.stderr, f"warning: {visible(problem)}") + "\n")
