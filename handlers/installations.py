"""Operations of the tag Installations."""

from typing import Any

from schemas.replies import SecretReply
from services.core.unit_of_work import Unit
from services.installations import claims, views
from services.onboarding import steps


def get_onboarding(unit: Unit) -> object:
    """Tell which steps are done, and what to do next."""
    return steps.show(unit)


def get_install_url(unit: Unit) -> SecretReply:
    """Give GitHub's address where the App is installed for this organisation."""
    return SecretReply(claims.install_url(unit))


def get_installation_status(unit: Unit, installation_id: int | None) -> object:
    """Tell how far the organisation's installation has come."""
    return views.status(unit, installation_id)


def claim_installation(unit: Unit, body: dict[str, Any]) -> object:
    """Make an installation the organisation's."""
    return claims.claim(unit, body["installation_id"], body["state"], body["code"])
