"""Subscriptions."""

from tools.fake_stripe.billing.plan_changes import change_items
from tools.fake_stripe.billing.subscription_items import ENDED, is_live, period_end
from tools.fake_stripe.billing.subscriptions import (
    end_subscription,
    end_trial,
    make_subscription,
    resume,
    schedule_cancellation,
)
from tools.fake_stripe.protocol.lists import is_within, matches, page
from tools.fake_stripe.protocol.parameters import (
    Choice,
    Clearable,
    Fields,
    Flag,
    Many,
    Metadata,
    Moment,
    Parameter,
    Text,
    Whole,
    WordOr,
    merged_metadata,
)
from tools.fake_stripe.protocol.routing import EXPAND, Call, Route
from tools.fake_stripe.refusals import invalid, missing
from tools.fake_stripe.resources.checkout_sessions import TRIAL_SETTINGS
from tools.fake_stripe.store import Json

FEEDBACK = Choice(
    "customer_service",
    "low_quality",
    "missing_features",
    "other",
    "switched_service",
    "too_complex",
    "too_expensive",
    "unused",
)
CANCELLATION_DETAILS = Fields({"comment": Clearable(Text()), "feedback": Clearable(FEEDBACK)})
PRORATION = Choice("always_invoice", "create_prorations", "none")
SHARED: dict[str, Parameter] = {
    "automatic_tax": Fields({"enabled!": Flag()}),
    "cancel_at": Clearable(Whole()),
    "cancel_at_period_end": Flag(),
    "default_payment_method": Text(),
    "description": Clearable(Text()),
    "metadata": Metadata(),
    "off_session": Flag(),
    "payment_behavior": Choice("allow_incomplete", "default_incomplete", "error_if_incomplete"),
    "proration_behavior": PRORATION,
    "trial_end": WordOr("now", Whole()),
    "trial_settings": TRIAL_SETTINGS,
}
CREATE = Fields(
    {
        **SHARED,
        "cancel_at": Whole(),
        "billing_mode": Fields({"type!": Choice("flexible")}),
        "currency": Text(3),
        "customer!": Text(),
        "description": Text(),
        "items!": Many(Fields({"metadata": Metadata(), "price!": Text(), "quantity": Whole(0)})),
        "trial_period_days": Whole(0),
    },
)
UPDATE = Fields(
    {
        **SHARED,
        "cancellation_details": CANCELLATION_DETAILS,
        "items": Many(
            Fields(
                {
                    "deleted": Flag(),
                    "id": Text(),
                    "metadata": Metadata(),
                    "price": Text(),
                    "quantity": Whole(0),
                },
            ),
        ),
        "pause_collection": Clearable(
            Fields({"behavior!": Choice("keep_as_draft", "mark_uncollectible", "void"), "resumes_at": Whole()}),
        ),
    },
)
CANCEL = Fields({**EXPAND, "cancellation_details": CANCELLATION_DETAILS, "invoice_now": Flag(), "prorate": Flag()})
LIST = Fields(
    {
        "collection_method": Choice("charge_automatically", "send_invoice"),
        "created": Moment(),
        "current_period_end": Moment(),
        "current_period_start": Moment(),
        "customer": Text(),
        "price": Text(),
        "status": Choice(
            "active",
            "all",
            "canceled",
            "ended",
            "incomplete",
            "incomplete_expired",
            "past_due",
            "paused",
            "trialing",
            "unpaid",
        ),
        "test_clock": Text(),
    },
)


def create(call: Call) -> Json:
    """Subscribe a customer."""
    customer = call.store.get("customer", call.params["customer"], "customer")
    _check_payment_method(call, customer["id"])
    params = {**call.params, "metadata": merged_metadata({}, call.params.get("metadata", {}))}
    return make_subscription(call.core, customer, params)


def _check_payment_method(call: Call, customer: str) -> None:
    method = call.referred("payment_method", "default_payment_method")
    if method and method["customer"] != customer:
        raise missing("payment_method", method["id"], "default_payment_method")


def retrieve(call: Call) -> Json:
    """Return a subscription, also one that has ended."""
    return call.named("subscription")


