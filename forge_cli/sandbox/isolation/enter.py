"""Enter a confinement by Landlock, then become the command.

Usage: ``python -I -S enter.py RULESET FILTER FOLDER ARGV...``. This is a separate program, because
only system calls are safe between fork and exec in a process with threads. It imports nothing of
forge. If a right cannot be given up, it ends before the command begins.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

# Numbers of the kernel, which Python does not define.
RESTRICT_SELF = 446
# The exit codes of ``env`` and of shells.
FAILED = 125
NOT_FOUND = 127
NOT_EXECUTABLE = 126

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_SECCOMP_FILTER = 2
_AMBIENT_CLEAR = 4
_CAPABILITY_VERSION = 0x20080522
_JOIN_SESSION_KEYRING = 1
# All newer architectures share one table of numbers.
_KEYCTL = {"x86_64": 250}.get(os.uname().machine, 219)
_FILTER_STEP = 8

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _call(function: Callable[..., int], *arguments: object) -> None:
    # An int would be passed with 32 bits, and these system calls read 64.
    values = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    if function(*values) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def give_up_capabilities() -> None:
    """Drop all capabilities for good, so that root becomes an ordinary user."""
    # Ignore errors: the kernel may know fewer capabilities, and only root can drop any.
    for number in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_AMBIENT_CLEAR), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # The effective, permitted and inheritable sets have two words each.
    none = (ctypes.c_uint32 * 6)()
    _call(_libc.capset, header, none)


def enter(ruleset: int, program: bytes) -> None:
    """Give up rights for good, by a Landlock ruleset and a seccomp program."""
    # The command must not outlive forge, even if forge is killed.
    _call(_libc.prctl, _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # Join a new keyring if the kernel has any: the one of the session holds the user's keys.
    _libc.syscall(_KEYCTL, ctypes.c_long(_JOIN_SESSION_KEYRING), None)
    # Without this, only root may restrict itself with Landlock and seccomp.
    _call(_libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    give_up_capabilities()
    _call(_libc.syscall, RESTRICT_SELF, ruleset, 0)
    steps = _Program(len(program) // _FILTER_STEP, program)
    _call(_libc.prctl, _PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(steps), 0, 0)


def main(ruleset: int, filters: int, folder: str, argv: list[str]) -> int:
    """Become the command, with ``folder`` as its temporary folder.

    Return an exit code on failure.
    """
    try:
        enter(ruleset, os.pread(filters, 1 << 16, 0))
        os.close(ruleset)
        os.close(filters)
    except OSError as error:
        return _report(FAILED, f"nothing was started: it cannot be confined: {error.strerror}")
    os.environ["TMPDIR"] = folder
    # The cache of the home is read-only.
    os.environ.setdefault("XDG_CACHE_HOME", os.path.join(folder, ".cache"))
    # Python ignores these signals, and the command would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        return _report(code, f"{argv[0]} cannot be started: {error.strerror}")


def _report(code: int, problem: str) -> int:
    sys.stderr.write(f"forge: {problem}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
