"""The cookie of our web origin that holds a session token.

No script reads it (`HttpOnly`), no foreign page's form or picture sends it (`SameSite=Lax`), and where the origin is
https it travels by nothing else (`Secure`).
"""

from datetime import datetime

NAME = "session"


def cookie_of(token: str, now: datetime, expires_at: datetime, *, web_url: str) -> str:
    """Return the value of `Set-Cookie` that keeps a session token until it expires."""
    return f"{NAME}={token}; Max-Age={int((expires_at - now).total_seconds())}; {_attributes(web_url)}"


def no_cookie(*, web_url: str) -> str:
    """Return the value of `Set-Cookie` that removes it."""
    return f"{NAME}=; Max-Age=0; {_attributes(web_url)}"


def _attributes(web_url: str) -> str:
    return "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if web_url.startswith("https:") else "")
