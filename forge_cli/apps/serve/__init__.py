"""``forge serve mcp``: a worker's tools for MCP clients."""
