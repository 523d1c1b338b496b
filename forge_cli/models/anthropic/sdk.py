"""Anthropic's SDK as a transport, imported with the first request, for clients that only it has."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from forge_cli.core.bounds import CALL_LIMIT, wait_within
from forge_cli.models.anthropic.decode import are_useful, is_last
from forge_cli.models.anthropic.transport import (
    KEY,
    Credentials,
    check_type,
    name_request,
    no_events,
    refused_in_stream,
)
from forge_cli.models.failures import Endpoint, ProviderFailure, http_text, shortened
from forge_cli.models.http import (
    MAX_ANSWER_BYTES,
    PROXIES,
    TOO_LONG,
    Timeouts,
    certificates,
    drain,
    explain,
    keep_origin,
    not_ready,
    until_silent,
)
from forge_cli.sandbox.secrets import own_redactor

if TYPE_CHECKING:
    import anthropic
    import httpx2

ClientMaker = Callable[["httpx2.AsyncClient"], "anthropic.AsyncAnthropic"]


class SdkTransport:
    """A client of the SDK, which makes one attempt; the provider retries."""

    def __init__(
        self,
        endpoint: Endpoint,
        make_client: ClientMaker,
        silence: float,
        *,
        secrets: Mapping[str, str] | None = None,
        rewrites: bool = False,
    ) -> None:
        """With ``rewrites``, the client changes requests, and needs them as data, not as bytes."""
        self.endpoint = endpoint
        self.redact = own_redactor(secrets).redact_text
        self._make_client = make_client
        self._timeouts = Timeouts(read=silence)
        self._rewrites = rewrites
        self._client: anthropic.AsyncAnthropic | None = None

    async def events(self, body: bytes, model: str) -> AsyncGenerator[list[Any]]:
        client = self._opened()  # opening it does not count as waiting for the server
        silence = self._timeouts.read
        try:
            async with (
                aclosing(self._events(client, body, model)) as events,
                aclosing(until_silent(events, silence, are_useful)) as useful,
            ):
                async for together in useful:
                    yield together
        except TimeoutError:
            raise self.endpoint.read_timeout(silence) from None

    async def _events(
        self, client: anthropic.AsyncAnthropic, body: bytes, model: str
    ) -> AsyncGenerator[list[Any]]:
        import anthropic

        content: dict[str, Any] = {"content": body}
        if self._rewrites:
            content = {"body": json.loads(body)}
        try:
            stream = await client.post(
                "/v1/messages",
                cast_to=object,
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
                **content,
            )
            async with stream:
                check_type(stream.response.headers, self.endpoint)
                size = 0
                async for event in stream:
                    size += len(repr(event))  # the bytes of an answer are out of sight here
                    if size > MAX_ANSWER_BYTES:
                        raise self.endpoint.garbage(TOO_LONG.format(MAX_ANSWER_BYTES))
                    if event is not None:
                        yield [event]
                    if is_last(event):
                        await drain(stream)
                if not size:
                    raise no_events(stream.response.headers, self.endpoint)
        except Exception as error:  # of the SDK, httpx2, or a library for a cloud's credentials
            failure = self._explain(error, model)
            if failure is None:
                raise
            raise failure from error

    def _opened(self) -> anthropic.AsyncAnthropic:
        if self._client is None:
            self._client = self._new_client()
            if self._rewrites:  # only the client knows the address it sends to
                url = self._client.base_url.copy_with(username="", password="", query=None)
                self.endpoint = replace(self.endpoint, address=str(url).rstrip("/"))
        return self._client

    def _new_client(self) -> anthropic.AsyncAnthropic:
        import anthropic
        import httpx2

        try:
            timeout = httpx2.Timeout(self._timeouts.read, connect=self._timeouts.connect)
            hooks = {"request": [keep_origin]}
            http = anthropic.DefaultAsyncHttpxClient(
                timeout=timeout, verify=certificates(), event_hooks=hooks
            )
            return self._make_client(http)
        except Exception as error:  # proxies and credentials are read from the environment here
            what = f"settings of {self.endpoint.address}" if self._rewrites else PROXIES
            raise not_ready(error, what) from error

    def _explain(self, error: Exception, model: str) -> ProviderFailure | None:
        """Return the failure for an exception of the SDK or httpx2; None for a bug."""
        import anthropic
        import httpx2

        match error:
            case ProviderFailure():
                return error
            case anthropic.APIStatusError():
                return self._status(error, model)
            case anthropic.APIConnectionError() if error.__cause__ is not None:
                return (
                    explain(error.__cause__, self.endpoint, self._timeouts)
                    or self.endpoint.cut_off()
                )
            case TimeoutError() | httpx2.TransportError() | httpx2.DecodingError():
                return explain(error, self.endpoint, self._timeouts)
            case json.JSONDecodeError() | UnicodeDecodeError() | RecursionError():
                return self.endpoint.garbage(str(error))
            case _ if self._rewrites or isinstance(
                error, anthropic.AnthropicError | httpx2.HTTPError
            ):
                problem = f"the request to {self.endpoint.address} failed: {type(error).__name__}"
                return ProviderFailure(f"{problem}: {shortened(str(error))}", attempts=1)
            case _:
                return None

    def _status(self, error: anthropic.APIStatusError, model: str) -> ProviderFailure:
        code = error.type or ""
        message = ""
        if isinstance(error.api_message, str):
            message = error.api_message
        status = error.status_code
        headers = error.response.headers
        # The error of a stream whose own status was a success.
        if status < 300:
            return refused_in_stream(self.endpoint, code, message, headers, model)
        said = http_text(status, shortened(message)) + name_request(headers)
        return self.endpoint.refused(status, said, code=code, headers=headers, model=model)

    async def aclose(self) -> None:
        if self._client is not None:
            await wait_within(CALL_LIMIT, "closing its connections", self._client.close)
            self._client = None


def sdk_transport(access: Credentials, silence: float) -> SdkTransport:
    """Return a transport to Anthropic's own API through the SDK."""

    def make_client(http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
        import anthropic

        is_key = access.variable == KEY
        return anthropic.AsyncAnthropic(
            api_key=access.secret if is_key else None,
            auth_token=None if is_key else access.secret,
            base_url=access.address,
            http_client=http,
            # The provider retries, reports each attempt, and obeys the pace of a batch.
            max_retries=0,
            open_telemetry=False,
        )

    return SdkTransport(
        access.endpoint, make_client, silence, secrets={access.variable: access.secret}
    )
