"""The toolset ``executables``: programs in ``~/.forge/tools``, described by a ``tool.yaml``."""
