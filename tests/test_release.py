"""What a release needs: one version of all distributions, and plugins that ask for this forge.

Covers .ci/release.py.
"""

import importlib.util
from pathlib import Path

import pytest

from forge_cli import __version__

FILE = Path(__file__).parent.parent / ".ci" / "release.py"
spec = importlib.util.spec_from_file_location("release", FILE)
assert spec is not None
assert spec.loader is not None
release = importlib.util.module_from_spec(spec)
spec.loader.exec_module(release)


def test_all_distributions_have_one_version() -> None:
    assert release.check_versions(None) == __version__


def test_version_of_a_tag_has_to_be_that_of_the_tree() -> None:
    with pytest.raises(SystemExit, match="the version is .*, and not 9.9"):
        release.check_versions("9.9")
