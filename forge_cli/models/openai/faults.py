"""What can go wrong with a server, each as a sentence for people, and whether to try again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from forge_cli.core.text import cut, visible

ATTEMPTS = 5
ATTEMPTS_TO_CONNECT = 3
LONGEST_WAIT = 60.0
_SHOWN = 300
_NO_ROOM = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_TOO_LONG = ("maximum context length", "exceeds the available context size", "context window")
_NO_MONEY = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_AGAIN = frozenset({408, 409, 425, 429})


class Fault(Exception):
    """One attempt failed; ``attempts`` is how many there may be in all, ``wait`` what the server asks for."""

    def __init__(
        self,
        problem: str,
        *,
        hint: str | None = None,
        attempts: int = ATTEMPTS,
        wait: float | None = None,
        too_long: bool = False,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.attempts = attempts
        self.wait = wait
        self.too_long = too_long


def unreachable(url: str, error: BaseException) -> Fault:
    return Fault(
        f"{url} cannot be reached: {_root_of(error)}",
        hint="is the server running? OPENAI_BASE_URL says where it is",
        attempts=ATTEMPTS_TO_CONNECT,
    )


def cut_off(url: str) -> Fault:
    return Fault(f"{url} stopped in the middle of its answer")


def silent(url: str, seconds: float) -> Fault:
    hint = "models.NAME.timeout in the config gives a slow server more time"
    return Fault(f"{url} said nothing for {seconds:g} s", hint=hint, attempts=2)


def garbage(url: str, text: str, *, attempts: int = ATTEMPTS) -> Fault:
    return Fault(
        f"{url} sent something that is not an answer: {shortened(text)}",
        hint="does OPENAI_BASE_URL lead to a server of Chat Completions? the address usually ends in /v1",
        attempts=attempts,
    )


def refused(url: str, status: int, headers: Mapping[str, str], body: str, *, model: str, has_key: bool) -> Fault:
    """The fault behind an HTTP status other than 200."""
    message, code = read_error(body)
    said = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    match status:
        case 401 | 403 if has_key:
            hint = "check that the key belongs to this server and may use this model"
            return Fault(f"{url} refused the key in OPENAI_API_KEY ({said})", hint=hint, attempts=1)
        case 401 | 403:
            return Fault(f"{url} wants a key ({said})", hint="set OPENAI_API_KEY", attempts=1)
        case 404:
            hint = f"check the model's name '{visible(model)}', and that OPENAI_BASE_URL ends as the server's API does"
            return Fault(f"{url} knows no such model or address ({said})", hint=hint, attempts=1)
        case _ if 300 <= status < 400:
            target = shortened(headers.get("location", "nowhere"))
            return Fault(f"{url} sends us on to {target} ({said})", hint="set OPENAI_BASE_URL to it", attempts=1)
        case _:
            return _other(url, status, headers, said, code)


def _other(url: str, status: int, headers: Mapping[str, str], said: str, code: str) -> Fault:
    if _no_room(said, code):
        hint = "the conversation is longer than the model's context window"
        return Fault(f"{url} refused the request ({said})", hint=hint, attempts=1, too_long=True)
    if code in _NO_MONEY:
        return Fault(f"{url} has no quota left for this key ({said})", attempts=1)
    wait = retry_after(headers)
    if wait is not None and wait > LONGEST_WAIT:
        return Fault(f"{url} asks to come back in {wait:.0f} s ({said})", attempts=1)
    if status == 429:
        return Fault(f"{url} has too many requests ({said})", wait=wait)
    if status in _AGAIN or status >= 500:
        return Fault(f"{url} failed ({said})", wait=wait)
    return Fault(f"{url} refused the request ({said})", attempts=1)


def in_stream(url: str, error: Any) -> Fault:
    """The fault behind an error that comes where the answer should."""
    message, code = read_error(json.dumps({"error": error}))
    status = error.get("code") if isinstance(error, dict) else None
    too_long = _no_room(message, code)
    refused = isinstance(status, int) and 400 <= status < 500 and status not in _AGAIN
    final = too_long or refused or code in _NO_MONEY
    return Fault(f"{url} failed: {message}", attempts=1 if final else ATTEMPTS, too_long=too_long)


def _no_room(message: str, code: str) -> bool:
    """Is the conversation too long? Servers without a code for it say so in one of a few ways."""
    return code in _NO_ROOM or any(phrase in message.lower() for phrase in _TOO_LONG)


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
    message = next((text for key in ("message", "detail", "error") if isinstance(text := found.get(key), str)), body)
    code = next((text for key in ("code", "type") if isinstance(text := found.get(key), str)), "")
    return shortened(message), code


def shortened(text: str) -> str:
    """Foreign text on one line: no markup, nothing that a terminal obeys, no more than a glance."""
    if re.match(r"\s*<(!doctype|html|head|body)", text, re.IGNORECASE):
        text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.IGNORECASE | re.DOTALL)
    line = " ".join(text.split())
    return visible(cut(line, _SHOWN, "end"))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the server asks us to wait, said in either of the two ways."""
    said = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", said):
        return float(said)
    try:
        then = parsedate_to_datetime(said)
    except (ValueError, OverflowError):
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _root_of(error: BaseException) -> str:
    """The first cause, which says more than the library's own message."""
    cause: BaseException | None = error
    said = ""
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        said = _message(cause) or said
        cause = cause.__cause__ or cause.__context__
    return shortened(said or type(error).__name__)


def _message(error: BaseException) -> str:
    said = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if isinstance(error, OSError) and error.errno and said.startswith("Connect call failed"):
        return os.strerror(error.errno)
    return said
