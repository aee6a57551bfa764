"""The time zone of the reader, which a script keeps in a cookie: pages show their instants in it from the start.

Without it they are shown in UTC, and a script puts others in their place, which moves what stands around them.
"""

from datetime import datetime

from flask import g, has_request_context, request

from rules.time.zones import zone_names
from web.instants import format_instant

COOKIE = "zone"


def reader_zone() -> str:
    """Return the zone of the reader, a name of the IANA database; empty if it is not known, or outside of requests."""
    if not has_request_context():
        return ""
    if "reader_zone" not in g:
        zone = request.cookies.get(COOKIE, "")
        g.reader_zone = zone if zone in zone_names() else ""
    return str(g.reader_zone)


def format_for_reader(instant: str | datetime) -> str:
    """Return an instant in the zone of the reader."""
    return format_instant(instant, reader_zone())
