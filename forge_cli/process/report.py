"""The result object of a command that ends early, built without modules that may fail to load."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from typing import Any, TextIO

from forge_cli.core.phrases import INTERRUPTED_ANSWER
from forge_cli.core.text import json_for
from forge_cli.core.wire import camel_keys

END = "sessionEnd"
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class ResultReport:
    """The one result object of ``--output-format``, printed however the command ends."""

    def __init__(self, form: str) -> None:
        """Prepare a result in ``form``, which is json or stream-json."""
        self._form = form
        self._since = time.monotonic()
        self.worker = self.model = self.session = ""
        self.printed = False
        self.told: int | None = None
        """The exit code in the printed result; None until the work is over."""
        self._seq = 0
        self._hash = None

    def follow(self, line: Any) -> None:
        """Note a session line before it is printed, so that a later result continues its chain."""
        self.session = line.session
        if not line.transient:
            self._seq = line.seq
            self._hash = line.hash
        self.printed = self.printed or (
            self._form == "stream-json" and line.type == END and line.depth == 0
        )

    def fail(self, code: int, error: str | None = None) -> int:
        """Print the result of work that ended with ``code``, unless a result was printed.

        Signals have no ``error``. Return the exit code of the process, which a signal after the
        result does not change.
        """
        if code != 0:
            self.tell(self._result(code, error), sys.stdout)
        return code if self.told is None else self.told

    def tell(self, result: dict[str, Any], out: TextIO) -> None:
        """Print ``result`` to ``out``, unless a result was printed."""
        if self.printed:
            return
        self.printed = True
        if self._form != "json":
            result = self._line(result)
        out.write(json_for(out, _dump(result)) + "\n")
        out.flush()

    def _result(self, code: int, error: str | None) -> dict[str, Any]:
        stopped = error is None and code > 128
        # The keys of WorkerResult.wire(), whose import could be the reason that the command failed.
        found: dict[str, Any] = {
            "status": "interrupted" if stopped else "failed",
            "exit_code": code,
            "response": INTERRUPTED_ANSWER if stopped else "",
            "output": None,
            "session_id": self.session,
            "worker": self.worker,
            "model": self.model,
            "turns": 0,
            "tool_calls": 0,
            "denials": [],
            "usage": camel_keys(dict.fromkeys(_TOKENS, 0)),
            "cost": None,
            "duration_ms": round((time.monotonic() - self._since) * 1000),
            "draft": None,
        }
        return camel_keys(found if error is None else {**found, "error": error})

    def _line(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the last line of a session, with the hash of the line before it."""
        now = time.time()
        moment = (
            time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        )
        line = {
            "v": 1,
            "seq": self._seq + 1,
            "time": moment,
            "session": self.session,
            "worker": self.worker,
        }
        line |= {"depth": 0, "type": END, "result": result, "prev": self._hash}
        return {
            **line,
            "hash": hashlib.sha256(_dump(line).encode("utf-8", "surrogatepass")).hexdigest(),
        }


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
