"""How to get in: the key and the address, both from the environment, both checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from forge_cli.core.errors import ModelError

KEY, TOKEN, ADDRESS = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"
OTHER_WAYS = "or take another model: -m openai:MODEL for any OpenAI-compatible server, -m script:FILE needs no key"


@dataclass(frozen=True)
class Credentials:
    """A secret, the variable it came from, and the address it is for (None is Anthropic's own)."""

    variable: str
    secret: str = field(repr=False)
    address: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str | None:
        """The address as people may see it: a password can stand before the host, a key behind the path."""
        parts = urlsplit(self.address or "")
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl() or None

    @classmethod
    def of(cls, environ: Mapping[str, str], model: str) -> Credentials:
        """What the environment says; an unusable part of it is named, and never shown."""
        variable = next((name for name in (KEY, TOKEN) if environ.get(name, "").strip()), None)
        if variable is None:
            hint = f"set it to a key from https://platform.claude.com/settings/keys, {OTHER_WAYS}"
            raise ModelError(f"{KEY} is not set, and {model} needs it", hint=hint)
        secret = environ[variable].strip()
        if not (secret.isascii() and secret.isprintable()) or " " in secret:
            raise ModelError(f"{variable} holds characters that no key has", hint="copy it again, and nothing else")
        return cls(variable, secret, _address(environ.get(ADDRESS, "").strip()))


def _address(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        usable = not text or (parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:
        usable = False
    if not usable:
        raise ModelError(f"{ADDRESS} is not an address", hint="write it like https://example.org, or unset it")
    return text or None
