"""The toolset ``skills``: folders with a SKILL.md, named in the system prompt and loaded when they are needed."""
