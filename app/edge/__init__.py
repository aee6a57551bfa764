"""The request pipeline, and the only package that knows Connexion.

A request passes `http_protocol` (limits of the connection) → `middleware` (request id, access log, errors) → `router` →
`operation`. The operation checks the credential (`authentication`, `rate_limits`, `authorization`), reads parameters
and body, replays a stored response for a known idempotency key or calls the handler in its unit of work, and serializes
the response. `connexion_adapter` has the operations compiled when the process starts.
"""
