"""A person who turned off the rule about untrusted text: these tests are about servers."""

import pytest

from forge_cli.testing import Project

OFF = 'provenance: {after_untrusted: {other: "off"}}\n'


@pytest.fixture(autouse=True)
def _without_provenance(project: Project) -> None:
    project.home.mkdir(mode=0o700, exist_ok=True)
    (project.home / "config.yaml").write_text(OFF)
