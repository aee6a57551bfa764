"""Time zones: their names, and the version of the data that says what their clocks do.

The data are those of the `tzdata` package, which is pinned; what the machine has is not looked at, so that all
machines plan the same windows, and one number tells when windows have to be planned anew. Whoever reads a clock with
`zoneinfo` imports this module first. https://www.iana.org/time-zones
"""

from functools import cache
from importlib.metadata import version
from zoneinfo import available_timezones, reset_tzpath

from rules.errors import Detail, ServiceError

reset_tzpath(to=())

DATA_VERSION = version("tzdata")
"""Such as `2026.6`, which is the IANA's 2026f."""


def check_zone(name: str, path: str) -> None:
    """Raise `invalid_timezone`, with the pointer `path`, for what is no name of the IANA database.

    Names are taken as they are written there, so that every calendar understands what is shown; another case is told.
    """
    if name not in zone_names():
        meant = next((zone for zone in sorted(zone_names()) if zone.lower() == name.lower()), None)
        message = f"{name!r} is no IANA time zone" + (
            f"; did you mean {meant}?" if meant else ", such as Europe/London"
        )
        details = (Detail(path, message, "invalid_timezone"),)
        raise ServiceError("invalid_timezone", message if meant else f"{message}.", details=details)


@cache
def zone_names() -> frozenset[str]:
    """Return the names of the IANA database."""
    return frozenset(available_timezones())
