"""The server of `cudalens mcp`: tools over the Model Context Protocol for programs that read traces."""
