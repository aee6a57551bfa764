"""Operations of the tag Organizations."""

from typing import Any

from services.core.pagination import Page
from services.core.unit_of_work import Unit
from services.organizations import memberships, organizations


def get_me(unit: Unit) -> object:
    """Tell who asks, and in which organisation they act."""
    return memberships.me(unit)


def list_my_organizations(unit: Unit, limit: int, cursor: str | None) -> Page:
    """List the organisations of the person who asks, the one joined last first."""
    return memberships.list_mine(unit, cursor, limit)


def bootstrap_organization(unit: Unit, body: dict[str, Any] | None) -> object:
    """Return the person's organisation, which is made if they have none."""
    return memberships.bootstrap(unit, (body or {}).get("name"))


def get_current_organization(unit: Unit) -> object:
    """Get the organisation."""
    return organizations.current(unit)


def update_current_organization(unit: Unit, body: dict[str, Any]) -> object:
    """Change the organisation's name and settings."""
    return organizations.update(unit, body.get("name"), body.get("settings"))
