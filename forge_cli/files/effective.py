"""The settings that apply in a folder, and their origins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.bounds import LOAD_LIMIT
from forge_cli.core.errors import Mark
from forge_cli.files.keys import PROVIDERS, find_key
from forge_cli.files.organisation import OrganisationPolicy
from forge_cli.files.settings import DEFAULT_BACKGROUND, Settings
from forge_cli.files.settings_files import (
    import_timeout,
    load_project_settings,
    load_user_settings,
    organisation_policy,
    settings_of,
)
from forge_cli.files.worker import DEFAULT_MAX_TURNS, DEFAULT_TOOL_SHARE, Limits
from forge_cli.schema.config import Config

ConfigRow = dict[str, Any]


DEFAULTS = {
    "approval.mode": ApprovalMode.INTERACTIVE.value,
    "limits.max_turns": DEFAULT_MAX_TURNS,
    "tool_share": DEFAULT_TOOL_SHARE,
    "background": DEFAULT_BACKGROUND,
    "import_timeout": LOAD_LIMIT,
}


ADDRESSES = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL")


def effective_settings(home: Path, workspace: Path) -> Iterator[ConfigRow]:
    """Yield a row for each setting.

    The environment overrides the project, and the project overrides the user; consent is as strict
    as the strictest of them.
    """
    policy = organisation_policy()
    sources = {"project": load_project_settings(home, workspace), "user": load_user_settings(home)}
    if policy:
        sources = {"organisation": settings_of(policy), **sources}
    files = {name: settings for name, settings in sources.items() if settings is not None}
    if os.environ.get("FORGE_HOME"):
        yield _row("home", str(home), "environment", "FORGE_HOME")
    else:
        yield _row("home", str(home), "default")
    yield _model(files)
    yield _strictest_mode(files)
    yield from (_limit(files, name) for name in Limits.model_fields)
    yield from _day_limits(files)
    yield _first(files, "background")
    yield _first(files, "trace")
    yield _first(files, "tool_share")
    yield _import_timeout(files)
    yield from _named(files, "aliases")
    yield from _models(files)
    yield from _servers(files)
    yield from _rules(files)
    yield from _hooks(files)
    yield from _environment()
    if policy:
        yield from _required(policy)


def _required(policy: OrganisationPolicy) -> Iterator[ConfigRow]:
    """Yield the rows that only an organisation can set."""
    for section in (policy.allow, policy.require):
        name = "allow" if section is policy.allow else "require"
        for key, value in section.model_dump(exclude_unset=True).items():
            yield _row(f"{name}.{key}", value, "organisation", section.where(key))
    for index, value in enumerate(policy.forbid):
        yield _row(f"forbid[{index}]", value, "organisation", policy.where("forbid", index))


def _row(key: str, value: Any, source: str, where: Mark | str | None = None) -> ConfigRow:
    return {
        "key": key,
        "value": value,
        "source": source,
        "where": None if where is None else str(where),
    }


def _model(files: Mapping[str, Settings]) -> ConfigRow:
    if model := os.environ.get("FORGE_MODEL"):
        return _row("model", model, "environment", "FORGE_MODEL")
    return _first(files, "model")


def _import_timeout(files: Mapping[str, Settings]) -> ConfigRow:
    if os.environ.get("FORGE_IMPORT_TIMEOUT"):
        return _row("import_timeout", import_timeout(), "environment", "FORGE_IMPORT_TIMEOUT")
    return _first(files, "import_timeout")


def _first(files: Mapping[str, Settings], key: str) -> ConfigRow:
    for source, settings in files.items():
        if (value := getattr(settings, key)) is not None:
            return _row(key, value, source, settings.where(key))
    return _row(key, DEFAULTS.get(key), "default")


def _strictest_mode(files: Mapping[str, Settings]) -> ConfigRow:
    strictest = ApprovalMode.strictest(*(settings.approval.mode for settings in files.values()))
    for source, settings in files.items():
        if strictest and settings.approval.mode is strictest:
            return _row("approval.mode", strictest.value, source, settings.approval.where("mode"))
    return _row("approval.mode", DEFAULTS["approval.mode"], "default")


def _limit(files: Mapping[str, Settings], name: str) -> ConfigRow:
    """Return the row of a limit, of which the smallest applies."""
    row = _row(f"limits.{name}", DEFAULTS.get(f"limits.{name}"), "default")
    smallest = None
    for source, settings in files.items():
        value = getattr(settings.limits, name)
        if value is not None and (smallest is None or value < smallest):
            smallest = value
            row = _row(f"limits.{name}", value, source, settings.limits.where(name))
    return row


def _day_limits(files: Mapping[str, Settings]) -> Iterator[ConfigRow]:
    """Yield the limits of a day, which only the user's file has."""
    for source, settings in files.items():
        if per_day := settings.limits.per_day:
            for name, value in per_day.model_dump(exclude_none=True).items():
                yield _row(f"limits.per_day.{name}", value, source, per_day.where(name))


