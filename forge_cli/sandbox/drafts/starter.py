"""Start an unconfined program of root's forge so that it cannot leave the view of a draft.

A script for a bare interpreter: ``starter.py PROGRAM ARGUMENT ...``. Root could enter the mount
namespace of any process that it sees: with its capabilities, and even without them if the process
is in a user namespace of root's, such as the sandbox of a browser. So the program sees no other
process, and loses the capabilities for good.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_NEWNS, _NEWPID = 0x00020000, 0x20000000
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP = 1, 24
_CAP_SYS_PTRACE, _CAP_SYS_ADMIN = 19, 21
_CANNOT_START = 126
"""Exit code of a shell for a program that it finds and cannot start."""
_libc = ctypes.CDLL(None, use_errno=True)


def _require(result: int, action: str) -> None:
    if result < 0:
        reason = os.strerror(ctypes.get_errno())
        sys.stderr.write(f"forge: the program was not started: {action}: {reason}\n")
        os._exit(_CANNOT_START)


def start(argv: list[str]) -> int:
    """Run a program in a process namespace of its own, and return its exit code."""
    _require(_libc.unshare(_NEWNS | _NEWPID), "no namespaces")
    child = os.fork()
    if not child:
        _become(argv)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(argv: list[str]) -> None:
    # The first process of a namespace ignores most signals: only this one ends it with its parent.
    _require(
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        "the signal for the end of its parent cannot be set",
    )
    _require(_libc.mount(b"proc", b"/proc", b"proc", 0, None), "/proc cannot be mounted")
    for capability in (_CAP_SYS_ADMIN, _CAP_SYS_PTRACE):
        _require(
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "capabilities cannot be dropped"
        )
    os.execvp(argv[0], argv)  # noqa: S606


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
