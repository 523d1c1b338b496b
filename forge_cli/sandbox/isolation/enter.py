"""Enter a confinement by Landlock and become the command: ``python -I -S enter.py RULESET FILTER FOLDER ARGV...``.

It is a program of its own, since nothing but system calls is safe between fork and exec of a process with threads. It
imports nothing of forge. What cannot be given up, or entered, ends it before the command has begun.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

RESTRICT_SELF = 446
FAILED, NOT_FOUND, NOT_EXECUTABLE = 125, 127, 126

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = (
    1,
    22,
    24,
    38,
    47,
)
_SECCOMP_FILTER, _AMBIENT_CLEAR, _CAPABILITY_VERSION, _JOIN_SESSION_KEYRING = 2, 4, 0x20080522, 1
_KEYCTL = {"x86_64": 250}.get(os.uname().machine, 219)
_FILTER_STEP = 8

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _call(function: Callable[..., int], *arguments: object) -> None:
    if (
        function(*(ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments))
        < 0
    ):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def give_up_capabilities() -> None:
    """Root without any is a user like others, also after it has started a program."""
    # Errors do not count here: the kernel may know fewer, and only root can drop any.
    for number in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_AMBIENT_CLEAR), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    _call(_libc.capset, header, none)


def enter(ruleset: int, program: bytes) -> None:
    _call(_libc.prctl, _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # A new keyring, if the kernel has any: that of the session holds keys of the user.
    _libc.syscall(_KEYCTL, ctypes.c_long(_JOIN_SESSION_KEYRING), None)
    # Without this only root may restrict itself by Landlock and seccomp.
    _call(_libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    give_up_capabilities()
    _call(_libc.syscall, RESTRICT_SELF, ruleset, 0)
    steps = _Program(len(program) // _FILTER_STEP, program)
    _call(_libc.prctl, _PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(steps), 0, 0)


def main(ruleset: int, filters: int, folder: str, argv: list[str]) -> int:
    try:
        enter(ruleset, os.pread(filters, 1 << 16, 0))
        os.close(ruleset)
        os.close(filters)
    except OSError as error:
        return _report(FAILED, f"nothing was started: it cannot be confined: {error.strerror}")
    os.environ["TMPDIR"] = folder
    os.environ.setdefault(
        "XDG_CACHE_HOME", os.path.join(folder, ".cache")
    )  # the home is not written to
    for number in (
        signal.SIGPIPE,
        signal.SIGXFSZ,
    ):  # Python ignores them, and the command would inherit that
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
