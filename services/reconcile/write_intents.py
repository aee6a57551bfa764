"""Write intents: heads on which GitHub may show something, above all a `success`, that is not recorded.

The intent to write a `success` is committed before the call, and cleared when the result is recorded; so is that to
write the check of a pattern. Whatever happens in between (a lost response, a lost lease, a killed worker) leaves the
head unconfirmed. An unconfirmed head is written again, or demoted if nothing can merge it any more. Reading back what
is recorded confirms it as well.

The write may still be under way when another worker reads or writes the head. So only its sender confirms the head
before it must have arrived, and the branch is read back after that.
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
_CLEAR = text(f"""
    UPDATE head_checks h SET unconfirmed = false
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha AND h.unconfirmed
      AND NOT {MAY_ARRIVE}
""")  # noqa: S608 - a constant of ours
_END = text("""
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
    """Mark heads as unconfirmed that are about to be written, until the write is recorded.

    The evaluation begins at `now`, and its write has ended when a lease would that is acquired then.
    """
    uow = leased.uow
    _mark(uow, heads, {"leases": [leased.lease.token], "until": uow.now + LEASE_DURATION})


def mark_unconfirmed(uow: UnitOfWork, heads: Iterable[Head]) -> None:
    """Mark heads as unconfirmed on which writes have arrived too late, or in another order than they were evaluated."""
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


def clear_write_intents(leased: LeasedTransaction, heads: Iterable[Head]) -> None:
    """Confirm heads that were read back and show what is recorded, unless another write may still arrive."""
    listed = list(heads)
    if listed:
        values = {**key_columns(head.key for head in listed), **lease_columns(leased.lease)}
        leased.uow.session.execute(_CLEAR, values)


def end_write_intents(leased: LeasedTransaction, heads: Iterable[Head]) -> None:
    """End the intents of this lease on heads whose results are known, and not recorded."""
    listed = list(heads)
    if listed:
        values = {**key_columns(head.key for head in listed), "lease": leased.lease.token}
        leased.uow.session.execute(_END, values)
