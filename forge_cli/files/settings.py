"""Settings for every worker: the user's ``config.yaml`` and that of a trusted project."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from forge_cli.core.errors import WorkerError
from forge_cli.core.source import HookName
from forge_cli.core.text import did_you_mean, visible
from forge_cli.core.wire import snake_case
from forge_cli.files.document import read_document
from forge_cli.files.mcp import McpServers
from forge_cli.files.provenance import (
    Merged,
    Provenance,
    ProvenanceSection,
    merge_provenance,
)
from forge_cli.files.worker import ApprovalSection, Limits, ToolShare, Worker
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.marks import MarkedDict, snake_twin, where_in

DEFAULT_BACKGROUND = 8
"""The most sessions in the background at the same time, unless the user says otherwise."""
_PATHS = ("./", "../", "~/", "/")
TraceLevel = Literal["quiet", "summary", "normal", "debug"]
BUILT_IN = frozenset({"anthropic", "bedrock", "foundry", "openai", "script", "vertex"})
"""Providers whose settings are all known here."""
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]


class HookConfig(Config):
    """An entry of ``hooks``.

    Items of ``run`` that begin with ``/``, ``./``, ``../`` or ``~/`` are paths, relative to the
    folder of the file. ``match`` is a tool name, in which ``*`` and ``?`` are wildcards.
    """

    on: HookName
    match: Annotated[str, Field(min_length=1)] = "*"
    run: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = None
    observer: str | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.run is None) == (self.observer is None):
            raise ValueError("a hook needs either 'run' (a command) or 'observer' (of a plugin)")
        if self.on == "record" and self.run is not None:
            raise ValueError("a hook for 'record' cannot start a command; name an 'observer'")
        if self.on.startswith(("session", "record")) and self.match != "*":
            raise ValueError(f"'match' is for tools, but {self.on} concerns no tool")
        return self

    @property
    def title(self) -> str:
        """The name of the hook for people."""
        return visible(self.observer or os.path.basename(next(iter(self.run or ()))))

    @property
    def argv(self) -> list[str]:
        """Its command, with resolved paths."""
        found: list[str] = []
        for item in self.run or ():
            found.append(str(self._path(item)) if item.startswith(_PATHS) else item)
        return found

    @property
    def files(self) -> list[Path]:
        """The existing files that its command names."""
        found: list[Path] = []
        for item in self.run or ():
            if item.startswith(_PATHS) and (path := self._path(item)).is_file():
                found.append(path)
        return found

    def matches(self, *names: str) -> bool:
        """Return True if the hook applies to a tool with one of these names."""
        return any(fnmatchcase(name, self.match) for name in names)

    def _path(self, item: str) -> Path:
        where = self.where()
        folder = Path(where.file).absolute().parent if where else Path.cwd()
        return Path(os.path.normpath(folder / os.path.expanduser(item)))


class PriceSection(Config):
    """The price of a million tokens; cached tokens cost the same as input by default."""

    input: Dollars
    """Dollars for a million input tokens."""
    output: Dollars
    """Dollars for a million output tokens."""
    cache_read: Dollars | None = None
    """Dollars for a million tokens read from the cache."""
    cache_write: Dollars | None = None
    """Dollars for a million tokens written to the cache."""


class ModelOptions(Config):
    """Facts about a model that forge cannot know, such as its price."""

    tools: Literal["native", "schema"] | None = None
    """Whether it calls tools natively, or must answer with JSON that names a tool."""
    price: PriceSection | None = None
    """The price of a million tokens."""
    context: Annotated[int, Field(ge=1)] | None = None
    """The context window in tokens."""
    timeout: Seconds | None = None
    """Seconds without new data after which an answer counts as cut off."""
    transport: Literal["http", "sdk"] | None = None
    """How requests of ``anthropic:`` are sent: by forge, or with Anthropic's SDK."""
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens of an answer."""
    thinking: Literal["off", "low", "medium", "high"] | None = None
    """The effort of thinking before an answer."""
    images: bool | None = None
    """Whether the model sees the images that tools return, or only descriptions."""

    @classmethod
    def _canonical(cls, data: dict[Any, Any]) -> dict[str, Any]:
        """Skip keys of the provider, which is loaded with its model; see ``provider_keys``."""
        return super()._canonical(
            {key: value for key, value in data.items() if not cls._is_other(key)}
        )

    @classmethod
    def _is_other(cls, key: Any) -> bool:
        return snake_twin(str(key)) not in cls.model_fields

    def provider_keys(self) -> dict[str, Any]:
        """Return keys that are not forge's own, with their marks."""
        data = self.section()
        found = {key: value for key, value in (data or {}).items() if self._is_other(key)}
        if not isinstance(data, MarkedDict):
            return found
        return MarkedDict(found.items(), mark=data.mark, keys=data.keys_at, values=data.values_at)


