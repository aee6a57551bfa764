"""The TLS context of httpx, made once per process instead of once per client."""

from functools import cache

from httpx._transports import default


def make_tls_context_once() -> None:
    """Make clients of httpx share one context: each would read a hundred certificates, for 19 ms, and tests use none.

    `httpx.get` and githubkit make a client for each request.
    """
    names = vars(default)
    names["create_ssl_context"] = cache(names["create_ssl_context"])
