"""Settings of a project, and how they are merged with the user's."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.mcp import McpServers
from forge_cli.files.settings import HookConfig, Settings, SettingsLimits, read_settings
from forge_cli.files.started import content_of_code
from forge_cli.files.worker import ApprovalSection, Limits
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.marks import MarkedDict, MarkedList


def read_project(file: Path) -> Settings:
    """Read the settings of a project, trusted or not; raise WorkerError if they loosen consent."""
    project = read_settings(file)
    if project.approval.mode is ApprovalMode.APPROVE_ALL:
        problem = (
            "approval.mode: a project cannot approve calls; "
            "use -y, or approval.mode in your own config.yaml"
        )
        raise WorkerError(project.approval.where("mode"), problem)
    if project.import_timeout is not None:
        problem = "import_timeout: it depends on the machine; set it in your own config.yaml"
        raise WorkerError(project.where("import_timeout"), problem)
    if project.background is not None:
        problem = "background: it depends on the machine; set it in your own config.yaml"
        raise WorkerError(project.where("background"), problem)
    if project.limits.per_day is not None:
        problem = "limits.per_day: it is about all your sessions; set it in your own config.yaml"
        raise WorkerError(project.limits.where("per_day"), problem)
    for name in project.policy:
        _check_policy(project, name)
    return project


def hook_code(hook: HookConfig, workspace: Path) -> dict[Path, bytes]:
    """Return the project files that a hook runs or imports, which need trust as well."""
    if not hook.run:
        return {}
    return content_of_code(hook.argv, workspace)


def _check_policy(project: Settings, name: str) -> None:
    """Raise WorkerError if a project's policy contains anything but rules that ask or block."""
    section = project.section("policy", name)
    for key, rules in (section or {}).items():
        place = f"policy.{name}.{key}"
        if not isinstance(rules, list):
            where = project.where("policy", name, key)
            raise WorkerError(where, f"{place}: a project can only add rules")
        for index, rule in enumerate(rules):
            if not isinstance(rule, dict) or rule.get("approval") not in ("ask", "blocked"):
                wanted = "a project's rule needs 'approval: ask' or 'approval: blocked'"
                hint = "put rules that pre-approve in the worker, or in your own config.yaml"
                where = project.where("policy", name, key, index)
                raise WorkerError(where, f"{place}[{index}]: {wanted}", hint=hint)


def merge_settings(user: Settings, project: Settings, title: str = "the project") -> Settings:
    """Merge settings: consent and limits are the stricter ones, preferences those of the project.

    ``title`` names the owner of ``project`` in sentences.

    Of two servers with the same name the user's counts: a project must not replace it.
    """
    both = user.model_copy(
        update={
            "model": project.model or user.model,
            "trace": project.trace or user.trace,
            "tool_share": user.tool_share if project.tool_share is None else project.tool_share,
            "titles": project.titles and user.titles,
            "draft": project.draft or user.draft,
            "approval": ApprovalSection(
                mode=ApprovalMode.strictest(project.approval.mode, user.approval.mode)
            ),
            "limits": _smaller(user.limits, project.limits),
            "models": {**user.models, **project.models},
            "aliases": {**user.aliases, **project.aliases},
            "policy": {**user.policy, **project.policy},
            "mcp": McpServers(
                servers={**project.mcp.servers, **user.mcp.servers},
                sampling=user.mcp.sampling and project.mcp.sampling,
                elicitation=user.mcp.elicitation and project.mcp.elicitation,
            ),
            "hooks": [*user.hooks, *project.hooks],
        }
    )
    both._tightening = dict(user._tightening)
    if project.provenance is not None:
        both._tightening[title] = project.provenance
    sections = {name: _joined(user, project, name) for name in both.policy}
    policy = _marked(
        sections,
        {name: (project if name in project.policy else user) for name in sections},
        "policy",
    )
    aliases = {name: (project if name in project.aliases else user) for name in both.aliases}
    data = {"policy": policy, "aliases": _marked(dict(both.aliases), aliases, "aliases")}
    marks = {name: part.mark for name, part in data.items()}
    both._source = MarkedDict(data.items(), mark=policy.mark, keys=marks, values=marks)
    return both


def _smaller(user: SettingsLimits, project: SettingsLimits) -> SettingsLimits:
    """Return the smaller of each limit, with its mark; the limits of a day are the user's."""
    owners: dict[str, Settings | Limits] = {}
    for name in Limits.model_fields:
        for limits in (user, project):
            value = getattr(limits, name)
            if value is None:
                continue
            if name not in owners or value < getattr(owners[name], name):
                owners[name] = limits
    smaller = parse_config(
        SettingsLimits,
        _marked({name: getattr(owner, name) for name, owner in owners.items()}, owners),
    )
    return smaller.model_copy(update={"per_day": user.per_day})


def _joined(user: Settings, project: Settings, name: str) -> MarkedDict:
    """Return the rules of the project and then the user's.

    The first match counts, except that a matching rule that blocks always does.
    """
    sections = [settings.section("policy", name) or {} for settings in (project, user)]
    keys = dict.fromkeys(chain(*sections))
    mark = next((section.mark for section in sections if isinstance(section, MarkedDict)), Mark(""))
    found: dict[str, Any] = {}
    for key in keys:
        parts = [section[key] for section in sections if key in section]
        if all(isinstance(part, MarkedList) for part in parts):
            items_at = chain.from_iterable(part.items_at for part in parts)
            found[key] = MarkedList(chain(*parts), mark=parts[0].mark, items_at=items_at)
        else:
            found[key] = parts[-1]
    marks = dict.fromkeys(found, mark)
    return MarkedDict(found.items(), mark=mark, keys=marks, values=marks)


def _marked(data: Mapping[str, Any], owners: Mapping[str, Config], *loc: str) -> MarkedDict:
    """Return data whose values have the marks of their owners."""
    marks: dict[str, Mark] = {}
    for name, owner in owners.items():
        if where := owner.where(*loc, name):
            marks[name] = where
    mark = next(iter(marks.values()), Mark(""))
    return MarkedDict(data.items(), mark=mark, keys=marks, values=marks)
