"""Where forge keeps what belongs to the person who uses it."""

from __future__ import annotations

import os
from pathlib import Path


def forge_home() -> Path:
    """``FORGE_HOME``, or ``.forge`` in the user's home; it need not exist."""
    named = os.environ.get("FORGE_HOME")
    return Path(os.path.expanduser(named)).absolute() if named else user_home() / ".forge"


def user_home() -> Path:
    return Path(os.path.expanduser("~"))
