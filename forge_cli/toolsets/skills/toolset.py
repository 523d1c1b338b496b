"""The tool that loads a skill: its text, and where its files can be read; nothing of it is run here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from msgspec import Struct
from pydantic import Field

from forge_cli.core.errors import ForgeError, Mark, ToolError, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.locking import LockEntry, files_below, hash_files, spelled
from forge_cli.core.results import Text
from forge_cli.core.text import cut, did_you_mean, visible
from forge_cli.core.zones import Zone
from forge_cli.files.document import Document, read_document
from forge_cli.files.trust import TrustStore
from forge_cli.sandbox.files.caps import name_in
from forge_cli.sandbox.files.sandbox import worker_sandbox
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.marks import MarkedDict
from forge_cli.schema.tool import tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig, ToolsetPlaces

FILE = "SKILL.md"
ONE_LINE = 200
"""Characters of a description that the system prompt has."""

Warn = Callable[[str], None]
LISTED = 50
"""Files of a skill that are named."""
MOST_NAMED = 8000
"""Characters of the list in the system prompt."""


SkillName = Annotated[str, Field(description="The name of the skill, as it is listed")]


class SkillFolder(Struct, frozen=True):
    """A folder that may hold skills, each in a folder of its own."""

    path: Path
    zone: str
    """The zone in which its files can be read."""
    needs_trust: bool = False


class Skill(Struct, frozen=True):
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
    """Those that are there, the nearest first; no folder twice, and the user's own needs no trust."""
    project = places.workspace / ".forge" / "skills"
    wanted = [
        SkillFolder(places.worker_dir / "skills", "skills"),
        SkillFolder(project, "project-skills", True),
    ]
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
                warn(
                    f"the skill '{skill.name}' is that of {nearer.folder}; the one of {skill.folder} is not used"
                )
    return found


def _skills_in(around: SkillFolder, store: TrustStore, warn: Warn) -> Iterator[Skill]:
    untrusted: list[str] = []
    for folder in sorted(around.path.iterdir()):
        if not os.path.lexists(folder / FILE):
            if other := next(
                (each.name for each in folder.glob("*") if each.name.lower() == FILE.lower()), None
            ):
                warn(
                    f"{visible(str(folder / other))}: it has to be called {FILE}; this skill is left out"
                )
            continue
        if around.needs_trust and not store.holds_folder(folder):
            untrusted.append(folder.name)
            continue
        try:
            yield read_skill(folder, around)[0]
        except ForgeError as error:
            warn(f"{error}; this skill is left out")
    if untrusted:
        names = ", ".join(untrusted)
        warn(
            f"{around.path}: not used: you have not trusted it as it is: {names}. Run: forge trust"
        )


def read_skill(folder: Path, around: SkillFolder) -> tuple[Skill, Document]:
    """A skill with its text; a WorkerError says what is wrong with it, and where."""
    file = folder / FILE
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(around.path)):
        raise WorkerError(Mark(str(file)), f"it leads out of {around.path}")
    document = read_document(file)
    data = document.data
    known = [(key, data[key]) for key in SkillFront.model_fields if key in data]
    front = parse_config(
        SkillFront,
        MarkedDict(known, mark=data.mark, keys=data.keys_at, values=data.values_at),
        file=str(file),
    )
    if front.name != folder.name:
        problem = (
            f"name: '{front.name}' is not the name of its folder, which is '{visible(folder.name)}'"
        )
        raise WorkerError(front.where("name"), problem)
    line = cut(visible(" ".join(front.description.split())), ONE_LINE, "end")
    return Skill(front.name, line, folder, around), document


class SkillsConfig(ToolsetConfig):
    """The folders that skills are taken from, in addition to forge's own."""

    claude: bool = False
    """Read the project's .claude/skills, too."""


class SkillsToolset(Toolset):
    name = "skills"
    Config = SkillsConfig

    @classmethod
    def zones_for(cls, config: Any, places: ToolsetPlaces) -> Sequence[Zone]:
        """The file tools, and commands, read the files of skills, and write none of them."""
        return [Zone(each.zone, each.path) for each in skill_folders(places, claude=config.claude)]

    @classmethod
    def parts_for(cls, config: Any, places: ToolsetPlaces) -> Iterable[LockEntry]:
        """Every skill that there is, trusted or not: that is for the person to say, and the same for everybody here."""
        for around in skill_folders(places, claude=config.claude):
            for folder in sorted(
                path for path in around.path.iterdir() if os.path.lexists(path / FILE)
            ):
                place = spelled(folder, places.worker_dir, places.home)
                yield LockEntry(
                    "skills", f"{around.zone}/{folder.name}", place, hash_files(files_below(folder))
                )

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        env = self.env
        folders = skill_folders(
            ToolsetPlaces(env.worker_dir, env.workspace, env.home), claude=self.config.claude
        )
        self._store = TrustStore(env.home)
        self._skills = find_skills(
            folders, self._store, lambda sentence: env.notify("warning", sentence)
        )
        return self

    @tool(needs_approval=False, read_only=True)
    async def load_skill(self, name: SkillName) -> Text:
        """Load a skill: what it says of how to do its kind of task, and where its files are."""
        skill = self._skills.get(name)
        if skill is None:
            known = ", ".join(self._skills) or "none"
            hint = did_you_mean(name, self._skills, f"there are: {known}")
            raise ToolError(f"there is no skill '{visible(name)}'; {hint}")
        return Text(
            "\n\n".join(
                filter(None, [f"Skill: {skill.name}", self._files(skill), self._text(skill)])
            )
        )

    def _text(self, skill: Skill) -> str:
        """The content of now; what was trusted must not have changed meanwhile."""
        if skill.around.needs_trust and not self._store.holds_folder(skill.folder):
            raise ToolError(
                f"the skill '{skill.name}' has changed since it was trusted, so it is not loaded"
            )
        try:
            return (read_skill(skill.folder, skill.around)[1].body or "").strip()
        except ForgeError as error:
            raise ToolError(str(error)) from None

    def _files(self, skill: Skill) -> str:
        """The folder of its files; nothing where it has none, or where this worker cannot read them."""
        place = name_in(worker_sandbox(self.env.sandbox), Path(os.path.realpath(skill.folder)))
        files = sorted(_files_in(skill.folder))
        if place is None or not files:
            return ""
        more = f" and {len(files) - LISTED} more" if len(files) > LISTED else ""
        return f"Its files are in {place}: {', '.join(map(visible, files[:LISTED]))}{more}"

    def instructions(self) -> str | None:
        """The same within a session: skills are found when it begins."""
        if not self._skills:
            return None
        lines = [f"- {skill.name}: {skill.description}" for skill in self._skills.values()]
        heading = "Skills, each for one kind of task. Before such a task, load the one that fits with load_skill:"
        return cut("\n".join([heading, *lines]), MOST_NAMED, "end")


def _files_in(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for name in names:
            if (path := os.path.relpath(Path(place, name), folder)) != FILE and not name.startswith(
                "."
            ):
                yield path


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [SkillsToolset]
