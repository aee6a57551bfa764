"""Alerts about the plan: its limits, its trial, and the subscriptions that pay for it."""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Interval,
    Select,
    and_,
    case,
    func,
    literal,
    literal_column,
    select,
)

from models.billing import PlanGrant
from models.organizations import Organization
from models.stripe import StripeSubscription
from rules.billing.grants import TRIAL_NOTICE
from rules.billing.plans import COUNTED
from rules.billing.subscriptions import LIVE, UNPAID
from rules.web_addresses import BILLING
from services.overview.alert_sources.columns import (
    NOW,
    ORGANIZATION,
    PLAN,
    TRIAL_ENDS_AT,
    Query,
    alert_columns,
    format_instant,
    page,
)

EXCEEDED = (
    "The %s plan includes %s %s, and you have %s. All of them go on as before, but none can be added. "
    "Change to a plan that includes more, or remove some."
)
TRIAL_ENDING = (
    "The trial of the %s plan ends on %s. Freezes, schedules and granted exceptions go on after it; features that your "
    "plan does not include then cannot be used, and nothing can be added over its limits."
)
_PAY = "Pay it or change the payment method: the page of plan and billing leads there. "
_GOES_ON = "Freezes and schedules go on in any case."
UNPAID_PLAN = f"A payment for the %s plan failed. {_PAY}The plan ends on %s if it stays unpaid. {_GOES_ON}"
UNPAID_PLAN_ENDED = (
    f"A payment for the %s plan failed. {_PAY}The plan has ended, and goes on when it is paid. {_GOES_ON}"
)
UNPAID_WITHOUT_PLAN = f"A payment for a subscription failed. {_PAY}{_GOES_ON}"
_UNCLEAR = (
    "The payment provider reports a subscription whose price or state is unknown here, or no longer has it. %s "
    "The operator of the service has to find out why."
)
UNCLEAR = _UNCLEAR % "The last known plan ends on %s unless this is resolved."
UNCLEAR_WITHOUT_PLAN = _UNCLEAR % "It gives no plan."
SEVERAL = (
    "%s subscriptions are charged for this organisation. The best plan counts. Cancel the others: the "
    "page of plan and billing leads there."
)


def limit_parameter(name: str) -> str:
    """Return the parameter of the query that has the plan's limit of this name."""
    return f"limit_of_{name}"


def exceeded_limit(name: str, count: Select[int]) -> Query:
    """Return an alert if there are more things than the plan includes: since the last grant of a plan ended."""
    counted = COUNTED[name]
    allowed: ColumnElement[int] = literal_column(f"CAST(:{limit_parameter(name)} AS integer)", Integer)
    used = count.scalar_subquery()
    ended_at = select(func.max(PlanGrant.until)).where(
        PlanGrant.organization_id == ORGANIZATION, PlanGrant.until <= NOW
    )
    query = select(
        *alert_columns(
            "limit_exceeded",
            literal("warning"),
            func.coalesce(ended_at.scalar_subquery(), Organization.created_at),
            ("organization", Organization.id, Organization.name),
            func.format(EXCEEDED, PLAN, allowed, literal(counted.noun), used),
            ("Open plan and billing", page(BILLING)),
            about=Organization.id + " " + literal(counted.property),
        )
    )
    return query.where(Organization.id == ORGANIZATION, used > allowed)


def ending_trial() -> Query:
    """Return an alert if the trial ends soon, and the plan with it."""
    query = select(
        *alert_columns(
            "trial_ending",
            literal("warning"),
            TRIAL_ENDS_AT - literal_column(f"interval '{TRIAL_NOTICE.days} days'", Interval),
            ("organization", Organization.id, Organization.name),
            func.format(TRIAL_ENDING, PLAN, format_instant(TRIAL_ENDS_AT)),
            ("Open plan and billing", page(BILLING)),
        )
    )
    return query.where(Organization.id == ORGANIZATION, TRIAL_ENDS_AT > NOW)


def unpaid_subscriptions() -> Query:
    """Return an alert per subscription whose payment failed."""
    plan = StripeSubscription.plan
    message = case(
        (PlanGrant.until > NOW, func.format(UNPAID_PLAN, plan, format_instant(PlanGrant.until))),
        (plan.is_not(None), func.format(UNPAID_PLAN_ENDED, plan)),
        else_=UNPAID_WITHOUT_PLAN,
    )
    return _about_subscription("payment_failed", StripeSubscription.past_due_since, message).where(
        StripeSubscription.state.in_(sorted(UNPAID))
    )


def unclear_subscriptions() -> Query:
    """Return an alert per subscription that this version does not understand."""
    message = case(
        (PlanGrant.until > NOW, func.format(UNCLEAR, format_instant(PlanGrant.until))),
        else_=UNCLEAR_WITHOUT_PLAN,
    )
    return _about_subscription("subscription_unclear", StripeSubscription.unclear_since, message).where(
        StripeSubscription.unclear_since.is_not(None)
    )


def several_subscriptions() -> Query:
    """Return an alert if several subscriptions are charged: since the last of them was made."""
    row = StripeSubscription
    query = select(
        *alert_columns(
            "several_subscriptions",
            literal("warning"),
            func.max(row.created_at),
            ("organization", Organization.id, Organization.name),
            func.format(SEVERAL, func.count()),
            ("Open plan and billing", page(BILLING)),
        )
    )
    return (
        query.join_from(row, Organization, Organization.id == row.organization_id)
        .where(row.organization_id == ORGANIZATION, row.state.in_(sorted(LIVE)))
        .group_by(Organization.id)
        .having(func.count() > 1)
    )


def _about_subscription(kind: str, since: Any, message: ColumnElement[str]) -> Query:
    """Return an alert per subscription, with the grant of the plan that it gives, if it gives one."""
    query = select(
        *alert_columns(
            kind,
            literal("warning"),
            since,
            ("organization", Organization.id, Organization.name),
            message,
            ("Open plan and billing", page(BILLING)),
            about=StripeSubscription.id,
        )
    )
    grant = and_(
        PlanGrant.organization_id == StripeSubscription.organization_id,
        PlanGrant.source == "stripe",
        PlanGrant.reference == StripeSubscription.id,
    )
    return (
        query.join_from(StripeSubscription, Organization, Organization.id == StripeSubscription.organization_id)
        .outerjoin(PlanGrant, grant)
        .where(StripeSubscription.organization_id == ORGANIZATION)
    )