class DayLimits(Config):
    """Limits of all sessions of a home together, from midnight to midnight."""

    cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Dollars."""
    tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens sent and received."""


class SettingsLimits(Limits):
    """Limits of every session, and of all sessions together."""

    per_day: DayLimits | None = None
    """Limits of all sessions of a day; only valid in the user's file."""


class Settings(Config):
    """Settings for every worker; they never loosen what a worker forbids."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """The model of workers without one."""
    approval: ApprovalSection = Field(default_factory=ApprovalSection.empty)
    """The answer to a call that asks: by a person, always yes or always no."""
    limits: SettingsLimits = Field(default_factory=SettingsLimits.empty)
    """Limits for every worker; the smaller limit counts."""
    background: Annotated[int, Field(ge=1)] | None = None
    """The most sessions in the background at the same time; only valid in the user's file."""
    trace: TraceLevel | None = None
    """How much progress is shown."""
    policy: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    """Rules for every worker, by toolset; each toolset parses its own."""
    models: dict[str, ModelOptions] = Field(default_factory=dict)
    """Facts about models that forge cannot know, by PROVIDER:MODEL."""
    aliases: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")], str] = Field(
        default_factory=dict
    )
    """Short names for models, for ``-m`` and ``model:``."""
    mcp: McpServers = Field(default_factory=McpServers.empty)
    """Servers that workers can name under toolsets.mcp.servers."""
    tool_share: ToolShare | None = None
    """The share of the model's window for tool definitions; beyond it they load on demand."""
    hooks: list[HookConfig] = Field(default=[])
    """Hooks for tools and sessions; they may tighten a verdict, never loosen it."""
    provenance: ProvenanceSection | None = None
    """The rule about effects that cannot be undone, after untrusted text was read."""
    import_timeout: Seconds | None = None
    """Seconds to import and open third-party code; only valid in the user's file."""
    draft: bool = False
    """True if sessions are drafts, unless the worker says otherwise."""
    titles: bool = True
    """True if the model is asked for the title of a conversation."""

    _tightening: dict[str, ProvenanceSection] = PrivateAttr(default_factory=dict)
    """By title: provenance sections that can only tighten, of the project and the organisation."""

    def provenance_of(self, worker: Worker, parent: Provenance | None = None) -> Merged:
        """Return the rule about untrusted text for a worker, merged of all files."""
        return merge_provenance(
            person=self.provenance,
            worker=worker.config.provenance,
            tightening=self._tightening,
            parent=parent,
        )

    def tool_share_of(self, worker: Worker) -> float | None:
        """Return the share of the window for a worker's tools; None if not set."""
        own = worker.config.tool_share
        return self.tool_share if own is None else own

    def options(self, model: str) -> ModelOptions:
        """Return the settings of one model."""
        return self.models.get(model) or ModelOptions.empty()

    def provider_options(self, model: str, kind: type[Config] | None) -> Config | None:
        """Return the provider's own settings of a model, parsed by the provider's class."""
        if kind is None and model not in self.models:
            return None
        options = self.options(model)
        at = ("models", model)
        own = set(kind.model_fields) if kind else set()
        for key in options.provider_keys():
            if snake_twin(key) not in own:
                known = sorted({*ModelOptions.model_fields, *own})
                remedy = did_you_mean(snake_case(key), known, f"known here: {', '.join(known)}")
                where = where_in(options.section(), (key,), key=True)
                raise WorkerError(where, f"models.{model}: unknown key '{key}'; {remedy}")
        if kind is None:
            return None
        return parse_config(kind, options.provider_keys(), at=at)

    def resolve(self, model: str) -> str:
        """Return the model of a name, which may be an alias of an alias."""
        names = [model]
        while (name := self.aliases.get(names[-1])) is not None:
            if name in names:
                way = " -> ".join((*names, name))
                raise WorkerError(self.where("aliases", names[-1]), f"aliases: {way} is circular")
            names.append(name)
        return names[-1]


def read_settings(file: Path) -> Settings:
    """Read a settings file of the user or of a project."""
    settings = parse_config(Settings, read_document(file, may_be_empty=True).data, file=str(file))
    for model in settings.models:
        # Other providers are plugins: their keys are checked once they are loaded.
        if model.partition(":")[0] in BUILT_IN:
            settings.provider_options(model, None)
    return settings
