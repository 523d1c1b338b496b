"""Tables as one test: ``@each_row`` runs a test for every row and reports all failing rows."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from traceback import extract_tb
from typing import Any

import pytest

Test = Callable[..., Any]


def each_row(names: str | Sequence[str], table: Iterable[Any]) -> Callable[[Test], Test]:
    """Take what ``pytest.mark.parametrize`` takes, without marks.

    All rows share the fixtures of the test, but each has a ``tmp_path`` of its own and leaves nothing in
    ``monkeypatch``.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [dict(zip(columns, row if len(columns) > 1 else [row], strict=True)) for row in table]
    assert cases, "a table without rows"

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)

        @wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[str] = []
            for number, case in enumerate(cases):
                with told(case, failures), own(fixtures, number) as given:
                    test(**case, **given)
            fail(failures, len(cases))

        @wraps(test)
        async def run_async(**fixtures: Any) -> None:
            failures: list[str] = []
            for number, case in enumerate(cases):
                with told(case, failures), own(fixtures, number) as given:
                    await test(**case, **given)
            fail(failures, len(cases))

        wrapper: Test = run_async if inspect.iscoroutinefunction(test) else run
        others = [
            parameter for name, parameter in signature.parameters.items() if name not in columns
        ]
        wrapper.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return wrapper

    return decorate


@contextmanager
def own(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The fixtures as one row sees them."""
    given = dict(fixtures)
    if isinstance(folder := given.get("tmp_path"), Path):
        given["tmp_path"] = folder / str(number)
        given["tmp_path"].mkdir()
    if isinstance(patch := given.get("monkeypatch"), pytest.MonkeyPatch):
        with patch.context() as given["monkeypatch"]:
            yield given
    else:
        yield given


@contextmanager
def told(case: dict[str, Any], failures: list[str]) -> Iterator[None]:
    """Note how a row fails."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        frame = extract_tb(error.__traceback__)[-1]
        values = ", ".join(f"{name}={value!r}" for name, value in case.items())
        failures.append(
            f"{values}\n{frame.filename}:{frame.lineno}: {type(error).__name__}: {error}"
        )


def fail(failures: list[str], count: int) -> None:
    __tracebackhide__ = True
    if failures:
        pytest.fail(
            "\n\n".join([f"{len(failures)} of {count} rows fail:", *failures]), pytrace=False
        )
