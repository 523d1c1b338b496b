"""The child process that loads third-party code and calls the functions that requests name."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, get_type_hints

import msgspec
from anyio import to_thread

from forge_cli.core.bounds import start_loop
from forge_cli.core.errors import ForgeError
from forge_cli.core.thirdparty import watching
from forge_cli.core.wire import JsonObject, error_text
from forge_cli.sandbox.processes.inherited import set_inherited_confinement

Function = Callable[..., Awaitable[Any]]


def main() -> None:
    """Answer requests until the parent closes the pipe; skip exit handlers of third-party code."""
    try:
        start_loop(_serve, *_take_streams())
    finally:
        # third-party threads or exit handlers could keep the process alive
        os._exit(1)


def result_type(function: Function) -> Any:
    """Return the return type of a function, which the parent needs to decode the reply."""
    return get_type_hints(function)["return"]


def _take_streams() -> tuple[int, int]:
    """Return descriptors for requests and replies; standard input and output are redirected.

    Third-party code may read standard input or print, which must not disturb the conversation.
    """
    requests = os.dup(0)
    replies = os.dup(1)
    # descriptors 0 and 1 are redirected, not only sys.stdin: C code and child processes use them
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return requests, replies


async def _serve(requests: int, replies: int) -> None:
    def reply(message: JsonObject) -> None:
        # os.write may write only a part if the pipe is full
        left = memoryview(json.dumps(message).encode() + b"\n")
        while left:
            left = left[os.write(replies, left) :]

    # the parent is sent the name of each third-party step, to blame it if no answer follows
    with watching(lambda name: reply({"at": name})), os.fdopen(requests, "rb") as lines:
        while line := await to_thread.run_sync(lines.readline):
            request = json.loads(line)
            if request["confined_by"]:
                set_inherited_confinement(*request["confined_by"])
            answer = await _answer(request)
            with suppress(Exception):  # third-party code may have put anything there
                sys.stdout.flush()
            reply(answer)


async def _answer(request: JsonObject) -> JsonObject:
    try:
        function = find_function(request["function"])
        value = await function(*request["args"])
        # msgspec does not encode a Path by itself
        return {"value": msgspec.to_builtins(value, enc_hook=os.fspath)}
    except ForgeError as error:
        if error.where:
            where = [error.where.file, error.where.line, error.where.column]
        else:
            where = None
        told = {
            "message": error.message,
            "where": where,
            "hint": error.hint,
            "exit_code": int(error.exit_code),
        }
        return {"error": told, "traceback": _traceback(error)}
    except BaseException as error:  # third-party code: whatever it raises
        return {"failed": error_text(error), "traceback": _traceback(error)}


def find_function(name: str) -> Function:
    """Return the function that ``MODULE:NAME`` names."""
    module, _, attribute = name.partition(":")
    function: Function = getattr(import_module(module), attribute)
    return function


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # third-party code: an exception that cannot be shown
        return type(error).__name__
