"""A public name that is looked for in the wrong module is answered with the right one."""

import importlib
import subprocess
import sys

import pytest

import forge_cli
from forge_cli.homes import PUBLIC_MODULES, public_homes

HOMES = public_homes()


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_leads_to_its_module(module: str) -> None:
    used_inside = vars(importlib.import_module(module))
    for name, home in HOMES.items():
        if home == module or name in used_inside or name.startswith("_"):
            continue
        with pytest.raises(ImportError) as error:
            exec(f"from {module} import {name}")
        assert (
            str(error.value)
            == f"cannot import name '{name}' from '{module}'; import it from {home}"
        )


def test_every_public_name_has_one_module() -> None:
    names = [name for module in PUBLIC_MODULES for name in importlib.import_module(module).__all__]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("forge_cli", "WorkerRunime", "did you mean 'WorkerRuntime' of forge_cli?"),
        ("forge_cli", "CallContxt", "did you mean 'CallContext' of forge_cli.hooks?"),
        ("forge_cli.hooks", "Confg", "did you mean 'Config' of forge_cli?"),
    ],
)
def test_misspelt_name_suggests_the_nearest(module: str, name: str, hint: str) -> None:
    with pytest.raises(ImportError, match="cannot import name") as error:
        exec(f"from {module} import {name}")
    assert str(error.value).endswith(hint)


@pytest.mark.parametrize("name", ["__wrapped__", "_private", "zzzzzzzz"])
@pytest.mark.parametrize("module", ["forge_cli", "forge_cli.hooks"])
def test_unknown_name_is_an_attribute_error(module: str, name: str) -> None:
    assert not hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", ["testing", "pytest_plugin", "core", "toolsets", "cli", "homes"])
def test_module_named_like_a_public_name_can_be_imported(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"from forge_cli import {name}"], timeout=60, check=False
    )
    assert done.returncode == 0


def test_top_level_names_are_complete() -> None:
    assert [name for name in forge_cli.__all__ if not hasattr(forge_cli, name)] == []
