"""Exempt heads: the commits that exceptions let into stopped branches, which get the context of the stop.

A rule asks for the context *and* for the check of the branch, so a commit that ceases to be exempt is blocked by its
check alone, and nothing has to be taken back. But the context counts for all branches of the ruleset: a commit gets it
only if it may enter each of them, or has no `success` of the check that decides there.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Row, select, text

from integrations.github import CheckWrite, GitHubError, InstallationClient
from models.pull_requests import QueuedCommit
from rules.freezes.check_text import EXEMPT_SUMMARY, EXEMPT_TITLE
from rules.freezes.pull_references import page_of_pulls
from services.core.unit_of_work import UnitOfWork
from services.enforcement.ruleset_facts import RulesetFacts
from services.verdicts.facts import active_exceptions, freezes_of

logger = logging.getLogger(__name__)

_STANDING = text("""
    SELECT h.head_sha, b.id FROM watched_branches b
    LEFT JOIN branch_enforcement seen ON seen.branch_id = b.id
    JOIN head_checks h ON h.repository_id = b.repository_id AND h.head_sha = ANY(:shas)
         AND h.check_name = coalesce(seen.decisive_check, b.check_name)
         AND (h.conclusion = 'success' OR h.unconfirmed)
    WHERE b.id = ANY(:branches)
""")


Commit = tuple[str, str]
"""Our id of the repository, and the SHA."""


@dataclass(frozen=True, slots=True)
class ExemptHead:
    """A commit that has to get the context of a stop."""

    facts: RulesetFacts
    """Of the ruleset that requires it, or will."""
    context: str
    commit: Commit
    numbers: tuple[int, ...] = ()
    """Of the pull requests that would be merged with it, in order."""

    @property
    def key(self) -> str:
        """What is recorded of it."""
        return key_of(self.commit)


def key_of(commit: Commit) -> str:
    """Return what is recorded of a commit that got the context of a stop (`stop_passed`)."""
    return ":".join(commit)


def exempt_heads(uow: UnitOfWork, rulesets: Sequence[RulesetFacts]) -> dict[str, dict[Commit, tuple[int, ...]]]:
    """Return, by key of the ruleset, the commits that may have the context of a stop of its frozen branches, in order.

    Each has the numbers of the pull requests that would be merged with it. Where a ruleset covers several repositories,
    each commit of one counts for the branches of that one.
    """
    names = {branch.id: branch.name for facts in rulesets for branch in facts.frozen}
    places = {branch.id: (facts.key, branch.repository_id) for facts in rulesets for branch in facts.frozen}
    freezes, _closed = freezes_of(uow, names, ())
    exceptions = active_exceptions(uow.session, freezes, uow.now)
    if not exceptions.rows:
        return {}
    entering: defaultdict[tuple[tuple[str, str], str], set[str]] = defaultdict(set)
    merged: defaultdict[tuple[tuple[str, str], str], set[int]] = defaultdict(set)
    for (branch_id, number), rows in exceptions.rows.items():
        sha = rows[0].head_sha
        if not exceptions.candidate((branch_id, names[branch_id]), number, sha, freezes).blocking():
            entering[places[branch_id], sha].add(branch_id)
            merged[places[branch_id], sha].add(number)
    for branch_id, sha, numbers in _queued(uow, names):
        if not exceptions.queue_candidate((branch_id, names[branch_id]), numbers, freezes).blocking():
            entering[places[branch_id], sha].add(branch_id)
            merged[places[branch_id], sha].update(numbers or ())
    standing: defaultdict[tuple[tuple[str, str], str], set[str]] = defaultdict(set)
    values = {"shas": [sha for _place, sha in entering], "branches": list(names)}
    for sha, branch_id in uow.session.execute(_STANDING, values):
        standing[places[branch_id], sha].add(branch_id)
    found: defaultdict[str, dict[Commit, tuple[int, ...]]] = defaultdict(dict)
    for (place, sha), branch_ids in sorted(entering.items()):
        if standing[place, sha] <= branch_ids:
            key, repository_id = place
            found[key][repository_id, sha] = tuple(sorted(merged[place, sha]))
    return found


def _queued(uow: UnitOfWork, branch_ids: Collection[str]) -> Sequence[Row[str, str, list[int] | None]]:
    """Return the commits of the merge queues of branches, with the pull requests that would be merged with each."""
    queued = select(QueuedCommit.branch_id, QueuedCommit.head_sha, QueuedCommit.numbers)
    return uow.session.execute(queued.where(QueuedCommit.branch_id.in_(list(branch_ids)))).all()


def write_contexts(client: InstallationClient, heads: Sequence[ExemptHead], web_url: str) -> list[ExemptHead]:
    """Write the contexts on a batch of commits; return those that got it.

    Each leads to the page of its pull requests, at the address of our pages.
    """
    writes = [
        CheckWrite(
            repository_node_id=head.facts.repositories[head.commit[0]].node_id,
            name=head.context,
            head_sha=head.commit[1],
            conclusion="success",
            title=EXEMPT_TITLE,
            summary=EXEMPT_SUMMARY,
            external_id="",
            details_url=page_of_pulls(web_url, head.commit[0], head.numbers),
        )
        for head in heads
    ]
    try:
        results = client.write_checks(writes)
    except GitHubError as error:
        logger.warning("%d exempt heads have no context of their stop yet: %s", len(heads), error)
        return []
    return [head for head, result in zip(heads, results, strict=True) if result.error is None]


def record_passed(uow: UnitOfWork, heads: Sequence[ExemptHead]) -> None:
    """Record the commits that got the context of a stop that is, or is about to be, on."""
    for head in heads:
        row = head.facts.row(uow)
        if row.stop_context == head.context:
            row.stop_passed = sorted({*row.stop_passed, head.key})
