"""Requirements of plugins, read from their metadata without a plugin being imported."""

from pathlib import Path

import pytest

from forge_cli import __version__
from forge_cli.engine.plugins.requirements import missing, unfit


@pytest.fixture
def requiring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def install(*lines: str) -> str:
        info = tmp_path / "forge_tools_odd-1.0.dist-info"
        info.mkdir()
        stated = "".join(f"Requires-Dist: {line}\n" for line in lines)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: forge-tools-odd\nVersion: 1.0\n{stated}"
        )
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
        ("forge-workers>=9 ; python_version < '3'", None),
        (
            "forge-workers>=9 ; python_version > '3'",
            f"is built for forge >= 9, this is {__version__}",
        ),
        ("forge-workers>=0.1a1,!=0.0.*,~=0.1", None),
        ("forge-workers>=nonsense", None),
        ("forge-workers-more>=9", None),
        ("", None),
        ("\x00", None),
    ],
)
def test_required_forge_version_is_read_from_metadata(
    requiring, line: str, said: str | None
) -> None:
    assert unfit(requiring("pydantic>=2", line)) == said


def test_missing_requirements_are_reported(requiring) -> None:
    named = requiring(
        "pydantic>=2",
        "no-such-package>=1",
        "Nor_This",
        "not-this; extra == 'x'",
        "typer[all] (>=0.1)",
        "here; os_name != 'x'",
    )
    assert missing(named) == ["no-such-package", "nor-this", "here"]
