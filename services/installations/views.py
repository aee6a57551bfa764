"""Installations as clients see them, with their states: pending, active, suspended, removed."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select

from models.identity import OneTimeToken
from models.installations import Installation
from rules.errors import ServiceError
from rules.rulesets.app_permissions import missing_permissions
from services.core.unit_of_work import UnitOfWork
from services.github_access.client import installation_page

NOT_REMOVED: ColumnElement[bool] = Installation.state != "removed"


def own(uow: UnitOfWork) -> ColumnElement[bool]:
    """Return the condition for installations of the organisation."""
    return Installation.organization_id == uow.organization


def not_found(installation_id: int) -> ServiceError:
    """Return the error for an installation that does not exist or is not visible: both are reported alike."""
    return ServiceError("installation_not_found", f"Installation {installation_id} not found.")


def current(uow: UnitOfWork) -> Installation | None:
    """Return the organisation's installation, or else the one removed last, or None."""
    query = select(Installation).where(own(uow))
    order = (NOT_REMOVED.desc(), Installation.created_at.desc(), Installation.id.desc())
    return uow.session.scalar(query.order_by(*order).limit(1))


def pending_until(uow: UnitOfWork) -> datetime | None:
    """Return until when a requested installation can be claimed, or None if none was requested."""
    query = select(func.max(OneTimeToken.expires_at)).where(
        OneTimeToken.purpose == "installation",
        OneTimeToken.organization_id == uow.organization,
        OneTimeToken.used_at.is_(None),
        OneTimeToken.expires_at > uow.now,
    )
    return uow.session.scalar(query)


def status(uow: UnitOfWork, installation_id: int | None) -> dict[str, Any]:
    """Return the status of the organisation's installation, or of the given one. Raise `installation_not_found`."""
    if installation_id is None:
        found = current(uow)
    else:
        found = uow.session.scalar(select(Installation).where(own(uow), Installation.id == installation_id))
        if found is None:
            raise not_found(installation_id)
    until = pending_until(uow)
    expected = until is not None and installation_id is None and (found is None or found.state == "removed")
    return {
        "state": "pending" if expected else found.state if found else "none",
        "installation": view(uow, found) if found else None,
        "pending_until": until if expected else None,
    }


def view(uow: UnitOfWork, installation: Installation) -> dict[str, Any]:
    """Return an installation as in the API."""
    return {
        "installation_id": installation.id,
        "account": installation.account,
        "state": installation.state,
        "repository_selection": installation.repository_selection,
        "permissions": installation.permissions,
        "missing_permissions": missing_permissions(installation.permissions),
        "settings_url": None if installation.state == "removed" else installation_page(uow, installation),
    }
