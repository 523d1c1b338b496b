"""The tools and toolboxes of llm's plugins, as a toolset for forge."""

__version__ = "0.3.0.dev0"
