"""A new package with a plugin, made from a template; it works as it is."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path

from forge_cli import __version__
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.source import OWN
from forge_cli.core.text import visible
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import (
    COMMAND,
    EXECUTOR,
    MODEL,
    OBSERVER,
    RENDER,
    Plugin,
    takes_name,
)
from forge_cli.files.regular import sync_folder
from forge_cli.files.replace import make_file

NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
MAX_NAME = 40
"""The most characters of the name of a new plugin."""
TEMPLATE = Path(__file__).parent / "template"
TAKEN = frozenset(
    {*keyword.kwlist, *dir(builtins), "Annotated", "Field", "Model", "Toolset", "typer"}
)
"""Names that a class or function of the template cannot have without breaking its module."""


CODE = ".txt"
"""The suffix of files in the template that tools would otherwise take for code of forge."""


class PluginKind(Enum):
    """The kind of plugin in a new package."""

    TOOLSET = "toolset"
    MODEL = "model"
    RENDERER = "renderer"
    EXECUTOR = "executor"
    OBSERVER = "observer"
    COMMAND = "command"

    @property
    def package(self) -> str:
        if self is PluginKind.TOOLSET:
            return "forge-tools-"
        return f"forge-{self.value}-"

    @property
    def entry(self) -> str:
        """The beginning of the name of its entry point."""
        return _ENTRIES[self]


_ENTRIES = {
    PluginKind.TOOLSET: "",
    PluginKind.MODEL: MODEL,
    PluginKind.RENDERER: RENDER,
    PluginKind.EXECUTOR: EXECUTOR,
    PluginKind.OBSERVER: OBSERVER,
    PluginKind.COMMAND: COMMAND,
}


def read_name(text: str, kind: PluginKind) -> str:
    """Return the name of a new plugin; raise UsageError for an invalid or reserved one."""
    name = text.removeprefix(kind.package)
    if not NAME.fullmatch(name) or len(name) > MAX_NAME:
        hint = f"use up to {MAX_NAME} of a-z, 0-9, '_' and '-', a letter first"
        raise UsageError(f"'{visible(text)}' is not a name for a plugin", hint=hint)
    wanted = Plugin(kind.entry + name, "", kind.package + name, "")
    for each in PluginHost(only=()).plugins:
        if each.distribution == OWN and takes_name(wanted, each):
            raise UsageError(f"forge has its own {kind.value} '{name}'; choose another name")
    return name


def _words(name: str, kind: PluginKind) -> Mapping[str, str]:
    identifier = name.replace("-", "_")
    return {
        "@dist@": kind.package + name,
        "@module@": (kind.package + name).replace("-", "_"),
        "@name@": name,
        "@ident@": identifier,
        "@function@": _free(identifier),
        "@Class@": _free("".join(part.capitalize() for part in identifier.split("_"))),
        "@forge@": __version__,
    }


def _free(name: str) -> str:
    return f"{name}_" if name in TAKEN else name


def template_files(kind: PluginKind, words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every file of a new package."""
    for part in ("common", kind.value):
        for path in sorted((TEMPLATE / part).rglob("*")):
            if path.is_file():
                file = str(path.relative_to(TEMPLATE / part)).removesuffix(CODE)
                yield _filled(file, words), _filled(path.read_text("utf-8"), words)


def _filled(text: str, words: Mapping[str, str]) -> str:
    return re.sub("|".join(words), lambda found: words[found[0]], text)


def make_package(name: str, kind: PluginKind) -> Path:
    """Make a package in the working directory; existing files are never changed."""
    folder = Path(kind.package + name)
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} already exists", hint="choose another name")
    try:
        for file, text in template_files(kind, _words(name, kind)):
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            make_file(path, text)
        folders = [path for path in folder.rglob("*") if path.is_dir()]
        # A new file is safe from a power cut only once its folder is written, too.
        for around in (folder.parent, folder, *folders):
            sync_folder(around)
    except OSError as error:
        problem = f"{folder} cannot be made: {error}"
        raise ForgeError(problem, hint="choose a folder that you can write to") from None
    return folder
