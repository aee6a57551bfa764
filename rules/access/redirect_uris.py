"""Redirect addresses of OAuth clients: which are allowed, which match, and how a response is added to one."""

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urlencode, urlsplit

_LOOPBACK = {"127.0.0.1", "[::1]", "localhost"}
_NETLOC = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[::1\])(?::[0-9]{1,5})?")
_PRINTABLE = re.compile(r"[!-\[\]-~]+")


def is_plain_address(uri: str) -> bool:
    """True for visible ASCII without a fragment and without the backslash, which browsers take for a slash."""
    return _PRINTABLE.fullmatch(uri) is not None and "#" not in uri


def is_redirect_uri(uri: str) -> bool:
    """True if clients may register or send the address: https, or http on the loopback; no fragment, no user name."""
    parts = _split(uri)
    return parts is not None and (parts.scheme == "https" or _is_loopback(parts))


def is_loopback(uri: str) -> bool:
    """True if the address is on the machine of the browser, where any program may listen."""
    parts = _split(uri)
    return parts is not None and _is_loopback(parts)


def redirect_host(uri: str) -> str:
    """Return host and port of a redirect address, as people see them."""
    return urlsplit(uri).netloc


def form_action_source(uri: str) -> str:
    """Return the source of a redirect address for a content security policy, which has no form for IPv6."""
    parts = urlsplit(uri)
    return f"{parts.scheme}:" if "[" in parts.netloc else f"{parts.scheme}://{parts.netloc}"


def redirect_matches(registered: str, given: str) -> bool:
    """True if a client that registered an address may use the given one.

    It is the same, but for the port on the loopback (RFC 8252, 7.3), also under the name `localhost`.
    """
    if registered == given:
        return is_redirect_uri(given)
    one, two = _split(registered), _split(given)
    if one is None or two is None or not (_is_loopback(one) and _is_loopback(two)):
        return False
    return (one.hostname, _after_host(registered)) == (two.hostname, _after_host(given))


def with_parameters(uri: str, parameters: Mapping[str, str]) -> str:
    """Return the address with response parameters added to its query; values are latin-1 text, one byte each."""
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(parameters, encoding='latin-1')}"


def _split(uri: str) -> SplitResult | None:
    """Return the parts of an address, or None if no client may be at it."""
    if not is_plain_address(uri):
        return None
    try:
        parts = urlsplit(uri)
        valid = _NETLOC.fullmatch(parts.netloc) is not None and (parts.port is None or parts.port > 0)
    except ValueError:
        return None
    return parts if valid and parts.scheme in {"http", "https"} else None


def _is_loopback(parts: SplitResult) -> bool:
    return parts.scheme == "http" and re.sub(r":[0-9]+\Z", "", parts.netloc).lower() in _LOOPBACK


def _after_host(uri: str) -> str:
    """Return what follows host and port, as it is written."""
    parts = urlsplit(uri)
    return uri.partition("://")[2].removeprefix(parts.netloc)
