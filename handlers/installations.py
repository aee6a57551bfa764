"""Operations of the tag Installations."""

from typing import Any

from schemas.replies import SecretReply
from services.core.unit_of_work import UnitOfWork
from services.installations import claims, views
from services.organizations import redirect_states
from services.overview import onboarding


def get_onboarding(uow: UnitOfWork) -> object:
    """Return the completed and next steps of the onboarding."""
    return onboarding.show(uow)


def get_install_url(uow: UnitOfWork) -> SecretReply:
    """Return the URL at GitHub where the App is installed for this organisation."""
    return SecretReply(claims.install_url(uow))


def get_installation_request(uow: UnitOfWork, state: str) -> object:
    """Return the organisation that an installation was requested for."""
    return redirect_states.find_request(uow, "installation", state)


def get_installation_status(uow: UnitOfWork, installation_id: int | None) -> object:
    """Return the state of the organisation's installation."""
    return views.status(uow, installation_id)


def claim_installation(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Claim an installation for the organisation."""
    return claims.claim(uow, body["installation_id"], body["state"], body["code"])
