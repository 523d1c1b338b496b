"""Models of every provider at one address, with their warnings."""

from collections.abc import Callable

from forge_cli.core.messages import ModelProvider
from forge_cli.models.anthropic import AnthropicModel
from forge_cli.models.anthropic.sdk import sdk_transport
from forge_cli.models.anthropic.transport import Credentials, HttpTransport
from forge_cli.models.http import Timeouts
from forge_cli.models.openai.dialects import NativeDialect
from forge_cli.models.openai.provider import OpenAIModel
from forge_cli.models.openai.server import Server

KEY = "sk-test-0123456789-0123456789"
Told = list[str]
Maker = Callable[[str, Told, float], ModelProvider]


def anthropic_at(url: str, told: Told, silence: float) -> ModelProvider:
    transport = HttpTransport(Credentials("ANTHROPIC_API_KEY", KEY, url), silence)
    return AnthropicModel(
        "anthropic:tiny", transport, lambda _, text: told.append(text), delays=(0,)
    )


def sdk_at(url: str, told: Told, silence: float) -> ModelProvider:
    transport = sdk_transport(Credentials("ANTHROPIC_API_KEY", KEY, url), silence)
    return AnthropicModel(
        "anthropic:tiny", transport, lambda _, text: told.append(text), delays=(0,)
    )


def openai_at(url: str, told: Told, silence: float) -> ModelProvider:
    server = Server.at(url, KEY, Timeouts(read=silence))
    return OpenAIModel(
        "tiny", server, NativeDialect(), lambda _, text: told.append(text), delays=(0,)
    )


MAKERS: dict[str, Maker] = {"anthropic": anthropic_at, "sdk": sdk_at, "openai": openai_at}
