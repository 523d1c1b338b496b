"""What commands say beside their data."""

from __future__ import annotations

import sys

from forge_cli.core.text import visible
from forge_cli.core.wrap import wrap_for


def warn(sentence: str) -> None:
    """Say what is not an error, on standard error."""
    sys.stderr.write(wrap_for(sys.stderr, f"forge: {visible(sentence)}") + "\n")
