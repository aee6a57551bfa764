"""Operations of the tag Installations."""

from typing import Any

from schemas.replies import SecretReply
from services import installation_claims, installation_views, onboarding
from services.unit import Unit


def get_onboarding(unit: Unit) -> object:
    """Tell which steps are done, and what to do next."""
    return onboarding.show(unit)


def get_install_url(unit: Unit) -> SecretReply:
    """Give GitHub's address where the App is installed for this organisation."""
    return SecretReply(installation_claims.install_url(unit))


def get_installation_status(unit: Unit, installation_id: int | None) -> object:
    """Tell how far the organisation's installation has come."""
    return installation_views.status(unit, installation_id)


def claim_installation(unit: Unit, body: dict[str, Any]) -> object:
    """Make an installation the organisation's."""
    return installation_claims.claim(unit, body["installation_id"], body["state"], body["code"])
