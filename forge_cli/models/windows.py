"""Context windows of models, from the table of genai-prices."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from forge_cli.files.cache import StampedCache
from forge_cli.files.home import forge_home


@cache
def listed_window(provider: str, model: str) -> int | None:
    """Return the context window of a model in tokens; None if the table does not know it.

    Loading the table takes longer than everything else before the first request, so its answers
    are cached until it changes.
    """
    found = find_spec("genai_prices")
    if found is None or found.origin is None:
        return None
    table = Path(found.origin).with_name("data.py").stat()
    with StampedCache(forge_home() / "cache" / "windows.json") as kept:
        name = f"{provider}:{model}"
        stamp = f"{table.st_mtime_ns} {table.st_size}"
        window = kept.find(name, stamp)
        if not isinstance(window, int):
            window = _look_up(provider, model)
            kept.put(name, stamp, window)
    # 0 is cached for a model that the table does not know.
    return window or None


def _look_up(provider: str, model: str) -> int:
    from genai_prices.data import providers

    known = next((each for each in providers if each.id == provider), None)
    found = known.find_model(model) if known else None
    return (found.context_window if found else None) or 0