def _named(files: Mapping[str, Settings], key: str) -> Iterator[ConfigRow]:
    """Yield rows of named entries; those of the project replace the user's."""
    shown: set[str] = set()
    for source, settings in files.items():
        for name, value in getattr(settings, key).items():
            if name not in shown:
                shown.add(name)
                yield _row(f"{key}.{name}", value, source, settings.where(key, name))


def _models(files: Mapping[str, Settings]) -> Iterator[ConfigRow]:
    for row in _named(files, "models"):
        options: Config = row["value"]
        yield {**row, "value": options.model_dump(exclude_none=True)}


def _servers(files: Mapping[str, Settings]) -> Iterator[ConfigRow]:
    """Yield rows of MCP servers without env and headers, which may be secret.

    The user's servers replace those of the project.
    """
    found: dict[str, tuple[str, Settings]] = {}
    for source, settings in files.items():
        found.update(dict.fromkeys(settings.mcp.servers, (source, settings)))
    for name, (source, settings) in found.items():
        value = settings.mcp.servers[name].model_dump(
            include={"command", "args", "url"}, exclude_defaults=True
        )
        yield _row(f"mcp.servers.{name}", value, source, settings.mcp.where("servers", name))


def _rules(files: Mapping[str, Settings]) -> Iterator[ConfigRow]:
    """Yield a row for each rule, since the rules of all files apply together."""
    for source, settings in files.items():
        for toolset in settings.policy:
            for key, rules in (settings.section("policy", toolset) or {}).items():
                listed = rules if isinstance(rules, list) else [rules]
                for index, rule in enumerate(listed):
                    where = settings.where("policy", toolset, key, index)
                    yield _row(f"policy.{toolset}.{key}[{index}]", rule, source, where)


def _hooks(files: Mapping[str, Settings]) -> Iterator[ConfigRow]:
    """Yield a row for each hook, since the hooks of all files run."""
    for source, settings in files.items():
        for index, hook in enumerate(settings.hooks):
            yield _row(f"hooks[{index}]", hook.model_dump(exclude_none=True), source, hook.where())


def _environment() -> Iterator[ConfigRow]:
    """Yield rows for other variables with an effect; of keys only the origin."""
    if "FORGE_LOAD_PLUGINS" in os.environ:
        yield _row("plugins", os.environ["FORGE_LOAD_PLUGINS"], "environment", "FORGE_LOAD_PLUGINS")
    for variable in ADDRESSES:
        if address := os.environ.get(variable, "").strip():
            yield _row(variable, _without_secrets(address), "environment", variable)
    for variable in PROVIDERS.values():
        key = find_key(variable)
        if key is None:
            continue
        if key.origin == "environment":
            yield _row(variable, key.shown, "environment", variable)
        else:
            yield _row(variable, key.shown, "keys", key.origin)


def _without_secrets(address: str) -> str:
    """Return an address without a password before the host and a key after the path."""
    scheme = address.split("://")[0]
    rest = address.split("://")[-1].split("?")[0]
    return f"{scheme}://{rest.rpartition('@')[2]}"
