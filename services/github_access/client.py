"""GitHub's client for services that answer a request, and the addresses of its pages."""

from urllib.parse import quote

from sqlalchemy import case, select

from integrations.github import GitHub, InstallationClient
from models.installations import Installation
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.github_access.failures import require_no_pause

ORIGIN = "https://github.com"
API_ORIGIN = "https://api.github.com"
"""The origins of its pages and of its API when this process has no App."""


def github(uow: UnitOfWork) -> GitHub:
    """Return the process's GitHub client; raise `github_unavailable` if no App is configured."""
    found = uow.ports.find(GitHub)
    if found is None:
        raise ServiceError("github_unavailable", "No GitHub App is configured here (GITHUB_APP_ID).")
    return found


def origins(uow: UnitOfWork) -> tuple[str, str]:
    """Return the addresses of GitHub's pages and of its API."""
    found = uow.ports.find(GitHub)
    return (found.settings.web_url, found.settings.api_url) if found else (ORIGIN, API_ORIGIN)


def page(uow: UnitOfWork, *segments: str, **query: str) -> str:
    """Return the address of a GitHub page, for people; each segment is one of its path."""
    origin, _ = origins(uow)
    parameters = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    address = "/".join([origin.rstrip("/"), *(quote(segment, safe="") for segment in segments)])
    return f"{address}?{parameters}" if parameters else address


def installation_page(uow: UnitOfWork, installation: Installation) -> str:
    """Return the address of the page at GitHub on which an owner of the account unsuspends the App, or changes it."""
    return page(uow, "organizations", installation.account, "settings", "installations", str(installation.id))


def client(uow: UnitOfWork) -> InstallationClient:
    """Return the client of the organisation's installation; raise what `installation_of` and `client_of` do."""
    return client_of(uow, installation_of(uow))


def installation_of(uow: UnitOfWork) -> int:
    """Return the id of the organisation's active installation.

    Raise `invalid_state` if the organisation never had one, `installation_suspended` if people at GitHub have suspended
    it, and `installation_removed` if it was uninstalled.
    """
    own = select(Installation).where(Installation.organization_id == uow.organization)
    order = case({"active": 0, "suspended": 1}, value=Installation.state, else_=2)
    found = uow.session.scalar(own.order_by(order, Installation.id).limit(1))
    if found is not None and found.state == "active":
        return found.id
    if found is not None and found.state == "suspended":
        raise ServiceError(
            "installation_suspended",
            f"The GitHub App is suspended in {found.account}. An owner of the account can unsuspend it at GitHub: "
            f"{installation_page(uow, found)}",
        )
    if found is None:
        code, message = "invalid_state", "The GitHub App is not installed for this organisation yet."
    else:
        code, message = "installation_removed", "The GitHub App is no longer installed for this organisation."
    raise ServiceError(code, f"{message} Install it with GET /v1/github/install-url.")


def client_of(uow: UnitOfWork, installation_id: int) -> InstallationClient:
    """Return the client of an installation; raise `github_rate_limited` while it is paused."""
    found = github(uow).client(installation_id)
    require_no_pause(uow, installation_id)
    return found
