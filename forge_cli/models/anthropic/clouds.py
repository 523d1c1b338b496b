"""``bedrock:``, ``vertex:`` and ``foundry:``, Anthropic's models at other clouds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forge_cli.core.errors import ModelError, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.messages import ModelEnv, ModelFactory
from forge_cli.files.keys import find_key
from forge_cli.models.anthropic.provider import IDLE_TIMEOUT, AnthropicModel, make_model
from forge_cli.models.anthropic.sdk import SdkTransport
from forge_cli.models.failures import Endpoint

if TYPE_CHECKING:
    import anthropic
    import httpx2


class Cloud(Struct, frozen=True, kw_only=True):
    """A cloud: the SDK's client for it, and its requirements."""

    prefix: str
    title: str
    client: str
    """The name of the client in the SDK, which reads other settings from the environment."""
    address_variable: str
    settings: Sequence[Sequence[str]]
    """Groups of variables, of which one in each group must be set."""
    package: str | None = None
    """The module that the SDK's extra for the cloud installs."""
    key: str | None = None
    credentials: str = ""
    """The kind of credentials that sign requests, if there is no key."""

    @property
    def needs(self) -> str:
        variables = [" or ".join(group) for group in self.settings]
        return ", ".join([self.key or self.credentials, *variables])

    def missing(self) -> str | None:
        """Return what is missing and how to get it; None if nothing is."""
        model = f"{self.prefix}:MODEL"
        if self.package and not _is_installed(self.package):
            name = self.package.replace(".", "-")
            remedy = f'pip install "anthropic[{self.prefix}]"'
            return f"{model} needs the package {name}, which is not installed; run: {remedy}"
        if self.key and find_key(self.key) is None:
            remedy = f"forge keys set {self.key}"
            return f"{self.key} is not set, and {model} needs it; store one: {remedy}"
        for group in self.settings:
            if not any(os.environ.get(name, "").strip() for name in group):
                return f"{' or '.join(group)} is not set, and {self.prefix}:MODEL needs it"
        return None

    def make(self, name: str, env: ModelEnv) -> AnthropicModel:
        # Clouds sign requests or change them in other ways, which only the SDK knows.
        if env.options.get("transport") == "http":
            problem = f"models: {self.prefix}:{name} has no other transport than the SDK"
            raise WorkerError(None, problem, hint="remove `transport: http` from the config")
        if missing := self.missing():
            problem, _, hint = missing.partition("; ")
            raise ModelError(problem, hint=hint or None)
        key = find_key(self.key) if self.key else None
        endpoint = Endpoint(
            address=self.title,
            address_variable=self.address_variable,
            key_variable=self.key or self.credentials,
            key_source=self.key or self.credentials,
        )
        transport = SdkTransport(
            endpoint,
            partial(self._open, {"api_key": key.value} if key else {}),
            env.options.get("timeout") or IDLE_TIMEOUT,
            secrets={key.variable: key.value} if key else None,
            rewrites=True,
        )
        return make_model(f"{self.prefix}:{name}", transport, env, moves_cache=False)

    def _open(self, given: dict[str, Any], http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
        import anthropic

        client: anthropic.AsyncAnthropic = getattr(anthropic, self.client)(
            **given, http_client=http, max_retries=0, open_telemetry=False
        )
        return client


CLOUDS = (
    Cloud(
        prefix="bedrock",
        title="Amazon Bedrock",
        client="AsyncAnthropicBedrock",
        address_variable="ANTHROPIC_BEDROCK_BASE_URL",
        settings=(("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"),),
        package="boto3",
        credentials="AWS credentials",
    ),
    Cloud(
        prefix="vertex",
        title="Google Cloud's Vertex AI",
        client="AsyncAnthropicVertex",
        address_variable="ANTHROPIC_VERTEX_BASE_URL",
        settings=(("CLOUD_ML_REGION",), ("ANTHROPIC_VERTEX_PROJECT_ID",)),
        package="google.auth",
        credentials="Google Cloud credentials",
    ),
    Cloud(
        prefix="foundry",
        title="Microsoft Foundry",
        client="AsyncAnthropicFoundry",
        address_variable="ANTHROPIC_FOUNDRY_BASE_URL",
        settings=(("ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL"),),
        key="ANTHROPIC_FOUNDRY_API_KEY",
    ),
)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package around it is missing, too
        return False


@hookimpl
def forge_models() -> list[ModelFactory]:
    """Register a provider for each cloud."""
    return [
        ModelFactory(
            cloud.prefix,
            cloud.make,
            needs=cloud.needs,
            missing=cloud.missing,
            keys=(cloud.key,) if cloud.key else (),
        )
        for cloud in CLOUDS
    ]
