"""``forge mcp``: the MCP servers that workers can use."""
