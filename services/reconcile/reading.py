"""What a pass reads from GitHub: heads, which it mirrors, and the facts that rules of exceptions ask for."""

from collections import deque
from collections.abc import Collection
from datetime import datetime

from integrations.github import BranchRef, GitHubError
from models.checks import lock_affected
from rules.batches import batches
from services.bypass_detection.detection import record_branch_tips
from services.exception_rules.facts import JudgedPull
from services.exception_rules.granting import apply_rules, lock_for_granting
from services.exception_rules.in_passes import judged_pulls
from services.github_access.failures import ThrottledError, is_installation_wide, retryable
from services.pull_request_exceptions.expiry import try_revoke_stale_pins
from services.reconcile.heads import ReadChecks
from services.reconcile.mirror import FetchedHeads, mark_patterns, shown_checks, update_mirror
from services.reconcile.pass_state import PassState


class Reading:
    """What a pass has read, and what it has still to read."""

    def __init__(self, state: PassState) -> None:
        self._state = state
        self.readable: set[int] = set()
        """The checks whose branches were all read, as far as they have to be: their heads can be evaluated."""
        self._unjudged: deque[JudgedPull] = deque()
        """The pull requests whose facts rules have still to be judged by, the most urgent first."""

    def fetch(self) -> tuple[FetchedHeads, dict[str, datetime]]:
        """Read the open heads of the branches, those that are read back last; return when each reading began."""
        settings = self._state.github.settings
        fetched: FetchedHeads = []
        read_at: dict[str, datetime] = {}
        for read_back in (False, True):
            alike = [branch for branch in self._state.batch.branches if branch.read_back is read_back]
            for chunk in batches(alike, settings.branches_per_query):
                began = self._state.reserve_query()
                if began is None:
                    return fetched, read_at
                try:
                    results = self._state.client.open_heads(
                        [BranchRef(branch.repository_node_id, branch.name) for branch in chunk],
                        read_back_app_id=settings.app_id if read_back else None,
                        between=self._state.reserve_query,
                    )
                except GitHubError as error:
                    self._state.errors |= {check: error for branch in chunk for check in branch.checks}
                    if is_installation_wide(error):
                        read = {check for branch, _found in fetched for check in branch.checks}
                        self._state.errors |= dict.fromkeys(self._state.pending.keys() - read, error)
                        return fetched, read_at
                else:
                    fetched += zip(chunk, results, strict=True)
                    read_at |= {branch.id: began for branch in chunk}
        return fetched, read_at

    def mirror(self, read: tuple[FetchedHeads, dict[str, datetime]]) -> ReadChecks:
        """Mirror what was read for the checks still held, and what follows from it; return the checks read back."""
        state, (fetched, read_at) = self._state, read
        for branch, found in fetched:
            error = found.error or retryable(found.queue_error)
            if error is not None:
                state.errors |= dict.fromkeys(branch.checks, error)
        complete = [(branch, found) for branch, found in fetched if found.error is None]
        ids = {branch.id for branch, _found in complete}
        unread = {check for branch in state.batch.branches if branch.id not in ids for check in branch.checks}
        self.readable = state.pending.keys() - unread
        own = [(branch, found) for branch, found in complete if branch.own_check in state.pending]
        if own:
            branch_ids = [branch.id for branch, _found in own]
            with state.leased(
                state.pending, lambda uow: lock_affected(uow.session, branch_ids, state.pending)
            ) as leased:
                held = [(branch, found) for branch, found in own if branch.own_check in leased.held]
                update_mirror(leased, held, read_at)
                heads = [(branch.id, found) for branch, found in held]
                try_revoke_stale_pins(leased.uow, [branch.id for branch, _found in held])
                record_branch_tips(leased.uow, heads)
                read_back = {branch.id for branch, _found in held if branch.read_back}
                self._unjudged.extend(judged_pulls(leased.uow, heads, read_back))
        return shown_checks(complete)

    def read_facts(self, limit: int) -> bool:
        """Read the facts of so many pull requests at most, and grant and revoke exceptions; True if it has read any.

        What the rate limits do not allow is left. Raise LeaseLostError.
        """
        state = self._state
        if not self._unjudged or state.installation_error is not None:
            return False
        pulls = [self._unjudged.popleft() for _ in range(min(limit, len(self._unjudged)))]
        try:
            findings = state.facts.read(state.client.with_hook(self._require_query), pulls)
        except ThrottledError:
            self._unjudged.extendleft(reversed(pulls))
            return False
        except GitHubError as error:
            state.errors |= dict.fromkeys(state.pending, error)
            return False
        branch_ids = {pull.branch_id for pull in pulls}
        with state.leased(state.pending, lambda uow: lock_for_granting(uow, branch_ids, state.pending)) as leased:
            held = {branch.id: branch for branch in state.batch.branches if branch.own_check in leased.held}
            changed = [held[branch_id] for branch_id in apply_rules(leased.uow, findings, held)]
            if changed:
                mark_patterns(leased, [(branch.repository_id, branch.name) for branch in changed])
        if findings.error is not None:
            state.errors |= dict.fromkeys(self._own_checks(pulls), findings.error)
        return True

    @property
    def waiting(self) -> set[int]:
        """The checks of branches with pull requests that rules have still to judge."""
        return self._own_checks(self._unjudged)

    def _require_query(self, **_: object) -> None:
        """Renew the leases and reserve one query. Raise ThrottledError if the rate limit is used up."""
        if self._state.reserve_query() is None:
            raise ThrottledError("The rate limit is used up", self._state.wait)

    def _own_checks(self, pulls: Collection[JudgedPull]) -> set[int]:
        branch_ids = {pull.branch_id for pull in pulls}
        branches = (branch for branch in self._state.batch.branches if branch.id in branch_ids)
        return {branch.own_check for branch in branches if branch.own_check is not None}
