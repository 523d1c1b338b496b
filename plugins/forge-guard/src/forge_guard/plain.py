"""An answer without a resident gate: ``python -m forge_guard.plain TOOL``."""

import asyncio
import os
import sys

from forge_guard.answers import Answer
from forge_guard.judging import Gates, answer


def main(tool: str) -> int:
    """Answer the question on standard input, and return the exit code."""
    done = asyncio.run(_answered(tool, sys.stdin.read()))
    sys.stdout.write(done.out)
    sys.stderr.write(done.err)
    return done.code


async def _answered(tool: str, text: str) -> Answer:
    gates = Gates()
    try:
        return await answer(tool, text, os.environ, gates.judge)
    finally:
        await gates.aclose()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
