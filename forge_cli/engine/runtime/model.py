"""Which model answers: the one that is named first by flag, worker, parent, environment, config or session."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from forge_cli.core.bounds import OPENING, call_within, fault_text, is_fault
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ForgeError, ModelError, WorkerError
from forge_cli.core.messages import ModelEnv, ModelProvider
from forge_cli.core.notify import Notify
from forge_cli.engine.gate.guard import Repeated
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.files.settings import Settings
from forge_cli.files.worker import Worker


class ReplayedModel(ModelProvider, Repeated, Protocol):
    """A recorded session in the place of a model, which compares the calls at the gate as well."""

    @property
    def announcement(self) -> str: ...

    @property
    def environment(self) -> str | None:
        """What the worker was told of where it is; None where it was told before, or never."""
        ...

    @property
    def keeps_still(self) -> bool:
        """Must nothing on disk change?"""
        ...

    def child(self, call: ToolCall, worker: str) -> ReplayedModel:
        """The record of a child worker that a call starts."""
        ...


@dataclass(frozen=True)
class NamedModel:
    """``PROVIDER:MODEL``, and where a file in its name is looked for."""

    name: str
    folders: tuple[Path, ...]

    def make(self, host: PluginHost, settings: Settings, notify: Notify) -> ModelProvider:
        prefix, colon, name = self.name.partition(":")
        if not colon or not name:
            raise WorkerError(
                None, f"'{self.name}' is not a model", hint="write PROVIDER:MODEL, such as script:demo.yaml"
            )
        options = settings.options(self.name).model_dump(exclude_none=True)
        factory, env = host.model(prefix), ModelEnv(folders=self.folders, notify=notify, options=options)
        try:
            return call_within(OPENING, "making it", factory.make, name, env)
        except ForgeError:
            raise
        except BaseException as error:  # third-party code
            if not is_fault(error):
                raise
            raise ModelError(f"the model {self.name} cannot be made: {fault_text(error)}") from error


@dataclass(frozen=True)
class ChosenModel:
    """The model of a worker."""

    provider: ModelProvider
    named: NamedModel | None = None
    """How it was named; None when a program gave it."""


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """Chooses the model of one worker, and makes it."""

    worker: Worker
    workspace: Path
    settings: Settings
    host: PluginHost
    notify: Notify

    def choose(
        self, given: str | ModelProvider | None, parent: ChosenModel | None, earlier: str | None = None
    ) -> ChosenModel:
        """``given`` is what the program says, ``parent`` the parent's model, ``earlier`` that of the same session."""
        if given is not None and not isinstance(given, str):
            return ChosenModel(given)
        if parent and parent.named is None and given is None and not self.worker.config.model:
            return parent
        named = self._choose_name(given, parent.named if parent else None, earlier)
        return ChosenModel(named.make(self.host, self.settings, self.notify), named)

    def _choose_name(self, given: str | None, parent: NamedModel | None, earlier: str | None) -> NamedModel:
        if given is None and self.worker.config.model:
            return NamedModel(self.worker.config.model, (self.worker.folder,))
        if given is None and parent:
            return parent
        name = given or os.environ.get("FORGE_MODEL") or self.settings.model or earlier
        if not name:
            hint = "name one with -m PROVIDER:MODEL, `model:` in the worker, or FORGE_MODEL; script:FILE needs no key"
            raise WorkerError(None, f"no model is named for the worker '{self.worker.name}'", hint=hint)
        return NamedModel(name, (self.workspace, Path.cwd()))
