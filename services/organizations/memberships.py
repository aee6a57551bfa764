"""A person's organisations: who am I, list mine, and create the first one.

Units of work of this module use the database role `identity`. A support session sees only the organisation that it was
opened for, without a role, and nothing else of the person it acts as.
"""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, select, update
from sqlalchemy.dialects.postgresql import insert

from models.organizations import LoginSession, Membership, Organization, User
from rules.access.organization_settings import OrganizationSettings
from rules.access.slugs import slug_of
from rules.billing.grants import PlanGrants
from rules.ids import new_id
from rules.time.zones import check_zone
from services.core.pagination import Page, page_of
from services.core.plan_grants import plan_grants, plan_grants_of
from services.core.unit_of_work import UnitOfWork
from services.events.destinations import add_destination
from services.organizations import organizations

_MAX_FIRST_NAME_LENGTH = 80

OwnOrganization = Row[Organization, str, datetime]
"""An organisation of a person, their role in it, and the time they joined."""


def current_user(uow: UnitOfWork, *, lock: bool = False) -> User:
    """Return the caller's user."""
    query = select(User).where(User.id == uow.caller.signed_in_user)
    return uow.session.scalars(query.with_for_update(key_share=True) if lock else query).one()


def is_support(uow: UnitOfWork) -> bool:
    """True if the caller is a support session."""
    return uow.actor.type == "support"


def me(uow: UnitOfWork) -> dict[str, Any]:
    """Return the caller's account and the selected organisation, if any."""
    user = current_user(uow)
    return {
        "id": user.id,
        "name": user.name,
        "email": user.email,
        "email_verified": user.email_verified_at is not None,
        "created_at": user.created_at,
        "support": is_support(uow),
        "organization": _active(uow),
    }


def find(uow: UnitOfWork, organization_id: str | None) -> OwnOrganization | None:
    """Return an organisation with the caller's role there and the time they joined; None if it is not theirs."""
    query = _organizations_of(uow.caller.signed_in_user).where(Organization.id == organization_id)
    return uow.session.execute(query).one_or_none()


def list_mine(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the person's organisations, last joined first, without deleted ones."""
    if is_support(uow):
        selected = _active(uow)
        return Page([selected] if selected else [], None)
    user_id = uow.caller.signed_in_user
    query, keys = _organizations_of(user_id), (Membership.created_at, Organization.id)
    page = page_of(uow, "list_my_organizations", None, query, keys, cursor=cursor, limit=limit, owner=user_id)
    return Page(_views(uow, page.data), page.next_cursor)


def bootstrap(uow: UnitOfWork, name: str | None, timezone: str | None, *, another: bool) -> dict[str, Any]:
    """Return the selected organisation of the person, or else the one that they joined first, or else a new one.

    The session selects it, unless it has another one. Concurrent calls create only one. With `another` there is a new
    one in any case, which the session selects. Raise `invalid_timezone`.
    """
    if timezone is not None:
        check_zone(timezone, "/timezone")
    user = current_user(uow, lock=True)
    uow.refresh_now()
    rows = uow.session.execute(_organizations_of(user.id).order_by(Membership.created_at, Organization.id)).all()
    if rows and not another:
        by_id = {organization.id: organization for organization, _, _ in rows}
        organization = by_id.get(uow.caller.organization_id or "") or rows[0][0]
    else:
        organization = _create(uow, user, name or _default_name(user), {"timezone": timezone} if timezone else {})
    select_organization(uow, organization.id, anyway=another)
    return organizations.view(uow, organization)


def select_organization(uow: UnitOfWork, organization_id: str, *, anyway: bool = False) -> None:
    """Select an organisation in the session; unless `anyway`, only if the session has none that still exists."""
    live = select(Organization.id).join(Membership, Membership.organization_id == Organization.id)
    live = live.where(Membership.user_id == LoginSession.user_id, Organization.deleted_at.is_(None))
    statement = update(LoginSession).where(LoginSession.id == uow.caller.session_id)
    if not anyway:
        statement = statement.where(LoginSession.organization_id.is_(None) | LoginSession.organization_id.not_in(live))
    statement = statement.values(organization_id=organization_id)
    uow.session.execute(statement.execution_options(synchronize_session=False))


def _create(uow: UnitOfWork, user: User, name: str, settings: dict[str, Any]) -> Organization:
    organization = uow.session.get_one(Organization, _insert(uow, name, settings))
    uow.bind_organization(organization.id)
    uow.session.add(
        Membership(organization_id=organization.id, user_id=user.id, role="owner", created_at=uow.now),
    )
    add_destination(uow, organization.id, "mail", sequence=0)
    after = {"name": name, "slug": organization.slug}
    uow.audit("organization.created", ("organization", organization.id, name), before=None, after=after)
    return organization


def _insert(uow: UnitOfWork, name: str, settings: dict[str, Any]) -> str:
    """Insert an organisation with the first free slug, and return its id."""
    organization_id, slug = new_id("org"), slug_of(name)
    while True:
        row = {"id": organization_id, "name": name, "slug": slug, "settings": settings}
        statement = insert(Organization).values(**row, created_at=uow.now)
        statement = statement.on_conflict_do_nothing(index_elements=["slug"])
        if uow.session.scalar(statement.returning(Organization.id)) is not None:
            return organization_id
        slug = f"{slug_of(name)}-{secrets.token_hex(4)}"


def _default_name(user: User) -> str:
    first = (user.name.split() or ["My"])[0]
    return f"{first[:_MAX_FIRST_NAME_LENGTH]}'s organisation"


def _active(uow: UnitOfWork) -> dict[str, Any] | None:
    """Return the selected organisation, or None."""
    organization_id = uow.caller.organization_id
    if is_support(uow):
        organization = uow.session.get(Organization, organization_id) if organization_id else None
        if organization is None or organization.deleted_at is not None:
            return None
        return _view(uow, plan_grants_of(uow, organization.id), organization, None, None)
    own = find(uow, organization_id)
    return None if own is None else _views(uow, [own])[0]


def _organizations_of(user_id: str) -> Select[Organization, str, datetime]:
    return (
        select(Organization, Membership.role, Membership.created_at)
        .join(Membership, Membership.organization_id == Organization.id)
        .where(Membership.user_id == user_id, Organization.deleted_at.is_(None))
    )


def _views(uow: UnitOfWork, rows: Sequence[OwnOrganization]) -> list[dict[str, Any]]:
    grants = plan_grants(uow, [organization.id for organization, _, _ in rows])
    return [_view(uow, grants[row[0].id], *row) for row in rows]


def _view(
    uow: UnitOfWork, grants: PlanGrants, organization: Organization, role: str | None, joined_at: datetime | None
) -> dict[str, Any]:
    return {
        "id": organization.id,
        "name": organization.name,
        "slug": organization.slug,
        "plan": grants.at(uow.now).plan.id,
        "role": role,
        "joined_at": joined_at,
        "active": organization.id == uow.caller.organization_id,
        "settings": OrganizationSettings.from_json(organization.settings),
    }
