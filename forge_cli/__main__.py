"""``forge``, and ``python -m forge_cli``, in which nothing is imported from the working directory.

Signals wait from the first line on: until there is a handler, they would end in a traceback of imports.
"""

import _signal  # type: ignore[import-not-found]  # without the enums of signal, which take their time
import gc
import sys

held = _signal.pthread_sigmask(_signal.SIG_BLOCK, (1, 2, 3, 15)) if hasattr(_signal, "pthread_sigmask") else None
if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

from forge_cli.cli import app  # noqa: E402


def main() -> int:
    code = app.main(held)
    gc.freeze()  # Python looks for garbage twice while it ends, a fifth of the time of a command: all of it goes anyway
    return code


if __name__ == "__main__":
    sys.exit(main())
