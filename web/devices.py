"""The names of clients of sessions, as people know them."""

import re

_BROWSERS = (("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = ("Windows", "Android", "iPhone", "iPad", "Mac OS", "CrOS", "Linux")


def device_label(client: str) -> str:
    """Return a name that people know for the client of a session, by its `User-Agent`."""
    if not client.startswith("Mozilla/"):
        return re.split(r"[\s/]", client, maxsplit=1)[0] or "Unknown client"
    browser = next((name for mark, name in _BROWSERS if mark in client), "Browser")
    system = next((name for name in _SYSTEMS if name in client), None)
    return f"{browser} on {system}" if system else browser
