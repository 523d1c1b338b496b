"""The toolset ``filesystem``: files in zones; every change is shown before it is made."""

from forge_cli.toolsets.filesystem.toolset import FilesystemToolset, forge_renderers, forge_toolsets

__all__ = ["FilesystemToolset", "forge_renderers", "forge_toolsets"]
