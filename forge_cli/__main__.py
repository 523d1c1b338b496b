"""The entry point of ``forge`` and ``python -m forge_cli``."""

import atexit
import gc
import os
import signal
import sys

ended: list[int] = []
"""The exit code after the command line has run."""


# registered first, so that it runs last: after handlers of tools and libraries
@atexit.register
def leave_as_it_is() -> None:
    """Exit without Python's teardown of all modules, unless third-party code may depend on it."""
    thirdparty = sys.modules.get("forge_cli.core.thirdparty")
    if ended and not (thirdparty and thirdparty.LOADED):
        from forge_cli.cli.app import leave

        os._exit(leave(ended[0]))
    # without this, Python collects garbage twice at exit, a fifth of a command's time
    gc.freeze()


def main() -> int:
    """Run the command line.

    Signals are blocked from the first line on. Until there is a handler, they would end in a
    traceback of imports.
    """
    mask = None
    if hasattr(signal, "pthread_sigmask"):
        # SIGHUP, SIGINT, SIGQUIT and SIGTERM
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (1, 2, 3, 15))
    from forge_cli.cli.app import main as run_command_line

    ended[:] = [run_command_line(mask)]
    return ended[0]


if __name__ == "__main__":
    # python -m puts the working directory first, where a file could replace any module
    if not sys.flags.safe_path:
        del sys.path[0]
    sys.exit(main())
