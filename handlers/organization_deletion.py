"""Operations of the tag Organization deletion."""

from typing import Any

from services.core.unit_of_work import UnitOfWork
from services.offboarding import deletion


def delete_organization(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Delete the active organisation."""
    return deletion.delete(uow, body["name"])
