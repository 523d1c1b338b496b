"""Lookups that sessions of one worker share, repeated after a change.

Covers forge_cli.engine.turns.environment.
"""

from pathlib import Path

import pytest

from forge_cli import load_worker
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.prepared import PreparedWorker
from forge_cli.testing import Project


@pytest.fixture
def prepared(project: Project) -> PreparedWorker:
    return PreparedWorker(
        load_worker(project.write("worker.yaml", "name: w\ntoolsets: {plan: {}}\n")), PluginHost()
    )


def test_link_to_another_folder_is_followed_by_the_next_session(
    prepared: PreparedWorker, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    for name in ("one", "two", "one"):
        (tmp_path / name).mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name)
        assert prepared.within(link).workspace == (tmp_path / name).resolve()


def test_folder_replaced_by_a_link_is_followed(prepared: PreparedWorker, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    first = prepared.within(own)
    own.rmdir()
    own.symlink_to(other)
    assert prepared.within(own) is not first
    assert prepared.within(own).workspace == other.resolve()
