"""The loader of the data files: PyYAML's safe loader, the one in C if available."""

from __future__ import annotations

from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
