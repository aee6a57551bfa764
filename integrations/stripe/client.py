"""The client of Stripe's API: the version is pinned, every call has timeouts, and retries repeat the same call.

Answers become records of the rules. No call may be made inside a database transaction.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import urlsplit

import stripe

from integrations.spans import child_span
from integrations.stripe.errors import StripeError, StripeMissingError, StripeUnavailableError
from rules.billing.prices import Price, prices_of
from rules.billing.subscriptions import Invoice, SubscriptionReading

API_VERSION = "2026-10-28.endive"
CONNECT_TIMEOUT, READ_TIMEOUT = 3.0, 6.0
MAX_RETRIES = 1
"""Of a request that does not reach Stripe or that Stripe fails; with its timeouts a call takes 20 seconds at most."""
MAX_CONCURRENT_CALLS = 3
"""Of a process: the other threads serve the requests that do not need Stripe, however long it hangs."""
MAX_INVOICES = 12
_UNAVAILABLE = (
    stripe.APIConnectionError,
    stripe.APIError,
    stripe.AuthenticationError,
    stripe.PermissionError,
    stripe.RateLimitError,
)


@dataclass(frozen=True, slots=True)
class StripeSettings:
    """What the client is configured with."""

    secret_key: str = field(repr=False)
    webhook_secrets: tuple[str, ...] = field(default=(), repr=False)
    """One, or two while one replaces the other."""
    api_url: str = "https://api.stripe.com"
    portal_configuration: str | None = None
    automatic_tax: bool = False

    @property
    def live(self) -> bool:
        """True if the key is one of the live mode, where payments are real."""
        return re.match(r"[a-z]+_live_", self.secret_key) is not None


@dataclass(frozen=True, slots=True)
class CheckoutSession:
    """An open checkout session."""

    id: str
    url: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a checkout session sells, and to whom."""

    organization_id: str
    customer_id: str
    price_id: str
    currency: str
    success_url: str
    cancel_url: str
    trial_end: datetime | None = None
    """When the first payment is due, if a trial still runs."""


