"""Pages of Stripe, where people buy a plan (checkout), and pay, change or cancel it (the customer portal).

An organisation has one customer at Stripe. Before a checkout session is opened, the one before it is expired, and
subscriptions are read from Stripe, so that two open pages cannot buy two; of two requests at once, one wins. A session
whose answer was lost is harmless: its URL has reached no browser.
"""

import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy.dialects.postgresql import insert

from integrations.stripe import Stripe, StripeMissingError
from integrations.stripe.client import CheckoutSession, Purchase
from models.organizations import Organization
from models.stripe import StripeCustomer
from rules import web_addresses
from rules.billing.subscriptions import may_charge
from rules.errors import ServiceError
from rules.web_addresses import WebOrigin
from services.billing.prices import Order, find_price
from services.billing.stripe_requests import calling_stripe, customer_of, request_sync, stripe_of
from services.billing.subscriptions import best_subscription, subscriptions_of
from services.core.unit_of_work import UnitOfWork

MIN_TRIAL_LEFT = timedelta(hours=48, minutes=1)
"""Stripe takes an end of a trial that is at least 48 hours ahead."""


class _LastCheckout(NamedTuple):
    """The customer and the last checkout session of the organisation, as they are stored; None where there is none."""

    customer_id: str | None
    session_id: str | None


@dataclass(frozen=True, slots=True)
class _Opened:
    """What was opened at Stripe; without a session, there is a subscription already."""

    customer_id: str
    session: CheckoutSession | None


def open_checkout(uow: UnitOfWork, order: Order, return_path: str | None) -> dict[str, Any]:
    """Open a checkout session for a plan, and return its id, URL and end.

    The first payment is due when a running trial ends. Raise `billing_source_conflict` if an operator gives the plan,
    `invalid_state` if there is a subscription or another session was opened meanwhile, what `find_price` raises, and
    `stripe_unavailable`.
    """
    stripe = stripe_of(uow)
    _require_no_manual_plan(uow)
    price = find_price(uow, order)
    last = _last_checkout(customer_of(uow))
    page = f"{uow.ports[WebOrigin].url}{return_path or web_addresses.BILLING}"
    trial = next(iter(uow.caller.grants.in_force(uow.now, "trial")), None)
    trial_end = trial.until if trial else None
    if trial_end is not None and trial_end - uow.now < MIN_TRIAL_LEFT:
        trial_end = None
    purchase = Purchase(
        uow.organization,
        last.customer_id or "",
        price.id,
        price.currency,
        success_url=f"{page}?checkout={{CHECKOUT_SESSION_ID}}",
        cancel_url=page,
        trial_end=trial_end,
    )
    with calling_stripe(uow):
        opened = _open(stripe, purchase, last.session_id)
    if opened.session is None:
        request_sync(uow, opened.customer_id)
        message = "The organisation has a subscription. Change it in the portal: POST /v1/billing/portal."
        raise ServiceError("invalid_state", message, commit_on_error=True)
    _record(uow, last, opened.customer_id, opened.session)
    _audit(uow, "billing.checkout_started", plan=price.plan, interval=price.interval, currency=price.currency)
    return {"id": opened.session.id, "url": opened.session.url, "expires_at": opened.session.expires_at}


def open_portal(uow: UnitOfWork, return_path: str | None, flow: str | None) -> dict[str, Any]:
    """Open a session of the customer portal, and return its URL; `flow` leads to one of its pages.

    Raise `billing_source_conflict` if an operator gives the plan and nothing is charged besides, `invalid_state` if
    nothing was ever bought or there is no subscription to change, and `stripe_unavailable`.
    """
    stripe = stripe_of(uow)
    current = best_subscription(subscriptions_of(uow))
    if current is None:
        _require_no_manual_plan(uow)
    customer = customer_of(uow)
    if customer is None:
        raise ServiceError("invalid_state", "Nothing was bought yet. Use POST /v1/billing/checkout.")
    if flow in {"cancel", "update"} and current is None:
        raise ServiceError("invalid_state", "There is no subscription. Use POST /v1/billing/checkout.")
    page = f"{uow.ports[WebOrigin].url}{return_path or web_addresses.BILLING}"
    with calling_stripe(uow):
        try:
            url = stripe.open_portal(customer.id, page, flow, current.id if current else None)
        except StripeMissingError:
            url = None
    request_sync(uow, customer.id)
    if url is None:
        message = "The payment provider no longer has this customer or subscription."
        raise ServiceError("invalid_state", message, commit_on_error=True)
    visited = customer_of(uow, lock=True)
    if visited is not None:
        visited.visited_at = uow.now
    _audit(uow, "billing.portal_opened", flow=flow)
    return {"url": url}


def _open(stripe: Stripe, purchase: Purchase, earlier_session_id: str | None) -> _Opened:
    """Open a session that is the only open one. A customer that was deleted at Stripe is created again, once."""
    if not purchase.customer_id:
        purchase = replace(purchase, customer_id=stripe.create_customer(purchase.organization_id))
    if earlier_session_id is not None:
        stripe.expire_checkout(earlier_session_id)
    try:
        return _open_unless_subscribed(stripe, purchase)
    except StripeMissingError:
        new_id = stripe.create_customer(purchase.organization_id, replaces=purchase.customer_id)
        return _open_unless_subscribed(stripe, replace(purchase, customer_id=new_id))


def _open_unless_subscribed(stripe: Stripe, purchase: Purchase) -> _Opened:
    subscriptions = stripe.list_subscriptions(purchase.customer_id)
    if may_charge(subscription.state for subscription in subscriptions):
        return _Opened(purchase.customer_id, None)
    return _Opened(purchase.customer_id, stripe.open_checkout(purchase, secrets.token_hex(16)))


def _last_checkout(customer: StripeCustomer | None) -> _LastCheckout:
    return _LastCheckout(customer.id, customer.checkout_id) if customer is not None else _LastCheckout(None, None)


def _record(uow: UnitOfWork, last: _LastCheckout, customer_id: str, session: CheckoutSession) -> None:
    """Store the session that was opened. Raise `invalid_state` unless `last` is what is stored still."""
    customer = customer_of(uow, lock=True)
    if _last_checkout(customer) != last:
        raise _opened_meanwhile()
    if customer is not None and customer.id != customer_id:
        uow.session.delete(customer)
        uow.session.flush()
        customer = None
    if customer is None:
        values = {"id": customer_id, "organization_id": uow.organization, "created_at": uow.now}
        added = insert(StripeCustomer).values(values).on_conflict_do_nothing().returning(StripeCustomer.id)
        if uow.session.scalar(added) is None:
            raise _opened_meanwhile()
        customer = customer_of(uow, lock=True)
    if customer is not None:
        customer.checkout_id, customer.visited_at = session.id, uow.now
        uow.session.flush()
        request_sync(uow, customer.id)


def _require_no_manual_plan(uow: UnitOfWork) -> None:
    if uow.caller.grants.in_force(uow.now, "manual"):
        raise ServiceError("billing_source_conflict", "An operator of the service gives the organisation its plan.")


def _opened_meanwhile() -> ServiceError:
    return ServiceError("invalid_state", "Another checkout was opened at the same time. Use that one, or try again.")


def _audit(uow: UnitOfWork, action: str, **details: Any) -> None:
    organization = uow.session.get_one(Organization, uow.organization)
    uow.audit(action, ("organization", organization.id, organization.name), **details)
