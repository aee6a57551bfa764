"""Leased work that calls Stripe: done if Stripe is configured, and retried after a back-off when Stripe has failed."""

import logging
from collections.abc import Callable

from integrations.stripe import Stripe, StripeError
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.core.work_queue import Lease, WorkQueue

logger = logging.getLogger(__name__)


def do_stripe_work(
    uow_factory: UnitOfWorkFactory, queue: WorkQueue, work: Callable[[UnitOfWorkFactory, Stripe, Lease], None]
) -> bool:
    """Do the work on one row of the queue, which also names the job; False if none is due or Stripe is not configured.

    `work` releases the lease. If Stripe fails, the row is due again after a back-off.
    """
    stripe = uow_factory.ports.find(Stripe)
    if stripe is None:
        return False

    def work_or_fail(lease: Lease) -> None:
        try:
            work(uow_factory, stripe, lease)
        except StripeError as error:
            logger.warning("%s: Stripe failed for %s: %s", queue.kind, lease.keys[0], error)
            with uow_factory.open(SYSTEM_CALLER) as uow:
                lease.fail(uow, error.code, error.message, uow.now + queue.retry.delay(lease.row.attempts))

    return queue.work_on_next(uow_factory, work_or_fail, wakes=queue.kind)
