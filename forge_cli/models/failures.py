"""Failures of requests to a provider: their messages, and whether a retry can help."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import anyio
from msgspec import Struct

from forge_cli.core.errors import ModelError
from forge_cli.core.messages import current_pace
from forge_cli.core.notify import Notify, RetryNotice, StatusNotice
from forge_cli.core.text import cut, visible

MAX_ATTEMPTS = 5
MAX_SILENT_ATTEMPTS = 2
"""The attempts if a server does not respond: the first one has taken long enough."""
DELAYS = (0.5, 1.0, 4.0, 10.0)
MAX_DELAY_REFUSED = 1.0
"""Seconds before the retry if a server does not run, or is starting."""
MIN_RETRY_AFTER = 1.0
"""A server that asks for fewer seconds than this gets at least the usual delay."""
MAX_RETRY_AFTER = 120.0
"""Seconds that a server may ask for; forge gives up instead of waiting longer."""
OTHER_MODEL = "or take another model: forge models list"
DECLINED = "the model or its server declined to answer"
NO_WORDS = "[The model declined to answer]"
"""The text of a refusal that has no text of its own."""

_MAX_SHOWN = 300
"""The most characters of a server's text in a message."""
_RETRYABLE = frozenset({408, 409, 425, 429})
_BUSY = frozenset({429, 503, 529})
_NOT_RETRYABLE = frozenset({501, 505})
_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_TOO_LONG_PHRASES = (
    "maximum context length",
    "exceeds the available context size",
    "context window",
    "prompt is too long",
    "exceed context limit",
)
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})

_REFUSED = frozenset({401, 402, 403, 404})
"""The key is invalid or may not do this, there is no credit, or no such model."""


