"""The request pipeline, and the only package that knows Connexion.

A request passes `front` (request id, access log, errors) → `router` → `operation`, which reads the credential (`auth`),
the parameters and the body, checks rate limits and preconditions, replays an idempotent reply or calls the handler in
its unit of work, and serializes the reply.
"""
