"""The reconciler: one pass over the due checks of one installation, from acquiring the leases to releasing them.

A pass defers what is left when a check that it has not leased is more urgent, when another installation waits after
its time slice, and when the rate limits are used up. What it defers is due again, with its rank.
"""

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from time import monotonic

from integrations.github import INACTIVE_INSTALLATION, ErrorKind, GitHub, GitHubError, InstallationClient
from rules.freezes.merge_rank import NOTHING_OPEN
from rules.rate_budget import NO_WAIT, is_quota_short
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, LeaseLostError
from services.exception_rules.facts import FactsReader
from services.freezes.completion import mark_complete
from services.freezes.failures import record_failures_on
from services.github_access.failures import (
    WithheldError,
    incomplete_error,
    is_installation_wide,
    pause_when_limited,
)
from services.github_access.pauses import pause_installation
from services.github_access.rate_limiter import learn_from_refusal, reserve_checks
from services.installations.status import refresh_status
from services.reconcile.check_records import announce, mark_in_flight, record_readings, record_writes
from services.reconcile.check_writes import WriteResult, write_checks
from services.reconcile.evaluation import CheckUpdate, TextFacts, evaluate
from services.reconcile.heads import HeadKey, ReadChecks, heads_of, read_paths_again
from services.reconcile.leases import (
    LeasedBatch,
    LeasedCheck,
    Turn,
    acquire,
    other_installations_due,
)
from services.reconcile.outcomes import Progress, defer_checks, fail_check, finish_checks
from services.reconcile.pass_state import PassState
from services.reconcile.read_backs import read_back_now
from services.reconcile.reading import Reading
from services.reconcile.write_order import order_updates, take_commits

logger = logging.getLogger(__name__)

MAX_EVALUATION_AGE = 3.0
"""Seconds after which an evaluation is repeated before anything is sent: this process was stopped.

A call that begins before then has ended, by its deadline, when the lease ends under which it was made.
"""
FACTS_AT_ONCE = 25
"""Heads of which further facts are read at once. Some of them take a call for each head, or many."""
FACTS_BEFORE_WRITING = 100
"""Heads of which further facts are read before anything is written at most, the most urgent first."""
TIME_SLICE = 1.0
"""Seconds of writing, or of reading further facts, after which another installation that waits goes first."""


