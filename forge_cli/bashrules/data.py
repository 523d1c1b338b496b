"""The loader of the data files: the safe one of PyYAML, in C if there is one."""

from __future__ import annotations

from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
