"""Failures between forge and a provider: the same sentences for all of them, and what another try can mend."""

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

ATTEMPTS = 5
ATTEMPTS_IN_SILENCE = 2
"""How often a request is sent; a server that says nothing has taken long enough the first time."""
DELAYS = (0.5, 1.0, 4.0, 10.0)
DELAY_REFUSED = 1.0
"""Seconds at most before a server is asked again that does not run, or is starting."""
SHORTEST_WAIT = 1.0
LONGEST_WAIT = 120.0
"""Seconds that a server may ask for: where it asks for less, forge waits at least as long as it would by itself."""
OTHER_MODEL = "or take another model: forge models list"
DECLINED = "the model or its server declined to answer"
NO_WORDS = "[The model declined to answer]"
"""A refusal, as it is told; and in the place of its words, where it has none."""

_SHOWN = 300
_AGAIN = frozenset({408, 409, 425, 429})
_BUSY = frozenset({429, 503, 529})
_NEVER_AGAIN = frozenset({501, 505})
_NO_ROOM = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_TOO_LONG = (
    *("maximum context length", "exceeds the available context size", "context window"),
    *("prompt is too long", "exceed context limit"),
)
_NO_MONEY = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})

_REFUSED = frozenset({401, 402, 403, 404})
"""A key that is wrong or may not do this, no money, no such model."""


