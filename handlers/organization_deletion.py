"""Operations of the tag Organization deletion."""

from typing import Any

from services.core.unit_of_work import Unit
from services.offboarding import deletion


def delete_organization(unit: Unit, body: dict[str, Any]) -> object:
    """Delete the active organisation."""
    return deletion.delete(unit, body["name"])
