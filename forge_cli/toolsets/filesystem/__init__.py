"""The toolset ``filesystem``: files inside the zones of the sandbox, with the change shown before it is made."""

from forge_cli.toolsets.filesystem.toolset import FilesystemToolset, forge_renderers, forge_toolsets

__all__ = ["FilesystemToolset", "forge_renderers", "forge_toolsets"]
