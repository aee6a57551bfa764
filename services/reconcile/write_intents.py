"""Write intents: heads on which GitHub may show a `success` that is not recorded.

The intent to write a `success` is committed before the call, and cleared when the result is recorded. Whatever happens
in between (a lost response, a lost lease, a killed worker) leaves the head unconfirmed. An unconfirmed head is written
again, or demoted if nothing can merge it any more. Reading back what is recorded confirms it as well.

The `success` may still be under way when another worker reads or writes the head. So nobody but its sender confirms a
`failure` before it must have arrived, and the branch is read back after that.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import text

from models.pull_requests import HeadCheck
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import LEASE_DURATION, Lease
from services.reconcile.heads import Head, HeadKey
from services.reconcile.leases import LeasedTransaction

# If another `success` may be under way, that of a former lease or of a sibling's, neither sender confirms the head.
_MARK = text("""
    INSERT INTO head_checks AS h (repository_id, check_name, head_sha, organization_id, branch_id, conclusion,
                                  evaluation, summary_hash, tracked, unconfirmed, intent_lease, intent_until,
                                  written_at)
    SELECT n.repository, n.name, n.sha, n.organization, n.branch, 'failure', 0, '', n.tracked, true, :lease, :until,
           :now
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]),
                CAST(:organizations AS text[]), CAST(:branches AS text[]), CAST(:tracked AS boolean[]))
         AS n (repository, name, sha, organization, branch, tracked)
    ORDER BY n.repository, n.name, n.sha
    ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE
    SET unconfirmed = true, intent_until = greatest(h.intent_until, excluded.intent_until),
        intent_lease = CASE WHEN h.intent_until > :now AND h.intent_lease IS DISTINCT FROM excluded.intent_lease
                            THEN NULL ELSE excluded.intent_lease END
""")
MAY_ARRIVE = "coalesce(h.intent_until > :acquired_at AND h.intent_lease IS DISTINCT FROM :lease, false)"
"""SQL: whether a `success` that another lease has sent may have arrived since this lease was acquired, or later."""
_CLEAR = text(f"""
    UPDATE head_checks h SET unconfirmed = false
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha AND h.unconfirmed
      AND (h.conclusion = 'success' OR NOT {MAY_ARRIVE})
""")  # noqa: S608 - a constant of ours
_END = text("""
    UPDATE head_checks h SET intent_lease = NULL, intent_until = NULL
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha AND h.intent_lease = :lease
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
    return row.intent_until is not None and row.intent_until > lease.acquired_at and row.intent_lease != lease.token


def mark_write_intents(leased: LeasedTransaction, heads: Iterable[Head]) -> None:
    """Mark heads as unconfirmed that may show a `success` from now on, until the write is recorded.

    The evaluation begins at `now`, and its write has ended when a lease would that is acquired then.
    """
    uow = leased.uow
    _mark(uow, heads, {"lease": leased.lease.token, "until": uow.now + LEASE_DURATION})


def mark_unconfirmed(uow: UnitOfWork, heads: Iterable[Head]) -> None:
    """Mark heads as unconfirmed on which writes have arrived too late, or in another order than they were evaluated."""
    _mark(uow, heads, {"lease": None, "until": None})


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


def clear_write_intents(leased: LeasedTransaction, heads: Iterable[Head]) -> None:
    """Confirm heads that were read back and show what is recorded, unless another `success` may still arrive."""
    listed = list(heads)
    if listed:
        values = {**key_columns(head.key for head in listed), **lease_columns(leased.lease)}
        leased.uow.session.execute(_CLEAR, values)


def end_write_intents(leased: LeasedTransaction, heads: Iterable[Head]) -> None:
    """Forget until when the writes of this lease may arrive: their answers have come, and are not recorded."""
    listed = list(heads)
    if listed:
        values = {**key_columns(head.key for head in listed), "lease": leased.lease.token}
        leased.uow.session.execute(_END, values)
