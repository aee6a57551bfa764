"""Judging: the verdict of each head, from facts and leases read in one transaction right before a batch is sent."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select, text, tuple_

from integrations.github import CheckState
from models.pull_requests import HeadCheck
from models.queries import covering_freezes
from rules.check_text import SUPERSEDED_SUMMARY, SUPERSEDED_TITLE, summary, title
from rules.verdict import Claim, Conclusion, CoveringFreeze, judge
from services.reconcile.claims import renew
from services.reconcile.doubts import believe
from services.reconcile.heads import Head, HeadKey
from services.unit import Unit

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


def decide(unit: Unit, token: str, heads: Sequence[Head]) -> list[Decision]:
    """Judge the heads whose branches are still leased to `token`; prolongs those leases.

    Heads of a branch whose lease is gone are left out: whoever holds it now decides.
    """
    held = renew(unit, token, sorted({head.branch_id for head in heads}))
    unit.catch_up()
    mine = [head for head in heads if head.branch_id in held]
    branch_ids = {way.branch_id for head in mine for way in head.ways} | {head.branch_id for head in mine}
    freezes = covering_freezes(unit.session, branch_ids, unit.now)
    written = _written(unit, [head.key for head in mine])
    evaluation = unit.session.scalar(text("SELECT nextval('evaluations')")) if mine else 0
    decisions = [_decision(head, freezes, written.get(head.key), int(evaluation or 0)) for head in mine]
    doubtful = {key for key, row in written.items() if row.doubtful}
    believe(
        unit,
        (one.head for one in decisions if one.head.read_back and not one.verdict_differs and one.head.key in doubtful),
    )
    return decisions


def _written(unit: Unit, keys: Sequence[HeadKey]) -> dict[HeadKey, HeadCheck]:
    columns = tuple_(HeadCheck.repository_id, HeadCheck.check_name, HeadCheck.head_sha)
    wanted = [(key.repository_id, key.check_name, key.sha) for key in keys]
    rows = unit.session.scalars(select(HeadCheck).where(columns.in_(wanted)))
    return {HeadKey(row.repository_id, row.check_name, row.head_sha): row for row in rows}


def _decision(
    head: Head, freezes: Mapping[str, Sequence[CoveringFreeze]], written: HeadCheck | None, evaluation: int
) -> Decision:
    conclusion, heading, body = _verdict(head, freezes)
    shown = written.conclusion if written and not written.doubtful else None
    if head.read_back:
        shown = head.shown.conclusion if head.shown is not None and head.shown.status == "completed" else None
    words = summary_hash(heading, body)
    recorded = None if written is None else written.summary_hash
    known = recorded if head.shown is None or recorded == FORGOTTEN else words_of(head.shown) or recorded
    verdict_differs, text_differs = shown != conclusion, bool(head.ways) and known != words
    stale = written is None or (written.conclusion, recorded) != (conclusion, words)
    adopts = stale and head.shown is not None and not verdict_differs and not text_differs
    frozen = any(freezes.get(branch_id) for branch_id in (head.branch_id, *(way.branch_id for way in head.ways)))
    return Decision(head, conclusion, heading, body, evaluation, verdict_differs, text_differs, adopts, frozen)


def _verdict(head: Head, freezes: Mapping[str, Sequence[CoveringFreeze]]) -> tuple[Conclusion, str, str]:
    if not head.ways:
        return "failure", SUPERSEDED_TITLE, SUPERSEDED_SUMMARY
    verdict = judge(
        Claim(
            way.branch,
            way.numbers[-1] if way.numbers else None,
            freezes.get(way.branch_id, ()),
            members_known=way.numbers is not None,
        )
        for way in head.ways
    )
    return verdict.conclusion, title(verdict), summary(verdict)