def update(call: Call) -> Json:
    """Change a subscription. What has ended can only get other metadata."""
    subscription, params = call.named("subscription"), call.params
    if not is_live(subscription) and params.keys() - {"metadata", "cancellation_details"}:
        raise invalid("A canceled subscription can only update its cancellation_details and metadata.")
    if subscription["status"] == "incomplete" and params.keys() & {"items", "trial_end"}:
        message = (
            "You cannot update a subscription in `incomplete` state in a way that creates a new invoice until the "
            "existing invoice has been paid."
        )
        raise invalid(message)
    _check_payment_method(call, subscription["customer"])
    _check_times(call, subscription)
    if "items" in params:
        change_items(call.core, subscription, params["items"], params.get("proration_behavior", "create_prorations"))
    subscription["metadata"] = merged_metadata(subscription["metadata"], params.get("metadata", {}))
    plain = ("default_payment_method", "description", "pause_collection")
    subscription |= {name: params[name] for name in plain if name in params}
    if params.get("pause_collection"):
        subscription["pause_collection"] = {"resumes_at": None, **params["pause_collection"]}
    if "trial_settings" in params:
        behavior = params["trial_settings"]["end_behavior"]["missing_payment_method"]
        subscription["trial_settings"]["end_behavior"]["missing_payment_method"] = behavior
    _change_trial(call, subscription)
    _change_end(call, subscription)
    call.store.changes += 1
    call.core.announce("customer.subscription.updated", subscription)
    return subscription


def _check_times(call: Call, subscription: Json) -> None:
    """Raise Refusal if the trial would end in the past, or the end is given twice."""
    params, now = call.params, call.core.now(subscription["customer"])
    if params.get("trial_end", "now") != "now" and params["trial_end"] <= now:
        raise invalid("Invalid timestamp: must be an integer Unix timestamp in the future", "trial_end")
    if "cancel_at" in params and params.get("cancel_at_period_end"):
        message = "You may only specify one of these parameters: cancel_at, cancel_at_period_end."
        raise invalid(message, "cancel_at")


def _change_trial(call: Call, subscription: Json) -> None:
    """End a trial now, or let it end at another time."""
    if "trial_end" not in call.params:
        return
    now, wanted = call.core.now(subscription["customer"]), call.params["trial_end"]
    if wanted == "now" and subscription["status"] != "trialing":
        return
    if wanted == "now":
        end_trial(call.core, subscription)
        return
    subscription |= {"billing_cycle_anchor": wanted, "status": "trialing", "trial_end": wanted}
    subscription["trial_start"] = subscription["trial_start"] or now
    for item in subscription["items"]["data"]:
        item["current_period_end"] = wanted


def _change_end(call: Call, subscription: Json) -> None:
    """Schedule the end, or take that back."""
    params, details = call.params, call.params.get("cancellation_details")
    if "cancel_at" in params:
        subscription["cancel_at_period_end"] = False
        schedule_cancellation(call.core, subscription, params["cancel_at"], details)
    elif "cancel_at_period_end" in params:
        ends = params["cancel_at_period_end"]
        subscription["cancel_at_period_end"] = ends
        schedule_cancellation(call.core, subscription, period_end(subscription) if ends else None, details)
    elif details:
        subscription["cancellation_details"] |= details


def cancel(call: Call) -> Json:
    """End a subscription now, without credit for the rest of its period."""
    subscription = call.named("subscription")
    end_subscription(call.core, subscription)
    subscription["cancellation_details"] |= call.params.get("cancellation_details", {})
    return subscription


def resume_paused(call: Call) -> Json:
    """Resume a paused subscription."""
    subscription = call.named("subscription")
    resume(call.core, subscription)
    return subscription


def list_all(call: Call) -> Json:
    """List subscriptions; those that have ended only if `status` says so."""
    params, wanted = call.params, call.params.get("status")
    if "customer" in params and params["customer"] not in call.store.objects["customer"]:
        raise missing("customer", params["customer"], "customer")
    found = []
    for each in call.store.all("subscription"):
        item = each["items"]["data"][0]
        if (
            _has_status(each["status"], wanted)
            and matches(each, params, "collection_method", "customer", "test_clock")
            and is_within(item["current_period_end"], params.get("current_period_end"))
            and is_within(item["current_period_start"], params.get("current_period_start"))
            and params.get("price", item["price"]["id"]) == item["price"]["id"]
        ):
            found.append(each)
    return page(call, found)


def _has_status(status: str, wanted: str | None) -> bool:
    if wanted is None:
        return status != "canceled"
    return wanted == "all" or (status in ENDED if wanted == "ended" else status == wanted)


ROUTES = (
    Route("POST", "/v1/subscriptions", create, "subscription_write", CREATE),
    Route("GET", "/v1/subscriptions", list_all, "subscription_read", LIST),
    Route("GET", "/v1/subscriptions/{id}", retrieve, "subscription_read"),
    Route("POST", "/v1/subscriptions/{id}", update, "subscription_write", UPDATE),
    Route("DELETE", "/v1/subscriptions/{id}", cancel, "subscription_write", CANCEL),
    Route("POST", "/v1/subscriptions/{id}/resume", resume_paused, "subscription_write"),
)
