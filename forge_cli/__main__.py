"""``forge``, and ``python -m forge_cli``, in which nothing is imported from the working directory.

Signals wait from the first line on: until there is a handler, they would end in a traceback of imports.
"""

import gc
import signal
import sys

held = signal.pthread_sigmask(signal.SIG_BLOCK, (1, 2, 3, 15)) if hasattr(signal, "pthread_sigmask") else None
if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

from forge_cli.cli.app import main as run_command_line  # noqa: E402


def main() -> int:
    """Run the command line."""
    code = run_command_line(held)
    gc.freeze()  # Python looks for garbage twice while it ends, a fifth of a command's time: all of it goes anyway
    return code


if __name__ == "__main__":
    sys.exit(main())
