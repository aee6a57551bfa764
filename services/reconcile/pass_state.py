"""The state of a pass that its steps share: what is leased, what has failed, and how to open its transactions."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic

from integrations.github import GitHub, GitHubError, InstallationClient
from rules.rate_budget import NO_WAIT, GitHubLimits
from services.core.unit_of_work import UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease
from services.exception_rules.facts import FactsReader
from services.github_access.failures import is_installation_wide
from services.github_access.rate_limiter import reserve_query
from services.reconcile.leases import LeasedBatch, LeasedCheck, LeasedTransaction, leased_transaction

RENEWAL_INTERVAL = 2.5
"""Seconds after which a transaction renews the leases of all pending checks: a call may follow it."""


@dataclass(slots=True)
class PassState:
    """What is leased, what each check still waits for, and what has failed."""

    uow_factory: UnitOfWorkFactory
    github: GitHub
    facts: FactsReader
    batch: LeasedBatch
    lease: Lease
    client: InstallationClient
    pending: dict[int, LeasedCheck] = field(init=False)
    """The checks that this pass has neither finished nor lost."""
    errors: dict[int, GitHubError] = field(default_factory=dict)
    """By check: why its heads could not be read or written. Such a check fails at the end of the pass."""
    wait: timedelta = NO_WAIT
    """For how long the rate limits are used up."""
    all_renewed: float = field(default_factory=monotonic)
    """When the leases of all pending checks were last renewed."""

    def __post_init__(self) -> None:
        self.pending = {check.id: check for check in self.batch.checks}

    @property
    def limits(self) -> GitHubLimits:
        """How much may be sent for one installation."""
        return self.uow_factory.ports[GitHubLimits]

    @property
    def installation_error(self) -> GitHubError | None:
        """An error that concerns the whole installation: further calls are useless, or forbidden."""
        return next((error for error in self.errors.values() if is_installation_wide(error)), None)

    def leased(
        self, check_ids: Collection[int], before_locking: Callable[[UnitOfWork], object] | None = None
    ) -> AbstractContextManager[LeasedTransaction]:
        """Open a transaction under the leases of these checks, and of all that are pending if theirs are ageing."""
        now = monotonic()
        if now - self.all_renewed > RENEWAL_INTERVAL:
            check_ids, self.all_renewed = {*check_ids, *self.pending}, now
        return leased_transaction(self.uow_factory, self.lease, check_ids, before_locking=before_locking)

    def reserve_query(self) -> datetime | None:
        """Renew the leases and reserve one query; return the present, or None if the rate limit is used up.

        Also before each further query of a chunk: many heads take many queries, and with a slow GitHub all of them
        together would take longer than the leases last. Such a query is made even if the limit is used up just then:
        without it, what was read of the chunk would be lost.
        """
        with self.leased(self.pending, self._reserve_one) as leased:
            return leased.uow.now if self.wait <= NO_WAIT else None

    def _reserve_one(self, uow: UnitOfWork) -> None:
        self.wait = reserve_query(uow, self.batch.installation_id, self.limits)
