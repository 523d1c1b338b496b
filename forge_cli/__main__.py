"""``python -m forge_cli`` is ``forge``."""

import sys

from forge_cli.cli.app import main

sys.exit(main())
