"""The pictures in the documentation equal the current output: ``python docs/screens/make.py`` updates them."""

import re
import runpy
from pathlib import Path

import pytest

SCREENS = Path(__file__).parent.parent / "docs" / "screens"
MAKER = runpy.run_path(str(SCREENS / "make.py"))


@pytest.mark.few(3)
@pytest.mark.parametrize("shot", MAKER["SHOTS"], ids=lambda shot: shot.name)
def test_picture_equals_the_output_of_forge(shot) -> None:
    assert MAKER["draw"](shot) == (SCREENS / f"{shot.name}.svg").read_text(encoding="utf-8")


def test_every_picture_is_generated_and_used() -> None:
    names = {shot.name for shot in MAKER["SHOTS"]}
    assert {path.stem for path in SCREENS.glob("*.svg")} == names
    pages = [SCREENS.parent.parent / "README.md", *SCREENS.parent.glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"screens/(\w+)\.svg", page.read_text())}
    assert shown == names
