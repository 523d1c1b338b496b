"""The key ``sandbox.limits``: what one command of a worker may use, sizes as people write them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from forge_cli.core.config import Config
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.limits import ProcessLimits

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
LEAST = 2**20
"""With less, nothing would even start."""


def read_size(value: object) -> object:
    """Bytes, as a number or as ``512m`` and ``4g``."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([0-9]+)([kmgt]?)", value.strip().lower())
    if not found:
        raise ValueError(f"{shown(value)} is not a size; write bytes, or a number with k, m, g or t, as in 4g")
    return int(found[1]) << _UNITS[found[2]]


_WRITTEN = WithJsonSchema({"type": ["integer", "string"], "pattern": "^[0-9]+[kmgtKMGT]?$", "minimum": LEAST})
Size = Annotated[int, BeforeValidator(read_size), Field(ge=LEAST), _WRITTEN]


class LimitsConfig(Config):
    """What one command may use, with everything it starts."""

    processes: Annotated[int, Field(ge=1)] | None = None
    """How many processes; 512 by default."""
    memory: Size | None = None
    """In bytes, or as 512m or 4g; 4g by default."""
    file_size: Size | None = None
    """How large a file may become; 2g by default."""

    def limits(self) -> ProcessLimits:
        return ProcessLimits(self.processes, self.memory, self.file_size)
