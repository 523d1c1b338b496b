"""The toolset ``skills``: folders with a SKILL.md, listed in the prompt and loaded on demand."""
