"""Operations of the tag Organization deletion."""

from typing import Any

from services import organization_deletion
from services.unit import Unit


def delete_organization(unit: Unit, body: dict[str, Any]) -> object:
    """Delete the active organisation."""
    return organization_deletion.delete(unit, body["name"])
