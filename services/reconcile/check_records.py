"""Records of checks: what `head_checks` says of a head under one name, before a write is sent and after.

A record is never replaced by that of an older evaluation (I2). One that is *unconfirmed* may not say what GitHub shows;
nothing confirms it before `in_flight_until`, when a write whose result nobody waits for has arrived, if it ever does.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import LEASE_DURATION
from services.reconcile.evaluation import CheckUpdate
from services.reconcile.heads import Head, key_columns
from services.reconcile.leases import LeasedTransaction
from services.reconcile.read_backs import read_back_later

_KEYS = (
    "unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[])) AS k (repository, name, sha)"
)
_IS_KEY = "h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha"
IN_FLIGHT = "coalesce(h.in_flight_until > :acquired_at, false)"
"""SQL: `HeadCheck.is_in_flight`."""
_MARK = text("""
    INSERT INTO head_checks AS h (repository_id, check_name, head_sha, organization_id, branch_id, conclusion,
                                  evaluation, summary_hash, unconfirmed, written_at)
    SELECT n.repository, n.name, n.sha, n.organization, n.branch, 'failure', 0, '', true, :now
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]),
                CAST(:organizations AS text[]), CAST(:branches AS text[]))
         AS n (repository, name, sha, organization, branch)
    ORDER BY n.repository, n.name, n.sha
    ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE SET unconfirmed = true
""")
_MARK_IN_FLIGHT = text(f"""
    UPDATE head_checks h SET in_flight_until = greatest(h.in_flight_until, :until) FROM {_KEYS} WHERE {_IS_KEY}
""")  # noqa: S608 - constants of ours
_CONFIRM = text(f"""
    UPDATE head_checks h SET unconfirmed = false FROM {_KEYS} WHERE {_IS_KEY} AND h.unconfirmed AND NOT {IN_FLIGHT}
""")  # noqa: S608 - constants of ours
_RECORD = text(f"""
    INSERT INTO head_checks AS h (repository_id, check_name, head_sha, organization_id, branch_id, conclusion,
                                  evaluation, check_run_id, summary_hash, written_at)
    VALUES (:repository, :name, :sha, :organization, :branch, :conclusion, :evaluation, :run, :digest, :now)
    ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE
    SET branch_id = excluded.branch_id, conclusion = excluded.conclusion, evaluation = excluded.evaluation,
        check_run_id = excluded.check_run_id, summary_hash = excluded.summary_hash,
        unconfirmed = {IN_FLIGHT}, written_at = excluded.written_at
    WHERE h.evaluation < excluded.evaluation
""")  # noqa: S608 - a constant of ours


def announce(uow: UnitOfWork, heads: Iterable[Head]) -> None:
    """Mark heads as unconfirmed until the results of their writes are recorded, or they are read back."""
    listed = list(heads)
    if listed:
        uow.session.execute(
            _MARK,
            {
                **key_columns(head.key for head in listed),
                "organizations": [head.organization_id for head in listed],
                "branches": [head.branch_id for head in listed],
                "now": uow.now,
            },
        )


def mark_in_flight(uow: UnitOfWork, heads: Iterable[Head]) -> None:
    """Have nothing confirm these heads before what was sent to them just now, and was not answered, has arrived."""
    listed = [head.key for head in heads]
    if listed:
        uow.session.execute(_MARK_IN_FLIGHT, {**key_columns(listed), "until": uow.now + LEASE_DURATION})


def record_writes(leased: LeasedTransaction, written: Sequence[tuple[CheckUpdate, int | None]]) -> None:
    """Record the updates that GitHub has accepted, with their check runs, of the checks that are held."""
    rows = [
        {
            "repository": update.head.key.repository_id,
            "name": update.head.key.check_name,
            "sha": update.head.key.sha,
            "organization": update.head.organization_id,
            "branch": update.head.branch_id,
            "conclusion": update.conclusion,
            "evaluation": update.evaluation,
            "run": run,
            "digest": update.summary_hash,
            "now": leased.uow.now,
            "acquired_at": leased.lease.acquired_at,
        }
        for update, run in written
        if update.head.check_id in leased.held
    ]
    if rows:
        leased.uow.session.execute(_RECORD, rows)


def record_readings(leased: LeasedTransaction, updates: Sequence[CheckUpdate]) -> None:
    """Record what was read back, and have checks read back once more of which not everything is known yet.

    A head that shows what it should and what is recorded is confirmed, unless a write may still arrive. Where our
    record says something else, what was read is recorded if it is what the check should say; if not it is written
    again, and that confirms it: a record that says `failure` must not count as confirmed while GitHub shows a
    `success`.
    """
    shown = [(update, check) for update in updates if (check := update.shown) is not None]
    record_writes(leased, [(update, check.id) for update, check in shown if not update.is_recorded])
    if confirmed := [update.head.key for update, _check in shown if update.is_recorded and update.head.unconfirmed]:
        leased.uow.session.execute(_CONFIRM, {**key_columns(confirmed), "acquired_at": leased.lease.acquired_at})
    read_back_later(leased.uow, {update.head.check_id for update in updates if update.read_again})
