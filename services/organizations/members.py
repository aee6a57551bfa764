"""Members of the current organisation and their roles.

Only owners may make or remove owners, and there is always at least one. Every change of members locks the organisation
first, so two owners who demote each other at the same time do so one after the other.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, func, select

from models.organizations import Membership, User
from rules.access.permissions import Role
from rules.errors import ServiceError
from services.core.authorization_locks import wait_for_writes
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.identity.calendar_feeds import end_feeds_of
from services.identity.oauth.grants import end_grants_of
from services.organizations.organizations import lock_current

Member = Row[tuple[str, str, str, str, datetime]]


def list_members(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of members, by name without regard to case."""
    keys = (func.lower(User.name), User.id)
    page = page_of(uow, "list_members", None, _members(uow), keys, cursor=cursor, limit=limit, ascending=True)
    return Page([_view(*row) for row in page.data], page.next_cursor)


def change_role(uow: UnitOfWork, user_id: str, role: Role | None) -> dict[str, Any]:
    """Change a member's role, or keep it (None).

    Raise `member_not_found`, `insufficient_permission`, `invalid_state`.
    """
    membership, name = _lock_member(uow, user_id)
    before = membership.role
    if role is not None and before != role:
        if "owner" in {before, role}:
            require_owner(uow)
        if before == "owner":
            _require_another_owner(uow, user_id)
        membership.role = role
        uow.session.flush()
        target = ("user", user_id, name)
        uow.audit("member.role_changed", target, before={"role": before}, after={"role": role})
    return _view(*uow.session.execute(_members(uow).where(User.id == user_id)).one())


def remove(uow: UnitOfWork, user_id: str) -> None:
    """Remove a member and end their connections, effective at once.

    Raise `member_not_found`, `insufficient_permission`, `invalid_state`.
    """
    membership, name = _lock_member(uow, user_id)
    if membership.role == "owner":
        require_owner(uow)
        _require_another_owner(uow, user_id)
    _end(uow, membership, name, "member.removed")


def leave(uow: UnitOfWork) -> None:
    """End the caller's own membership and connections, effective at once. Raise `invalid_state` for the only owner."""
    user_id = uow.caller.signed_in_user
    membership, name = _lock_member(uow, user_id)
    if membership.role == "owner":
        _require_another_owner(uow, user_id)
    _end(uow, membership, name, "member.left")


def _end(uow: UnitOfWork, membership: Membership, name: str, action: str) -> None:
    """Delete a membership, with the person's connections and calendar feeds in the organisation."""
    user_id = membership.user_id
    uow.audit(action, ("user", user_id, name), before={"role": membership.role}, after=None)
    end_grants_of(uow, user_id, "member_removed", organization_id=uow.organization)
    end_feeds_of(uow, user_id, "member_removed")
    uow.session.delete(membership)
    uow.session.flush()


def administrator_addresses(uow: UnitOfWork) -> Sequence[str]:
    """Return the mail addresses of owners and administrators."""
    return _addresses(uow, "admin", "owner")


def owner_addresses(uow: UnitOfWork) -> Sequence[str]:
    """Return the mail addresses of owners."""
    return _addresses(uow, "owner")


def _addresses(uow: UnitOfWork, *roles: Role) -> Sequence[str]:
    query = (
        select(User.email)
        .join(Membership, Membership.user_id == User.id)
        .where(Membership.organization_id == uow.organization, Membership.role.in_(roles))
        .order_by(User.email)
    )
    return uow.session.scalars(query).all()


def require_owner(uow: UnitOfWork) -> None:
    """Raise `insufficient_permission` if the caller is not an owner now."""
    own = uow.session.get(Membership, (uow.organization, uow.caller.user_id), populate_existing=True)
    if own is None or own.role != "owner":
        raise ServiceError("insufficient_permission", "Only owners can grant or remove the owner role.")


def _require_another_owner(uow: UnitOfWork, user_id: str) -> None:
    others = select(func.count()).where(
        Membership.organization_id == uow.organization, Membership.role == "owner", Membership.user_id != user_id
    )
    if not uow.session.scalar(others):
        raise ServiceError("invalid_state", "This is the only owner. Make another member an owner first.")


def _lock_member(uow: UnitOfWork, user_id: str) -> tuple[Membership, str]:
    """Return a membership and the person's name, after locking the organisation. Raise `member_not_found`."""
    wait_for_writes(uow, "member", uow.organization, user_id)
    lock_current(uow)
    row = uow.session.execute(
        select(Membership, func.member_name(User.id, uow.organization))
        .join(User, User.id == Membership.user_id)
        .where(Membership.organization_id == uow.organization, Membership.user_id == user_id)
    ).one_or_none()
    if row is None:
        raise ServiceError("member_not_found", f"Member {user_id!r} not found in this organisation.")
    return row[0], row[1]


def _members(uow: UnitOfWork) -> Select[str, str, str, str, datetime]:
    return (
        select(User.id, User.name, User.email, Membership.role, Membership.created_at)
        .join(Membership, Membership.user_id == User.id)
        .where(Membership.organization_id == uow.organization)
    )


def _view(user_id: str, name: str, email: str, role: str, joined_at: datetime) -> dict[str, Any]:
    return {"user_id": user_id, "name": name, "email": email, "role": role, "joined_at": joined_at}
