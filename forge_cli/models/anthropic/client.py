"""The SDK at work: imported and opened with the first request, fed with bytes, read as plain data."""

from __future__ import annotations

import gc
import ssl
from functools import cache
from typing import TYPE_CHECKING

from forge_cli.core.errors import ModelError
from forge_cli.models.anthropic.access import KEY, Credentials

if TYPE_CHECKING:
    import anthropic

CONNECT = 10.0


class NoStream(Exception):
    """A success that is not a stream: something else than the API answers at this address."""


class Client:
    """One connection pool; the attempts are counted elsewhere, so the SDK makes one each time."""

    def __init__(self, access: Credentials, silence: float) -> None:
        self._access = access
        self._silence = silence
        self._sdk: anthropic.AsyncAnthropic | None = None

    async def post(self, body: bytes) -> anthropic.AsyncStream[object]:
        """Send a request that is encoded already; its events come back as the data they are on the wire."""
        sdk = self._sdk = self._sdk or self._open()
        import anthropic

        events = await sdk.post(
            "/v1/messages", content=body, cast_to=object, stream=True, stream_cls=anthropic.AsyncStream[object]
        )
        content_type = events.response.headers.get("content-type", "")
        if not content_type.startswith("text/event-stream"):
            await events.close()
            raise NoStream(content_type.partition(";")[0] or "something without a type")
        return events

    def _open(self) -> anthropic.AsyncAnthropic:
        _import_sdk()
        import anthropic
        import httpx2

        access = self._access
        key, token = (access.secret, None) if access.variable == KEY else (None, access.secret)
        timeout = httpx2.Timeout(self._silence, connect=CONNECT)
        try:
            return anthropic.AsyncAnthropic(
                api_key=key,
                auth_token=token,
                base_url=access.address,
                http_client=anthropic.DefaultAsyncHttpxClient(timeout=timeout, verify=_ssl_context()),
                max_retries=0,
                open_telemetry=False,
            )
        except Exception as error:  # the SDK reads proxies and certificates from the environment here
            hint = "look at the proxy and certificate settings in the environment"
            raise ModelError(f"no connection can be made ready: {type(error).__name__}: {error}", hint=hint) from error

    async def aclose(self) -> None:
        if self._sdk is not None:
            await self._sdk.close()
            self._sdk = None


@cache
def _ssl_context() -> ssl.SSLContext:
    """Whom to trust; reading the certificates takes a while, and each proxy would read them again."""
    import httpx2

    return httpx2.create_ssl_context()


def _import_sdk() -> None:
    """Import 3,000 modules, none of which is garbage, without the collector looking through them again and again.

    Freezing and thawing makes everything old at once; else the first collection afterwards would go through all of it.
    """
    awake, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    try:
        import anthropic  # noqa: F401
    finally:
        if awake:
            if not frozen:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