@dataclass(eq=False)
class ProviderFailure(Exception):
    """The failure of one attempt."""

    problem: str
    hint: str | None = None
    attempts: int = field(default=MAX_ATTEMPTS, kw_only=True)
    """The maximum number of attempts."""
    wait: float | None = field(default=None, kw_only=True)
    """The seconds that the server asks to wait."""
    too_long: bool = field(default=False, kw_only=True)
    quick: bool = field(default=False, kw_only=True)
    """True if no server has to be spared, so that the retry may come soon."""
    busy: bool = field(default=False, kw_only=True)
    """True if the provider is overloaded, so that other requests should wait as well."""
    refused: bool = field(default=False, kw_only=True)
    """True if the key or the model is refused, so that other requests are useless."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """The server of a provider, by an address without secrets that failures can show."""

    address: str
    address_variable: str
    key_variable: str
    key_source: str | None
    """The origin of the key that is sent; None if no key is sent."""
    status_page: str | None = None
    """The page with the provider's outages, if the address is the provider's own."""

    def connect_failed(self, error: BaseException) -> ProviderFailure:
        reasons = list(_causes(error))
        for reason in reasons:
            if isinstance(reason, ssl.SSLCertVerificationError):
                why = shortened(getattr(reason, "verify_message", "") or str(reason))
                return ProviderFailure(
                    f"the certificate of {self.address} is not trusted: {why}",
                    "behind a proxy that decrypts, set SSL_CERT_FILE to the proxy's certificate",
                    attempts=1,
                )
        refused = any(
            isinstance(each, OSError) and each.errno == errno.ECONNREFUSED for each in reasons
        )
        # The innermost cause is the most specific.
        messages = list(filter(None, map(_message, reversed(reasons))))
        why = messages[0] if messages else type(error).__name__
        hint = f"is the server running? {self.address_variable} says where it is"
        if self.status_page:
            hint = f"check the network, and {self.status_page}"
        return ProviderFailure(
            f"{self.address} cannot be reached: {shortened(why)}", hint, quick=refused
        )

    def redirected(self, target: str) -> ProviderFailure:
        """Return the failure of a redirect to another server, which gets neither key nor text."""
        return ProviderFailure(
            f"{self.address} redirects to {shortened(target)}",
            f"if you trust it, set {self.address_variable} to it",
            attempts=1,
        )

    def redirected_astray(self, why: str) -> ProviderFailure:
        """Return the failure of a redirect that cannot be followed."""
        return ProviderFailure(
            f"{self.address} redirects, but not to a server: {shortened(why)}",
            f"check that {self.address_variable} is the right server",
            attempts=1,
        )

    def connect_timeout(self, seconds: float) -> ProviderFailure:
        return self.connect_failed(TimeoutError(f"no connection within {seconds:g} s"))

    def read_timeout(self, seconds: float, *, again: bool = True) -> ProviderFailure:
        """Return the failure of a silent server; without ``again``, a slow one would start over."""
        hint = "models.NAME.timeout in the config gives a slow server more time"
        attempts = MAX_SILENT_ATTEMPTS if again else 1
        return ProviderFailure(
            f"{self.address} did not respond for {seconds:g} s", hint, attempts=attempts
        )

    def cut_off(self) -> ProviderFailure:
        return ProviderFailure(
            f"{self.address} closed the connection before its answer was complete",
            "try again later",
        )

    def garbage(self, text: str, *, attempts: int = MAX_ATTEMPTS) -> ProviderFailure:
        hint = f"check that {self.address_variable} is the right server"
        if self.status_page:
            hint = "try again later"
        return ProviderFailure(
            f"{self.address} sent an invalid answer: {shortened(text)}", hint, attempts=attempts
        )

    def refused(
        self,
        status: int,
        said: str,
        *,
        code: str = "",
        headers: Mapping[str, str] | None = None,
        model: str,
    ) -> ProviderFailure:
        """Return the failure for an HTTP status, or for an error in a stream.

        ``said`` is the server's own message.
        """
        headers = headers or {}
        if _is_passing(status, code, said, headers):
            return self._busy(status, said, retry_after(headers))
        problem, hint = self._final(status, said, code, model)
        too_long = is_too_long(status, code, said)
        refused = not too_long and (status in _REFUSED or code in _NO_CREDIT)
        return ProviderFailure(
            f"{problem} ({said})", hint, attempts=1, too_long=too_long, refused=refused
        )

    def _busy(self, status: int, said: str, wait: float | None) -> ProviderFailure:
        if wait is not None and wait > MAX_RETRY_AFTER:
            problem = f"{self.address} is rate limiting; retry in {wait:.0f} s"
            hint = f"wait that long, {OTHER_MODEL}"
            return ProviderFailure(
                f"{problem} ({said})", hint, attempts=1, wait=wait, busy=status in _BUSY
            )
        problem = f"{self.address} failed"
        hint = "try again later"
        if status == 429:
            problem = f"{self.address} has reached its limit of requests"
            hint = f"try again later, {OTHER_MODEL}"
        elif status == 529:
            problem = f"{self.address} is overloaded"
            hint = f"try again later, {OTHER_MODEL}"
        elif self.status_page:
            hint = f"try again later; outages: {self.status_page}"
        return ProviderFailure(f"{problem} ({said})", hint, wait=wait, busy=status in _BUSY)

    def _final(self, status: int, said: str, code: str, model: str) -> tuple[str, str | None]:
        """Return the message and the hint for an error that no retry would help."""
        address = self.address
        if is_too_long(status, code, said):
            hint = "the conversation exceeds the model's context window; start a new one"
            return f"{address} refused the request", hint
        if code in _NO_CREDIT or status == 402:
            return f"{address} has no credit left for this key", "check the billing of your account"
        match status:
            case 401 | 403 if not self.key_source:
                store = f"forge keys set {self.key_variable}"
                return (
                    f"{address} requires a key",
                    f"set {self.key_variable}, or store one: {store}",
                )
            case 401:
                problem = f"{address} refused the key in {self.key_source}"
                return problem, f"set a valid one, {OTHER_MODEL}"
            case 403:
                problem = f"{address} does not allow this with the key in {self.key_source}"
                return problem, "check the permissions of the key, and the models it may use"
            case 404:
                named = f"the model's name '{visible(model)}' (forge models list)"
                hint = f"check {named}, and {self.address_variable}"
                return f"{address} has no such model or path", hint
            case _ if 300 <= status < 400:
                hint = f"check that {self.address_variable} is the right server"
                return f"{address} redirects without a target", hint
            case _:
                return f"{address} {'failed' if status >= 500 else 'refused the request'}", None


def _is_passing(status: int, code: str, said: str, headers: Mapping[str, str]) -> bool:
    """Return True if a retry can help."""
    if headers.get("x-should-retry") == "false" or code in _NO_CREDIT:
        return False
    if is_too_long(status, code, said):
        return False
    return status in _RETRYABLE or (status >= 500 and status not in _NOT_RETRYABLE)


class Retry:
    """Waits between two attempts and reports the wait, or raises the last failure."""

    def __init__(
        self,
        model: str,
        notify: Notify,
        redact: Callable[[str], str],
        delays: Sequence[float] = DELAYS,
    ) -> None:
        self.model = model
        self.notify = notify
        self.redact = redact
        self.delays = delays

    async def wait(self, attempt: int, failure: ProviderFailure) -> None:
        """Wait after an attempt, or raise if it was the last one.

        The items of a batch wait together, because otherwise each of them would ask a busy
        provider again.
        """
        problem = self.redact(failure.problem)
        delay = self._delay(attempt)
        if failure.wait is not None and failure.wait < MIN_RETRY_AFTER:
            # zero, and a time that is over, would use up all attempts while the server is busy
            delay = max(failure.wait, delay)
        elif failure.wait is not None:
            delay = failure.wait
        pace = current_pace.get()
        shared = pace if failure.busy else None
        attempts = MAX_ATTEMPTS if shared else failure.attempts
        if attempt >= attempts:
            if shared:
                shared.hold(delay)
            tried = f" (tried {attempt} times)" if attempt > 1 else ""
            text = f"{self.model}: {problem}{tried}"
            raise ModelError(
                text, hint=failure.hint, too_long=failure.too_long, refused=failure.refused
            )
        if failure.quick:
            delay = min(delay, MAX_DELAY_REFUSED)
        notice = StatusNotice.of_retry(
            RetryNotice(f"{self.model}: {problem}", delay, attempt + 1, attempts)
        )
        self.notify("warning", notice)
        if pace:
            pace.tell(notice)
        if shared:
            await shared.back_off(delay)
        else:
            await anyio.sleep(delay)

    def _delay(self, attempt: int) -> float:
        """Return a delay that grows with each attempt, and varies between clients."""
        jitter = random.uniform(1, 1.25)  # noqa: S311
        return self.delays[min(attempt, len(self.delays)) - 1] * jitter


def is_too_long(status: int, code: str, said: str) -> bool:
    """Return True if the conversation exceeds the model's context window.

    Some servers have no code for it, so their words are compared.
    """
    if status == 413 or code in _TOO_LONG_CODES:
        return True
    return any(phrase in said.lower() for phrase in _TOO_LONG_PHRASES)


def http_text(status: int, message: str) -> str:
    """Return a status with its message, as ``HTTP 429: slow down``."""
    if message:
        return f"HTTP {status}: {message}"
    return f"HTTP {status}"


def read_error(body: str) -> tuple[str, str]:
    """Return the message and the code in the body of an error, in any of the usual shapes."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return shortened(body), ""
    if isinstance(found, list) and found:  # Google's API wraps an error in a list
        found = found[0]
    if isinstance(found, dict) and isinstance(found.get("error"), dict | str):
        found = found["error"]
    if not isinstance(found, dict):
        return shortened(found if isinstance(found, str) else body), ""
    message = next(
        (text for key in ("message", "detail", "error") if isinstance(text := found.get(key), str)),
        body,
    )
    code = next((text for key in ("code", "type") if isinstance(text := found.get(key), str)), "")
    return shortened(message), code


def shortened(text: str) -> str:
    """Return third-party text on one short line, without markup or terminal escapes."""
    if re.match(r"\s*<(!doctype|html|head|body)", text, re.IGNORECASE):
        text = re.sub(
            r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.IGNORECASE | re.DOTALL
        )
    line = " ".join(text.split())
    return visible(cut(line, _MAX_SHOWN, "end"))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of ``retry-after-ms`` or ``retry-after``, which may be a date, or None."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        if re.fullmatch(r"-?\d{1,12}(\.\d{1,9})?", said := headers.get(name, "").strip()):
            return max(0.0, float(said) / unit)
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, down to the first one."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        yield error
        error = error.__cause__ or error.__context__


def _message(error: BaseException) -> str:
    said = (error.strerror if isinstance(error, OSError) else None) or str(error)
    # This text of asyncio repeats the address, and does not contain the reason.
    if isinstance(error, OSError) and error.errno and said.startswith("Connect call failed"):
        return os.strerror(error.errno)
    return said
