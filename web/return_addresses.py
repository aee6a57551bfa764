"""Which addresses a sign-in may lead back to."""

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from rules import web_addresses
from web.dashboard.pages import PAGES

_PAGES = (
    web_addresses.ACCOUNT,
    web_addresses.CONFIRM_EMAIL,
    web_addresses.PROFILE,
    web_addresses.DEVICE,
    web_addresses.INVITATION,
    web_addresses.INSTALLED,
    web_addresses.AUTHORIZE,
    web_addresses.CONNECTIONS,
    web_addresses.BILLING,
    web_addresses.SLACK,
    web_addresses.SLACK_LINK,
    *(page.path for page in PAGES),
)
_ADDRESSES = tuple(re.compile(re.escape(path).replace(re.escape("{id}"), "[A-Za-z0-9_-]+")) for path in _PAGES)


def safe_redirect(wanted: str) -> str:
    """Return the address that a sign-in leads back to: one of our own pages, never another site."""
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return web_addresses.HOME
    is_page = any(address.fullmatch(parts.path) for address in _ADDRESSES)
    if parts.scheme or parts.netloc or not is_page:
        return web_addresses.HOME
    pairs = parse_qsl(
        parts.query, keep_blank_values=True, encoding="latin-1"
    )  # a character for each byte, to keep them
    return urlunsplit(("", "", parts.path, urlencode(pairs, encoding="latin-1"), ""))
