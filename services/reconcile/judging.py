"""Judging: the verdict of each head, from facts and leases read in one transaction right before a batch is sent.

Facts are the freezes in force and the exceptions that hold. Exceptions that cannot be read allow nothing; the branches
are then looked at again a little later.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import select, text, tuple_

from integrations.github import CheckState
from models.organizations import Organization
from models.pull_requests import HeadCheck
from models.queries import covering_freezes
from rules.access.entitlements import plan_named
from rules.freezes.check_text import SUPERSEDED_SUMMARY, SUPERSEDED_TITLE, summary, title
from rules.freezes.verdict import Claim, Conclusion, Verdict, judge
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.holding import Covering, Held, held_exceptions
from services.reconcile.claims import look_again, renew
from services.reconcile.doubts import believe
from services.reconcile.following import add_siblings
from services.reconcile.heads import Head, HeadKey, Way

FORGOTTEN = ""
"""The digest of words that are to be written again, whatever the code host shows."""
WORDS = 10
"""What is added to the rank of a head whose verdict stands and whose words are no longer true."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the check of a head has to say now, and whether the code host already says so."""

    head: Head
    conclusion: Conclusion
    title: str
    summary: str
    evaluation: int
    verdict_differs: bool
    text_differs: bool
    adopts: bool = False
    """Whether the code host already says so, as was read back, and our record does not know it."""
    frozen: bool = False
    """Whether a freeze covers a branch that it can be merged into, or could before it was superseded."""
    button: bool = False
    """Whether the check has a button to request an exception with."""

    @property
    def differs(self) -> bool:
        """Whether anything has to be written."""
        return self.verdict_differs or self.text_differs

    @property
    def urgency(self) -> int:
        """Place in the queue of writes, 0 first: what changes a verdict, the most mergeable first, then words."""
        return self.head.rank if self.verdict_differs else WORDS + self.head.rank

    @property
    def summary_hash(self) -> str:
        """What is compared to find out whether the words are still true."""
        return summary_hash(self.title, self.summary)


def external_id(branch_id: str, evaluation: int, words: str) -> str:
    """Return what a check carries for us: on whose account and by which evaluation it was written, and its words."""
    return f"{branch_id}/{evaluation}/{words}"


def words_of(check: CheckState) -> str | None:
    """Return the digest of a check's words, or None for one that does not tell."""
    parts = (check.external_id or "").split("/")
    return parts[2] if len(parts) == 3 else None


def summary_hash(heading: str, body: str) -> str:
    """Return a short digest of a check's words."""
    return hashlib.blake2b(f"{heading}\n{body}".encode(), digest_size=12).hexdigest()


def decide(uow: UnitOfWork, token: str, heads: Sequence[Head]) -> list[Decision]:
    """Judge the heads whose branches are still leased to `token`; prolongs those leases.

    Heads of a branch whose lease is gone are left out: whoever holds it now decides. Of a head that a sibling branch
    shares, what another worker has seen there since we looked counts as well: nobody else would turn it back.
    """
    held = renew(uow, token, sorted({head.branch_id for head in heads}))
    uow.refresh_now()
    mine = [head for head in heads if head.branch_id in held]
    add_siblings(uow, {head.key: head for head in mine})
    branch_ids = {way.branch_id for head in mine for way in head.ways} | {head.branch_id for head in mine}
    facts = _read(uow, mine, branch_ids)
    if not facts.exceptions.readable:
        look_again(uow, held)
    written = _written(uow, [head.key for head in mine])
    evaluation = uow.session.scalar(text("SELECT nextval('evaluations')")) if mine else 0
    decisions = [_decision(head, facts, written.get(head.key), int(evaluation or 0)) for head in mine]
    doubtful = {key for key, row in written.items() if row.doubtful}
    believe(
        uow,
        (one.head for one in decisions if one.head.read_back and not one.verdict_differs and one.head.key in doubtful),
    )
    return decisions


@dataclass(frozen=True, slots=True)
class _Facts:
    """What verdicts are made of."""

    freezes: Covering
    exceptions: Held
    entitled: Collection[str]
    """The organisations whose plan has exceptions."""

    def claim(self, head: Head, way: Way) -> Claim:
        """Return what a way of a head says, exceptions included."""
        base = (way.branch_id, way.branch)
        if way.queued or way.numbers is None:
            return self.exceptions.claim_of_group(base, way.numbers, self.freezes)
        return self.exceptions.claim(base, way.numbers[0], head.key.sha, self.freezes)


def _read(uow: UnitOfWork, heads: Sequence[Head], branch_ids: Collection[str]) -> _Facts:
    freezes = covering_freezes(uow.session, branch_ids, uow.now)
    exceptions = held_exceptions(uow.session, freezes, uow.now)
    of = {head.organization_id for head in heads} if freezes else set()
    plans = uow.session.execute(select(Organization.id, Organization.plan).where(Organization.id.in_(of))) if of else ()
    return _Facts(freezes, exceptions, {one for one, plan in plans if "pr_exceptions" in plan_named(plan).entitlements})


def _written(uow: UnitOfWork, keys: Sequence[HeadKey]) -> dict[HeadKey, HeadCheck]:
    columns = tuple_(HeadCheck.repository_id, HeadCheck.check_name, HeadCheck.head_sha)
    wanted = [(key.repository_id, key.check_name, key.sha) for key in keys]
    rows = uow.session.scalars(select(HeadCheck).where(columns.in_(wanted)))
    return {HeadKey(row.repository_id, row.check_name, row.head_sha): row for row in rows}


def _decision(head: Head, facts: _Facts, written: HeadCheck | None, evaluation: int) -> Decision:
    said = _verdict(head, facts)
    conclusion = said.conclusion
    shown = written.conclusion if written and not written.doubtful else None
    if head.read_back:
        shown = head.shown.conclusion if head.shown is not None and head.shown.status == "completed" else None
    words = summary_hash(said.title, said.summary)
    recorded = None if written is None else written.summary_hash
    known = recorded if head.shown is None or recorded == FORGOTTEN else words_of(head.shown) or recorded
    verdict_differs, text_differs = shown != conclusion, bool(head.ways) and known != words
    stale = written is None or (written.conclusion, recorded) != (conclusion, words)
    adopts = stale and head.shown is not None and not verdict_differs and not text_differs
    frozen = any(facts.freezes.get(branch_id) for branch_id in (head.branch_id, *(way.branch_id for way in head.ways)))
    return Decision(
        head,
        conclusion,
        said.title,
        said.summary,
        evaluation,
        verdict_differs,
        text_differs,
        adopts=adopts,
        frozen=frozen,
        button=said.button,
    )


@dataclass(frozen=True, slots=True)
class _Said:
    """What a check says."""

    conclusion: Conclusion
    title: str
    summary: str
    button: bool = False


def _verdict(head: Head, facts: _Facts) -> _Said:
    if not head.ways:
        return _Said("failure", SUPERSEDED_TITLE, SUPERSEDED_SUMMARY)
    verdict = judge(facts.claim(head, way) for way in head.ways)
    button = _can_ask(head, verdict, facts)
    return _Said(verdict.conclusion, title(verdict), summary(verdict, button=button), button)


def _can_ask(head: Head, verdict: Verdict, facts: _Facts) -> bool:
    """Tell whether an exception would help, and may be had: of a queue's own commit nobody asks for one."""
    asked = verdict.blocking and verdict.exceptions_allowed and head.organization_id in facts.entitled
    return bool(asked) and any(not way.queued for way in head.ways)
