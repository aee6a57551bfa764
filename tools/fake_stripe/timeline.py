"""What happens as time passes: periods renew, trials end, drafts are finalised and collected, sessions expire."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tools.fake_stripe.billing.checkout import expire
from tools.fake_stripe.billing.invoicing import finalize
from tools.fake_stripe.billing.schedules import begin_phase
from tools.fake_stripe.billing.subscription_items import period_end
from tools.fake_stripe.billing.subscriptions import (
    BILLED,
    TRIAL_NOTICE,
    announce_trial_end,
    collect_automatically,
    end_subscription,
    expire_incomplete,
    renew,
)
from tools.fake_stripe.core import Core
from tools.fake_stripe.store import Json

TIME_TO_PAY = 23 * 3600
"""Seconds that the first invoice of a subscription can be paid."""


@dataclass(frozen=True, slots=True)
class Due:
    """Something that is due at a moment; of two at the same moment the one of lower rank runs first."""

    moment: int
    rank: int
    run: Callable[[], None]


def catch_up(core: Core) -> None:
    """Run everything that is due for customers without a test clock."""
    advance(core, None, core.moment)


def advance(core: Core, clock: Json | None, until: int) -> None:
    """Let time pass, moment by moment: for the customers of a test clock, or for those that have none."""
    while found := [due for due in _everything_due(core, clock) if due.moment <= until]:
        first = min(found, key=lambda due: (due.moment, due.rank))
        if clock:
            clock["frozen_time"] = max(clock["frozen_time"], first.moment)
            first.run()
        else:
            with core.at(first.moment):
                first.run()
    if clock:
        clock["frozen_time"] = until
        core.store.changes += 1


def _everything_due(core: Core, clock: Json | None) -> Iterator[Due]:
    wanted = clock["id"] if clock else None
    customers = core.store.objects["customer"]
    for subscription in core.store.objects["subscription"].values():
        if customers[subscription["customer"]]["test_clock"] == wanted:
            yield from _due_of_subscription(core, subscription)
    for invoice in core.store.objects["invoice"].values():
        if customers[invoice["customer"]]["test_clock"] == wanted:
            yield from _due_of_invoice(core, invoice)
    for session in core.store.objects["checkout.session"].values():
        if session["status"] == "open" and customers[session["customer"]]["test_clock"] == wanted:
            yield Due(session["expires_at"], 0, partial(expire, core, session))


def _due_of_subscription(core: Core, subscription: Json) -> Iterator[Due]:
    status = subscription["status"]
    if status == "incomplete":
        yield Due(subscription["created"] + TIME_TO_PAY, 0, partial(expire_incomplete, core, subscription))
    if status not in BILLED:
        return
    if subscription["cancel_at"]:
        yield Due(subscription["cancel_at"], 0, partial(end_subscription, core, subscription))
    announced = core.store.hidden[subscription["id"]].get("trial_end_announced")
    if status == "trialing" and announced != subscription["trial_end"]:
        yield Due(subscription["trial_end"] - TRIAL_NOTICE, 0, partial(announce_trial_end, core, subscription))
    schedule = core.store.find("subscription_schedule", subscription["schedule"])
    if schedule:
        yield Due(schedule["phases"][-1]["start_date"], 1, partial(begin_phase, core, schedule))
    yield Due(period_end(subscription), 2, partial(renew, core, subscription))


def _due_of_invoice(core: Core, invoice: Json) -> Iterator[Due]:
    if invoice["status"] == "draft" and invoice["automatically_finalizes_at"]:
        yield Due(invoice["automatically_finalizes_at"], 1, partial(_finalize_and_collect, core, invoice))
    if invoice["status"] == "open" and invoice["next_payment_attempt"]:
        yield Due(invoice["next_payment_attempt"], 1, partial(collect_automatically, core, invoice))


def _finalize_and_collect(core: Core, invoice: Json) -> None:
    finalize(core, invoice)
    if invoice["status"] == "open":
        collect_automatically(core, invoice)