@dataclass(eq=False)
class ProviderFailure(Exception):
    """One attempt failed."""

    problem: str
    hint: str | None = None
    attempts: int = field(default=ATTEMPTS, kw_only=True)
    """How many there may be in all."""
    wait: float | None = field(default=None, kw_only=True)
    """The seconds that the server asks for."""
    too_long: bool = field(default=False, kw_only=True)
    quick: bool = field(default=False, kw_only=True)
    """No server has to be spared: the next attempt may come soon."""
    busy: bool = field(default=False, kw_only=True)
    """The provider has too much to do, so that others had better wait as well."""
    refused: bool = field(default=False, kw_only=True)
    """The key or the model is refused, so that others need not even ask."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """The server that is asked, as people may see it; every failure names the real address."""

    address: str
    address_variable: str
    key_variable: str
    key_source: str | None
    """The origin of the key that is sent; None when none is sent."""
    status_page: str | None = None
    """The page on which the provider tells of its troubles, if the address is its own."""

    def connect_failed(self, error: BaseException) -> ProviderFailure:
        reasons = list(_causes(error))
        untrusted = next(
            (each for each in reasons if isinstance(each, ssl.SSLCertVerificationError)), None
        )
        if untrusted is not None:
            why = shortened(getattr(untrusted, "verify_message", "") or str(untrusted))
            hint = "behind a proxy that reads along, SSL_CERT_FILE names its certificate"
            return ProviderFailure(
                f"the certificate of {self.address} is not trusted: {why}", hint, attempts=1
            )
        refused = any(
            isinstance(each, OSError) and each.errno == errno.ECONNREFUSED for each in reasons
        )
        why = next(
            (said for each in reversed(reasons) if (said := _message(each))), type(error).__name__
        )
        hint = f"is the server running? {self.address_variable} says where it is"
        if self.status_page:
            hint = f"look at the network, and at {self.status_page}"
        return ProviderFailure(
            f"{self.address} cannot be reached: {shortened(why)}", hint, quick=refused
        )

    def redirected(self, target: str) -> ProviderFailure:
        """A redirect to another server, where neither the key nor the conversation goes."""
        problem = f"{self.address} sends us on to {shortened(target)}"
        return ProviderFailure(
            problem, f"if you trust it, set {self.address_variable} to it", attempts=1
        )

    def redirected_astray(self, why: str) -> ProviderFailure:
        """A redirect that cannot be followed."""
        hint = f"does {self.address_variable} lead to the right server?"
        return ProviderFailure(
            f"{self.address} sends us on, but not to a server: {shortened(why)}", hint, attempts=1
        )

    def connect_timeout(self, seconds: float) -> ProviderFailure:
        return self.connect_failed(TimeoutError(f"no connection within {seconds:g} s"))

    def read_timeout(self, seconds: float, *, again: bool = True) -> ProviderFailure:
        """Without ``again`` it is not asked a second time: one that is slow would start over."""
        hint = "models.NAME.timeout in the config gives a slow server more time"
        attempts = ATTEMPTS_IN_SILENCE if again else 1
        return ProviderFailure(
            f"{self.address} said nothing for {seconds:g} s", hint, attempts=attempts
        )

    def cut_off(self) -> ProviderFailure:
        return ProviderFailure(
            f"{self.address} broke off before its answer was complete", "try again later"
        )

    def garbage(self, text: str, *, attempts: int = ATTEMPTS) -> ProviderFailure:
        hint = f"does {self.address_variable} lead to the right server?"
        if self.status_page:
            hint = "try again later"
        return ProviderFailure(
            f"{self.address} sent something that is not an answer: {shortened(text)}",
            hint,
            attempts=attempts,
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
        """The failure behind a status, which an error in the middle of a stream has as well; ``said`` tells it."""
        headers = headers or {}
        if _is_passing(status, code, said, headers):
            return self._busy(status, said, wait_wanted(headers))
        problem, hint = self._final(status, said, code, model)
        too_long = is_too_long(status, code, said)
        refused = not too_long and (status in _REFUSED or code in _NO_MONEY)
        return ProviderFailure(
            f"{problem} ({said})", hint, attempts=1, too_long=too_long, refused=refused
        )

    def _busy(self, status: int, said: str, wait: float | None) -> ProviderFailure:
        if wait is not None and wait > LONGEST_WAIT:
            problem = f"{self.address} asks to come back in {wait:.0f} s"
            hint = f"wait that long, {OTHER_MODEL}"
            return ProviderFailure(
                f"{problem} ({said})", hint, attempts=1, wait=wait, busy=status in _BUSY
            )
        hint = f"try again later, {OTHER_MODEL}"
        match status:
            case 429:
                problem = f"{self.address} has reached its limit of requests"
            case 529:
                problem = f"{self.address} is overloaded"
            case _:
                problem = f"{self.address} failed"
                hint = (
                    f"try again later; {self.status_page} tells more"
                    if self.status_page
                    else "try again later"
                )
        return ProviderFailure(f"{problem} ({said})", hint, wait=wait, busy=status in _BUSY)

    def _final(self, status: int, said: str, code: str, model: str) -> tuple[str, str | None]:
        """An error that no second attempt would mend, and what to do."""
        keys = f"forge keys set {self.key_variable}"
        if is_too_long(status, code, said):
            hint = "the conversation is longer than the model's context window: start a new one, or give it less"
            return f"{self.address} refused the request", hint
        if code in _NO_MONEY or status == 402:
            return (
                f"{self.address} has no credit left for this key",
                "look at the billing of your account",
            )
        match status:
            case 401 if not self.key_source:
                return (
                    f"{self.address} wants a key",
                    f"set {self.key_variable}, or store one: {keys}",
                )
            case 401:
                return (
                    f"{self.address} refused the key in {self.key_source}",
                    f"set a valid one, {OTHER_MODEL}",
                )
            case 403:
                allowed = (
                    f"refused what the key in {self.key_source} asks for"
                    if self.key_source
                    else "wants a key"
                )
                return (
                    f"{self.address} {allowed}",
                    "look at what the key may do, and which models it may use",
                )
            case 404:
                hint = f"check the model's name '{visible(model)}' (forge models list), and {self.address_variable}"
                return f"{self.address} knows no such model or address", hint
            case _ if 300 <= status < 400:
                hint = f"does {self.address_variable} lead to the right server?"
                return f"{self.address} sends us on to nowhere", hint
            case _:
                return (
                    f"{self.address} {'failed' if status >= 500 else 'refused the request'}",
                    None,
                )


def _is_passing(status: int, code: str, said: str, headers: Mapping[str, str]) -> bool:
    """Return True if another try can mend it."""
    again = status in _AGAIN or (status >= 500 and status not in _NEVER_AGAIN)
    final = (
        headers.get("x-should-retry") == "false"
        or code in _NO_MONEY
        or is_too_long(status, code, said)
    )
    return again and not final


class Retry:
    """Waits between two attempts and reports it, or gives up with the last failure."""

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
        """After attempt number ``attempt``; where there is no further one, this raises.

        The items of a batch wait for as long as the provider asks, since otherwise each of them would ask it again.
        """
        problem = self.redact(failure.problem)
        delay = self._delay(attempt)
        if failure.wait is not None:
            # "at once", and a time that is over, would use up all attempts while the server is still busy
            delay = failure.wait if failure.wait >= SHORTEST_WAIT else max(failure.wait, delay)
        pace = current_pace.get()
        attempts = ATTEMPTS if pace and failure.busy else failure.attempts
        if attempt >= attempts:
            if pace and failure.busy:
                pace.hold(delay)
            tried = f" (tried {attempt} times)" if attempt > 1 else ""
            text = f"{self.model}: {problem}{tried}"
            raise ModelError(
                text, hint=failure.hint, too_long=failure.too_long, refused=failure.refused
            )
        delay = min(delay, DELAY_REFUSED) if failure.quick else delay
        told = StatusNotice.of_retry(
            RetryNotice(f"{self.model}: {problem}", delay, attempt + 1, attempts)
        )
        self.notify("warning", told)
        if pace:
            pace.tell(told)
        if pace and failure.busy:
            await pace.back_off(delay)
        else:
            await anyio.sleep(delay)

    def _delay(self, attempt: int) -> float:
        """Longer each time, and not for everybody at the same moment."""
        jitter = random.uniform(1, 1.25)  # noqa: S311
        return self.delays[min(attempt, len(self.delays)) - 1] * jitter


def is_too_long(status: int, code: str, said: str) -> bool:
    """Return True if the conversation is longer than the model can hold; some servers have no code for it."""
    return status == 413 or code in _NO_ROOM or any(phrase in said.lower() for phrase in _TOO_LONG)


def http_text(status: int, message: str) -> str:
    """``HTTP 429: slow down``."""
    return f"HTTP {status}: {message}" if message else f"HTTP {status}"


def read_error(body: str) -> tuple[str, str]:
    """The message and the code in the body of an error, whichever of the usual shapes it has."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return shortened(body), ""
    if isinstance(found, list) and found:
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
    """Third-party text on one line: no markup, nothing that a terminal obeys, no more than a glance."""
    if re.match(r"\s*<(!doctype|html|head|body)", text, re.IGNORECASE):
        text = re.sub(
            r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.IGNORECASE | re.DOTALL
        )
    line = " ".join(text.split())
    return visible(cut(line, _SHOWN, "end"))


def wait_wanted(headers: Mapping[str, str]) -> float | None:
    """The seconds in ``retry-after-ms`` or ``retry-after``, which may be a date too; None where neither makes sense."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        if re.fullmatch(r"-?\d{1,12}(\.\d{1,9})?", said := headers.get(name, "").strip()):
            return max(0.0, float(said) / unit)
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """From the library's own error to the first cause, which says more."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        yield error
        error = error.__cause__ or error.__context__


def _message(error: BaseException) -> str:
    said = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if isinstance(error, OSError) and error.errno and said.startswith("Connect call failed"):
        return os.strerror(error.errno)
    return said
