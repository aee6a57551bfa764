"""Same-origin check of browser requests, against cross-site request forgery."""

from collections.abc import Callable
from urllib.parse import urlsplit


def is_same_origin(header: Callable[[bytes], bytes | None], web_url: str) -> bool:
    """True if the request comes from a page of our web origin, by `Origin`, or else by `Sec-Fetch-Site`.

    A page with the referrer policy `no-referrer` sends `Origin: null`. Scripts can set neither header (Fetch standard,
    forbidden request-headers).
    """
    origin = header(b"origin") or b"null"
    if origin == b"null":
        return header(b"sec-fetch-site") == b"same-origin"
    expected, actual = urlsplit(web_url), urlsplit(origin.decode("latin-1"))
    return (actual.scheme, actual.netloc.lower()) == (expected.scheme, expected.netloc.lower())
