"""The plugin host, with real distributions on the path: found by name, imported late, and isolated when broken.

Covers forge_cli.core.hookspecs, forge_cli.engine.plugins.own_tools and forge_cli.engine.plugins.origin.
"""

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forge_cli import Custom, Text, __version__
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.events import StatusEvent
from forge_cli.engine.plugins.host import PluginError, PluginHost
from forge_cli.engine.plugins.origin import how_to_install
from forge_cli.results import DisplayHints
from forge_cli.testing import Project, call, calls
from forge_cli.ui.views import view_of
from tests.support.distributions import write_distribution

WHERE = Mark("worker.yaml", 3, 3)
TOOLSET = """
from forge_cli import Toolset, hookimpl, tool

class Weather(Toolset):
    name = "{name}"

    @tool(needs_approval=False)
    def forecast(self, city: str) -> str:
        "Tell the weather."
        return f"Sun in {{city}}."

@hookimpl
def forge_toolsets():
    return [Weather]
"""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution on the path, as pip would; its modules are forgotten afterwards."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    before = set(sys.modules)

    def installed(
        distribution: str, entries: dict[str, str], *, version: str = "1.0", **modules: str
    ) -> Path:
        points = [f"{name} = {value}" for name, value in entries.items()]
        return write_distribution(site, distribution, points, version=version, **modules).parent

    yield installed
    for name in set(sys.modules) - before:
        if not name.startswith("forge_cli."):  # what is loaded late stays loaded
            del sys.modules[name]


def test_built_in_toolsets_are_complete() -> None:
    assert {"filesystem", "custom"} <= {plugin.name for plugin in PluginHost().toolset_plugins()}
    cls, plugin = PluginHost().toolset("filesystem")
    assert (cls.name, plugin.distribution, plugin.source.kind) == (
        "filesystem",
        "forge-workers",
        "builtin",
    )


def test_toolset_of_a_package_is_imported_only_when_named(
    install: Install,
) -> None:
    install(
        "forge-tools-weather",
        {"weather": "weather_plugin"},
        weather_plugin=TOOLSET.format(name="weather"),
    )
    host = PluginHost()
    assert "weather" in [plugin.name for plugin in host.toolset_plugins()]
    host.toolset("filesystem")
    assert "weather_plugin" not in sys.modules
    cls, plugin = host.toolset("weather", WHERE)
    assert (cls.name, str(plugin), str(plugin.source)) == (
        "weather",
        "forge-tools-weather 1.0",
        "package forge-tools-weather 1.0",
    )
    assert host.toolset("weather") == (cls, plugin)


