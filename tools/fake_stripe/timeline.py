"""What happens as time passes: periods renew, drafts are finalised and collected, subscriptions and sessions end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tools.fake_stripe.checkout import expire
from tools.fake_stripe.core import Core
from tools.fake_stripe.invoicing import finalize
from tools.fake_stripe.store import Json
from tools.fake_stripe.subscriptions import collect_automatically, end_subscription, is_live, period_end, renew


@dataclass(frozen=True, slots=True)
class Due:
    """Something that is due at a moment; of two at the same moment the one of lower rank runs first."""

    moment: int
    rank: int
    run: Callable[[], None]


def catch_up(core: Core) -> None:
    """Run everything that is due, moment by moment."""
    until = core.moment
    while found := [due for due in _everything_due(core) if due.moment <= until]:
        first = min(found, key=lambda due: (due.moment, due.rank))
        with core.at(first.moment):
            first.run()


def _everything_due(core: Core) -> Iterator[Due]:
    for subscription in core.store.objects["subscription"].values():
        if is_live(subscription):
            if subscription["cancel_at"]:
                yield Due(subscription["cancel_at"], 0, partial(end_subscription, core, subscription))
            yield Due(period_end(subscription), 2, partial(renew, core, subscription))
    for invoice in core.store.objects["invoice"].values():
        if invoice["status"] == "draft" and invoice["automatically_finalizes_at"]:
            yield Due(invoice["automatically_finalizes_at"], 1, partial(_finalize_and_collect, core, invoice))
        if invoice["status"] == "open" and invoice["next_payment_attempt"]:
            yield Due(invoice["next_payment_attempt"], 1, partial(collect_automatically, core, invoice))
    for session in core.store.objects["checkout.session"].values():
        if session["status"] == "open":
            yield Due(session["expires_at"], 0, partial(expire, core, session))


def _finalize_and_collect(core: Core, invoice: Json) -> None:
    finalize(core, invoice)
    if invoice["status"] == "open":
        collect_automatically(core, invoice)
