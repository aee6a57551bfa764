"""Operations of the tag Installations."""

from typing import Any

from schemas.replies import SecretReply
from services.core.unit_of_work import UnitOfWork
from services.installations import claims, views
from services.onboarding import steps


def get_onboarding(uow: UnitOfWork) -> object:
    """Tell which steps are done, and what to do next."""
    return steps.show(uow)


def get_install_url(uow: UnitOfWork) -> SecretReply:
    """Give GitHub's address where the App is installed for this organisation."""
    return SecretReply(claims.install_url(uow))


def get_installation_request(uow: UnitOfWork, state: str) -> object:
    """Return the organisation that an installation was requested for."""
    return claims.find_request(uow, state)


def get_installation_status(uow: UnitOfWork, installation_id: int | None) -> object:
    """Tell how far the organisation's installation has come."""
    return views.status(uow, installation_id)


def claim_installation(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Make an installation the organisation's."""
    return claims.claim(uow, body["installation_id"], body["state"], body["code"])