def test_worker_uses_a_package(install: Install, project: Project) -> None:
    install(
        "forge-tools-weather",
        {"weather": "weather_plugin"},
        weather_plugin=TOOLSET.format(name="weather"),
    )
    project.write("worker.yaml", "name: w\ntoolsets: {weather: null}\n")
    seen = project.run(calls(call("forecast", city="Rome")), "{result}")
    assert seen.result.response == "Sun in Rome."


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (
            "import nonexistent_dependency\n",
            "cannot be loaded: ModuleNotFoundError: No module named 'nonexistent_dependency'",
        ),
        (
            "raise RuntimeError('half installed')\n",
            "cannot be loaded: RuntimeError: half installed",
        ),
        ("import sys\nsys.exit(3)\n", "cannot be loaded: SystemExit: 3"),
        ("def broken(:\n", "cannot be loaded: SyntaxError: "),
        (
            "from forge_cli import hookimpl\n@hookimpl\ndef forge_toolset():\n    return []\n",
            "cannot be loaded: PluginValidationError: unknown hook 'forge_toolset' in plugin",
        ),
        (
            "from forge_cli import hookimpl\n@hookimpl\ndef forge_toolsets(register):\n    return []\n",
            "cannot be loaded: PluginValidationError: ",
        ),
        (
            "from forge_cli import hookimpl\n@hookimpl\ndef forge_toolsets():\n    return 1 / 0\n",
            "cannot be loaded: ZeroDivisionError: division by zero",
        ),
        (
            "from forge_cli import hookimpl\n@hookimpl\ndef forge_toolsets():\n    return 7\n",
            "gives 7 by forge_toolsets, which has to give a list",
        ),
        (
            TOOLSET.format(name="weather").replace("return [Weather]", "return Weather"),
            "gives <class 'broke...ugin.Weather'> by forge_toolsets, which has to give a list",
        ),
        ("", "offers no toolset of its own name (offered: none)"),
        (TOOLSET.format(name="whether"), "offers no toolset of its own name (offered: 'whether')"),
        (
            "from forge_cli import hookimpl\n@hookimpl\ndef forge_toolsets():\n    return ['weather']\n",
            "offers no toolset of its own name (offered: 'weather')",
        ),
    ],
)
def test_broken_plugin_is_named_and_does_not_affect_others(
    install: Install, module: str, problem: str
) -> None:
    install("forge-tools-broken", {"weather": "broken_plugin"}, version="0.3", broken_plugin=module)
    install("forge-tools-good", {"good": "good_plugin"}, good_plugin=TOOLSET.format(name="good"))
    host = PluginHost()
    for _ in range(2):
        with pytest.raises(PluginError) as caught:
            host.toolset("weather", WHERE)
        sentence = f"worker.yaml:3:3: the plugin 'weather' of forge-tools-broken 0.3 {problem}"
        assert str(caught.value).startswith(sentence)
        assert caught.value.hint
        assert caught.value.exit_code == 3
    assert host.toolset("good")[0].name == "good"
    assert host.toolset("filesystem")[0].name == "filesystem"


def test_broken_plugin_can_be_excluded(install: Install) -> None:
    install(
        "forge-tools-broken",
        {"weather": "broken_plugin"},
        broken_plugin="import nonexistent_dependency\n",
    )
    with pytest.raises(PluginError) as caught:
        PluginHost().toolset("weather")
    assert caught.value.hint == "ask its author, or forge plugins uninstall forge-tools-broken"


def test_name_offered_by_two_distributions_is_an_error(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = TOOLSET.format(name="weather")
    install("forge-tools-one", {"weather": "one_plugin"}, one_plugin=module)
    install("forge-tools-two", {"weather": "two_plugin"}, version="2.0", two_plugin=module)
    with pytest.raises(WorkerError) as caught:
        PluginHost().toolset("weather", WHERE)
    assert str(caught.value) == (
        "worker.yaml:3:3: toolset 'weather' is offered by forge-tools-one 1.0 and forge-tools-two 2.0\n"
        "  uninstall one of them, or set FORGE_LOAD_PLUGINS to the distributions you want"
    )
    assert not {"one_plugin", "two_plugin"} & set(sys.modules)
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-tools-two")
    assert PluginHost().toolset("weather")[1].distribution == "forge-tools-two"


@pytest.mark.parametrize(
    ("named", "loaded"),
    [
        (None, {"one", "two"}),
        ("forge-tools-one", {"one"}),
        (" forge-tools-one , forge-tools-two ", {"one", "two"}),
        ("Forge_Tools.ONE", {"one"}),
        ("forge-tools-two", {"two"}),
        ("something-else", set()),
        ("", set()),
    ],
)
def test_third_party_plugins_can_be_limited_by_the_environment(
    install: Install, monkeypatch: pytest.MonkeyPatch, named: str | None, loaded: set[str]
) -> None:
    install("forge-tools-one", {"one": "one_plugin"})
    install("Forge_Tools.Two", {"two": "two_plugin"})
    if named is not None:
        monkeypatch.setenv("FORGE_LOAD_PLUGINS", named)
    names = {plugin.name for plugin in PluginHost().toolset_plugins()}
    assert names & {"one", "two"} == loaded
    assert {"filesystem", "custom"} <= names


def test_third_party_plugins_can_be_limited_by_a_program(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("forge-tools-one", {"one": "one_plugin"})
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-tools-one")
    assert "one" not in [plugin.name for plugin in PluginHost(only=()).plugins]


def test_unknown_toolset_suggests_the_nearest_name() -> None:
    with pytest.raises(WorkerError) as caught:
        PluginHost().toolset("filesytem", WHERE)
    assert str(caught.value).startswith(
        "worker.yaml:3:3: toolsets.filesytem: no such toolset; installed are "
    )
    assert "custom" in caught.value.message
    assert caught.value.hint == "did you mean 'filesystem'?"


def test_unknown_toolset_of_a_forge_package_suggests_installing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "forge-tools-git")
    with pytest.raises(WorkerError) as caught:
        PluginHost().toolset("web", WHERE)
    assert caught.value.hint == f"install its package: {how_to_install('forge-tools-web')}"
    assert Path(shlex.split(str(caught.value.hint))[-1], "pyproject.toml").is_file()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("zeppelin", "is it from a package? forge plugins install PACKAGE installs it"),
        ("bash", "is it from a package? forge plugins install PACKAGE installs it"),
        ("read_file", "read_file is a tool of the toolset 'filesystem'"),
    ],
)
def test_unknown_toolset_is_recognised_as_a_tool_or_uninstallable(name: str, hint: str) -> None:
    with pytest.raises(WorkerError) as caught:
        PluginHost().toolset(name, WHERE)
    assert caught.value.hint == hint


