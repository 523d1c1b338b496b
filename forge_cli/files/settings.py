"""Settings for every worker: the user's ``config.yaml``, and ``.forge/config.yaml`` of a project that is trusted."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from forge_cli.core.errors import WorkerError
from forge_cli.core.source import HookName
from forge_cli.core.text import did_you_mean, visible
from forge_cli.core.wire import snake_case
from forge_cli.files.document import read_document
from forge_cli.files.mcp import McpServers
from forge_cli.files.worker import ApprovalSection, Limits, ToolShare, Worker
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.marks import MarkedDict, snake_twin, where_in

_PATHS = ("./", "../", "~/", "/")
TraceLevel = Literal["quiet", "summary", "normal", "debug"]
BUILT_IN = frozenset({"anthropic", "bedrock", "foundry", "openai", "script", "vertex"})
"""Providers that have no keys of their own beside those that are known here."""
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]


class HookConfig(Config):
    """One entry of ``hooks``; what begins with ``/``, ``./``, ``../`` or ``~/`` in ``run`` is a path, from the file's
    folder.

    ``match`` is the name of a tool, in which ``*`` and ``?`` stand for others.
    """

    on: HookName
    match: Annotated[str, Field(min_length=1)] = "*"
    run: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = None
    observer: str | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.run is None) == (self.observer is None):
            raise ValueError(
                "a hook has either 'run' with a command, or 'observer' with the name of a plugin's"
            )
        if self.on == "record" and self.run is not None:
            raise ValueError(
                "a command would be started for every line of the record: name an 'observer'"
            )
        if self.on.startswith(("session", "record")) and self.match != "*":
            raise ValueError(f"'match' is for tools, and {self.on} is about none")
        return self

    @property
    def title(self) -> str:
        """How people are told of it."""
        return visible(self.observer or os.path.basename(next(iter(self.run or ()))))

    @property
    def argv(self) -> list[str]:
        return [
            str(self._path(item)) if item.startswith(_PATHS) else item for item in self.run or ()
        ]

    @property
    def files(self) -> list[Path]:
        """The files that its command names."""
        named = [self._path(item) for item in self.run or () if item.startswith(_PATHS)]
        return [path for path in named if path.is_file()]

    def matches(self, *names: str) -> bool:
        """Is it for a tool that has one of these names?"""
        return any(fnmatchcase(name, self.match) for name in names)

    def _path(self, item: str) -> Path:
        where = self.where()
        folder = Path(where.file).absolute().parent if where else Path.cwd()
        return Path(os.path.normpath(folder / os.path.expanduser(item)))


class PriceSection(Config):
    """The price of a million tokens; those of the cache cost as much as other input where nothing else is said."""

    input: Dollars
    """Dollars for a million tokens sent."""
    output: Dollars
    """Dollars for a million tokens received."""
    cache_read: Dollars | None = None
    """Dollars for a million tokens read from the cache."""
    cache_write: Dollars | None = None
    """Dollars for a million tokens put into the cache."""


class ModelOptions(Config):
    """Facts of one model that forge cannot know: how it calls tools, its price, its window, and how slow it may be."""

    tools: Literal["native", "schema"] | None = None
    """Whether it calls tools by itself, or is made to answer with JSON that names one."""
    price: PriceSection | None = None
    """The price of a million tokens."""
    context: Annotated[int, Field(ge=1)] | None = None
    """How many tokens its window holds."""
    timeout: Seconds | None = None
    """Seconds without anything new after which an answer counts as cut off."""
    transport: Literal["http", "sdk"] | None = None
    """How requests of ``anthropic:`` are sent: by forge itself, or through Anthropic's SDK."""
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """How long one answer may get."""
    thinking: Literal["off", "low", "medium", "high"] | None = None
    """How much the model thinks before it answers."""
    images: bool | None = None
    """Whether the model is shown the images that tools give back, or only told of them."""

    @classmethod
    def _canonical(cls, data: dict[Any, Any]) -> dict[str, Any]:
        """Other keys may be those of a provider, which is loaded when its model is used; see ``provider_keys``."""
        return super()._canonical(
            {key: value for key, value in data.items() if not cls._is_other(key)}
        )

    @classmethod
    def _is_other(cls, key: Any) -> bool:
        return snake_twin(str(key)) not in cls.model_fields

    def provider_keys(self) -> dict[str, Any]:
        """Keys that are not forge's own, with their marks."""
        data = self.section()
        found = {key: value for key, value in (data or {}).items() if self._is_other(key)}
        if not isinstance(data, MarkedDict):
            return found
        return MarkedDict(found.items(), mark=data.mark, keys=data.keys_at, values=data.values_at)


class Settings(Config):
    """Settings for every worker; nothing in here loosens what a worker forbids."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """The model of workers that name none."""
    approval: ApprovalSection = Field(default_factory=ApprovalSection.empty)
    """The answer to a call that asks: by a person, always yes or always no."""
    limits: Limits = Field(default_factory=Limits.empty)
    """Limits of the work of every worker; the smaller limit counts."""
    trace: TraceLevel | None = None
    """How much is told of the work."""
    policy: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    """Rules that hold for every worker, by toolset; each toolset reads its own."""
    models: dict[str, ModelOptions] = Field(default_factory=dict)
    """Facts that forge cannot know of a model, by PROVIDER:MODEL."""
    aliases: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")], str] = Field(
        default_factory=dict
    )
    """Short names for models, which ``-m`` and ``model:`` take as well."""
    mcp: McpServers = Field(default_factory=McpServers.empty)
    """Servers that a worker can name under toolsets.mcp.servers."""
    tool_share: ToolShare | None = None
    """The share of the model's window that the definitions of tools may take before they are loaded on demand."""
    hooks: list[HookConfig] = Field(default=[])
    """Hooks that run when tools are called and sessions begin and end; one may tighten a verdict, never loosen one."""
    import_timeout: Seconds | None = None
    """Seconds that importing and opening third-party code may take; only the user's file may say it."""
    titles: bool = True
    """Whether the model is asked for the title of a conversation."""

    def tool_share_of(self, worker: Worker) -> float | None:
        """How much of the window the tools of a worker may take, where it or these settings say so."""
        own = worker.config.tool_share
        return self.tool_share if own is None else own

    def options(self, model: str) -> ModelOptions:
        """The settings of one model."""
        return self.models.get(model) or ModelOptions.empty()

    def provider_options(self, model: str, kind: type[Config] | None) -> Config | None:
        """The settings of a model in keys of its provider, as the provider's class reads them."""
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
        return parse_config(kind, options.provider_keys(), at=at) if kind else None

    def resolve(self, model: str) -> str:
        """The model that a name stands for: an alias may lead to another one."""
        names = [model]
        while (name := self.aliases.get(names[-1])) is not None:
            if name in names:
                way = " -> ".join((*names, name))
                raise WorkerError(
                    self.where("aliases", names[-1]), f"aliases: {way} leads in a circle"
                )
            names.append(name)
        return names[-1]


def read_settings(file: Path) -> Settings:
    """The settings of a file, the user's own or that of a project."""
    settings = parse_config(Settings, read_document(file, may_be_empty=True).data, file=str(file))
    for model in settings.models:
        # Other providers are plugins: their keys are checked once they are loaded.
        if model.partition(":")[0] in BUILT_IN:
            settings.provider_options(model, None)
    return settings
