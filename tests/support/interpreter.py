"""The interpreter of the tests by its name, for workers that start programs with it.

forge hashes the code beside a program that a path names, which is 40 to 60 MB here: uv and ruff.
"""

import os
import sys
from pathlib import Path

PYTHON = Path(sys.executable).name


def path_with_python() -> str:
    """Return the PATH on which that name is this interpreter."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
