"""A tool whose effects can be counted: each call leaves a word in a file."""

TOOLS = '''
from pathlib import Path
from forge_cli import tool


@tool(effects=["write"], needs_approval=False)
def leave(word: str) -> str:
    """Leave a word behind."""
    with Path(__file__).with_name("left").open("a") as file:
        file.write(word + "\\n")
    return word
'''
