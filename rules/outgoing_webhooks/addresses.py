"""The addresses that webhooks may be sent to, as far as their text says it.

Their hosts are resolved and judged with each attempt.
"""

import re
from urllib.parse import urlsplit

from rules.access.redirect_uris import is_plain_address
from rules.public_addresses import is_allowed

_NETLOC = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_CHARACTER = r"[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2}"
_URI = re.compile(rf"https://[^/?]*(?:/(?:{_CHARACTER})*)?(?:\?(?:{_CHARACTER}|\?)*)?")
"""The characters of a path and a query are those of RFC 3986; the host is judged by itself."""
_NUMBER = re.compile(r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)\Z")
"""The last part of a host that is an address, in whatever form."""


def problem_with(url: str, *, loopback: bool = False) -> str | None:
    """Return why no webhook may be sent to an address, or None; with `loopback`, this machine is allowed."""
    if not url.startswith("https://"):
        return "must begin with https://"
    if not is_plain_address(url):
        return "must consist of visible ASCII characters, without a fragment (#)"
    host = _host_of(url)
    if host is None:
        return "must be https://, a host, and a path; user names and passwords are not allowed"
    if _URI.fullmatch(url) is None:
        return "must be a URI: % and two hexadecimal digits stand for characters that its path or query cannot have"
    return None if _may_be_public(host, loopback=loopback) else "must be a host of the public internet"


def _host_of(url: str) -> str | None:
    """Return the host of an address, or None if it is malformed or has a user name."""
    try:
        parts = urlsplit(url)
        valid = _NETLOC.fullmatch(parts.netloc) is not None and parts.port != 0
    except ValueError:
        return None
    return (parts.hostname or "").lower() if valid else None


def _may_be_public(host: str, *, loopback: bool) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return loopback
    if ":" not in host and _NUMBER.search(host.rpartition(".")[2]) is None:
        return True
    try:
        return is_allowed(host, loopback=loopback)
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address, which may be shown where its path, perhaps a secret, may not."""
    return f"https://{urlsplit(url).netloc}"
