"""Evaluation: the verdict of each head, from the facts read in one transaction before each batch.

Exceptions that cannot be read allow nothing; the checks are then read back a little later.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy import ARRAY, Text, and_, bindparam, func, select, text

from integrations.github import CheckState
from models.pull_requests import HeadCheck
from models.queries import audiences
from models.schedule_queries import planned_windows
from rules.freezes.check_text import EVERYWHERE, SUPERSEDED_SUMMARY, SUPERSEDED_TITLE, Audience, summary, title
from rules.freezes.verdict import Conclusion, MergeCandidate, Verdict, judge, judge_for_pattern
from rules.time.planned_windows import PlannedWindow
from rules.web_addresses import WebOrigin
from services.core.database_identity import IS_CONFIRMED
from services.core.plan_grants import plan_grants
from services.core.unit_of_work import UnitOfWork
from services.reconcile.heads import Head, HeadKey, MergePath, key_columns
from services.reconcile.leases import LeasedTransaction
from services.verdicts.facts import (
    ActiveExceptions,
    ClosedPatterns,
    FreezesByBranch,
    active_exceptions,
    freezes_of,
)

TEXT_ONLY_PENALTY = 10
"""Added to the rank of a head whose verdict stands and only whose text is outdated."""


@dataclass(frozen=True, slots=True)
class CheckUpdate:
    """What the check of a head has to say now, and whether GitHub already shows it."""

    head: Head
    conclusion: Conclusion
    title: str
    summary: str
    summary_hash: str
    """By which an outdated text is found."""
    evaluation: int
    verdict_differs: bool
    text_differs: bool
    is_recorded: bool
    """Whether our record of it says this."""
    read_again: bool = False
    """Whether what is known of it may be out of date: a write is under way, or exceptions could not be read."""
    frozen: bool = False
    """Whether a freeze covers a branch that the head can be merged into, could before it was superseded, or could be
    proposed for under the check of a pattern, which alone protects it."""
    button: bool = False
    """Whether the check has a button that requests an exception."""
    withheld: bool = False
    """Whether it must not be written: it says `success`, and the restore of the database is not confirmed."""

    @property
    def differs(self) -> bool:
        """Whether anything has to be written."""
        return self.verdict_differs or self.text_differs

    @property
    def shown(self) -> CheckState | None:
        """The check that was read back, if it says what it should."""
        return None if self.differs else self.head.remote_check

    @property
    def urgency(self) -> int:
        """Place in the order of writes, smallest first: changed verdicts by merge rank, then texts by merge rank."""
        return self.head.rank if self.verdict_differs else TEXT_ONLY_PENALTY + self.head.rank


def summary_hash(heading: str, body: str) -> str:
    """Return a short hash of a check's title and summary."""
    return hashlib.blake2b(f"{heading}\n{body}".encode(), digest_size=12).hexdigest()


@dataclass(slots=True)
class TextFacts:
    """What the texts of checks name besides freezes and exceptions: read once a pass for each frozen branch."""

    planned: dict[str, Sequence[PlannedWindow]] = field(default_factory=dict)
    """The planned windows of frozen branches: until when the text says they are frozen."""
    audiences: dict[str, Audience] = field(default_factory=dict)
    """For whom the checks of each repository are written."""
    branches: set[str] = field(default_factory=set)
    """The frozen branches that were read."""

    def read(self, uow: UnitOfWork, frozen: Collection[str], heads: Sequence[Head]) -> None:
        """Read what is missing of frozen branches, which these heads have."""
        if missing := set(frozen) - self.branches:
            self.branches |= missing
            self.planned.update(planned_windows(uow.session, list(missing), uow.now))
            organizations = {head.key.repository_id: head.organization_id for head in heads}
            grants = plan_grants(uow, set(organizations.values()))
            for repository_id, audience in audiences(uow.session, organizations, uow.ports[WebOrigin].url).items():
                plan = grants[organizations[repository_id]].at(uow.now).plan
                self.audiences[repository_id] = replace(audience, exceptions=plan.includes("pr_exceptions"))


def evaluate(leased: LeasedTransaction, heads: Sequence[Head], texts: TextFacts) -> list[CheckUpdate]:
    """Return the update of each head whose check is held; the other heads are left to the new lease holder.

    While the database counts as restored, every `success` is withheld: GitHub may show freezes that the database does
    not have any more.
    """
    uow = leased.uow
    evaluation, may_release = uow.refresh_now(_EVALUATION)
    own = [head for head in heads if head.check_id in leased.held]
    if not own:
        return []
    updates = _updates(uow, own, texts, evaluation, leased.lease.acquired_at)
    if may_release:
        return updates
    return [replace(one, withheld=one.differs and one.conclusion == "success") for one in updates]


def preview(uow: UnitOfWork, heads: Sequence[Head]) -> list[CheckUpdate]:
    """Return what each head's check would be made to say, without leases, in order to show it and not to write it."""
    return _updates(uow, heads, TextFacts(), 0, uow.now)


