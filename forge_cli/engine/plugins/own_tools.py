"""Forge's own tools by toolset, for hints about a tool in the place of a toolset."""

from __future__ import annotations

from collections.abc import Iterable

from forge_cli.core.text import did_you_mean
from forge_cli.engine.plugins.origin import how_to_install

OWN_TOOLS = {
    "executables": "create_custom_tool run_custom_tool",
    "filesystem": "read_file write_file edit_file list_files delete_file file_exists file_info "
    "list_dir grep_files apply_patch",
    "memory": "get_memory save_memory",
    "plan": "update_plan",
    "shell": "shell exec_command write_stdin",
    "skills": "load_skill",
}
PACKAGES = frozenset({"git", "llm", "sql", "web"})
"""Toolsets in forge's own packages."""
EXECUTORS = frozenset({"dask"})
"""Executors in forge's own packages."""


def meant(name: str, known: Iterable[str]) -> str | None:
    """Return a hint for an unknown toolset; a possible typo is never named as a package."""
    if name in PACKAGES:
        return f"install its package: {how_to_install(f'forge-tools-{name}')}"
    toolset = next((toolset for toolset, tools in OWN_TOOLS.items() if name in tools.split()), None)
    if toolset:
        return f"{name} is a tool of the toolset '{toolset}'"
    return did_you_mean(
        name, known, "is it from a package? forge plugins install PACKAGE installs it"
    )
