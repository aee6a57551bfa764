"""The request pipeline, and the only package that knows Connexion.

A request passes `middleware` (request id, access log, errors) → `router` → `operation`. The operation reads the
credential (`auth`), the parameters and the body, checks rate limits and preconditions, replays a stored response for a
known idempotency key or calls the handler in its unit of work, and serializes the response.
"""
