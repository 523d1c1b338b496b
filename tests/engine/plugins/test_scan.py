"""The scan for plugins: kept from one process to the next, and looked through again once anything has changed."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from forge_cli.cli.app import carry_out
from forge_cli.engine.plugins import scan
from forge_cli.engine.plugins.scan import installed
from forge_cli.process.launch import Launch
from forge_cli.testing import Project
from tests.support.distributions import write_distribution

TOOLSET = '''
from forge_cli import Toolset, hookimpl, tool


class Weather(Toolset):
    name = "weather"

    @tool(needs_approval=True)
    def forecast(self, city: str) -> str:
        """Tell the weather."""
        return city

{more}
@hookimpl
def forge_toolsets():
    return [Weather]
'''
LOOK = """
import json, sys
from pathlib import Path
from forge_cli.engine.plugins.scan import installed
found = [f"{plugin.name} of {plugin}" for plugin in installed(Path(sys.argv[1]))]
print(json.dumps([found, "importlib.metadata" in sys.modules]))
"""


class Site:
    """A folder on the path, in which distributions come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def info(self, distribution: str, version: str = "1.0") -> Path:
        return self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"

    def install(
        self, distribution: str, *entries: str, version: str = "1.0", **modules: str
    ) -> Path:
        info = write_distribution(self.folder, distribution, entries, version=version, **modules)
        importlib.invalidate_caches()
        return info

    def uninstall(self, distribution: str) -> None:
        shutil.rmtree(self.info(distribution))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path / "site")
    monkeypatch.syspath_prepend(str(made.folder))
    return made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one whenever everything installed is looked through."""
    real, seen = metadata.distributions, list[str]()

    def counted(*args: Any, **options: Any) -> Any:
        seen.append("searched")
        return real(*args, **options)

    monkeypatch.setattr(metadata, "distributions", counted)
    return seen


def foreign(cache: Path) -> list[str]:
    """The plugins of this test, which come after forge's own."""
    found = [
        f"{plugin.name} of {plugin}"
        for plugin in installed(cache)
        if plugin.distribution.startswith("test-")
    ]
    assert {"filesystem", "custom"} <= {plugin.name for plugin in installed(cache)}
    return found


def age(path: Path) -> None:
    """Give a file a time that no clock can take for the present one."""
    os.utime(path, ns=(10**18, 10**18))


def kept_file(cache: Path) -> Path:
    (file,) = cache.glob("plugins-*.json")
    return file


# --- what is kept


