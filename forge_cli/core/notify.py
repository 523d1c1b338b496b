"""How plugins tell a person something while a worker runs: a level and a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

StatusLevel = Literal["info", "warning", "error"]
Notify = Callable[[StatusLevel, str], None]
