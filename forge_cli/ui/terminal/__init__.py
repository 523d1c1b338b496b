"""The terminal: prompts, trace, results and slash commands."""
