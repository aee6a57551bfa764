"""Installations as clients see them, and the way of one: asked for, active, suspended, removed."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select

from models.identity import OneTimeToken
from models.installations import Installation
from rules.errors import ServiceError
from rules.rulesets.app_permissions import missing_permissions
from services.core.unit_of_work import UnitOfWork

NOT_REMOVED: ColumnElement[bool] = Installation.state != "removed"


def own(uow: UnitOfWork) -> ColumnElement[bool]:
    """Return the condition for installations of the organisation."""
    return Installation.organization_id == uow.organization


def unknown(installation_id: int) -> ServiceError:
    """Return the refusal of an installation that there is not, or that is not shown: both sound alike."""
    return ServiceError("installation_not_found", f"There is no installation {installation_id} here.")


def present(uow: UnitOfWork) -> Installation | None:
    """Return the installation that the organisation has, or else the one that was removed last."""
    query = select(Installation).where(own(uow))
    order = (NOT_REMOVED.desc(), Installation.created_at.desc(), Installation.id.desc())
    return uow.session.scalar(query.order_by(*order).limit(1))


def pending_until(uow: UnitOfWork) -> datetime | None:
    """Return until when an installation that somebody was sent to make can be claimed; None: nobody was."""
    query = select(func.max(OneTimeToken.expires_at)).where(
        OneTimeToken.purpose == "installation",
        OneTimeToken.organization_id == uow.organization,
        OneTimeToken.used_at.is_(None),
        OneTimeToken.expires_at > uow.now,
    )
    return uow.session.scalar(query)


def status(uow: UnitOfWork, installation_id: int | None) -> dict[str, Any]:
    """Return how far the organisation's installation has come, or the one named; raises `installation_not_found`."""
    if installation_id is None:
        found = present(uow)
    else:
        found = uow.session.scalar(select(Installation).where(own(uow), Installation.id == installation_id))
        if found is None:
            raise unknown(installation_id)
    until = pending_until(uow)
    expected = until is not None and installation_id is None and (found is None or found.state == "removed")
    return {
        "state": "pending" if expected else found.state if found else "none",
        "installation": view(found) if found else None,
        "pending_until": until if expected else None,
    }


def view(installation: Installation) -> dict[str, Any]:
    """Return an installation as the contract's object."""
    return {
        "installation_id": installation.id,
        "account": installation.account,
        "state": installation.state,
        "repository_selection": installation.repository_selection,
        "permissions": installation.permissions,
        "missing_permissions": missing_permissions(installation.permissions),
    }