MODEL = """
from forge_cli import hookimpl
from forge_cli.hooks import ModelFactory

@hookimpl
def forge_models():
    return [ModelFactory({prefix!r}, lambda name, env: None)]
"""


def test_package_provides_a_model_provider(install: Install) -> None:
    install(
        "forge-model-echo", {"model.echo": "echo_plugin"}, echo_plugin=MODEL.format(prefix="echo")
    )
    host = PluginHost()
    assert "echo_plugin" not in sys.modules
    assert host.model("echo").prefix == "echo"


@pytest.mark.parametrize(
    "module",
    [MODEL.format(prefix="ohce"), "", MODEL.replace("[ModelFactory", "[1 or ModelFactory")],
)
def test_package_with_an_undeclared_provider_is_an_error(install: Install, module: str) -> None:
    install(
        "forge-model-echo", {"model.echo": "echo_plugin"}, echo_plugin=module.format(prefix="echo")
    )
    with pytest.raises(PluginError) as caught:
        PluginHost().model("echo")
    assert (
        str(caught.value)
        == "the plugin 'model.echo' of forge-model-echo 1.0 offers no model provider 'echo'"
    )


RENDERER = """
from forge_cli import Text, hookimpl

@hookimpl
def forge_renderers():
    return {"weather.forecast": lambda result: Text("Sun: " + result.data["city"])}
"""


def test_package_provides_a_renderer_for_its_kinds(install: Install) -> None:
    install(
        "forge-tools-weather", {"render.weather": "weather_renderer"}, weather_renderer=RENDERER
    )
    host = PluginHost()
    assert host.renderer(Custom("zeppelin.status", {})) is None
    assert "weather_renderer" not in sys.modules
    forecast = Custom("weather.forecast", {"city": "Rome"})
    renderer = host.renderer(forecast)
    assert renderer
    assert renderer(forecast) == Text("Sun: Rome")
    assert host.renderer(Custom("weather.other", {})) is None
    assert "render.weather" not in [plugin.name for plugin in host.toolset_plugins()]


@pytest.mark.parametrize(
    ("hints", "distribution", "draws"),
    [
        (None, None, True),
        (None, "forge-tools-zeppelin", True),
        (DisplayHints("tree"), "forge-tools-weather", True),
        (DisplayHints("tree"), "forge-tools-zeppelin", False),
        (DisplayHints("tree"), None, False),
    ],
)
def test_hints_of_another_author_override_a_renderer(
    install: Install, hints: DisplayHints | None, distribution: str | None, draws: bool
) -> None:
    install(
        "forge-tools-weather", {"render.weather": "weather_renderer"}, weather_renderer=RENDERER
    )
    value = Custom("weather.forecast", {"city": "Rome"}, display=hints)
    assert (PluginHost().renderer(value, distribution) is not None) is draws