def _updates(
    uow: UnitOfWork, heads: Sequence[Head], texts: TextFacts, evaluation: int, acquired_at: datetime
) -> list[CheckUpdate]:
    facts = _read_facts(uow, heads, texts)
    rows = uow.session.scalars(_RECORDED, key_columns([head.key for head in heads]))
    recorded = {HeadKey(row.repository_id, row.check_name, row.head_sha): row for row in rows}
    for head in heads:
        head.recorded = recorded.get(head.key)
    return [_update(head, facts, evaluation, acquired_at) for head in heads]


_EVALUATION = text(f"SELECT clock_timestamp(), nextval('evaluations'), {IS_CONFIRMED}")


@dataclass(frozen=True, slots=True)
class _Facts:
    """What verdicts are made of."""

    freezes: FreezesByBranch
    exceptions: ActiveExceptions
    closed: ClosedPatterns
    """The patterns whose checks protect a frozen branch that has no rule of its own."""
    texts: TextFacts

    def audience(self, head: Head) -> Audience:
        """Return for whom the check of a head is written."""
        return self.texts.audiences.get(head.key.repository_id, EVERYWHERE)

    def verdict(self, head: Head) -> Verdict:
        """Return the verdict of a head under the name of its check."""
        candidates = [self.candidate(head, path) for path in head.paths]
        if not head.key.of_pattern:
            return judge(candidates)
        pattern = (head.key.repository_id, head.key.check_name)
        return judge_for_pattern(candidates, self.closed.get(pattern, {}))

    def candidate(self, head: Head, path: MergePath) -> MergeCandidate:
        """Return a merge path of a head with the freezes and exceptions that apply to it."""
        base = (path.branch_id, path.branch)
        if path.queued or path.numbers is None:
            candidate = self.exceptions.queue_candidate(base, path.numbers, self.freezes)
        else:
            candidate = self.exceptions.candidate(base, path.numbers[0], head.key.sha, self.freezes)
        return replace(candidate, planned=self.texts.planned.get(path.branch_id, ()))


def _read_facts(uow: UnitOfWork, heads: Sequence[Head], texts: TextFacts) -> _Facts:
    branch_ids = {path.branch_id for head in heads for path in head.paths} | {head.branch_id for head in heads}
    patterns = {(head.key.repository_id, head.key.check_name) for head in heads if head.key.of_pattern}
    freezes, closed = freezes_of(uow, branch_ids, patterns)
    exceptions = active_exceptions(uow.session, freezes, uow.now)
    texts.read(uow, freezes.keys(), heads)
    return _Facts(freezes, exceptions, closed, texts)


# Each column by its name: a prepared statement that returns a whole table fails once a migration has added a column.
_KEYS = (
    func.unnest(*(bindparam(name, type_=ARRAY(Text)) for name in ("repositories", "names", "shas")))
    .table_valued("repository", "name", "sha")
    .render_derived("k")
)
_RECORDED = select(HeadCheck).join(
    _KEYS,
    and_(
        HeadCheck.repository_id == _KEYS.c.repository,
        HeadCheck.check_name == _KEYS.c.name,
        HeadCheck.head_sha == _KEYS.c.sha,
    ),
)


def _update(head: Head, facts: _Facts, evaluation: int, acquired_at: datetime) -> CheckUpdate:
    conclusion, heading, body, button = _content(head, facts)
    text_hash, recorded = summary_hash(heading, body), head.recorded
    covered = {path.branch_id for path in head.paths} | (set() if head.key.of_pattern else {head.branch_id})
    closed = head.key.of_pattern and (head.key.repository_id, head.key.check_name) in facts.closed
    return CheckUpdate(
        head,
        conclusion,
        heading,
        body,
        text_hash,
        evaluation,
        verdict_differs=head.conclusion != conclusion,
        text_differs=bool(head.paths) and head.text_hash != text_hash,
        is_recorded=recorded is not None and (recorded.conclusion, recorded.summary_hash) == (conclusion, text_hash),
        read_again=not facts.exceptions.readable or (recorded is not None and recorded.is_in_flight(acquired_at)),
        frozen=closed or any(facts.freezes.get(branch_id) for branch_id in covered),
        button=button,
    )


def _content(head: Head, facts: _Facts) -> tuple[Conclusion, str, str, bool]:
    """Return what the check of a head says: conclusion, title, summary, and whether it has the button."""
    if not head.paths:
        return "failure", SUPERSEDED_TITLE, SUPERSEDED_SUMMARY, False
    verdict, audience = facts.verdict(head), facts.audience(head)
    button = _can_request_exception(head, verdict, audience)
    text = summary(verdict, audience, numbers=head.numbers, button=button)
    return verdict.conclusion, title(verdict, audience), text, button


def _can_request_exception(head: Head, verdict: Verdict, audience: Audience) -> bool:
    """True if an exception would help and can be requested: never for a commit that only a merge queue has.

    Of the two checks of a head the branch's own one has the button.
    """
    allowed = verdict.blocking and verdict.exceptions_allowed and audience.exceptions
    return bool(allowed) and not head.key.of_pattern and any(not path.queued for path in head.paths)
