"""The text of ``forge`` without arguments: what it is, what to type next, and the model."""

from __future__ import annotations

from forge_cli import __version__
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import visible
from forge_cli.inspection.defaults import MODELS, NO_MODEL, chosen_model, missing_of


def welcome() -> str:
    """Return the text that ``forge`` prints without arguments."""
    flag, model = _model()
    shown = visible(model, keep="\n")
    return f"""forge {__version__}: language-model workers that ask before they act.

  forge run coder "What is in this folder?"{flag}
  forge worker list    list the workers, such as coder
  forge worker new     create a worker of your own

{shown}

forge --help lists every command; forge doctor checks what is installed.
"""


def _model() -> tuple[str, str]:
    """Return the extra flags and the model hint."""
    try:
        source, name = chosen_model()
    except ForgeError as error:
        return "", f"No model can be selected: {error}"
    if name:
        told = f"Model: {name}, from {source}"
        if missing := missing_of(name.partition(":")[0]):
            told += f"\n  but {missing}"
        return "", told
    for provider, example in MODELS.items():
        if missing_of(provider) is None:
            once = f"To set a default model:\n  export FORGE_MODEL={example}"
            return f" -m {example}", f"The provider {provider} is ready. {once}"
    return f" -m {MODELS['anthropic']}", NO_MODEL
