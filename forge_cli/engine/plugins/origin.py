"""Where forge itself was installed from, and so how its own packages are installed."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from forge_cli.core.source import OWN


def how_to_install(name: str) -> str:
    """Return how to install a package of forge's own.

    A name that is on no index could be a stranger's, so it is given only if forge is from an index.
    """
    origin = _origin()
    if origin is None:
        return f"forge plugins install {name}"
    folder = origin / "plugins" / name
    if not (folder / "pyproject.toml").is_file():
        return f"forge plugins install ./plugins/{name}, in a clone of forge's repository"
    here = Path.cwd()
    if folder.is_relative_to(here):
        return f"forge plugins install ./{folder.relative_to(here)}"
    return f"forge plugins install {shlex.quote(str(folder))}"


def _origin() -> Path | None:
    """Return the folder, or the file, that forge was installed from; None for an index."""
    try:
        direct = distribution(OWN).read_text("direct_url.json")
        url = json.loads(direct)["url"] if direct else None
    except (PackageNotFoundError, ValueError, KeyError):
        return Path(__file__).parents[3]  # not installed: forge runs from a clone
    return None if url is None else Path(unquote(urlsplit(url).path))
