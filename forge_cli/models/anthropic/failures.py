"""What goes wrong on the way to the API, as sentences for people, and whether it is worth another try."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import time
from typing import TYPE_CHECKING

from forge_cli.core.errors import ModelError
from forge_cli.models.anthropic.access import ADDRESS, OTHER_WAYS, Credentials
from forge_cli.models.anthropic.client import NoStream
from forge_cli.models.anthropic.decode import Garbled

if TYPE_CHECKING:
    import anthropic

ATTEMPTS, ATTEMPTS_IN_SILENCE = 5, 2
"""How often a request is sent; a server that says nothing has taken long enough the first time."""

PASSING = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""The statuses that another try can mend."""

_STATUS_OF = {"rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529}
"""The statuses that errors have which come in the middle of a stream, where the status was 200 long before."""

_SENTENCES = {
    400: ("it did not accept the request", None),
    402: ("there is a problem with the payment", "look at https://platform.claude.com/settings/billing"),
    404: ("it does not know this model", f"look at the model's name, and at {ADDRESS} where that is set"),
    408: ("the request took too long", "try again later"),
    409: ("the request got into the way of another one", "try again"),
    413: ("the request is too large", "attach less, or start a new conversation"),
    422: ("it did not accept the request", None),
    429: ("the rate limit of this key is reached", "wait a while, or take another model"),
    504: ("the answer took too long", "try again later"),
    529: ("it is overloaded", "try again later, or take another model"),
}
_GIVE_LESS = "start a new conversation, or give it less to read"
_TOO_LONG = ("prompt is too long", "exceed context limit")
_BROKEN = ("it has trouble of its own", "try again later; https://status.claude.com tells more")
_REFUSED = ("it did not accept the request", None)


@dataclass(frozen=True)
class Failure:
    """One attempt that came to nothing; ``after`` is how long the server wants to be left alone."""

    sentence: str
    hint: str | None = None
    passing: bool = False
    after: float | None = None
    too_long: bool = False
    attempts: int = ATTEMPTS

    def error(self, model: str, attempts: int) -> ModelError:
        tried = f" (tried {attempts} times)" if attempts > 1 else ""
        return ModelError(f"{model}: {self.sentence}{tried}", hint=self.hint, too_long=self.too_long)


CUT = Failure("the connection broke off in the middle of the answer", "try again", passing=True)


def explain(error: Exception, access: Credentials) -> Failure:
    """The failure behind an exception of the SDK or its wire; anything else is a bug and is raised as it is."""
    import anthropic
    import httpx2

    match error:
        case anthropic.APIStatusError():
            return _status(error, access)
        case TimeoutError() | anthropic.APITimeoutError() | httpx2.TimeoutException():
            hint = "try again later; models.NAME.timeout in the config gives a slow one more time"
            return Failure("it did not answer in time", hint, passing=True, attempts=ATTEMPTS_IN_SILENCE)
        case anthropic.APIConnectionError():
            return _unreachable(error, access)
        case httpx2.TransportError():
            return CUT
        case NoStream():
            return Failure(f"it answered with {error} instead of a stream", _look_at_address(access))
        case Garbled() | ValueError() | httpx2.DecodingError():
            return Failure("it sent something that cannot be read", _look_at_address(access), passing=True)
        case anthropic.AnthropicError() | httpx2.HTTPError():
            return Failure(f"the request failed: {type(error).__name__}: {error}")
        case _:
            raise error


def without_events(access: Credentials) -> Failure:
    """A stream that came to its end and held nothing, as that of a page does."""
    return Failure("it answered with a stream in which there is no event", _look_at_address(access), passing=True)


def _status(error: anthropic.APIStatusError, access: Credentials) -> Failure:
    status = error.status_code if error.status_code >= 400 else _STATUS_OF.get(error.type or "", 400)
    sentence, hint = _sentence(status, access)
    said = error.api_message if isinstance(error.api_message, str) else ""
    too_long = status == 413 or any(phrase in said for phrase in _TOO_LONG)
    request = f" (request {error.request_id})" if error.request_id else ""
    headers = error.response.headers
    return Failure(
        f"{sentence}: {said}{request}" if said else f"{sentence} (status {status}){request}",
        hint or _GIVE_LESS if too_long else hint,
        passing=status in PASSING and headers.get("x-should-retry") != "false",
        after=wait_wanted(headers),
        too_long=too_long,
    )


def _sentence(status: int, access: Credentials) -> tuple[str, str | None]:
    if status == 401:
        return f"the key in {access.variable} is not accepted", f"set a valid one, {OTHER_WAYS}"
    if status == 403:
        return f"the key in {access.variable} may not do this", "look at what the key and its workspace allow"
    return _SENTENCES.get(status) or (_BROKEN if status >= 500 else _REFUSED)


def _look_at_address(access: Credentials) -> str:
    return f"{ADDRESS} says {access.shown}: is that the right place?" if access.address else "try again later"


def _unreachable(error: Exception, access: Credentials) -> Failure:
    reasons = list(_causes(error))
    place = access.shown or "https://api.anthropic.com"
    if any(isinstance(reason, ssl.SSLCertVerificationError) for reason in reasons):
        hint = "behind a proxy that reads along, SSL_CERT_FILE names its certificate"
        return Failure(f"the certificate of {place} is not trusted", hint)
    why = next((str(reason) for reason in reversed(reasons) if str(reason)), type(error).__name__)
    hint = f"look at the network, and at {ADDRESS} and the proxy settings in the environment"
    return Failure(f"{place} cannot be reached: {why}", hint, passing=True)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def wait_wanted(headers: Mapping[str, str]) -> float | None:
    """The seconds in ``retry-after-ms`` or ``retry-after``, which may be a date too; None where neither makes sense."""
    with suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    with suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after"]))
    with suppress(KeyError, ValueError):
        moment = parsedate_to_datetime(headers["retry-after"])
        return max(0.0, moment.timestamp() - time())
    return None
