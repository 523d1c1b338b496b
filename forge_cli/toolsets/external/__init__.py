"""The toolset ``external``: tools from any installed package, named by where in it they are."""

from forge_cli.toolsets.external.toolset import ExternalToolset, forge_toolsets

__all__ = ["ExternalToolset", "forge_toolsets"]
