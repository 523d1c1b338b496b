"""Which model answers: the one that is named first by flag, worker, caller, environment, config or session."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from forge_cli.core.errors import WorkerError
from forge_cli.core.messages import ModelEnv, ModelProvider
from forge_cli.core.notify import Notify
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.files.settings import Settings
from forge_cli.files.worker import Worker


@dataclass(frozen=True)
class NamedModel:
    """``PROVIDER:MODEL``, and where a file in its name is looked for."""

    name: str
    folders: tuple[Path, ...]

    def make(self, host: PluginHost, settings: Settings, notify: Notify) -> ModelProvider:
        prefix, colon, name = self.name.partition(":")
        if not colon or not name:
            raise WorkerError(None, f"'{self.name}' is no model", hint="write PROVIDER:MODEL, such as script:demo.yaml")
        options = settings.options(self.name).model_dump(exclude_none=True)
        return host.model(prefix).make(name, ModelEnv(folders=self.folders, notify=notify, options=options))


def named_model(
    given: str | None,
    worker: Worker,
    above: NamedModel | None,
    settings: Settings,
    workspace: Path,
    before: str | None = None,
) -> NamedModel:
    """The name that counts; ``above`` is the model of the worker that called, ``before`` that of the same session."""
    if given is None and worker.config.model:
        return NamedModel(worker.config.model, (worker.folder,))
    if given is None and above:
        return above
    name = given or os.environ.get("FORGE_MODEL") or settings.model or before
    if not name:
        hint = "name one with -m PROVIDER:MODEL, `model:` in the worker, or FORGE_MODEL; script:FILE needs no key"
        raise WorkerError(None, f"no model is named for the worker '{worker.name}'", hint=hint)
    return NamedModel(name, (workspace, Path.cwd()))
