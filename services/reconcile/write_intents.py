"""Write intents: what is committed about a write before it is sent, so that one whose result is lost leaves a trace.

Whatever may open a head that should be closed is announced: each `success`, and whatever is written under the name of a
pattern's check. Three columns of `head_checks` say so:

* `unconfirmed`: GitHub may show something else than is recorded, above all a `success`;
* `intent_leases`: the leases under which writes were announced whose results are not known;
* `intent_until`: when the last of these writes has arrived, if it ever does.

`mark_write_intents` sets all three. Recording the result ends the intent of its lease, and confirms the head
(`check_records.py`). If that never happens (a lost answer, a lost lease, a killed worker), the head stays unconfirmed:
it is written again, or demoted if nothing can merge it any more, or confirmed by reading back what is recorded.

While the write of one lease may still arrive, no other lease confirms the head, whatever it reads or writes; the branch
is read back after that. What counts is when the other lease was acquired: what it has read may be as old as that.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import text

from models.pull_requests import HeadCheck
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import LEASE_DURATION, Lease
from services.reconcile.heads import Head, HeadKey
from services.reconcile.leases import LeasedTransaction

# Several leases have intents at once after a takeover, and where two workers process siblings.
_MARK = text("""
    INSERT INTO head_checks AS h (repository_id, check_name, head_sha, organization_id, branch_id, conclusion,
                                  evaluation, summary_hash, tracked, unconfirmed, intent_leases, intent_until,
                                  written_at)
    SELECT n.repository, n.name, n.sha, n.organization, n.branch, 'failure', 0, '', n.tracked, true,
           CAST(:leases AS text[]), CAST(:until AS timestamptz), :now
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]),
                CAST(:organizations AS text[]), CAST(:branches AS text[]), CAST(:tracked AS boolean[]))
         AS n (repository, name, sha, organization, branch, tracked)
    ORDER BY n.repository, n.name, n.sha
    ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE
    SET unconfirmed = true, intent_until = greatest(h.intent_until, excluded.intent_until),
        intent_leases = CASE WHEN h.intent_until > :now THEN h.intent_leases ELSE '{}' END || excluded.intent_leases
""")
MAY_ARRIVE = "coalesce(h.intent_until > :acquired_at AND array_remove(h.intent_leases, :lease) <> '{}', false)"
"""SQL: whether a write that another lease has sent may have arrived since this lease was acquired, or may still."""
_CONFIRM = text(f"""
    UPDATE head_checks h SET unconfirmed = false
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha AND h.unconfirmed
      AND NOT {MAY_ARRIVE}
""")  # noqa: S608 - a constant of ours
_END_INTENTS = text("""
    UPDATE head_checks h SET intent_leases = array_remove(h.intent_leases, :lease)
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha
""")


def key_columns(keys: Iterable[HeadKey]) -> Mapping[str, list[str]]:
    """Return keys as the arrays that a statement takes."""
    listed = list(keys)
    return {
        "repositories": [key.repository_id for key in listed],
        "names": [key.check_name for key in listed],
        "shas": [key.sha for key in listed],
    }


def lease_columns(lease: Lease) -> Mapping[str, object]:
    """Return the values that `MAY_ARRIVE` takes."""
    return {"lease": lease.token, "acquired_at": lease.acquired_at}


def may_arrive(row: HeadCheck, lease: Lease) -> bool:
    """Return what `MAY_ARRIVE` says of a row."""
    others = set(row.intent_leases) - {lease.token}
    return bool(others) and row.intent_until is not None and row.intent_until > lease.acquired_at


def mark_write_intents(leased: LeasedTransaction, heads: Iterable[Head]) -> None:
    """Announce writes of these heads, which are then unconfirmed until the results are recorded.

    The evaluation was made at `now`. A write begins `MAX_EVALUATION_AGE` later at most and lasts as long as a call may,
    so it has ended when a lease would that is acquired at `now`.
    """
    uow = leased.uow
    _mark(uow, heads, {"leases": [leased.lease.token], "until": uow.now + LEASE_DURATION})


def mark_unconfirmed(uow: UnitOfWork, heads: Iterable[Head]) -> None:
    """Mark heads whose writes arrived after their leases, or in another order than they were evaluated in."""
    _mark(uow, heads, {"leases": [], "until": None})


def _mark(uow: UnitOfWork, heads: Iterable[Head], intent: Mapping[str, object]) -> None:
    listed = list(heads)
    if listed:
        uow.session.execute(
            _MARK,
            {
                **key_columns(head.key for head in listed),
                "organizations": [head.organization_id for head in listed],
                "branches": [head.branch_id for head in listed],
                "tracked": [bool(head.paths) for head in listed],
                "now": uow.now,
                **intent,
            },
        )


def confirm_heads(leased: LeasedTransaction, heads: Iterable[Head]) -> None:
    """Confirm heads that were read back and show what is recorded, unless a write of another lease may still arrive."""
    listed = list(heads)
    if listed:
        values = {**key_columns(head.key for head in listed), **lease_columns(leased.lease)}
        leased.uow.session.execute(_CONFIRM, values)


def end_write_intents(leased: LeasedTransaction, heads: Iterable[Head]) -> None:
    """End the intents of this lease on heads whose results are known, but not recorded: a newer evaluation is."""
    listed = list(heads)
    if listed:
        values = {**key_columns(head.key for head in listed), "lease": leased.lease.token}
        leased.uow.session.execute(_END_INTENTS, values)
