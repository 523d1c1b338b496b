"""Packages that nobody wants to have installed: what they do when they are found, loaded, opened and tried."""

from dataclasses import dataclass
from pathlib import Path

from ..cli.looking.hostile import TOOLSET
from ..distributions import write_distribution

MODULE = "hostile_module"
ENTRY = f"hostile = {MODULE}"
HOOK = "from forge_cli import hookimpl\n\n@hookimpl\ndef forge_{hook}({params}):\n    {body}\n"
TOOL = TOOLSET.replace('"Say hi."\n        return "hi"', '"Say hi."\n        {body}').replace(
    "@tool", "@tool({options})"
)
READS = "needs_approval=False, effects=[]"


@dataclass(frozen=True)
class Package:
    """What a distribution holds; ``fine`` where ``forge plugins check`` has nothing to say against it."""

    code: str = ""
    entries: tuple[str, ...] = (ENTRY,)
    metadata: str = ""
    fine: bool | None = False
    hangs: bool = False
    said: str = ""
    """A part of what the check says."""
    drawn: bool = False
    """Whether it is tried in the default tests, too."""

    def write(self, site: Path, name: str = "forge-tools-hostile") -> None:
        write_distribution(site, name, self.entries, version="1.2", metadata=self.metadata, **{MODULE: self.code})


def _hook(body: str, hook: str = "toolsets", params: str = "", more: str = "") -> str:
    return more + HOOK.format(hook=hook, params=params, body=body)


def _tool(body: str = 'return "hi"', options: str = READS, members: str = "pass") -> str:
    return TOOL.replace("{members}", members).replace("{body}", body).replace("{options}", options)


SOUND = TOOLSET.format(members="pass")
PACKAGES: dict[str, Package] = {
    "prints on import": Package("print('hello ' * 1000, flush=True)\n" + SOUND, fine=True),
    "changes the folder": Package("import os\nos.chdir('/')\n" + SOUND, fine=True),
    "a newer forge": Package(SOUND, metadata="Requires-Dist: forge-workers>=9\n", said="is built for forge >= 9"),
    "a requirement that is not there": Package(SOUND, metadata="Requires-Dist: nosuch\n", said="not installed: nosuch"),
    "metadata that is no text": Package(SOUND, metadata="Requires-Dist: \x00\x1b[2J\n", fine=None),
    "the name of a toolset of forge": Package(
        SOUND, (f"shell = {MODULE}",), said="forge has a toolset of that name itself", drawn=True
    ),
    "the name of a model of forge": Package(SOUND, (f"model.anthropic = {MODULE}",), said="forge has a model provider"),
    "a module that is not there": Package(entries=("hostile = nosuch_module",), said="No module named"),
    "an attribute that is not there": Package(SOUND, (f"hostile = {MODULE}:nothing",), said="nothing"),
    "an entry point that names nothing": Package(SOUND, ("hostile = 1 + 1",), said="names nothing"),
    "an entry point that is not a name": Package(SOUND, (f"\x1b[2Jx = {MODULE}",), fine=None),
    "a hook that does not exist": Package(_hook("return []", "tool_sets"), said="unknown hook"),
    "a hook that wants args": Package(_hook("return []", params="register"), said="PluginValidationError"),
    "a hook that is async": Package(_hook("return []").replace("def ", "async def "), said="cannot be loaded"),
    "a hook that gives None": Package(_hook("return None"), said="offers no toolset of its own name"),
    "a hook that gives a number": Package(_hook("return 7"), said="'int' object is not iterable"),
    "a hook that gives texts": Package(_hook("return ['hostile']"), said="offers no toolset of its own name"),
    "a hook that gives without end": Package(_hook("yield from iter(int, 1)"), hangs=True),
    "a hook that raises on the way": Package(_hook("yield int\n    raise SystemExit(0)"), said="SystemExit"),
    "a hook that hangs": Package(_hook("while True: pass"), hangs=True),
    "another name": Package(SOUND.replace('"hostile"', '"other"'), said="offers no toolset of its own name"),
    "a name that is not a text": Package(SOUND.replace('"hostile"', "7"), said="offers no toolset of its own name"),
    "something that nobody finds": Package(
        SOUND + _hook("return {'lost.kind': print}", "renderers"), said="has no entry point 'render.lost'"
    ),
    "a setting without a word": Package(
        "from forge_cli import ToolsetConfig\nclass C(ToolsetConfig):\n    odd: int = 1\n"
        + _tool(members="Config = C"),
        said="odd: no description",
    ),
    "models that are none": Package(_hook("return [1]", "models"), (f"model.odd = {MODULE}",), said="offers no model"),
    "a model factory of junk": Package(
        _hook(
            "return [ModelFactory('odd', 1, missing=lambda: 7)]",
            "models",
            more="from forge_cli.hooks import ModelFactory\n",
        ),
        (f"model.odd = {MODULE}",),
        said="make is not callable",
    ),
    "executors that are none": Package(
        _hook("return [object()]", "executors"), (f"executor.odd = {MODULE}",), said="offers no executor"
    ),
    "renderers that are none": Package(
        _hook("return ['odd.kind']", "renderers"), (f"render.odd = {MODULE}",), said="offers no renderers"
    ),
    "renderers of junk": Package(
        _hook("return {'odd.kind': 7, 3: print}", "renderers"), (f"render.odd = {MODULE}",), said="is not callable"
    ),
    "tools of one name": Package(
        _tool(
            members="async def tools(self):\n        from dataclasses import replace"
            "\n        (hi,) = await super().tools()\n        return [hi, replace(hi, description='Other.')]"
        )
    ),
    "a tool without a word": Package(_tool().replace('"Say hi."', "pass"), said="description"),
    "a tool that hangs when it is tried": Package(
        _tool("while True: pass", "needs_approval=False, effects=[], timeout=1"), hangs=True
    ),
    "a tool that leaves when it is tried": Package(_tool("import os; os._exit(0)"), said="ended the process"),
    "a tool that gives too much": Package(_tool("return 'x' * 2**25"), fine=None),
    "a tool that gives what cannot be written": Package(_tool("return {'x': object()}"), fine=None),
    "a huge description": Package(
        _tool().replace("@hookimpl", "Hostile.hi.__doc__ = 'word ' * 10**6\n\n@hookimpl"), fine=None
    ),
}
