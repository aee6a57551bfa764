"""A person's sign-in: how long it lasts, and the cookies of our web origin: its token, and that of a known device.

The cookie of the device outlives the session, and gives access to nothing (`services/identity/known_devices.py`).

No script reads a cookie (`HttpOnly`), and no foreign page's form or picture sends it (`SameSite=Lax`). Where the
origin is https, it is sent only over https (`Secure`), and no other host of the domain can set it (`__Host-`).
"""

from datetime import datetime, timedelta

LIFETIME = timedelta(days=30)
DEVICE_LIFETIME = timedelta(days=180)
_COOKIE, _DEVICE_COOKIE = "session", "device"


def cookie_name(web_url: str) -> str:
    """Return the name of the session cookie."""
    return _name(_COOKIE, web_url)


def device_cookie_name(web_url: str) -> str:
    """Return the name of the cookie of a known device."""
    return _name(_DEVICE_COOKIE, web_url)


def find_cookie(header: str, name: str) -> str:
    """Return the value of a cookie in a `Cookie` header, empty if it is missing or not ASCII, as ours are."""
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return next((value for found, _, value in pairs if found == name and value and value.isascii()), "")


def set_device_cookie(value: str, *, web_url: str) -> str:
    """Return the `Set-Cookie` value that stores what makes a device known."""
    seconds = int(DEVICE_LIFETIME.total_seconds())
    return f"{device_cookie_name(web_url)}={value}; Max-Age={seconds}; {_attributes(web_url)}"


def set_cookie(token: str, now: datetime, expires_at: datetime, *, web_url: str) -> str:
    """Return the `Set-Cookie` value that stores a session token until it expires."""
    seconds = int((expires_at - now).total_seconds())
    return f"{cookie_name(web_url)}={token}; Max-Age={seconds}; {_attributes(web_url)}"


def delete_cookie(*, web_url: str) -> str:
    """Return the `Set-Cookie` value that deletes the cookie."""
    return f"{cookie_name(web_url)}=; Max-Age=0; {_attributes(web_url)}"


def _name(name: str, web_url: str) -> str:
    """Return the name of a cookie; with the prefix only its own host can set it (RFC 6265bis, 4.1.3.2)."""
    return f"__Host-{name}" if _is_secure(web_url) else name


def _attributes(web_url: str) -> str:
    return "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if _is_secure(web_url) else "")


def _is_secure(web_url: str) -> bool:
    return web_url.startswith("https:")
