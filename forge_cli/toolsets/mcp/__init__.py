"""MCP: the tools of servers, behind forge's own gate."""
