"""The terminal UI: prompts, trace, results and slash commands."""
