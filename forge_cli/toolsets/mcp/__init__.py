"""The toolset ``mcp``: the tools of MCP servers behind forge's own gate."""
