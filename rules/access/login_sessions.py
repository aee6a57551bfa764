"""A person's sign-in: how long it lasts, and the cookie of our web origin that holds its token.

No script reads the cookie (`HttpOnly`), no foreign page's form or picture sends it (`SameSite=Lax`), and where the
origin is https it is sent over https alone (`Secure`).
"""

from datetime import datetime, timedelta

LIFETIME = timedelta(days=30)
COOKIE = "session"


def set_cookie(token: str, now: datetime, expires_at: datetime, *, web_url: str) -> str:
    """Return the `Set-Cookie` value that stores a session token until it expires."""
    return f"{COOKIE}={token}; Max-Age={int((expires_at - now).total_seconds())}; {_attributes(web_url)}"


def delete_cookie(*, web_url: str) -> str:
    """Return the `Set-Cookie` value that deletes the cookie."""
    return f"{COOKIE}=; Max-Age=0; {_attributes(web_url)}"


def _attributes(web_url: str) -> str:
    return "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if web_url.startswith("https:") else "")
