"""The MCP server: tools that are made from the contract, and call its operations in process.

`tools` has the tools, `input_schemas` what they take, `server` the protocol, of which the SDK `mcp` takes care. A tool
has no rule of its own besides the confirmation of what cannot be undone: its operation decides.
"""
