"""Finding skills: the folders that may hold some, the nearest first, and each SKILL.md as its front matter says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from forge_cli.core.config import Config, parse_config
from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.core.marks import MarkedDict
from forge_cli.core.text import cut, visible
from forge_cli.core.toolset import ToolsetPlaces
from forge_cli.files.document import Document, read_document
from forge_cli.files.trust import TrustStore

FILE = "SKILL.md"
ONE_LINE = 200
"""Characters of a description that the system prompt has."""

Warn = Callable[[str], None]


@dataclass(frozen=True)
class SkillFolder:
    """A folder that may hold skills, each in a folder of its own."""

    path: Path
    zone: str
    """The zone in which its files can be read."""
    needs_trust: bool = False


@dataclass(frozen=True)
class Skill:
    """A skill as the model hears of it first."""

    name: str
    description: str
    """In one line."""
    folder: Path
    around: SkillFolder

    @property
    def file(self) -> Path:
        return self.folder / FILE


class SkillFront(Config):
    """The front matter of a SKILL.md, as far as forge reads it; other keys are for other programs."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    description: Annotated[str, Field(min_length=1, max_length=4000)]


def skill_folders(places: ToolsetPlaces, *, claude: bool) -> list[SkillFolder]:
    """Those that are there, the nearest first; no folder twice, and the user's own needs no trust whatever it is."""
    project = places.workspace / ".forge" / "skills"
    wanted = [SkillFolder(places.worker_dir / "skills", "skills"), SkillFolder(project, "project-skills", True)]
    if claude:
        wanted.append(SkillFolder(places.workspace / ".claude" / "skills", "claude-skills", True))
    own = SkillFolder(places.home / "skills", "user-skills")
    found: dict[str, SkillFolder] = {}
    for each in [*wanted, own]:
        if each.path.is_dir():
            real = os.path.realpath(each.path)
            if each is own or real not in found:
                found[real] = each
    return list(found.values())


def find_skills(folders: Iterable[SkillFolder], store: TrustStore, warn: Warn) -> dict[str, Skill]:
    """All that can be used, by name; what is wrong with one is told, and so is what takes the place of what."""
    found: dict[str, Skill] = {}
    for around in folders:
        for skill in _skills_in(around, store, warn):
            nearer = found.setdefault(skill.name, skill)
            if nearer is not skill:
                warn(f"the skill '{skill.name}' is that of {nearer.folder}; the one of {skill.folder} is not used")
    return found


def _skills_in(around: SkillFolder, store: TrustStore, warn: Warn) -> Iterator[Skill]:
    untrusted: list[str] = []
    for folder in sorted(path for path in around.path.iterdir() if os.path.lexists(path / FILE)):
        if around.needs_trust and not store.holds_folder(folder):
            untrusted.append(folder.name)
            continue
        try:
            yield read_skill(folder, around)[0]
        except ForgeError as error:
            warn(f"{error}; this skill is left out")
    if untrusted:
        names = ", ".join(untrusted)
        warn(f"{around.path}: not used, because nobody has trusted it as it is: {names}; forge trust changes that")


def read_skill(folder: Path, around: SkillFolder) -> tuple[Skill, Document]:
    """A skill with its text; a WorkerError says what is wrong with it, and where."""
    file = folder / FILE
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(around.path)):
        raise WorkerError(Mark(str(file)), f"it leads out of {around.path}")
    document = read_document(file)
    data = document.data
    known = [(key, data[key]) for key in SkillFront.model_fields if key in data]
    front = parse_config(
        SkillFront, MarkedDict(known, mark=data.mark, keys=data.keys_at, values=data.values_at), file=str(file)
    )
    if front.name != folder.name:
        problem = f"name: '{front.name}' is not the name of its folder, which is '{visible(folder.name)}'"
        raise WorkerError(front.where("name"), problem)
    line = cut(visible(" ".join(front.description.split())), ONE_LINE, "end")
    return Skill(front.name, line, folder, around), document
