"""The settings of access tokens, which sessions and connected clients get."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class AccessTokenSettings:
    """Who issues access tokens, for whom, and for how long."""

    issuer: str = ""
    """The claim `iss`."""
    audience: str = ""
    """The claim `aud`: the address of the API."""
    lifetime: timedelta = timedelta(minutes=15)
