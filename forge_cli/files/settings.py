"""The user's own settings: ``config.yaml`` in forge's home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from forge_cli.core.config import Config, parse_config
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.document import read_document
from forge_cli.files.worker import ApprovalSection, Limits

TraceLevel = Literal["quiet", "summary", "normal", "debug"]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class PriceSection(Config):
    """What a million tokens cost; those of the cache cost as much as other input where nothing else is said."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None


class ModelOptions(Config):
    """What forge cannot know of one model: how it calls tools, what it costs, its window, and how slow it may be."""

    tools: Literal["native", "schema"] | None = None
    price: PriceSection | None = None
    context: Annotated[int, Field(ge=1)] | None = None
    timeout: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] | None = None
    """Seconds without anything new after which an answer counts as cut off."""


class Settings(Config):
    """What a person prefers for every worker; nothing in here loosens what a worker forbids."""

    model: str | None = None
    approval: ApprovalSection = Field(default_factory=ApprovalSection)
    limits: Limits = Field(default_factory=Limits)
    trace: TraceLevel | None = None
    policy: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    """Rules that hold for every worker, by toolset; each toolset reads its own."""
    models: dict[str, ModelOptions] = Field(default_factory=dict)

    def options(self, model: str) -> ModelOptions:
        """What is said of one model."""
        return self.models.get(model, ModelOptions())


def load_settings(home: Path) -> Settings:
    """What the file says; one that is missing, or holds nothing but comments, says nothing."""
    file = home / "config.yaml"
    try:
        if not file.exists():
            return Settings()
    except OSError as error:
        hint = "make it readable for you, or let FORGE_HOME name another folder"
        raise WorkerError(Mark(str(file)), f"cannot be read: {error.strerror}", hint=hint) from None
    return parse_config(Settings, read_document(file, may_be_empty=True).data, file=str(file))
