"""``forge``, and ``python -m forge_cli``, in which nothing is imported from the working directory.

Signals wait from the first line on: until there is a handler, they would end in a traceback of imports.
"""

import atexit
import gc
import os
import signal
import sys

held = signal.pthread_sigmask(signal.SIG_BLOCK, (1, 2, 3, 15)) if hasattr(signal, "pthread_sigmask") else None
if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

ended: list[int] = []


@atexit.register  # the first one is called last, after those of tools and libraries
def leave_as_it_is() -> None:
    """Spare Python to take apart all that was imported, unless third-party code may count on that."""
    thirdparty = sys.modules.get("forge_cli.core.thirdparty")
    if ended and not (thirdparty and thirdparty.LOADED):
        os._exit(leave(ended[0]))
    gc.freeze()  # garbage would be looked for twice, a fifth of a command's time


from forge_cli.cli.app import leave  # noqa: E402
from forge_cli.cli.app import main as run_command_line  # noqa: E402


def main() -> int:
    """Run the command line."""
    ended[:] = [run_command_line(held)]
    return ended[0]


if __name__ == "__main__":
    sys.exit(main())
