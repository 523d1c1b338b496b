"""Options that several commands share: what they mean, and what is refused."""

from pathlib import Path

import pytest

from forge_cli.cli.options import chosen_mode, json_object, work_folder
from forge_cli.core.approval import ApprovalMode
from forge_cli.core.errors import UsageError


@pytest.mark.parametrize(
    ("mode", "yes", "chosen"),
    [
        (None, False, None),
        (ApprovalMode.AUTO_DENY, False, ApprovalMode.AUTO_DENY),
        (None, True, ApprovalMode.APPROVE_ALL),
        (ApprovalMode.APPROVE_ALL, True, ApprovalMode.APPROVE_ALL),
    ],
)
def test_yes_is_a_mode(mode: ApprovalMode | None, yes: bool, chosen: ApprovalMode | None) -> None:
    assert chosen_mode(mode, yes) == chosen


def test_two_different_modes_are_refused() -> None:
    with pytest.raises(UsageError, match="-y and --approval-mode auto_deny contradict each other"):
        chosen_mode(ApprovalMode.AUTO_DENY, True)


@pytest.mark.parametrize(("text", "data"), [(None, {}), ('{"a": 1}', {"a": 1})])
def test_json_input_is_an_object(text: str | None, data: dict[str, int]) -> None:
    assert json_object(text) == data


@pytest.mark.parametrize(
    ("text", "problem"), [("[1]", "must be a JSON object"), ("{a", "is not JSON"), ("[" * 10**5, "is not JSON")]
)
def test_what_is_not_an_object_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        json_object(text)


def test_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    assert (work_folder(None), work_folder(Path("a"))) == (tmp_path, tmp_path / "a")
    with pytest.raises(UsageError, match="-C b: there is no such folder"):
        work_folder(Path("b"))
