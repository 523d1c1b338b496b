"""Args as deep as they may be, and one level more."""

from typing import Any

import pytest

from forge_cli.core.calls import read_args
from forge_cli.core.wire import NESTING


def nested(levels: int) -> dict[str, Any]:
    """An object with as many levels of nesting."""
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"value": value}


@pytest.mark.parametrize("levels", [NESTING + 1, 500, 985, 100_000])
def test_deeply_nested_args_are_refused(levels: int) -> None:
    with pytest.raises(ValueError, match="is nested too deeply"):
        read_args('{"value": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}")
