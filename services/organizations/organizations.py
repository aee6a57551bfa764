"""The current organisation: its name and settings."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from models.checks import mark_dirty
from models.installations import Installation
from models.organizations import Organization
from models.queries import frozen_branches
from rules.access.organization_settings import OrganizationSettings
from rules.audit.changes import differences
from rules.errors import ServiceError
from rules.time.zones import check_zone
from services.core.entity_tags import require_match
from services.core.plan_grants import plan_grants_of
from services.core.unit_of_work import UnitOfWork


def current(uow: UnitOfWork) -> dict[str, Any]:
    """Return the organisation of the unit of work."""
    return view(uow, uow.session.get_one(Organization, uow.organization))


def lock_current(uow: UnitOfWork) -> Organization:
    """Return the organisation of the unit of work, locked, so that changes of members and invitations are serialized.

    Sets `now` to the present, since this may wait. Raise `organization_deleted`, which may have happened meanwhile.
    """
    query = select(Organization).where(Organization.id == uow.organization).with_for_update(key_share=True)
    organization = uow.session.scalars(query).one()
    uow.refresh_now()
    if organization.deleted_at is not None:
        raise ServiceError("organization_deleted", "The organisation has been deleted.")
    return organization


def update(
    uow: UnitOfWork, name: str | None, settings: Mapping[str, Any] | None, if_match: str | None = None
) -> dict[str, Any]:
    """Change the name and the given settings. Raise `invalid_timezone`, `precondition_failed`."""
    timezone = (settings or {}).get("timezone")
    if timezone is not None:
        check_zone(timezone, "/settings/timezone")
    organization = lock_current(uow)
    require_match(if_match, lambda: view(uow, organization))
    before = _audit_snapshot(organization)
    if name is not None:
        organization.name = name
    if settings:
        organization.settings = {**organization.settings, **settings}
    after = _audit_snapshot(organization)
    old, new = differences(before, after)
    if before["settings"] != after["settings"]:  # texts of checks name the zone and who decides
        frozen = uow.session.scalars(frozen_branches(organization.id, uow.now)).all()
        mark_dirty(uow.session, frozen, uow.now)
        uow.wake("reconcile")
    if new:
        target = ("organization", organization.id, organization.name)
        uow.audit("organization.updated", target, before=old, after=new)
    return view(uow, organization)


def view(uow: UnitOfWork, organization: Organization) -> dict[str, Any]:
    """Return an organisation as in the API."""
    return {
        "id": organization.id,
        "name": organization.name,
        "slug": organization.slug,
        "plan": plan_grants_of(uow, organization.id).at(uow.now).plan.id,
        "settings": OrganizationSettings.from_json(organization.settings),
        "installation_id": _installation(uow, organization.id),
        "created_at": organization.created_at,
        "deleted_at": organization.deleted_at,
    }


def _installation(uow: UnitOfWork, organization_id: str) -> int | None:
    """Return the id of the organisation's installation, or None if it has none or it was removed."""
    query = select(Installation.id).where(
        Installation.organization_id == organization_id, Installation.state != "removed"
    )
    return uow.session.scalar(query.order_by(Installation.created_at.desc()).limit(1))


def _audit_snapshot(organization: Organization) -> dict[str, Any]:
    return {"name": organization.name, "settings": OrganizationSettings.from_json(organization.settings).as_json()}
