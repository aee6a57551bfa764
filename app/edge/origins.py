"""Whether a browser was told by a page of ours to send a request, or by somebody else's."""

from collections.abc import Callable
from urllib.parse import urlsplit


def sent_from_here(header: Callable[[bytes], bytes | None], web_url: str) -> bool:
    """Tell whether the request comes from our web origin, by `Origin`, or `Sec-Fetch-Site` where there is none.

    A page without referrer sends `Origin: null`, and no script can set either header (Fetch standard, forbidden
    request-headers).
    """
    origin = header(b"origin") or b"null"
    if origin == b"null":
        return header(b"sec-fetch-site") == b"same-origin"
    wanted, given = urlsplit(web_url), urlsplit(origin.decode("latin-1"))
    return (given.scheme, given.netloc.lower()) == (wanted.scheme, wanted.netloc.lower())
