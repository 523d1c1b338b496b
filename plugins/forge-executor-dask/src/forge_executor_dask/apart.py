"""A module that the processes of a local cluster import first.

It puts each of them into a process group of its own: Ctrl+C in a terminal is for forge, which ends
them in order.
"""

from __future__ import annotations

import os

os.setpgid(0, 0)
