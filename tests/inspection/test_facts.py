"""Facts about a worker without starting it: its tree, each worker capped by its parents."""

from functools import partial
from pathlib import Path
from typing import Any

from forge_cli import load_worker
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.home import forge_home
from forge_cli.files.settings_files import load_settings
from forge_cli.inspection.facts import facts_of, policy_of, tree_of
from forge_cli.process.signals import in_loop
from forge_cli.testing import Project

BOSS = """
name: boss
limits: {max_turns: 7}
toolsets:
  plan:
  workers: {allowed: [helper], approval: {default: preApproved}}
"""
HELPER = """
name: helper
model: script:nowhere.yaml
toolsets:
  workers: {allowed: [boss], approval: {default: preApproved}}
"""


def look(project: Project) -> tuple[Any, ...]:
    project.write("boss.yaml", BOSS)
    worker = load_worker(project.write("helper.yaml", HELPER).with_name("boss.yaml"))
    settings = load_settings(forge_home())

    async def found() -> tuple[Any, ...]:
        see = partial(opened, workspace=project.folder, make_zones=False)
        async with see(worker) as assembly:
            tree = await tree_of(worker, assembly, see, settings)
            return facts_of(worker, assembly, settings), policy_of(assembly), tree

    return in_loop(found)


def test_tree_lists_every_callable_worker_and_stops_at_a_cycle(project: Project) -> None:
    facts, policy, tree = look(project)
    assert (facts["name"], facts["limits"]) == ("boss", {"maxTurns": 7})
    assert facts["toolsets"] == {"plan": ["update_plan"], "workers": ["helper"]}
    assert {tool["tool"]: tool["verdict"] for tool in policy["tools"]} == tree["tools"]
    (helper,) = tree["workers"]
    assert (helper["name"], helper["model"]) == ("helper", "script:nowhere.yaml")
    assert helper["tools"] == {"boss": "preApproved"}
    (again,) = helper["workers"]
    assert (again["name"], again["refused"]) == ("boss", "already running: a cycle")
    assert Path(again["file"]).name == "boss.yaml"


NOTES = """
from forge_cli import Approval, Toolset, ToolsetConfig, Verdict, hookimpl, tool


class NotesConfig(ToolsetConfig):
    about: str = ""


class Notes(Toolset[NotesConfig]):
    name = "notes"
    repeatable = True

    @tool
    def note(self) -> str:
        return self.config.about

    def rules(self) -> list[Verdict]:
        return [Verdict(Approval.ASK, f"a rule about {self.config.about}")]


@hookimpl
def forge_toolsets():
    return [Notes]
"""


def test_policy_lists_the_rules_of_every_section_of_a_toolset(project: Project) -> None:
    project.write("notes.py", NOTES)
    sections = "[{about: tea, prefix: a}, {about: milk, prefix: b}]"
    file = project.write(
        "worker.yaml", f"name: w\nplugins: [./notes.py]\ntoolsets: {{notes: {sections}}}\n"
    )
    worker = load_worker(file)

    async def found() -> Any:
        async with opened(worker, workspace=project.folder, make_zones=False) as assembly:
            return policy_of(assembly)

    assert [(rule["toolset"], rule["reason"]) for rule in in_loop(found)["rules"]] == [
        ("notes", "a rule about tea"),
        ("notes", "a rule about milk"),
    ]
