"""The MCP server: tools that are made from the contract, and call its operations in process.

`tools` makes the tools, `input_schemas` the schemas of their arguments, and `server` speaks the protocol with the SDK
`mcp`. A tool has no rule of its own besides the confirmation of what cannot be undone: its operation decides.
"""
