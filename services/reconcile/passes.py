"""One pass over the due branches of one installation, from claim to receipts."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from integrations.github import BranchHeads, ErrorKind, GitHub, GitHubError, InstallationClient
from rules.permissions import SYSTEM
from services.installations import examine
from services.receipts import complete
from services.reconcile.claims import Claim, ClaimedBranch, claim, pause_installation, renew
from services.reconcile.doubts import doubt
from services.reconcile.following import follow
from services.reconcile.heads import Head, HeadKey, gather
from services.reconcile.judging import Decision, decide
from services.reconcile.looking import look, mirror, mirrored_heads
from services.reconcile.recording import fail, finish, record
from services.reconcile.writing import Sent, send
from services.unit import Caller, Units

logger = logging.getLogger(__name__)

JOB = Caller(organization_id=None, actor=SYSTEM, source="system")
LIMITS = frozenset({ErrorKind.RATE_LIMIT, ErrorKind.SECONDARY_RATE_LIMIT})
DEFAULT_PAUSE = 60.0
"""Seconds, where the code host limits us and does not say for how long."""
SPARE = 0.2
"""Demotions of superseded heads leave this share of the hourly allowance to verdicts."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What a pass needs: the database, the code host, and the address that a check links to."""

    units: Units
    github: GitHub
    details_url: str

    def run_pass(self) -> bool:
        """Serve the installation that has waited longest; False when nothing is due."""
        with self.units.open(JOB) as unit:
            claimed = claim(unit)
        if claimed is None:
            return False
        Pass(self, claimed, self.github.client(claimed.installation_id)).run()
        return True