def test_scan_is_cached_between_processes(site: Site, cache: Path) -> None:
    site.install("test-weather", "weather = weather_plugin")
    environment = {
        **os.environ,
        "PYTHONPATH": str(site.folder),
        "PYDANTIC_DISABLE_PLUGINS": "__all__",
    }

    def look() -> tuple[list[str], bool]:
        command = [sys.executable, "-c", LOOK, str(cache)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        found, searched = json.loads(done.stdout)
        return found, searched

    first, searched = look()
    assert searched
    assert "weather of test-weather 1.0" in first
    assert look() == (first, False)
    site.uninstall("test-weather")
    assert look() == ([name for name in first if "test-weather" not in name], True)


def test_built_in_plugins_come_first_and_lists_are_sorted(site: Site, cache: Path) -> None:
    site.install("test-b", "aaa = b_plugin", "zzz = b_plugin")
    site.install("test-a", "aaa = a_plugin")
    for _ in range(2):
        own = [plugin.distribution == scan.OWN for plugin in installed(cache)]
        assert own == sorted(own, reverse=True)
        assert foreign(cache) == ["aaa of test-a 1.0", "aaa of test-b 1.0", "zzz of test-b 1.0"]


# --- what makes it look again


def test_later_installation_is_found(site: Site, cache: Path, searches: list[str]) -> None:
    age(site.folder)
    assert foreign(cache) == []
    site.install("test-weather", "weather = weather_plugin")
    assert foreign(cache) == ["weather of test-weather 1.0"]
    assert len(searches) == 2


def test_entry_points_changed_in_place_are_found(site: Site, cache: Path) -> None:
    entries = site.install("test-weather", "weather = weather_plugin") / "entry_points.txt"
    age(entries)
    assert foreign(cache) == ["weather of test-weather 1.0"]
    before = site.folder.stat().st_mtime_ns
    entries.write_text("[forge]\nclimate = weather_plugin\n")
    assert foreign(cache) == ["climate of test-weather 1.0"]
    entries.unlink()
    assert foreign(cache) == []
    entries.write_text("[forge]\nagain = weather_plugin\n")
    assert foreign(cache) == ["again of test-weather 1.0"]
    assert site.folder.stat().st_mtime_ns == before


def test_installation_during_a_scan_is_found_by_the_next(
    site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(site.folder)
    real = metadata.distributions

    def meanwhile() -> list[Any]:
        found = list(real())
        site.install("test-weather", "weather = weather_plugin")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(metadata, "distributions", meanwhile)
        assert [plugin for plugin in installed(cache) if plugin.name == "weather"] == []
    assert foreign(cache) == ["weather of test-weather 1.0"]


def test_first_of_two_distributions_with_one_name_counts(
    site: Site, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("test-weather", "weather = weather_plugin")
    shadow = Site(tmp_path / "shadow")
    shadow.install("test-weather", "weather = other_plugin", version="2.0")
    monkeypatch.syspath_prepend(str(shadow.folder))
    assert foreign(cache) == ["weather of test-weather 2.0"]


# --- what does no harm


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("plugins", 7),
        ("plugins", [{"name": "x"}]),
        ("stamps", {"/": 7}),
        ("path", ["/nowhere"]),
    ],
)
def test_cache_in_another_format_is_ignored(cache: Path, key: str, value: Any) -> None:
    expected = installed(cache)
    good = json.loads(kept_file(cache).read_text())
    kept_file(cache).write_text(json.dumps({**good, key: value}))
    assert installed(cache) == expected
    del good[key]
    kept_file(cache).write_text(json.dumps(good))
    assert installed(cache) == expected


def test_unwritable_cache_only_costs_time(tmp_path: Path, searches: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    for _ in range(2):
        assert "filesystem" in [plugin.name for plugin in installed(tmp_path / "file" / "cache")]
    assert len(searches) == 2
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    "content",
    [
        b"[forge]\nnonsense\n",
        b"nonsense\n",
        b"[forge]\nx = \xff\xfe\n",
        b"[console_scripts]\n= =\nx\n",
        b"\0",
    ],
)
def test_unreadable_metadata_does_not_affect_other_packages(
    site: Site, cache: Path, content: bytes
) -> None:
    site.install("test-weather", "weather = weather_plugin")
    entries = site.install("test-broken") / "entry_points.txt"
    entries.write_bytes(content)
    assert "weather of test-weather 1.0" in foreign(cache)
    entries.write_text("[forge]\nbroken = mended_plugin\n")
    age(entries)
    assert "broken of test-broken 1.0" in foreign(cache)


# --- ``forge tools list``, which keeps its rows


List = Callable[..., dict[str, Any]]


@pytest.fixture
def rows(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> List:
    """The rows of plugins as the command prints them, with imports forgotten as in a new process."""
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("FORGE_HOME", str(project.home))

    def listed() -> dict[str, Any]:
        importlib.invalidate_caches()
        capfd.readouterr()
        assert carry_out(["tools", "list", "--json", "--source", "package"], Launch()) == 0
        for name in ("weather_plugin", "broken_plugin"):
            sys.modules.pop(name, None)
        return {
            row["name"]: row
            for row in json.loads(capfd.readouterr().out)
            if "test-" in row["origin"]
        }

    return listed


@pytest.mark.long
def test_rows_are_cached_until_the_files_of_the_plugin_change(
    site: Site, rows: List, project: Project
) -> None:
    told = "print('imported')\n"
    site.install(
        "test-weather", "weather = weather_plugin", weather_plugin=told + TOOLSET.format(more="")
    )
    module = site.folder / "weather_plugin.py"
    first = rows()
    assert list(first) == ["forecast"]
    kept = json.loads((project.home / "cache" / "tools.json").read_text())
    assert [row["name"] for row in kept["weather of test-weather 1.0"]["value"]] == ["forecast"]

    status = module.stat()
    module.write_text("#" * status.st_size)
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert rows() == first

    more = (
        "    @tool\n    def climate(self) -> str:\n        'Tell the climate.'\n        return ''\n"
    )
    module.write_text(TOOLSET.format(more=more))
    assert list(rows()) == ["forecast", "climate"]
    site.uninstall("test-weather")
    assert rows() == {}


@pytest.mark.long
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (
            "raise RuntimeError('half installed')\n",
            "cannot be loaded: RuntimeError: half installed",
        ),
        (
            TOOLSET.format(more="    Config = None\n"),
            "has a Config that is not a ToolsetConfig, but None",
        ),
        (
            TOOLSET.format(more="    async def tools(self):\n        return None\n"),
            "returned None, which is not a Tool",
        ),
        (
            TOOLSET.format(more="    async def tools(self):\n        return [7]\n"),
            "returned 7, which is not a Tool",
        ),
        (
            TOOLSET.format(
                more="    async def __aexit__(self, *error):\n        raise RuntimeError('no end')\n"
            ),
            "cannot be closed: RuntimeError: no end",
        ),
    ],
)
def test_broken_plugin_is_a_row_and_is_not_cached(
    site: Site, rows: List, project: Project, module: str, problem: str
) -> None:
    broken = module.replace('"weather"', '"broken"').replace("Weather", "Broken")
    site.install("test-weather", "weather = weather_plugin", weather_plugin=TOOLSET.format(more=""))
    site.install("test-broken", "broken = broken_plugin", broken_plugin=broken)
    for _ in range(2):
        found = rows()
        assert list(found) == ["broken", "forecast"]
        assert problem in found["broken"]["error"]
        kept = json.loads((project.home / "cache" / "tools.json").read_text())
        assert "weather of test-weather 1.0" in kept
        assert "broken of test-broken 1.0" not in kept


def test_repaired_plugin_is_found_although_its_files_are_unchanged(site: Site, rows: List) -> None:
    module = "import nosuch_dependency\n" + TOOLSET.format(more="")
    site.install("test-weather", "weather = weather_plugin", weather_plugin=module)
    assert "No module named 'nosuch_dependency'" in rows()["weather"]["error"]
    (site.folder / "nosuch_dependency.py").write_text("")
    assert list(rows()) == ["forecast"]
    assert "nosuch_dependency" not in sys.modules


def test_cache_does_not_influence_decisions(site: Site, rows: List, project: Project) -> None:
    site.install("test-weather", "weather = weather_plugin", weather_plugin=TOOLSET.format(more=""))
    assert rows()["forecast"]["approval"] == "ask"
    file = project.home / "cache" / "tools.json"
    file.write_text(file.read_text().replace('"approval": "ask"', '"approval": "preApproved"'))
    assert rows()["forecast"]["approval"] == "preApproved"
    project.write("worker.yaml", "name: w\ntoolsets: {weather: {}}\n")
    seen = project.run({"calls": [{"tool": "forecast", "input": {"city": "Rome"}}]}, "done")
    assert seen.statuses == ["denied"]
    sys.modules.pop("weather_plugin", None)
