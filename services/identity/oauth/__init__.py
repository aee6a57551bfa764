"""OAuth for clients that act for a person, such as MCP clients: authorization, tokens, and connections.

A person allows a client some scopes in one organisation: a grant, which people see as a connection. The client gets an
authorization code in the redirect, and for it an access token of an hour and a refresh token. What a token may do is
looked up by its grant on each request, so the end of a grant, a membership or a role takes effect at once.

By RFC 6749 with PKCE (7636), resource indicators (8707), `iss` in responses (9207), revocation (7009) and client id
metadata documents. Clients have no secrets, and cannot be registered.
"""