class OutdatedEvaluationError(Exception):
    """Too much time has passed since the evaluation to send what it found."""


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What every pass needs."""

    uow_factory: UnitOfWorkFactory
    github: GitHub
    web_url: str
    """The address of our pages, which checks lead to."""
    facts: FactsReader = field(default_factory=FactsReader)
    turn: Turn = field(default_factory=Turn)

    def run_pass(self) -> bool:
        """Serve the installation whose turn it is; False if nothing is due that is not leased already."""
        others_due = False
        with self.uow_factory.open(SYSTEM_CALLER) as uow:
            batch = acquire(uow, self.turn)
            if batch is not None and batch.lease is None:
                others_due = other_installations_due(uow, batch.installation_id)
        if batch is None or batch.lease is None:
            return others_due
        client = self.github.client(batch.installation_id)
        client.renew_for(batch.permissions)
        with batch.lease.while_held(self.uow_factory, wakes="reconcile"):
            Pass(self, batch, batch.lease, client).run()
        return True


class Pass:
    """One pass: what its heads are, what of it is written, and what is left in the end."""

    def __init__(self, reconciler: Reconciler, batch: LeasedBatch, lease: Lease, client: InstallationClient) -> None:
        self.reconciler = reconciler
        self.state = PassState(reconciler.uow_factory, reconciler.github, reconciler.facts, batch, lease, client)
        self.reading = Reading(self.state)
        self.evaluated: set[int] = set()
        """The checks whose heads are known and evaluated."""
        self.head_counts: Counter[int] = Counter()
        """How many heads each check has."""
        self.best_ranks: dict[int, int] = {}
        """By check: how soon its most mergeable head could be merged."""
        self.unwritten: dict[int, set[HeadKey]] = defaultdict(set)
        """By check: the heads that do not show their verdict yet."""
        self.texts = TextFacts()
        self.refused = False
        """Whether GitHub refused a write although we kept to the limits that we know."""

    def run(self) -> None:
        """Read, evaluate, write, record, and release what is left."""
        planned: deque[CheckUpdate] = deque()
        try:
            shown = self.reading.mirror(self.reading.fetch())
            self._read_first_facts()
            self._plan_and_write(planned, shown)
            if not planned and self._read_other_facts():
                self._plan_and_write(planned, {})
        except LeaseLostError:
            self.state.pending.clear()  # their new holders go on
        self._end(planned)

    def _read_first_facts(self) -> None:
        """Read the facts of the most urgent heads, until a time slice is over: what is to be blocked waits."""
        end_of_slice = monotonic() + TIME_SLICE
        for _ in range(0, FACTS_BEFORE_WRITING, FACTS_AT_ONCE):
            if not self.reading.read_facts(FACTS_AT_ONCE) or monotonic() > end_of_slice:
                return

    def _read_other_facts(self) -> bool:
        """Read the facts that are left until the limits are used up, or another installation goes first.

        True if any were left. What was read is not read again by the next pass, unless the branch is read back.
        """
        if not self.reading.waiting:
            return False
        end_of_slice = monotonic() + TIME_SLICE
        is_kept = not any(branch.read_back for branch in self.state.batch.branches)
        while self.state.wait <= NO_WAIT and self.reading.read_facts(FACTS_AT_ONCE):
            if is_kept and monotonic() > end_of_slice and self._others_wait():
                break
        return True

    def _plan_and_write(self, planned: deque[CheckUpdate], shown: ReadChecks) -> None:
        planned.extend(self._plan(shown))
        if self.state.installation_error is None:
            self._write_in_order(planned)

    def _end(self, planned: Sequence[CheckUpdate]) -> None:
        """Pause the installation if its limits are used up, and release what is left."""
        installation_error = self.state.installation_error
        deferred = self._deferred(planned) if installation_error is None else []
        self._pause(installation_error, self.state.wait if deferred else NO_WAIT)
        if self.state.pending:
            self._release(deferred, installation_error)
        if installation_error is not None and installation_error.kind in INACTIVE_INSTALLATION:
            refresh_status(self.reconciler.uow_factory, self.reconciler.github, self.state.batch.installation_id)

    def _plan(self, shown: ReadChecks) -> list[CheckUpdate]:
        """Evaluate everything once, finish the checks without differences, return the differences in order."""
        with self.state.leased(self.state.pending) as leased:
            self.evaluated = self.reading.readable & leased.held
            checks = [self.state.pending[check_id] for check_id in sorted(self.evaluated)]
            updates = evaluate(leased, heads_of(leased.uow, checks, shown), self.texts)
            record_readings(leased, updates)
            differing = [update for update in updates if update.differs and self._within_quota(update)]
            self.head_counts.update(update.head.check_id for update in updates if update.head.paths)
            self.best_ranks |= _best_ranks(checks, updates)
            for update in differing:
                self.unwritten[update.head.check_id].add(update.head.key)
            differing = self._without_withheld(differing)
            freezes = finish_checks(leased, self._take_finished())
        self._mark_complete(freezes)
        return order_updates(differing)

    def _mark_complete(self, freezes: set[str]) -> None:
        """Record which of these freezes are enforced or released on all branches now: in a transaction of its own."""
        if freezes:
            with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
                mark_complete(uow, freezes)

    def _within_quota(self, update: CheckUpdate) -> bool:
        """True if it is written now: a superseded head waits for spare quota, unless its branch is frozen."""
        if update.head.paths or update.frozen:
            return True
        quota = self.state.client.budget.graphql
        return not is_quota_short(quota.remaining, quota.limit)

    def _without_withheld(self, updates: Sequence[CheckUpdate]) -> list[CheckUpdate]:
        """Return the updates that may be written; the checks of the others wait for an operator."""
        self.state.errors |= {update.head.check_id: WithheldError() for update in updates if update.withheld}
        return [update for update in updates if not update.withheld]

    def _write_in_order(self, planned: deque[CheckUpdate]) -> None:
        """Write until nothing is left, GitHub accepts no more, or something else goes first."""
        end_of_slice = monotonic() + TIME_SLICE
        while planned and not self._is_less_urgent(planned[0]) and self._write(planned):
            if monotonic() > end_of_slice and self._others_wait():
                return

    def _is_less_urgent(self, update: CheckUpdate) -> bool:
        """True if a head of a due check that this pass has not leased could be merged sooner than this one."""
        return self.state.batch.best_rank_left is not None and update.urgency > self.state.batch.best_rank_left

    def _others_wait(self) -> bool:
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            return other_installations_due(uow, self.state.batch.installation_id)

    def _write(self, planned: deque[CheckUpdate]) -> bool:
        """Evaluate the next batch again, send what still differs, record it; False if no more may be sent now.

        What the rate limits do not allow goes back to `planned`, and so does a batch that was not sent in time.
        """
        batch = take_commits(planned, self.reconciler.github.settings.checks_per_mutation)

        def reserve(uow: UnitOfWork) -> None:
            grant = reserve_checks(uow, self.state.batch.installation_id, self.state.limits, len(batch))
            self.state.wait = grant.wait
            planned.extendleft(reversed(batch[grant.checks :]))
            del batch[grant.checks :]

        check_ids = {update.head.check_id for update in batch}
        try:
            with self.state.leased(check_ids, reserve) as leased:
                evaluated = monotonic()
                heads = read_paths_again(leased.uow, [update.head for update in batch])
                updates = evaluate(leased, heads, self.texts)
                record_readings(leased, updates)
                differing = self._without_withheld([update for update in updates if update.differs])
                announce(leased.uow, (update.head for update in differing if update.conclusion == "success"))
                self._drop(check_ids - leased.held)
        except LeaseLostError:
            self._drop(check_ids)
            return bool(batch)
        client = self.state.client.with_hook(partial(_require_recent, evaluated))
        try:
            results = write_checks(client, differing, self.reconciler.web_url) if differing else []
        except OutdatedEvaluationError:
            planned.extendleft(reversed(batch))
            return True
        if updates:
            self._record([update for update in updates if not update.differs], results)
        return bool(batch) and not any(
            result.error is not None and is_installation_wide(result.error) for result in results
        )

    def _drop(self, lost: Collection[int]) -> None:
        """Leave branches whose lease was lost to their new holders."""
        for branch_id in lost:
            self.state.pending.pop(branch_id, None)

    def _record(self, unchanged: Sequence[CheckUpdate], results: Sequence[WriteResult]) -> None:
        """Record the results of a batch, and finish the checks that wait for nothing more."""
        written = [(result.update, result.check_run_id) for result in results if result.error is None]
        unknown = [result.update for result in results if result.error is not None and result.error.maybe_applied]
        for result in results:
            if result.error is not None:
                self.state.errors[result.update.head.check_id] = result.error
                self.refused = self.refused or result.error.kind is ErrorKind.SECONDARY_RATE_LIMIT
        for update in (*unchanged, *(update for update, _run in written)):
            self.unwritten[update.head.check_id].discard(update.head.key)
        check_ids = {update.head.check_id for update in (*unchanged, *(result.update for result in results))}
        held: frozenset[int] = frozenset()
        freezes: set[str] = set()
        try:
            with self.state.leased(check_ids) as leased:
                held = leased.held
                self._drop(check_ids - held)
                record_writes(leased, written)
                mark_in_flight(leased.uow, (update.head for update in unknown if update.conclusion == "success"))
                freezes = finish_checks(leased, self._take_finished())
        except LeaseLostError:
            self._drop(check_ids)
        sent = [update.head for update in (*(update for update, _run in written), *unknown)]
        late = [head for head in sent if head.check_id not in held]
        if late:
            with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
                read_back_now(uow, {head.check_id for head in late})
                announce(uow, late)
        self._mark_complete(freezes)

    def _take_finished(self) -> list[Progress]:
        """Take the checks that wait for nothing out of the pending ones."""
        finished = [
            check_id
            for check_id in self.state.pending
            if check_id in self.evaluated and not self.unwritten[check_id] and check_id not in self.state.errors
        ]
        waiting = self.reading.waiting if finished else ()
        return [self._progress(self.state.pending.pop(check_id)) for check_id in finished if check_id not in waiting]

    def _pause(self, installation_error: GitHubError | None, wait: timedelta) -> None:
        """Keep every worker away from the installation while its limits are used up, and learn from a refusal."""
        if installation_error is None and wait <= NO_WAIT and not self.refused:
            return
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            if wait > NO_WAIT:
                pause_installation(uow, self.state.batch.installation_id, uow.now + wait)
            if self.refused:
                learn_from_refusal(uow, self.state.batch.installation_id, self.state.limits)
            pause_when_limited(uow, self.state.batch.installation_id, installation_error)

    def _release(self, deferred: Sequence[Progress], installation_error: GitHubError | None) -> None:
        """Release what is left: deferred checks are due again at once or after the wait, failed ones later.

        `installation_error` concerns the whole installation: checks without an error of their own fail with it.
        """
        failed = sorted(self.state.pending.keys() - {one.check.id for one in deferred})
        branch_ids: set[str] = set()
        with suppress(LeaseLostError), self.state.leased(self.state.pending) as leased:
            defer_checks(leased, deferred, leased.uow.now + self.state.wait)
            for check_id in failed:
                error = self.state.errors.get(check_id) or installation_error or incomplete_error()
                branch_ids |= fail_check(leased, self._progress(self.state.pending[check_id]), error)
        if branch_ids:
            with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
                record_failures_on(uow, sorted(branch_ids))
        if failed:
            logger.warning(
                "reconciling installation %s failed for %d checks: %s",
                self.state.batch.installation_id,
                len(failed),
                {error.code for error in self.state.errors.values()},
            )

    def _deferred(self, planned: Sequence[CheckUpdate]) -> list[Progress]:
        """Return the pending checks without an error that were not evaluated or have updates or facts left."""
        waiting = self.reading.waiting
        ranks: dict[int, int] = {}
        for update in planned:
            check_id = update.head.check_id
            ranks[check_id] = min(update.urgency, ranks.get(check_id, update.urgency))
        return [
            replace(self._progress(check), rank_left=ranks.get(check_id))
            for check_id, check in self.state.pending.items()
            if check_id not in self.state.errors
            and (check_id in ranks or check_id in waiting or check_id not in self.evaluated)
        ]

    def _progress(self, check: LeasedCheck) -> Progress:
        """Return how many heads a check has, and how many of them show their verdict."""
        total = self.head_counts[check.id]
        written = max(0, total - len(self.unwritten[check.id]))
        return Progress(check, total, written, self.best_ranks.get(check.id))


def _best_ranks(checks: Sequence[LeasedCheck], updates: Sequence[CheckUpdate]) -> dict[int, int]:
    """Return, by check, how soon its most mergeable head could be merged."""
    ranks = {check.id: NOTHING_OPEN for check in checks}
    for update in updates:
        if update.head.paths:
            ranks[update.head.check_id] = min(update.head.rank, ranks[update.head.check_id])
    return ranks


def _require_recent(evaluated: float, *, writes: bool) -> None:
    """Raise OutdatedEvaluationError before a write if the evaluation, at that monotonic time, is too old."""
    if writes and monotonic() - evaluated > MAX_EVALUATION_AGE:
        raise OutdatedEvaluationError
