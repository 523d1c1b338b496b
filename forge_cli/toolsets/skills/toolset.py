"""The tool that loads a skill: its text, and where its files can be read; nothing of it is run here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field

from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.results import Text
from forge_cli.core.text import cut, did_you_mean, visible
from forge_cli.core.tool import tool
from forge_cli.core.toolset import Toolset, ToolsetConfig, ToolsetPlaces
from forge_cli.core.zones import Zone
from forge_cli.files.trust import TrustStore
from forge_cli.sandbox.files.caps import name_in
from forge_cli.sandbox.files.sandbox import full_sandbox
from forge_cli.toolsets.skills.find import FILE, Skill, find_skills, read_skill, skill_folders

LISTED = 50
"""Files of a skill that are named."""
MOST_NAMED = 8000
"""Characters of the list in the system prompt."""


SkillName = Annotated[str, Field(description="The name of the skill, as it is listed")]


class SkillsConfig(ToolsetConfig):
    """Which folders skills are taken from, besides forge's own."""

    claude: bool = False
    """Read the project's .claude/skills, too."""


class SkillsToolset(Toolset):
    name = "skills"
    Config = SkillsConfig

    @classmethod
    def zones_for(cls, config: Any, places: ToolsetPlaces) -> Sequence[Zone]:
        """The file tools, and commands, read the files of skills, and write none of them."""
        return [Zone(each.zone, each.path) for each in skill_folders(places, claude=config.claude)]

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        env = self.env
        folders = skill_folders(ToolsetPlaces(env.worker_dir, env.workspace, env.home), claude=self.config.claude)
        self._store = TrustStore(env.home)
        self._skills = find_skills(folders, self._store, lambda sentence: env.notify("warning", sentence))
        return self

    @tool(needs_approval=False, read_only=True)
    async def load_skill(self, name: SkillName) -> Text:
        """Load a skill: what it says of how to do its kind of task, and where its files are."""
        skill = self._skills.get(name)
        if skill is None:
            known = ", ".join(self._skills) or "none"
            hint = did_you_mean(name, self._skills, f"there are: {known}")
            raise ToolError(f"there is no skill '{visible(name)}'; {hint}")
        return Text("\n\n".join(filter(None, [f"Skill: {skill.name}", self._files(skill), self._text(skill)])))

    def _text(self, skill: Skill) -> str:
        """What it says now; what was trusted must not have changed meanwhile."""
        if skill.around.needs_trust and not self._store.holds_folder(skill.folder):
            raise ToolError(f"the skill '{skill.name}' has changed since it was trusted, so it is not loaded")
        try:
            return (read_skill(skill.folder, skill.around)[1].body or "").strip()
        except ForgeError as error:
            raise ToolError(str(error)) from None

    def _files(self, skill: Skill) -> str:
        """Where its files are; nothing where it has none, or where this worker cannot read them."""
        place = name_in(full_sandbox(self.env), Path(os.path.realpath(skill.folder)))
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
            if (path := os.path.relpath(Path(place, name), folder)) != FILE and not name.startswith("."):
                yield path


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [SkillsToolset]
