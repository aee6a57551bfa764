"""A person's sign-in: how long it lasts, and the cookie of our web origin that holds its token.

No script reads the cookie (`HttpOnly`), and no foreign page's form or picture sends it (`SameSite=Lax`). Where the
origin is https, it is sent over https alone (`Secure`), and no other host of the domain can set it (`__Host-`).
"""

from datetime import datetime, timedelta

LIFETIME = timedelta(days=30)
_COOKIE = "session"


def cookie_name(web_url: str) -> str:
    """Return the name of the cookie; with the prefix only its own host can set it (RFC 6265bis, 4.1.3.2)."""
    return f"__Host-{_COOKIE}" if _is_secure(web_url) else _COOKIE


def find_cookie(header: str, *, web_url: str) -> str:
    """Return the session token of a `Cookie` header, or nothing."""
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return next((value for name, _, value in pairs if name == cookie_name(web_url)), "")


def set_cookie(token: str, now: datetime, expires_at: datetime, *, web_url: str) -> str:
    """Return the `Set-Cookie` value that stores a session token until it expires."""
    seconds = int((expires_at - now).total_seconds())
    return f"{cookie_name(web_url)}={token}; Max-Age={seconds}; {_attributes(web_url)}"


def delete_cookie(*, web_url: str) -> str:
    """Return the `Set-Cookie` value that deletes the cookie."""
    return f"{cookie_name(web_url)}=; Max-Age=0; {_attributes(web_url)}"


def _attributes(web_url: str) -> str:
    return "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if _is_secure(web_url) else "")


def _is_secure(web_url: str) -> bool:
    return web_url.startswith("https:")