@dataclass(slots=True)
class Pass:
    """The state of one pass: what is leased, what each branch still waits for, and what has gone wrong."""

    reconciler: Reconciler
    claim: Claim
    client: InstallationClient
    open: dict[str, ClaimedBranch] = field(default_factory=dict)
    """Branches that are neither finished nor given up."""
    total: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    errors: dict[str, GitHubError] = field(default_factory=dict)

    def run(self) -> None:
        """Look, judge, write, record."""
        self.open = {branch.id: branch for branch in self.claim.branches}
        seen = self._look()
        planned = self._plan(self._settle(seen))
        if not any(map(_stops, self.errors.values())):
            for batch in _batches(planned, self.reconciler.github.settings.check_batch):
                if not self._write(batch):
                    break
        self._give_up()

    def _look(self) -> list[tuple[ClaimedBranch, BranchHeads]]:
        settings = self.reconciler.github.settings
        seen: list[tuple[ClaimedBranch, BranchHeads]] = []
        for read_back in (False, True):
            alike = [branch for branch in self.claim.branches if branch.read_back is read_back]
            for chunk in _batches(alike, settings.repositories_per_query):
                try:
                    seen += look(self.client, chunk, settings.app_id)
                except GitHubError as error:
                    self.errors |= {branch.id: error for branch in chunk}
                    if _stops(error):
                        self.errors |= {
                            branch.id: error for branch in self.open.values() if branch.id not in _ids(seen)
                        }
                        return seen
                with self.reconciler.units.open(JOB) as unit:
                    renew(unit, self.claim.token, self.open)
        return seen

    def _settle(self, seen: list[tuple[ClaimedBranch, BranchHeads]]) -> dict[HeadKey, Head]:
        """Turn what was seen into heads to judge, and refresh the mirror."""
        for branch, found in seen:
            error = found.error or _lasting(found.queue_error)
            if error is not None:
                self.errors[branch.id] = error
        whole = [(branch, found) for branch, found in seen if found.error is None]
        heads = gather(whole)
        with self.reconciler.units.open(JOB) as unit:
            renew(unit, self.claim.token, self.open)
            before = mirrored_heads(unit, [branch for branch, _found in whole])
            mirror(unit, whole)
            follow(unit, heads, whole, before)
        return heads

    def _plan(self, heads: dict[HeadKey, Head]) -> list[Decision]:
        """Judge everything once, finish the branches that need no writing, and return what differs, in order."""
        with self.reconciler.units.open(JOB) as unit:
            renew(unit, self.claim.token, self.open)
            decisions = decide(unit, self.claim.token, list(heads.values()))
            differing = [decision for decision in decisions if decision.differs and self._affordable(decision)]
            self.total.update(decision.head.branch_id for decision in decisions if decision.head.ways)
            self.waiting.update(decision.head.branch_id for decision in differing)
            finished = finish(unit, self.claim.token, self._done())
        self._complete(finished)
        return sorted(differing, key=lambda decision: decision.order)

    def _complete(self, freezes: set[str]) -> None:
        if freezes:
            with self.reconciler.units.open(JOB) as unit:
                complete(unit, freezes)

    def _affordable(self, decision: Decision) -> bool:
        if decision.head.ways:
            return True
        allowance = self.client.budget.graphql
        return allowance.remaining is None or not allowance.limit or allowance.remaining / allowance.limit > SPARE

    def _write(self, batch: Sequence[Decision]) -> bool:
        """Judge the batch again, send what still differs, record it; False when the code host wants no more."""
        with self.reconciler.units.open(JOB) as unit:
            decisions = decide(unit, self.claim.token, [decision.head for decision in batch])
            differing = [decision for decision in decisions if decision.differs]
            doubt(unit, (decision.head for decision in differing if decision.conclusion == "success"))
        judged = {decision.head.key for decision in decisions}
        for decision in batch:
            if decision.head.key not in judged:  # the lease was lost: its new holder decides
                self.open.pop(decision.head.branch_id, None)
        sent = send(self.client, differing, self.reconciler.details_url) if differing else []
        self._record([decision for decision in decisions if not decision.differs], sent)
        return not any(result.error is not None and _stops(result.error) for result in sent)

    def _record(self, settled: Sequence[Decision], sent: Sequence[Sent]) -> None:
        written = [(result.decision, result.check_run_id) for result in sent if result.error is None]
        for result in sent:
            if result.error is not None:
                self.errors[result.decision.head.branch_id] = result.error
        self.waiting.subtract(decision.head.branch_id for decision in settled)
        self.waiting.subtract(decision.head.branch_id for decision, _run in written)
        with self.reconciler.units.open(JOB) as unit:
            unsure = [result.decision for result in sent if result.error is not None and result.error.maybe_applied]
            for branch_id in record(unit, self.claim.token, written, unsure):
                self.open.pop(branch_id, None)
            finished = finish(unit, self.claim.token, self._done())
        self._complete(finished)

    def _done(self) -> list[tuple[ClaimedBranch, int]]:
        """Take the branches that wait for nothing out of the open ones."""
        done = [
            branch for branch in self.open.values() if self.waiting[branch.id] == 0 and branch.id not in self.errors
        ]
        for branch in done:
            del self.open[branch.id]
        return [(branch, self.total[branch.id]) for branch in done]

    def _give_up(self) -> None:
        """Give back what is left, with the reason and the time of the next attempt."""
        if not self.open:
            return
        worst = next((error for error in self.errors.values() if _stops(error)), None)
        with self.reconciler.units.open(JOB) as unit:
            if worst is not None and worst.kind in LIMITS:
                seconds = DEFAULT_PAUSE if worst.retry_after is None else worst.retry_after
                pause_installation(unit, self.claim.installation_id, unit.now + timedelta(seconds=seconds))
            renew(unit, self.claim.token, self.open)
            for branch in self.open.values():
                error = self.errors.get(branch.id) or worst or _unfinished()
                total = self.total[branch.id]
                fail(unit, self.claim.token, branch, error, (total, max(0, total - self.waiting[branch.id])))
        logger.warning(
            "reconciling installation %s left %d branches: %s",
            self.claim.installation_id,
            len(self.open),
            {error.code for error in self.errors.values()},
        )
        if worst is not None and worst.kind is ErrorKind.INSTALLATION_REMOVED:
            examine(self.reconciler.units, self.reconciler.github, self.claim.installation_id)


def _unfinished() -> GitHubError:
    return GitHubError(ErrorKind.UNAVAILABLE, "The pass ended before this branch was written", maybe_applied=True)


def _lasting(error: GitHubError | None) -> GitHubError | None:
    """Return a failure to read the merge queue that is worth another try.

    Without the permission to see it, its entries get no check of ours, and so stay blocked: nothing to retry.
    """
    return error if error is not None and error.transient else None


def _stops(error: GitHubError) -> bool:
    """Tell whether the error concerns the whole installation, so that going on is useless or forbidden."""
    return error.kind in LIMITS or error.kind in {ErrorKind.INSTALLATION_REMOVED, ErrorKind.APP_REFUSED}


def _ids(seen: Sequence[tuple[ClaimedBranch, BranchHeads]]) -> set[str]:
    return {branch.id for branch, _found in seen}


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
