"""Requirements of plugins: versions compared as packaging does, metadata read without a plugin being imported."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from forge_cli import __version__
from forge_cli.engine.plugins.requirements import canonical, fits, missing, unfit

NUMBERS = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
VERSIONS = st.builds(
    "{}{}".format, NUMBERS, st.sampled_from(["", "", "", "a1", "b2", "rc1", ".dev3", ".post1", "a1.dev2", "+local"])
)


@example("1.0", "~=", "1.0.0")
@example("1", "==", "1.0.0")
@given(NUMBERS, st.sampled_from(["==", "!=", ">=", "<=", ">", "<", "~="]), NUMBERS)
def test_versions_fit_as_packaging_says(version: str, operator: str, wanted: str) -> None:
    if operator == "~=" and "." not in wanted:
        return
    assert fits(version, f"{operator}{wanted}") == SpecifierSet(operator + wanted).contains(version, prereleases=True)


@given(VERSIONS, VERSIONS)
def test_they_are_ordered_as_packaging_orders_them(one: str, two: str) -> None:
    public = [Version(each).public for each in (one, two)]
    assert fits(one, f">={two.partition('+')[0]}") == (Version(public[0]) >= Version(public[1]))


@pytest.mark.parametrize(
    ("clauses", "fitting"),
    [
        ("", True),
        (">=0.1,<2", True),
        (">= 0.1, < 2", True),
        ("==1.2.*", True),
        ("!=1.2.*", False),
        ("==1.3.*", False),
        (">=9", False),
        (">=1,<1.2", False),
        ("===1.2.3", True),
        ("nonsense", True),
        (">=nonsense", True),
    ],
)
def test_clauses(clauses: str, fitting: bool) -> None:
    assert fits("1.2.3", clauses) is fitting


@pytest.fixture
def requiring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def install(*lines: str) -> str:
        info = tmp_path / "forge_tools_odd-1.0.dist-info"
        info.mkdir()
        stated = "".join(f"Requires-Dist: {line}\n" for line in lines)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: forge-tools-odd\nVersion: 1.0\n{stated}")
        monkeypatch.syspath_prepend(str(tmp_path))
        return "forge-tools-odd"

    return install


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("forge-workers>=9", f"is built for forge >= 9, this is {__version__}"),
        ("Forge_Workers (>=9,<10)", f"is built for forge >= 9, < 10, this is {__version__}"),
        ("forge-workers", None),
        (f"forge-workers=={__version__}", None),
        ("forge-workers>=9 ; extra == 'later'", None),
        ("forge-workers-more>=9", None),
        ("", None),
        ("\x00", None),
    ],
)
def test_which_forge_a_distribution_is_built_for(requiring, line: str, said: str | None) -> None:
    assert unfit(requiring("pydantic>=2", line)) == said


def test_what_is_not_installed(requiring) -> None:
    named = requiring("pydantic>=2", "no-such-package>=1", "Nor_This", "not-this; extra == 'x'", "typer[all] (>=0.1)")
    assert missing(named) == ["no-such-package", "nor-this"]


def test_metadata_that_is_not_there_requires_nothing() -> None:
    assert (unfit("no-such-package"), missing("no-such-package"), unfit("")) == (None, [], None)


def test_names_are_compared_as_indexes_do() -> None:
    assert canonical(" Forge_Tools.Web ") == "forge-tools-web"
