"""Operations of the tag Webhooks."""

from collections.abc import Mapping

from services import webhooks
from services.unit import Unit


def receive_github_webhook(
    unit: Unit, raw_body: bytes, headers: Mapping[str, str], x_github_event: str, x_github_delivery: str
) -> object:
    """Take in a signed delivery of GitHub."""
    return webhooks.receive(unit, raw_body, headers.get("x-hub-signature-256"), x_github_event, x_github_delivery)
