"""The toolset ``executables``: programs in ``~/.forge/tools``, each with a ``tool.yaml`` that says how to call it."""
