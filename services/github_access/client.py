"""The way to the code host for services that answer a request."""

from urllib.parse import quote

from sqlalchemy import select

from integrations.github import GitHub, InstallationClient
from models.installations import Installation
from rules.errors import ServiceError
from services.core.unit_of_work import Unit
from services.github_access.failures import require_no_pause

ORIGIN = "https://github.com"
"""Where its pages are when this process has no App."""


def github(unit: Unit) -> GitHub:
    """Return the process's GitHub client; raises `github_unavailable` where no App is configured."""
    found = unit.surroundings.github
    if found is None:
        raise ServiceError("github_unavailable", "No GitHub App is configured here (GITHUB_APP_ID).")
    return found


def page(unit: Unit, *segments: str, **query: str) -> str:
    """Return the address of a page of the code host, for people; each segment is one of its path."""
    found = unit.surroundings.github
    origin = found.settings.web_url if found else ORIGIN
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    address = "/".join([origin.rstrip("/"), *(quote(segment, safe="") for segment in segments)])
    return f"{address}?{asked}" if asked else address


def client(unit: Unit) -> InstallationClient:
    """Return the client of the organisation's installation; raises what `installation_of` and `client_of` do."""
    return client_of(unit, installation_of(unit))


def installation_of(unit: Unit) -> int:
    """Return the id of the organisation's installation; raises `installation_removed` if there is no active one."""
    installation_id = unit.session.scalar(
        select(Installation.id).where(Installation.organization_id == unit.organization, Installation.state == "active")
    )
    if installation_id is None:
        raise ServiceError("installation_removed", "This organisation has no active installation of the GitHub App.")
    return installation_id


def client_of(unit: Unit, installation_id: int) -> InstallationClient:
    """Return the client of an installation; raises `github_rate_limited` while that one is to be left alone."""
    found = github(unit).client(installation_id)
    require_no_pause(unit, installation_id)
    return found