FORECAST = """
from forge_cli import Custom, Preview, Text, Toolset, hookimpl, tool
from forge_cli.results import DisplayHints

FORECAST = Custom("weather.forecast", {"city": "Rome"}, display=DisplayHints("tree"))

class Weather(Toolset):
    name = "weather"

    @tool(needs_approval=True, preview="show")
    def forecast(self) -> Custom:
        "Tell the weather."
        return FORECAST

    async def show(self, args, context):
        return Preview(FORECAST)

@hookimpl
def forge_toolsets():
    return [Weather]
"""


def test_custom_result_and_preview_name_the_distribution_of_the_tool(
    install: Install, project: Project
) -> None:
    both = {"weather": "weather_plugin", "render.weather": "weather_plugin"}
    install("forge-tools-weather", both, weather_plugin=FORECAST + RENDERER)
    project.write(
        "tools.py",
        "from weather_plugin import FORECAST\n\ndef local() -> dict:\n    return FORECAST.wire()\n",
    )
    custom = "custom: {module: ./tools.py, tools: [local], approval: {default: preApproved}}"
    project.write("worker.yaml", f"name: w\ntoolsets:\n  weather: {{}}\n  plan: {{}}\n  {custom}\n")
    plan = call("update_plan", plan=[])
    seen = project.run(
        calls(call("forecast"), call("local"), plan, call("nothing")), "done", answers=[True]
    )
    names = ["forge-tools-weather", "./tools.py", "forge-workers", None]
    assert [outcome.distribution for outcome in seen.outcomes] == names
    assert [
        line.get("distribution") for line in seen.lines if line["type"] == "toolResult"
    ] == names
    assert seen.asked[0].distribution == "forge-tools-weather"
    drawn = [
        view_of(result.value, PluginHost().renderer, result.distribution).data
        for result in seen.outcomes[:2]
    ]
    assert drawn == ["Sun: Rome", {"city": "Rome"}]


@pytest.mark.parametrize(
    "module",
    [
        "import nonexistent_dependency\n",
        "from forge_cli import hookimpl\n@hookimpl\ndef forge_renderers():\n    return 1 / 0\n",
        "",
    ],
)
def test_broken_renderer_affects_only_its_rendering(install: Install, module: str) -> None:
    install("forge-tools-weather", {"render.weather": "weather_renderer"}, weather_renderer=module)
    assert PluginHost().renderer(Custom("weather.forecast", {})) is None


# --- names that are taken


@pytest.mark.parametrize(
    ("entry", "kind", "find"),
    [
        ("shell", "toolset", lambda host: host.toolset("shell")[1].distribution),
        ("model.script", "model provider", lambda host: host.model("script").make.__module__),
        ("executor.local", "executor", lambda host: host.executor("local").make.__module__),
    ],
)
def test_built_in_names_cannot_be_replaced(
    install: Install, entry: str, kind: str, find: Callable[[PluginHost], str]
) -> None:
    before = find(PluginHost())
    install("forge-tools-taker", {entry: "taker_plugin"}, taker_plugin="raise SystemExit\n")
    host = PluginHost()
    assert find(host) == before
    assert before.replace("_cli.", "-workers ").startswith("forge-workers")
    assert "taker_plugin" not in sys.modules
    clash = host.clash(host.named(entry, "forge-tools-taker"))
    name = entry.rpartition(".")[2]
    sentence = f"the {kind} '{name}' of forge-tools-taker 1.0 is not used: forge has its own {kind} '{name}'"
    assert clash == sentence
    assert host.clash(host.named(entry, "forge-workers")) is None


