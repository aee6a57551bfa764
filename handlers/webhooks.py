"""Operations of the tag Webhooks."""

from collections.abc import Mapping

from services.core.early_answers import answers_early
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork
from services.webhooks import deliveries, stripe_events


@answers_early(deliveries.acknowledge)
def receive_github_webhook(
    uow: UnitOfWork, raw_body: bytes, headers: Mapping[str, str], x_github_event: str, x_github_delivery: str
) -> object:
    """Store a signed delivery from GitHub."""
    signature, content_type = headers.get("x-hub-signature-256"), headers.get("content-type", "")
    return deliveries.receive(uow, raw_body, signature, x_github_event, x_github_delivery, content_type)


def receive_stripe_webhook(uow: UnitOfWork, raw_body: bytes, headers: Mapping[str, str]) -> object:
    """Take a signed event of Stripe as a hint to read again."""
    return stripe_events.receive(uow, raw_body, headers.get("stripe-signature"))


async def receive_slack_webhook(context: ReadContext, raw_body: bytes) -> object:
    """Answer a signed request of Slack: an event, a command, a button or a form."""
    if context.receive_slack is None:
        raise RuntimeError("the Slack app is not mounted")
    return await context.receive_slack(raw_body)
