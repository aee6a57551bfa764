"""The cookie of the web origin that holds a session token.

Scripts cannot read it (`HttpOnly`), cross-site forms and images do not send it (`SameSite=Lax`), and if the origin is
https, it is sent over https only (`Secure`).
"""

from datetime import datetime

NAME = "session"


def set_cookie(token: str, now: datetime, expires_at: datetime, *, web_url: str) -> str:
    """Return the `Set-Cookie` value that stores a session token until it expires."""
    return f"{NAME}={token}; Max-Age={int((expires_at - now).total_seconds())}; {_attributes(web_url)}"


def delete_cookie(*, web_url: str) -> str:
    """Return the `Set-Cookie` value that deletes the cookie."""
    return f"{NAME}=; Max-Age=0; {_attributes(web_url)}"


def _attributes(web_url: str) -> str:
    return "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if web_url.startswith("https:") else "")
