"""Edits of a worker's files while it is at work: whether there are any, and what they have changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from forge_cli.core.text import counted
from forge_cli.engine.plugins.local import plugin_files
from forge_cli.engine.runtime.opening import OpenWorker
from forge_cli.files.worker import Worker

Stamp = tuple[tuple[str, int, int, int], ...]


class WorkerFiles:
    """The files that say what a worker is, as they were when they were looked at last.

    A ``tools.py`` is not among them: its toolset looks at it before every turn.
    """

    def __init__(self, worker: Worker) -> None:
        self._seen = stamp(worker)

    def edited(self, worker: Worker) -> bool:
        """Has anybody written to them since this was asked last?"""
        before, self._seen = self._seen, stamp(worker)
        return before != self._seen


def stamp(worker: Worker) -> Stamp:
    """Equal as long as nobody has written to the files, as far as can be told without reading them."""
    return tuple(sorted(_look(worker)))


def _look(worker: Worker) -> Iterator[tuple[str, int, int, int]]:
    for pattern in {worker.path, *plugin_files(worker)}:
        names = pattern.relative_to(pattern.anchor).as_posix()
        for path in Path(pattern.anchor).glob(names) if "*" in names else [pattern]:
            try:
                info = path.stat()
            except OSError:
                continue
            yield str(path), info.st_ino, info.st_size, info.st_mtime_ns


def describe_edit(old: OpenWorker, new: OpenWorker) -> list[str]:
    """What another version of a worker has changed, a few words each."""
    before, now = old.loop.toolbox.offers, new.loop.toolbox.offers
    both = [name for name in now if name in before]
    policies = [name for name in both if now[name].policy != before[name].policy]
    schemas = [name for name in both if now[name].tool.digest != before[name].tool.digest and name not in policies]
    lists = {
        "added": [name for name in now if name not in before],
        "removed": [name for name in before if name not in now],
        "with another policy": policies,
        "changed": schemas,
    }
    said = [f"{counted(len(names), 'tool')} {how} ({', '.join(names)})" for how, names in lists.items() if names]
    facts = {
        "instructions": old.loop.system != new.loop.system,
        "zones": old.zones != new.zones,
        "isolation": old.isolation != new.isolation,
        "approval mode": old.spec.worker.config.approval != new.spec.worker.config.approval,
        "limits": old.spec.worker.config.limits != new.spec.worker.config.limits,
    }
    changed = [name for name, differs in facts.items() if differs]
    if old.model.provider.name != new.model.provider.name:
        said.append(f"the model is {new.model.provider.name}")
    return [*said, *([f"other {', '.join(changed)}"] if changed else [])]
