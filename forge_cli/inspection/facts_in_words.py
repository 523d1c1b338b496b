"""Text for the facts of a worker: zones, limits, and the tree of its children."""

from __future__ import annotations

from collections.abc import Iterator

from forge_cli.core.wire import snake_case
from forge_cli.engine.gate.policy import BY_RULE, BY_ZONE
from forge_cli.inspection.facts import Facts


def lines_of_tree(node: Facts, indent: str = "") -> Iterator[str]:
    """Yield the lines of the tree: each worker, its tools, then its children."""
    about = f": {node['description']}" if node["description"] else ""
    yield f"{indent}{node['name']}{about}"
    if "refused" in node:
        for line in node["refused"].splitlines()[:1]:  # without the hint on the second line
            yield f"{indent}  refused: {line.strip()}"
        return
    for line in _abilities(node):
        yield f"{indent}  {line}"
    for child in node["workers"]:
        yield from lines_of_tree(child, f"{indent}    ")


def limits_in_words(node: Facts) -> str:
    """Return the limits under the names that a worker file uses."""
    return ", ".join(f"{snake_case(name)} {value:g}" for name, value in node["limits"].items())


def _abilities(node: Facts) -> Iterator[str]:
    yield f"model: {node['model'] or 'that of its parent, or of the command line'}"
    yield f"limits: {limits_in_words(node)}"
    yield from lines_of_zones(node["zones"])
    for rule in node["rules"]:
        place = f" ({rule['where']})" if rule["where"] else ""
        yield f"{rule['toolset']}: {rule['reason']}: {rule['verdict']}{place}"
    for approval in ("preApproved", "ask", BY_ZONE, BY_RULE, "blocked"):
        names = [tool for tool, verdict in node["tools"].items() if verdict == approval]
        if names:
            yield f"{approval}: {', '.join(names)}"


def lines_of_zones(zones: list[Facts]) -> Iterator[str]:
    """Yield a line for each zone: name, approvals and path."""
    for zone in zones:
        if zone["mode"] == "rw":
            says = f"write {zone['write']}, delete {zone['delete']}"
        else:
            says = "read only"
        yield f"/{zone['name']}: {says} ({zone['path']})"
    if not zones:
        yield "no zones: no access to files"
