"""One pass over the due branches of one installation, from claim to receipts.

A pass makes way: to branches whose pull requests could merge sooner than what it has left, to another installation
once it has written for a while, and to the code host's limits. What it leaves is due again, with its urgency.
"""

import logging
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic

from integrations.github import BranchHeads, ErrorKind, GitHub, GitHubError, InstallationClient
from rules.freezes.batches import batches
from rules.rate_budget import NO_WAIT, PaceLimits
from services.bypass_detection.detection import note_tips
from services.core.row_locks import lock_branches
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.freezes.completion import mark_complete
from services.github_access.failures import incomplete_error, is_installation_wide, pause_when_limited, retryable
from services.github_access.pauses import pause_installation
from services.github_access.rate_limiter import learn_from_refusal, reserve_checks, reserve_query
from services.installations.status import refresh_status
from services.pull_request_exceptions.ending import see_pushes
from services.reconcile.claims import Claim, ClaimedBranch, claim, others_wait, renew
from services.reconcile.doubts import doubt
from services.reconcile.following import follow
from services.reconcile.heads import Head, HeadKey, gather
from services.reconcile.judging import Decision, decide
from services.reconcile.looking import look, mirror, mirrored_heads
from services.reconcile.recording import Unfinished, fail, finish, make_way, record
from services.reconcile.writing import Sent, send

logger = logging.getLogger(__name__)

