"""``python -m forge_cli`` is ``forge``: nothing is imported from the working directory."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from forge_cli.cli.app import main

sys.exit(main())
