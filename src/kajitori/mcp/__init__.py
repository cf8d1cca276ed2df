"""The MCP server: tools for assistants and other programs that act for a person, through the Web API. Begin with
`tools.Tool`."""
