"""The exceptions of the SDK and its wire, as failures in the words that all providers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.models.anthropic.client import CONNECT, NoStream
from forge_cli.models.anthropic.decode import Garbled
from forge_cli.models.failures import Endpoint, ProviderFailure, http_text, shortened

if TYPE_CHECKING:
    import anthropic

_STATUS_OF = {"rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529}
"""The statuses that errors have which come in the middle of a stream, where the status was 200 long before."""


def explain(error: Exception, endpoint: Endpoint, *, model: str, silence: float) -> ProviderFailure:
    """The failure behind an exception of the SDK or its wire; anything else is a bug and is raised as it is."""
    import anthropic
    import httpx2

    match error:
        case anthropic.APIStatusError():
            return _status(error, endpoint, model)
        case anthropic.APITimeoutError() if isinstance(error.__cause__, httpx2.ConnectTimeout):
            return endpoint.no_connection(CONNECT)
        case TimeoutError() | anthropic.APITimeoutError() | httpx2.TimeoutException():
            return endpoint.silent(silence)
        case anthropic.APIConnectionError() if isinstance(error.__cause__, httpx2.ConnectError):
            return endpoint.unreachable(error)
        case anthropic.APIConnectionError() | httpx2.TransportError():
            return endpoint.cut_off()
        case NoStream():
            return endpoint.garbage(f"{error} instead of a stream", attempts=1)
        case Garbled() | ValueError() | httpx2.DecodingError():
            return endpoint.garbage(str(error))
        case anthropic.AnthropicError() | httpx2.HTTPError():
            return ProviderFailure(
                f"the request to {endpoint.address} failed: {type(error).__name__}: {shortened(str(error))}", attempts=1
            )
        case _:
            raise error


def _status(error: anthropic.APIStatusError, endpoint: Endpoint, model: str) -> ProviderFailure:
    code, message = error.type or "", error.api_message if isinstance(error.api_message, str) else ""
    in_stream = error.status_code < 400
    status = _STATUS_OF.get(code, 400) if in_stream else error.status_code
    said = f"{code}: {shortened(message)}" if in_stream else http_text(status, shortened(message))
    said += f"; request {error.request_id}" if error.request_id else ""
    return endpoint.refused(status, said, code=code, headers=error.response.headers, model=model)