class Stripe:
    """Calls of Stripe's API; each raises StripeUnavailableError, StripeMissingError or StripeError."""

    def __init__(self, settings: StripeSettings) -> None:
        self.settings = settings
        client = stripe.StripeClient(
            settings.secret_key,
            stripe_version=API_VERSION,
            base_addresses={"api": settings.api_url},
            max_network_retries=MAX_RETRIES,
            http_client=stripe.RequestsClient(timeout=(CONNECT_TIMEOUT, READ_TIMEOUT)),
        )
        self.api = client.v1
        self._free = BoundedSemaphore(MAX_CONCURRENT_CALLS)

    def create_customer(self, organization_id: str, *, replaces: str | None = None) -> str:
        """Add the customer of an organisation, and return its id; `replaces` is one that was deleted at Stripe.

        The same call gives the same customer: its parameters never change.
        """
        key = f"customer:{organization_id}" + (f":{replaces}" if replaces else "")
        with self.call():
            metadata = {"organization": organization_id}
            return self.api.customers.create({"metadata": metadata}, {"idempotency_key": key}).id

    def delete_customer(self, customer_id: str) -> None:
        """Delete a customer with everything that it has; one that is deleted already is left as it is."""
        try:
            with self.call():
                self.api.customers.delete(customer_id)
        except StripeMissingError:
            return

    def list_subscriptions(self, customer_id: str) -> list[SubscriptionReading]:
        """Return all subscriptions of a customer, also those that have ended."""
        params: Any = {"customer": customer_id, "status": "all", "limit": 100, "expand": ["data.latest_invoice"]}
        with self.call():
            found = self.api.subscriptions.list(params)
            return [_read_subscription(each.to_dict()) for each in found.auto_paging_iter()]

    def cancel_subscription(self, subscription_id: str) -> None:
        """End a subscription now, without a refund; one that has ended already is left as it is."""
        try:
            with self.call():
                self.api.subscriptions.cancel(subscription_id)
        except StripeMissingError:
            return

    def list_invoices(self, customer_id: str) -> list[Invoice]:
        """Return the latest invoices of a customer that were sent, newest first."""
        with self.call():
            found = self.api.invoices.list({"customer": customer_id, "limit": 2 * MAX_INVOICES})
            invoices = [_read_invoice(each.to_dict()) for each in found.data if each.status != "draft"]
        return invoices[:MAX_INVOICES]

    def list_prices(self) -> list[Price]:
        """Return all prices of plans, also those that are no longer sold, one for each currency."""
        params: Any = {"type": "recurring", "limit": 100, "expand": ["data.product", "data.currency_options"]}
        with self.call():
            found = self.api.prices.list(params)
            return [price for each in found.auto_paging_iter() for price in prices_of(each.to_dict())]

    def open_checkout(self, purchase: Purchase, token: str) -> CheckoutSession:
        """Open a checkout session; the same token gives the same one."""
        metadata = {"organization": purchase.organization_id}
        subscription: dict[str, Any] = {"metadata": metadata}
        if purchase.trial_end is not None:
            subscription["trial_end"] = int(purchase.trial_end.timestamp())
        params: Any = {
            "mode": "subscription",
            "customer": purchase.customer_id,
            "client_reference_id": purchase.organization_id,
            "line_items": [{"price": purchase.price_id, "quantity": 1}],
            "currency": purchase.currency.lower(),
            "success_url": purchase.success_url,
            "cancel_url": purchase.cancel_url,
            "metadata": metadata,
            "subscription_data": subscription,
        }
        if self.settings.automatic_tax:
            params |= {
                "automatic_tax": {"enabled": True},
                "tax_id_collection": {"enabled": True},
                "customer_update": {"address": "auto", "name": "auto"},
            }
        key = f"checkout:{purchase.organization_id}:{token}"
        with self.call():
            made = self.api.checkout.sessions.create(params, {"idempotency_key": key})
        return CheckoutSession(made.id, made.url or "", _instant(made.expires_at))

    def expire_checkout(self, session_id: str) -> None:
        """Expire a checkout session, so that it cannot be paid any more; one that is not open is left as it is."""
        try:
            with self.call():
                self.api.checkout.sessions.expire(session_id)
        except StripeUnavailableError:
            raise
        except StripeError:  # it was paid, has expired, or is of a customer that was deleted
            return

    def open_portal(self, customer_id: str, return_url: str, flow: str | None, subscription_id: str | None) -> str:
        """Open a session of the customer portal, and return its URL; `flow` leads to one of its pages."""
        params: Any = {"customer": customer_id, "return_url": return_url}
        if self.settings.portal_configuration is not None:
            params["configuration"] = self.settings.portal_configuration
        if flow == "payment_method":
            params["flow_data"] = {"type": "payment_method_update"}
        elif flow is not None:
            kind = f"subscription_{flow}"
            params["flow_data"] = {"type": kind, kind: {"subscription": subscription_id}}
        with self.call():
            return self.api.billing_portal.sessions.create(params).url

    @contextmanager
    def call(self) -> Iterator[None]:
        """Run a call as one of a few, and translate its errors."""
        if not self._free.acquire(blocking=False):
            raise StripeUnavailableError("busy", "Too many calls of Stripe are in progress.")
        try:
            with child_span("Stripe", {"server.address": urlsplit(self.settings.api_url).hostname or ""}):
                yield
        except stripe.InvalidRequestError as error:
            message = str(error.user_message)
            if error.code == "resource_missing":
                raise StripeMissingError("resource_missing", message) from error
            if error.code == "lock_timeout":
                raise StripeUnavailableError("lock_timeout", message) from error
            raise StripeError(error.code or "invalid_request", message) from error
        except _UNAVAILABLE as error:
            raise StripeUnavailableError(type(error).__name__, str(error.user_message)) from error
        except stripe.StripeError as error:
            raise StripeError(type(error).__name__, str(error.user_message)) from error
        finally:
            self._free.release()


def _instant(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _read_subscription(answer: dict[str, Any]) -> SubscriptionReading:
    """Return a subscription as Stripe has it. A portal sets `cancel_at`, and not `cancel_at_period_end`."""
    item = answer["items"]["data"][0]
    price, invoice = item["price"], answer.get("latest_invoice")
    ends = answer["cancel_at"] or (item["current_period_end"] if answer["cancel_at_period_end"] else None)
    action_url = invoice["hosted_invoice_url"] if invoice is not None and invoice["status"] == "open" else None
    return SubscriptionReading(
        id=answer["id"],
        state=answer["status"],
        price_id=price["id"],
        lookup_key=price["lookup_key"],
        interval=price["recurring"]["interval"],
        currency=answer["currency"].upper(),
        unit_amount=price["unit_amount"],
        period_start=_instant(item["current_period_start"]),
        period_end=_instant(item["current_period_end"]),
        cancel_at=_instant(ends) if ends else None,
        created_at=_instant(answer["created"]),
        action_url=action_url,
    )


def _read_invoice(answer: dict[str, Any]) -> Invoice:
    return Invoice(
        id=answer["id"],
        number=answer["number"],
        state=answer["status"],
        total=answer["total"],
        currency=answer["currency"].upper(),
        created_at=_instant(answer["created"]),
        url=answer["hosted_invoice_url"],
    )