SPARE = 0.2
"""Demotions of superseded heads leave this share of the hourly allowance to verdicts, where nothing is frozen."""
TURN = 1.0
"""Seconds of writing after which another installation that waits has its turn."""


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What a pass needs: the database, the code host, the address that a check links to, and how much may be sent."""

    uow_factory: UnitOfWorkFactory
    github: GitHub
    details_url: str
    limits: PaceLimits = field(default_factory=PaceLimits)

    def run_pass(self) -> bool:
        """Serve the installation that has waited longest; False when nothing is due, or others hold all that is."""
        with self.uow_factory.open(SYSTEM_CALLER) as uow:
            claimed = claim(uow)
            if claimed is not None and not claimed.branches:
                return others_wait(uow, claimed.installation_id)
        if claimed is None:
            return False
        client = self.github.client(claimed.installation_id)
        client.renew_for(claimed.permissions)
        Pass(self, claimed, client).run()
        return True


@dataclass(slots=True)
class Pass:
    """The state of one pass: what is leased, what each branch still waits for, and what has gone wrong."""

    reconciler: Reconciler
    claim: Claim
    client: InstallationClient
    open: dict[str, ClaimedBranch] = field(default_factory=dict)
    """Branches that are neither finished nor given up."""
    looked_at: dict[str, datetime] = field(default_factory=dict)
    """The branches that were read, and when that began."""
    total: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    errors: dict[str, GitHubError] = field(default_factory=dict)
    wait: timedelta = NO_WAIT
    """How long the code host's limits leave no room."""
    refused: bool = False
    """Whether the code host wanted no more checks although we kept to the limits that we know."""

    def run(self) -> None:
        """Look, judge, write, record."""
        self.open = {branch.id: branch for branch in self.claim.branches}
        planned = deque(self._plan(self._settle(self._look())))
        if not any(map(is_installation_wide, self.errors.values())):
            self._write_in_order(planned)
        self._give_back(planned)

    def _look(self) -> list[tuple[ClaimedBranch, BranchHeads]]:
        settings = self.reconciler.github.settings
        seen: list[tuple[ClaimedBranch, BranchHeads]] = []
        for read_back in (False, True):
            alike = [branch for branch in self.claim.branches if branch.read_back is read_back]
            for chunk in batches(alike, settings.repositories_per_query):
                began = self._may_look()
                if began is None:
                    return seen
                try:
                    seen += look(self.client, chunk, settings.app_id, self._may_look)
                except GitHubError as error:
                    self.errors |= {branch.id: error for branch in chunk}
                    if is_installation_wide(error):
                        unseen = self.open.keys() - {branch.id for branch, _found in seen}
                        self.errors |= dict.fromkeys(unseen, error)
                        return seen
                self.looked_at |= {branch.id: began for branch in chunk}
        return seen

    def _may_look(self) -> datetime | None:
        """Prolong the leases, and take the room for one query; returns the present, or None where there is no room.

        Also before each query of a look that reads back: of many heads it takes many, and a slow code host for each of
        them longer than the leases would last.
        """
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            self.wait = reserve_query(uow, self.claim.installation_id, self.reconciler.limits)
            renew(uow, self.claim.token, self.open)
            return uow.now if self.wait <= NO_WAIT else None

    def _settle(self, seen: list[tuple[ClaimedBranch, BranchHeads]]) -> dict[HeadKey, Head]:
        """Turn what was seen into heads to judge, and refresh the mirror, both for the leases that still hold."""
        for branch, found in seen:
            error = found.error or retryable(found.queue_error)
            if error is not None:
                self.errors[branch.id] = error
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            held = renew(uow, self.claim.token, self.open)
            whole = [(branch, found) for branch, found in seen if found.error is None and branch.id in held]
            heads = gather(whole)
            before = mirrored_heads(uow, [branch for branch, _found in whole])
            mirror(uow, whole, self.looked_at)
            see_pushes(uow, [branch.id for branch, _found in whole])
            note_tips(uow, [(branch.id, found) for branch, found in whole])
            follow(uow, heads, whole, before)
        return heads

    def _plan(self, heads: dict[HeadKey, Head]) -> list[Decision]:
        """Judge everything once, finish the branches that need no writing, and return what differs, in order."""
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            renew(uow, self.claim.token, self.open)
            decisions = decide(uow, self.claim.token, list(heads.values()))
            record(
                uow, self.claim.token, [(one, one.head.shown.id) for one in decisions if one.adopts and one.head.shown]
            )
            differing = [decision for decision in decisions if decision.differs and self._affordable(decision)]
            self.total.update(decision.head.branch_id for decision in decisions if decision.head.ways)
            self.waiting.update(decision.head.branch_id for decision in differing)
            finished = finish(uow, self.claim.token, self._done())
        self._complete(finished)
        return sorted(differing, key=lambda decision: decision.urgency)

    def _complete(self, freezes: set[str]) -> None:
        if freezes:
            with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
                mark_complete(uow, freezes)

    def _affordable(self, decision: Decision) -> bool:
        """Tell whether to write it now: what nobody can merge waits for spare budget, unless its branch is frozen."""
        if decision.head.ways or decision.frozen:
            return True
        allowance = self.client.budget.graphql
        return allowance.remaining is None or not allowance.limit or allowance.remaining / allowance.limit > SPARE

    def _write_in_order(self, planned: deque[Decision]) -> None:
        """Write until nothing is left, the code host wants no more, or it is somebody else's turn."""
        end_of_turn = monotonic() + TURN
        while planned and not self._is_less_urgent(planned[0]) and self._write(planned):
            if monotonic() > end_of_turn and self._others_wait():
                return

    def _is_less_urgent(self, decision: Decision) -> bool:
        """Tell whether a branch that this pass has not claimed could merge sooner than this head."""
        return self.claim.best_left is not None and decision.urgency > self.claim.best_left

    def _others_wait(self) -> bool:
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            return others_wait(uow, self.claim.installation_id)

    def _write(self, planned: deque[Decision]) -> bool:
        """Take a batch, judge it again, send what still differs, record it; False when no more may be sent."""
        wanted = min(len(planned), self.reconciler.github.settings.check_batch)
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            room = reserve_checks(uow, self.claim.installation_id, self.reconciler.limits, wanted)
            self.wait = room.wait
            batch = [planned.popleft() for _ in range(room.checks)]
            decisions = decide(uow, self.claim.token, [decision.head for decision in batch])
            differing = [decision for decision in decisions if decision.differs]
            doubt(uow, (decision.head for decision in differing if decision.conclusion == "success"))
        judged = {decision.head.key for decision in decisions}
        for decision in batch:
            if decision.head.key not in judged:  # the lease was lost: its new holder decides
                self.open.pop(decision.head.branch_id, None)
        sent = send(self.client, differing, self.reconciler.details_url) if differing else []
        self._record([decision for decision in decisions if not decision.differs], sent)
        return bool(batch) and not any(
            result.error is not None and is_installation_wide(result.error) for result in sent
        )

    def _record(self, settled: Sequence[Decision], sent: Sequence[Sent]) -> None:
        written = [(result.decision, result.check_run_id) for result in sent if result.error is None]
        for result in sent:
            if result.error is not None:
                self.errors[result.decision.head.branch_id] = result.error
                self.refused = self.refused or result.error.kind is ErrorKind.SECONDARY_RATE_LIMIT
        self.waiting.subtract(decision.head.branch_id for decision in settled)
        self.waiting.subtract(decision.head.branch_id for decision, _run in written)
        batch = [*settled, *(result.decision for result in sent)]
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            lock_branches(uow, {decision.head.branch_id for decision in batch})
            unsure = [result.decision for result in sent if result.error is not None and result.error.maybe_applied]
            for branch_id in record(uow, self.claim.token, written, unsure):
                self.open.pop(branch_id, None)
            finished = finish(uow, self.claim.token, self._done())
        self._complete(finished)

    def _done(self) -> list[tuple[ClaimedBranch, int]]:
        """Take the branches that wait for nothing out of the open ones."""
        done = [
            branch
            for branch in self.open.values()
            if branch.id in self.looked_at and self.waiting[branch.id] == 0 and branch.id not in self.errors
        ]
        for branch in done:
            del self.open[branch.id]
        return [(branch, self.total[branch.id]) for branch in done]

    def _give_back(self, planned: Sequence[Decision]) -> None:
        """Give back what is left: what makes way is due again at once or after the wait, what failed after longer."""
        worst = next((error for error in self.errors.values() if is_installation_wide(error)), None)
        if worst is None and self.open:
            self._make_way(planned)
        if self.open:
            self._fail(worst)
        if worst is not None and worst.kind is ErrorKind.INSTALLATION_REMOVED:
            refresh_status(self.reconciler.uow_factory, self.reconciler.github, self.claim.installation_id)

    def _make_way(self, planned: Sequence[Decision]) -> None:
        """Give back the branches that nothing is wrong with."""
        urgency: dict[str, int] = {}
        for decision in planned:  # the most urgent of each branch comes first
            urgency.setdefault(decision.head.branch_id, decision.urgency)
        left = [
            Unfinished(branch, urgency.get(branch_id), total, max(0, total - self.waiting[branch_id]))
            for branch_id, branch, total in ((each, branch, self.total[each]) for each, branch in self.open.items())
            if branch_id not in self.errors and (branch_id in urgency or branch_id not in self.looked_at)
        ]
        if not left:
            return
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            if self.wait > NO_WAIT:
                pause_installation(uow, self.claim.installation_id, uow.now + self.wait)
            make_way(uow, self.claim.token, left, uow.now + self.wait)
        for one in left:
            del self.open[one.branch.id]

    def _fail(self, worst: GitHubError | None) -> None:
        """Give back what failed, with the reason and the time of the next attempt."""
        with self.reconciler.uow_factory.open(SYSTEM_CALLER) as uow:
            if self.refused:
                learn_from_refusal(uow, self.claim.installation_id, self.reconciler.limits)
            pause_when_limited(uow, self.claim.installation_id, worst)
            renew(uow, self.claim.token, self.open)
            for branch in self.open.values():
                error = self.errors.get(branch.id) or worst or incomplete_error()
                total = self.total[branch.id]
                fail(uow, self.claim.token, branch, error, (total, max(0, total - self.waiting[branch.id])))
        logger.warning(
            "reconciling installation %s left %d branches: %s",
            self.claim.installation_id,
            len(self.open),
            {error.code for error in self.errors.values()},
        )
