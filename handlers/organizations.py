"""Operations of the tag Organizations."""

from typing import Any

from handlers.entity_tags import tagged
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.organizations import memberships, organizations


def get_me(uow: UnitOfWork) -> object:
    """Return the current principal and the organisation in which it acts."""
    return memberships.me(uow)


def list_my_organizations(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the current user's organisations, most recently joined first."""
    return memberships.list_mine(uow, cursor, limit)


def bootstrap_organization(uow: UnitOfWork, body: dict[str, Any] | None) -> object:
    """Return the current user's organisation; create one if they have none."""
    given = body or {}
    another = given.get("another", False)
    return memberships.bootstrap(uow, given.get("name"), given.get("timezone"), another=another)


def get_current_organization(uow: UnitOfWork) -> object:
    """Get the organisation."""
    return tagged(organizations.current(uow))


def update_current_organization(uow: UnitOfWork, body: dict[str, Any], if_match: str | None) -> object:
    """Change the organisation's name and settings."""
    return tagged(organizations.update(uow, body.get("name"), body.get("settings"), if_match))
