"""Mails about payments, to those who may change the plan."""

from collections.abc import Iterable
from datetime import timedelta

from models.organizations import Organization
from models.stripe import StripeSubscription
from rules import web_addresses
from rules.billing.plans import PLANS
from rules.billing.settings import BillingSettings
from rules.billing.subscriptions import grace_end
from rules.notifications.links import in_organization
from rules.web_addresses import WebOrigin
from services.billing.subscriptions import standing_in
from services.core.unit_of_work import UnitOfWork
from services.mail.outbox import enqueue_mail
from services.organizations.members import administrator_addresses

GRACE_NOTICE = timedelta(days=3)
"""How long before the end of the grace a mail announces it."""


def announce(uow: UnitOfWork, organization: Organization, rows: Iterable[StripeSubscription]) -> None:
    """Mail that a payment failed when it is first seen, and once more before the plan ends for that reason.

    `announced_at` is set once the end has been announced, which the first mail does if the end is near already.
    """
    for row in rows:
        end = grace_end(standing_in(row), uow.ports[BillingSettings].grace)
        if row.past_due_since is None or end is None:
            row.announced_at = None
            continue
        ends_soon = end - uow.now <= GRACE_NOTICE
        if uow.now == row.past_due_since:
            template = "payment_failed"
        elif ends_soon and uow.now < end and row.announced_at is None:
            template = "grace_ending"
        else:
            continue
        row.announced_at = uow.now if ends_soon else None
        for address in administrator_addresses(uow):
            enqueue_mail(
                uow,
                address,
                template,
                organization=organization.name,
                plan=PLANS[row.plan].name if row.plan in PLANS else "",
                ends_at=end,
                url=uow.ports[WebOrigin].url + in_organization(web_addresses.BILLING, organization.id),
            )
