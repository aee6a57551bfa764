"""`/billing`: the plan of the organisation, what it includes and how much of it is used, payments, and what to change.

What is bought, paid or cancelled happens at Stripe, whose pages lead back here. What happened there shows once the
service has read it from Stripe, which takes seconds: `/billing?checkout=…` waits for a plan that was bought, and
`/billing/changes` watches for changes that were made in the portal.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, request

from rules import web_addresses
from rules.billing.plans import COUNTED
from web.billing_summary import (
    FEATURES,
    Summary,
    actions_of,
    choose_currency,
    days_left,
    describe_tax,
    digest,
    has_arrived,
    offers_of,
    state_of,
    usage_of,
)
from web.context import INVALID_SESSION, NO_ORGANIZATION, PageContext, redirect_to, unknown_button
from web.fields import filled
from web.linked_organization import address_to_return_to, require_linked_organization
from web.notices import leave_notice, take_notice
from web.operations import OperationError
from web.polling import next_wait, open_page
from web.views import PageView

NOTICES = {
    "bought": "Thank you. Your organisation has its new plan.",
    "changed": "Your changes at Stripe have arrived.",
    "trial": "The trial has started.",
}
"""Notices of the page, by their names."""
_LABELS = {"plan": "Plan"}
_INVALID_STATE = {
    "checkout": "There is a subscription already, or another checkout was opened at the same time.",
    "portal": "Stripe no longer has this customer. Nothing was changed.",
}
"""What `invalid_state` means on the page; its messages name operations of the API."""


class Billing(PageView):
    """The page; its forms start the trial, and lead to Stripe's checkout and portal."""

    path = web_addresses.BILLING

    def get(self) -> Response:
        """Show the page, or wait for a plan that was bought."""
        if "checkout" not in request.args:
            return show_billing(self.context, NOTICES.get(take_notice(self.context.guard)))
        visitor, [billing] = self.context.read(request.full_path, "get_billing")
        if has_arrived(billing):
            return redirect_to(leave_notice(self.path, "bought"))
        return self.context.render("billing_return.html", organization=visitor.organization, wait=next_wait())

    def post(self) -> Response:
        """Do what the button says."""
        given = self.context.form_fields("do", "choice", "currency")
        try:
            if given["do"] == "trial":
                self.context.call("start_trial")
                return redirect_to(leave_notice(self.path, "trial"))
            if given["do"] == "portal":
                return self._leave("portal", "open_billing_portal", {"returnPath": web_addresses.BILLING_CHANGES})
            if given["do"] == "checkout":
                plan, _, interval = given["choice"].partition(" ")
                order = filled({"plan": plan, "interval": interval, "currency": given["currency"]})
                return self._leave("checkout", "open_checkout", order)
        except OperationError as error:
            if error.code in INVALID_SESSION:
                raise
            if error.code == "invalid_state" and given["do"] in _INVALID_STATE:
                message = _INVALID_STATE[given["do"]]
                error = OperationError(error.status, error.code, message, request_id=error.request_id)
            return show_billing(self.context, None, error, given)
        raise unknown_button()

    def _leave(self, page: str, operation_id: str, body: Mapping[str, str]) -> Response:
        """Return the page that leads to Stripe: a form may not redirect to another site (`form-action`)."""
        opened = self.context.call(operation_id, body=body).content
        return self.context.render("billing_leave.html", url=opened["url"], page=page)


class Payment(PageView):
    """`/billing/payment`: the part of a page that waits for a plan that was bought."""

    path = web_addresses.BILLING_PAYMENT

    def get(self) -> Response:
        """Show that it has not arrived, or open the page."""
        billing = poll(self.context)
        if isinstance(billing, Response):
            return billing
        if billing is not None and has_arrived(billing):
            return open_page(leave_notice(web_addresses.BILLING, "bought"))
        return self.context.render("billing_payment.html", wait=next_wait())


class Changes(PageView):
    """`/billing/changes`: the page after a visit of the portal, and its part that watches for changes."""

    path = web_addresses.BILLING_CHANGES

    def get(self) -> Response:
        """Show the page; with `seen`, the part, or open the page again if anything has changed since then."""
        if "seen" not in request.args:
            return show_billing(self.context, None, watches=True)
        seen, read_at = request.args["seen"], request.args.get("read", "")
        billing = poll(self.context)
        if isinstance(billing, Response):
            return billing
        if billing is not None and digest(billing) != seen:
            return open_page(leave_notice(web_addresses.BILLING, "changed"))
        was_read = billing is not None and (billing["syncedAt"] or "") != read_at
        wait = None if was_read else next_wait()
        return self.context.render("billing_changes.html", wait=wait, seen=seen, read_at=read_at)


def poll(context: PageContext) -> Summary | Response | None:
    """Return the billing summary; None if it cannot be read just now.

    If the session has ended, return the response that opens the page again, which then leads to the sign-in.
    """
    try:
        summary: Summary = context.call("get_billing").content
    except OperationError as error:
        return open_page(web_addresses.BILLING) if error.code in INVALID_SESSION else None
    return summary


def show_billing(
    context: PageContext,
    notice: str | None,
    error: OperationError | None = None,
    given: Mapping[str, str] | None = None,
    *,
    watches: bool = False,
) -> Response:
    """Return the page; after a refused form with its problem, and with what was given."""
    visitor = context.require_visitor(address_to_return_to())
    require_linked_organization(visitor)
    organization = visitor.organization
    if organization is None:
        return context.message_page("No organisation", NO_ORGANIZATION, 404)
    operations = ("get_billing", "get_entitlements", "list_plans")
    _, [billing, entitlements, plans] = context.read(web_addresses.BILLING, *operations)
    prices = _read_prices(context)
    given = given or request.args
    currencies = sorted({price["currency"] for price in prices})
    currency = choose_currency(given.get("currency", ""), billing, currencies)
    values: dict[str, Any] = {
        "organization": organization,
        "notice": notice,
        "billing": billing,
        "state": state_of(billing, context.clock()),
        "plans": {plan["id"]: plan for plan in plans["data"]},
        "entitlements": entitlements,
        "usage": usage_of(entitlements),
        "counted": COUNTED.values(),
        "features": FEATURES,
        "actions": actions_of(billing, plans["data"], lambda each: context.may(organization["role"], each)),
        "is_admin": context.may(organization["role"], "open_checkout"),
        "offers": offers_of(prices, currency),
        "tax": describe_tax(prices),
        "currencies": currencies,
        "currency": currency,
        "choice": given.get("choice", ""),
        "days_left": days_left,
        "watches": watches,
        "wait": next_wait(),
        "seen": digest(billing),
        "read_at": billing["syncedAt"] or "",
    }
    return context.render_form("billing.html", error, _LABELS, **values)


def _read_prices(context: PageContext) -> Sequence[Mapping[str, Any]]:
    """Return the prices, or none while they were never read from Stripe."""
    try:
        listed = context.call("list_billing_prices", query={"limit": "100"}).content
    except OperationError as error:
        if error.code != "stripe_unavailable":
            raise
        return ()
    prices: Sequence[Mapping[str, Any]] = listed["data"]
    return prices
