"""What a rule would let in now: a draft, or a rule as it is, judged on the open pull requests of its scope.

Nothing is stored, and no freeze has to cover the branches. GitHub is read for it, outside the transaction: up to
`MAX_PREVIEWED` pull requests, the most mergeable first.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from integrations.github import InstallationClient
from models.exception_rules import ExceptionRule
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from rules.exceptions.evaluation import Evaluation
from rules.exceptions.facts import Unknown
from rules.exceptions.language import Identities, parse_allow
from services.core.unit_of_work import UnitOfWork
from services.exception_rules.applicable import RuledBranch, RuleInForce
from services.exception_rules.facts import FactsReader, JudgedPull
from services.freezes.scopes import resolve
from services.github_access.client import client_of
from services.github_access.rate_limiter import require_quota
from services.repositories.tracked_pull_requests import TrackedPullRequest, select_tracked

MAX_PREVIEWED = 100
"""Pull requests that a preview judges: it takes a query for every 25 of them, and calls for some."""


@dataclass(frozen=True, slots=True)
class RulePreview:
    """What a rule would let in."""

    judged: Sequence[tuple[TrackedPullRequest, Evaluation | Unknown]]
    total: int
    """How many pull requests are open in its scope; at most `MAX_PREVIEWED` of them are judged."""


def preview(
    uow: UnitOfWork, scope: dict[str, Any], allow: Mapping[str, Any], identities: Identities, *, self_approval: bool
) -> RulePreview:
    """Return what conditions would let in, of the open pull requests in a scope.

    Raise what `resolve` raises for the scope, and GitHub's errors that concern a whole installation; also while what is
    left of its hourly quota is kept for verdicts.
    """
    resolved = resolve(uow, scope)
    open_pulls = select_tracked(uow).where(PullRequest.state == "open", WatchedBranch.id.in_(resolved.ids))
    total = uow.session.scalar(select(func.count()).select_from(open_pulls.subquery())) or 0
    order = (PullRequest.merge_rank, PullRequest.repository_id, PullRequest.number)
    rows = uow.session.execute(open_pulls.order_by(*order).limit(MAX_PREVIEWED))
    found = [TrackedPullRequest(*row) for row in rows]
    rule = RuleInForce(ExceptionRule(id="preview"), parse_allow(allow), identities, resolved.scope)
    by_installation: dict[int, list[JudgedPull]] = defaultdict(list)
    for one in found:
        judged = _judged(one, rule, uow.now, self_approval=self_approval)
        by_installation[one.repository.installation_id].append(judged)
    clients = {installation_id: _client_of(uow, installation_id) for installation_id in by_installation}
    outcomes: dict[str, Evaluation | Unknown] = {}
    with uow.outside_transaction():
        reader = FactsReader()
        for installation_id, pulls in by_installation.items():
            with clients[installation_id].shared_deadline():
                findings = reader.read(clients[installation_id], pulls)
            outcomes |= {pull.id: findings.evaluate(pull, rule) for pull in pulls}
    return RulePreview([(one, outcomes[one.pull.id]) for one in found], total)


def _client_of(uow: UnitOfWork, installation_id: int) -> InstallationClient:
    """Return the client of an installation that spares the quota that is kept for verdicts."""
    client, now = client_of(uow, installation_id), uow.now
    return client.with_hook(lambda *, writes: require_quota(client.budget, now))  # noqa: ARG005 - GitHub is only read


def _judged(one: TrackedPullRequest, rule: RuleInForce, now: datetime, *, self_approval: bool) -> JudgedPull:
    """Return a pull request to be judged by one rule; a head that is not known for long has no label that counts."""
    return JudgedPull(
        id=one.pull.id,
        branch=RuledBranch(one.branch, one.repository, self_approval, {"": [rule]}),
        number=one.pull.number,
        node_id=one.pull.node_id or "",
        head_sha=one.pull.head_sha,
        head_since=one.pull.head_since or now,
        updated_at=now,
        found_at=now,
        trusts_kept=False,
        rank=one.pull.merge_rank,
    )
