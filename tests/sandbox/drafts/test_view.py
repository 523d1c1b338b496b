"""The view of an ordinary user, and the folders in which it cannot be had.

Covers forge_cli.sandbox.drafts.view.
"""

import codecs
import ctypes
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forge_cli.sandbox.drafts.changes import apply_draft, read_draft
from forge_cli.sandbox.drafts.draft import SessionDraft
from forge_cli.sandbox.drafts.view import prepare_view

from .drafted import begin, work_in

pytestmark = [
    pytest.mark.needs("overlay"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

USER, OTHER_GROUP = 4321, 4322
_PR_SET_DUMPABLE = 4


@pytest.fixture
def zone() -> Iterator[Path]:
    """Return a zone of the user, in a folder that the user can reach."""
    with tempfile.TemporaryDirectory(prefix="forge-") as place:
        zone = Path(os.path.realpath(place), "zone")
        zone.mkdir()
        (zone / "file").write_text("one\n")
        for path in (zone.parent, zone, zone / "file"):
            os.chown(path, USER, USER)
        yield zone


def as_user(work: Callable[[], None]) -> None:
    """Do something as an ordinary user in another process."""
    codecs.lookup("unicode_escape")  # the user may be unable to read Python's own files
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setgroups([OTHER_GROUP])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
            # The kernel takes away a process's own /proc files when its user changes.
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
            os.chdir("/")
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def change(draft: SessionDraft, zone: Path) -> None:
    """Change the file in a draft, and apply it."""
    work_in(draft, lambda: (draft.seen_path(zone) / "file").write_text("draft\n"))
    assert (zone / "file").read_text() == "one\n"
    changed = read_draft(draft)
    assert len(changed.changes) == 1
    apply_draft(changed, changed.changes)
    assert (zone / "file").read_text() == "draft\n"


def test_ordinary_user_has_a_view(zone: Path) -> None:
    def work() -> None:
        draft = prepare_view(begin(zone, zone.parent / "drafts"))
        assert draft.why_copied == ""
        change(draft, zone)

    as_user(work)


def test_file_of_another_group_makes_it_a_copy(zone: Path) -> None:
    os.chown(zone / "file", USER, OTHER_GROUP)

    def work() -> None:
        draft = prepare_view(begin(zone, zone.parent / "drafts"))
        assert draft.why_copied.endswith("file' belongs to another user or group")
        change(draft, zone)
        assert (zone / "file").stat().st_gid == OTHER_GROUP

    as_user(work)


def test_file_of_another_user_that_cannot_be_changed_does_not(zone: Path) -> None:
    (zone / "theirs").write_text("x\n")

    def work() -> None:
        draft = prepare_view(begin(zone, zone.parent / "drafts"))
        assert draft.why_copied == ""
        change(draft, zone)

    as_user(work)
