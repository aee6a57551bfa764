"""The way to the code host for services that answer a request."""

from sqlalchemy import select

from integrations.github import GitHub, InstallationClient
from models.installations import Installation
from rules.errors import ServiceError
from services.unit import Unit


def github(unit: Unit) -> GitHub:
    """Return the process's GitHub client; raises `github_unavailable` where no App is configured."""
    found = unit.surroundings.github
    if found is None:
        raise ServiceError("github_unavailable", "No GitHub App is configured here (GITHUB_APP_ID).")
    return found


def client(unit: Unit) -> InstallationClient:
    """Return the client of the organisation's installation; raises `installation_removed` if there is no active one."""
    installation_id = unit.session.scalar(
        select(Installation.id).where(Installation.organization_id == unit.organization, Installation.state == "active")
    )
    if installation_id is None:
        raise ServiceError("installation_removed", "This organisation has no active installation of the GitHub App.")
    return github(unit).client(installation_id)
