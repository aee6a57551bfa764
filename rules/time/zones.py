"""Time zones: their names, and the version of their data.

The data are those of the pinned `tzdata` package, never of the machine, so that all machines plan the same windows and
a new version is the reason to replan. A module that uses `zoneinfo` must import this module first.
https://www.iana.org/time-zones
"""

from functools import cache
from importlib.metadata import version
from zoneinfo import available_timezones, reset_tzpath

from rules.errors import field_error

reset_tzpath(to=())

DATA_VERSION = version("tzdata")
"""For example `2026.6`, which is the IANA's 2026f."""


def check_zone(name: str, path: str) -> None:
    """Raise `invalid_timezone`, with the pointer `path`, if a name is not in the IANA database.

    Names are case-sensitive, so that every calendar understands them; the message suggests the right spelling.
    """
    if name not in zone_names():
        meant = next((zone for zone in sorted(zone_names()) if zone.lower() == name.lower()), None)
        message = f"{name!r} is not an IANA time zone" + (
            f"; did you mean {meant}?" if meant else ", such as Europe/London"
        )
        raise field_error(path, message, message=message if meant else f"{message}.", code="invalid_timezone")


@cache
def zone_names() -> frozenset[str]:
    """Return the names of the IANA database."""
    return frozenset(available_timezones())
