"""The tool that loads a skill: its text and the location of its files."""

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
MAX_DESCRIPTION = 200
"""Characters of a description in the system prompt."""

Warn = Callable[[str], None]
MAX_FILES = 50
"""Files of a skill that are listed by name."""
MAX_INSTRUCTIONS = 8000
"""Characters of the list of skills in the system prompt."""


SkillName = Annotated[str, Field(description="The name of the skill, as it is listed")]


class SkillFolder(Struct, frozen=True):
    """A folder that contains skills, each in a folder of its own."""

    path: Path
    zone: str
    """The zone in which its files can be read."""
    needs_trust: bool = False


class Skill(Struct, frozen=True):
    """The name, description and location of a skill."""

    name: str
    description: str
    """The description as one line."""
    folder: Path
    around: SkillFolder

    @property
    def file(self) -> Path:
        return self.folder / FILE


class SkillFront(Config):
    """The keys of a SKILL.md that forge reads; other keys are ignored."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    description: Annotated[str, Field(min_length=1, max_length=4000)]


def skill_folders(places: ToolsetPlaces, *, claude: bool) -> list[SkillFolder]:
    """Return the existing folders of skills, nearest first; the user's own needs no trust."""
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
            # Under the name of the user's own folder, it needs no trust.
            if each is own or real not in found:
                found[real] = each
    return list(found.values())


def find_skills(folders: Iterable[SkillFolder], store: TrustStore, warn: Warn) -> dict[str, Skill]:
    """Return the valid skills by name; warn about invalid and hidden ones."""
    found: dict[str, Skill] = {}
    for around in folders:
        for skill in _skills_in(around, store, warn):
            nearer = found.setdefault(skill.name, skill)
            if nearer is not skill:
                warn(
                    f"duplicate skill '{skill.name}': "
                    f"{skill.folder} is ignored, {nearer.folder} is used"
                )
    return found


def _skills_in(around: SkillFolder, store: TrustStore, warn: Warn) -> Iterator[Skill]:
    untrusted: list[str] = []
    for folder in sorted(around.path.iterdir()):
        if not os.path.lexists(folder / FILE):
            # Only some file systems find a name such as skill.md.
            beside = (each.name for each in folder.glob("*"))
            other = next((name for name in beside if name.lower() == FILE.lower()), None)
            if other is not None:
                warn(f"{visible(str(folder / other))} is ignored; rename it to {FILE}")
            continue
        if around.needs_trust and not store.holds_folder(folder):
            untrusted.append(folder.name)
            continue
        try:
            yield read_skill(folder, around)[0]
        except ForgeError as error:
            warn(f"{error}; the skill is ignored")
    if untrusted:
        names = ", ".join(untrusted)
        warn(f"{around.path}: skills ignored: {names}; to trust them as they are, run: forge trust")


def read_skill(folder: Path, around: SkillFolder) -> tuple[Skill, Document]:
    """Return a skill and its document; raise WorkerError if it is invalid."""
    file = folder / FILE
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(around.path)):
        raise WorkerError(Mark(str(file)), f"it is a link out of {around.path}")
    document = read_document(file)
    data = document.data
    known = [(key, data[key]) for key in SkillFront.model_fields if key in data]
    front = parse_config(
        SkillFront,
        MarkedDict(known, mark=data.mark, keys=data.keys_at, values=data.values_at),
        file=str(file),
    )
    if front.name != folder.name:
        problem = f"name: must be '{visible(folder.name)}' like its folder, not '{front.name}'"
        raise WorkerError(front.where("name"), problem)
    line = cut(visible(" ".join(front.description.split())), MAX_DESCRIPTION, "end")
    return Skill(front.name, line, folder, around), document


class SkillsConfig(ToolsetConfig):
    """Additional folders of skills."""

    claude: bool = False
    """Also read the project's .claude/skills."""


class SkillsToolset(Toolset):
    """A tool that loads skills."""

    name = "skills"
    Config = SkillsConfig

    @classmethod
    def zones_for(cls, config: Any, places: ToolsetPlaces) -> Sequence[Zone]:
        """Return read-only zones, so that file tools and commands can read the files of skills."""
        return [Zone(each.zone, each.path) for each in skill_folders(places, claude=config.claude)]

    @classmethod
    def parts_for(cls, config: Any, places: ToolsetPlaces) -> Iterable[LockEntry]:
        """Return a lock entry for every skill, trusted or not, as trust depends on the person."""
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
        """Load a skill: instructions for one kind of task, and the location of its files."""
        skill = self._skills.get(name)
        if skill is None:
            known = ", ".join(self._skills) or "none"
            hint = did_you_mean(name, self._skills, f"known skills: {known}")
            raise ToolError(f"there is no skill '{visible(name)}'; {hint}")
        paragraphs = [f"Skill: {skill.name}", self._files(skill), self._text(skill)]
        return Text("\n\n".join(filter(None, paragraphs)))

    def _text(self, skill: Skill) -> str:
        """Return the current text; raise ToolError if it changed since it was trusted."""
        if skill.around.needs_trust and not self._store.holds_folder(skill.folder):
            raise ToolError(
                f"the skill '{skill.name}' was not loaded: it changed since it was trusted"
            )
        try:
            return (read_skill(skill.folder, skill.around)[1].body or "").strip()
        except ForgeError as error:
            raise ToolError(str(error)) from None

    def _files(self, skill: Skill) -> str:
        """Return the location of its files; empty if the worker can read none."""
        place = name_in(worker_sandbox(self.env.sandbox), Path(os.path.realpath(skill.folder)))
        files = sorted(_files_in(skill.folder))
        if place is None or not files:
            return ""
        listed = ", ".join(map(visible, files[:MAX_FILES]))
        if len(files) > MAX_FILES:
            listed += f" and {len(files) - MAX_FILES} more"
        return f"Its files are in {place}: {listed}"

    def instructions(self) -> str | None:
        """Return the list of skills, which stays the same during a session."""
        if not self._skills:
            return None
        lines = [f"- {skill.name}: {skill.description}" for skill in self._skills.values()]
        heading = (
            "Skills, each for one kind of task. "
            "Before such a task, load the matching skill with load_skill:"
        )
        return cut("\n".join([heading, *lines]), MAX_INSTRUCTIONS, "end")


def _files_in(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        # Changed in place, so that os.walk skips the others.
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for name in names:
            path = os.path.relpath(Path(place, name), folder)
            if path != FILE and not name.startswith("."):
                yield path


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [SkillsToolset]
