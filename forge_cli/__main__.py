"""``forge``, and ``python -m forge_cli``, in which nothing is imported from the working directory.

Signals wait from the first line on: until there is a handler, they would end in a traceback of imports.
"""

import _signal  # type: ignore[import-not-found]  # without the enums of signal, which take their time
import gc
import sys
from os import _exit, write

held = _signal.pthread_sigmask(_signal.SIG_BLOCK, (1, 2, 3, 15)) if hasattr(_signal, "pthread_sigmask") else None
if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

from forge_cli.cli import app  # noqa: E402

BROKEN = b"forge: a plugin or a tool has broken Python itself in this process, so it ends; --debug shows more\n"


def main() -> int:
    """Run the command line; an exception that comes here says that not even errors could be explained."""
    try:
        code = app.main(held)
        gc.freeze()  # Python looks for garbage twice while it ends, a fifth of a command's time: all of it goes anyway
        return code
    except Exception:
        if "--debug" in sys.argv:
            raise
        write(2, BROKEN)
        _exit(1)


if __name__ == "__main__":
    sys.exit(main())
