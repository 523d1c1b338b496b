"""How to get in: the key and the address, both checked before anything is sent."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from forge_cli.core.errors import ModelError
from forge_cli.files.key_store import find_key
from forge_cli.models.failures import Endpoint

KEY, TOKEN, ADDRESS = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"
OFFICIAL, STATUS_PAGE = "https://api.anthropic.com", "https://status.claude.com"
OTHER_WAYS = "or take another model: -m openai:MODEL for any OpenAI-compatible server, -m script:FILE needs no key"


@dataclass(frozen=True)
class Credentials:
    """A secret, the variable it is meant for, the address it is for (None is Anthropic's own), and where it is from."""

    variable: str
    secret: str = field(repr=False)
    address: str | None = field(default=None, repr=False)
    source: str = "environment"

    @property
    def endpoint(self) -> Endpoint:
        """The address as people may see it: a password can stand before the host, a key behind the path."""
        parts = urlsplit(self.address or OFFICIAL)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
        return Endpoint(
            address=shown,
            address_variable=ADDRESS,
            key_variable=KEY,
            key_source=self.variable if self.source == "environment" else f"{self.source} for {self.variable}",
            status_page=STATUS_PAGE if parts.hostname == urlsplit(OFFICIAL).hostname else None,
        )

    @classmethod
    def find(cls, model: str) -> Credentials:
        """The values of the environment, or those that are stored; an unusable part of it is named, and never shown."""
        key = find_key(KEY, TOKEN)
        if key is None:
            hint = "forge keys set anthropic stores a key from https://platform.claude.com/settings/keys"
            raise ModelError(f"{KEY} is not set, and {model} needs it", hint=f"{hint}, {OTHER_WAYS}")
        if not (key.value.isascii() and key.value.isprintable()) or " " in key.value:
            raise ModelError(f"{key.variable} holds characters that no key has", hint="copy it again, and nothing else")
        return cls(key.variable, key.value, _address(os.environ.get(ADDRESS, "").strip()), key.origin)


def _address(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        usable = not text or (parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:
        usable = False
    if not usable:
        raise ModelError(f"{ADDRESS} is not an address", hint="write it like https://example.org, or unset it")
    return text or None
