"""Distributions with plugins that tests put on the path, as pip would install them.

Of the installed distributions, tests load forge's own only: others take seconds.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from forge_cli.engine.plugins.scan import LOAD_PLUGINS


def load_plugins(*names: str) -> None:
    """Load the plugins of other distributions, too, in this test and in the processes that it starts."""
    known = filter(None, os.environ.get(LOAD_PLUGINS, "").split(","))
    os.environ[LOAD_PLUGINS] = ",".join(dict.fromkeys([*known, *names]))


def write_distribution(
    site: Path,
    name: str,
    entries: Iterable[str] = (),
    *,
    version: str = "1.0",
    metadata: str = "",
    **modules: str,
) -> Path:
    """Write a distribution with entry points such as ``words = words_plugin``.

    Returns its metadata folder.
    """
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
    )
    if lines := [*entries]:
        (info / "entry_points.txt").write_text("\n".join(["[forge]", *lines, ""]))
    for module, code in modules.items():
        (site / f"{module}.py").write_text(code)
    if LOAD_PLUGINS in os.environ:  # what is shared by several tests lets it load in each of them
        load_plugins(name)
    return info