def test_worker_that_uses_the_built_in_is_warned(install: Install, project: Project) -> None:
    install("forge-tools-taker", {"plan": "taker_plugin"}, taker_plugin=TOOLSET.format(name="plan"))
    project.write("worker.yaml", "name: w\ntoolsets: {plan: {}}\n")
    seen = project.run(calls(call("update_plan", plan=[])), "done")
    assert seen.statuses == ["success"]
    warnings = [event.message for event in seen.of(StatusEvent) if event.level == "warning"]
    assert [text for text in warnings if "forge-tools-taker" in text] == [
        "the toolset 'plan' of forge-tools-taker 1.0 is not used: forge has its own toolset 'plan'"
    ]
    project.write("worker.yaml", "name: w\ntoolsets: {memory: {}}\n")
    assert not [
        event
        for event in project.run("done").of(StatusEvent)
        if "forge-tools-taker" in event.message
    ]


DRAWS = """
from forge_cli import Text, hookimpl

@hookimpl
def forge_renderers():
    return {kinds}
"""


def test_packages_share_a_namespace_of_renderers(install: Install) -> None:
    one = DRAWS.replace(
        "{kinds}", "{'sky.cloud': lambda r: Text('one'), 'sky.both': lambda r: Text('one')}"
    )
    two = DRAWS.replace(
        "{kinds}", "{'sky.star': lambda r: Text('two'), 'sky.both': lambda r: Text('two')}"
    )
    install("forge-sky-broken", {"render.sky": "sky_broken"}, sky_broken="raise BaseException\n")
    install("forge-sky-one", {"render.sky": "sky_one"}, sky_one=one)
    install("forge-sky-two", {"render.sky": "sky_two"}, sky_two=two)
    host = PluginHost()

    def drawn(kind: str, distribution: str | None = None) -> object:
        value = Custom(kind, {})
        draw = host.renderer(value, distribution)
        return draw(value) if draw else None

    assert [drawn("sky.cloud"), drawn("sky.star"), drawn("sky.rain")] == [
        Text("one"),
        Text("two"),
        None,
    ]
    assert [drawn("sky.both"), drawn("sky.both", "forge-sky-two")] == [Text("one"), Text("two")]


def test_renderer_of_forge_precedes_one_of_a_package(install: Install) -> None:
    other = DRAWS.replace(
        "{kinds}", "{'plan.plan': lambda r: 1, 'plan.other': lambda r: Text('other')}"
    )
    kinds = set(PluginHost().renderers_of(PluginHost().named("render.plan", "forge-workers")))
    install(
        "forge-tools-other",
        {"render.plan": "other_plugin"},
        other_plugin=other.replace("plan.plan", min(kinds)),
    )
    host = PluginHost()
    found = host.renderer(Custom(min(kinds), {}), "forge-tools-other")
    assert found
    assert found.__module__.startswith("forge_cli.")
    assert host.renderer(Custom("plan.other", {}))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("forge-tools-one", []),
        ("forge-tools-won", ["'forge-tools-won'; did you mean 'forge-tools-one'?"]),
        ("Forge_Tools.ONE,zeppelin", ["'zeppelin'"]),
        ("", []),
        (" , ", []),
    ],
)
def test_unknown_names_in_the_environment_are_reported(
    install: Install, project: Project, monkeypatch: pytest.MonkeyPatch, named: str, said: list[str]
) -> None:
    install("forge-tools-one", {"one": "one_plugin"})
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", named)
    sentences = [f"FORGE_LOAD_PLUGINS: no plugin is installed from {each}" for each in said]
    assert list(PluginHost().unknown_names()) == sentences
    assert list(PluginHost(only=["x"]).unknown_names()) == []
    project.write("worker.yaml", "name: w\n")
    events = project.run("done").of(StatusEvent)
    assert [event.message for event in events if "FORGE_LOAD_PLUGINS" in event.message] == sentences


def test_plugin_for_another_forge_version_says_so_on_failure(install: Install) -> None:
    site = install(
        "forge-tools-newer",
        {"newer": "newer_plugin"},
        newer_plugin="from forge_cli import Teleport\n",
    )
    metadata = site / "forge_tools_newer-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text() + "Requires-Dist: forge-workers>=9\n")
    with pytest.raises(PluginError) as caught:
        PluginHost().toolset("newer")
    assert caught.value.message.endswith(f"; it is built for forge >= 9, this is {__version__}")
