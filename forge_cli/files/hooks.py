"""Hooks as people write them: when one is run, for which tools, and the command or the observer that it is."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from forge_cli.core.config import Config
from forge_cli.core.hookspecs import HookName
from forge_cli.core.text import visible

_PATHS = ("./", "../", "~/", "/")


class HookConfig(Config):
    """One entry of ``hooks``; what begins with ``/``, ``./``, ``../`` or ``~/`` in ``run`` is a path, from the file's
    folder.

    ``match`` is the name of a tool, in which ``*`` and ``?`` stand for others.
    """

    on: HookName
    match: Annotated[str, Field(min_length=1)] = "*"
    run: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = None
    observer: str | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.run is None) == (self.observer is None):
            raise ValueError("a hook has either 'run' with a command, or 'observer' with the name of a plugin's")
        if self.on.startswith("session") and self.match != "*":
            raise ValueError(f"'match' is for tools, and {self.on} is about none")
        return self

    @property
    def title(self) -> str:
        """How people are told of it."""
        return visible(self.observer or os.path.basename(next(iter(self.run or ()))))

    @property
    def argv(self) -> list[str]:
        return [str(self._path(item)) if item.startswith(_PATHS) else item for item in self.run or ()]

    @property
    def files(self) -> list[Path]:
        """The files that its command names."""
        named = [self._path(item) for item in self.run or () if item.startswith(_PATHS)]
        return [path for path in named if path.is_file()]

    def matches(self, *names: str) -> bool:
        """Is it for a tool that has one of these names?"""
        return any(fnmatchcase(name, self.match) for name in names)

    def _path(self, item: str) -> Path:
        where = self.where()
        folder = Path(where.file).absolute().parent if where else Path.cwd()
        return Path(os.path.normpath(folder / os.path.expanduser(item)))
