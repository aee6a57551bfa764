"""Records of checks: what `head_checks` says of the checks that were written, or read back.

A record is never replaced by that of an older evaluation (I2). Where two workers may have written one head, the record
may not be what GitHub shows; the head is then read back.
"""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork
from services.reconcile.evaluation import CheckUpdate
from services.reconcile.heads import Head, HeadKey
from services.reconcile.leases import LeasedTransaction
from services.reconcile.read_backs import read_back_heads
from services.reconcile.tracked_heads import add_sibling_paths
from services.reconcile.write_intents import MAY_ARRIVE, end_write_intents, key_columns, lease_columns

_RECORD = text(f"""
    INSERT INTO head_checks AS h (repository_id, check_name, head_sha, organization_id, branch_id, conclusion,
                                  evaluation, check_run_id, summary_hash, tracked, written_at)
    VALUES (:repository, :name, :sha, :organization, :branch, :conclusion, :evaluation, :run, :digest, :tracked, :now)
    ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE
    SET branch_id = excluded.branch_id, conclusion = excluded.conclusion, evaluation = excluded.evaluation,
        check_run_id = excluded.check_run_id, summary_hash = excluded.summary_hash, tracked = excluded.tracked,
        unconfirmed = {MAY_ARRIVE},
        intent_leases = array_remove(h.intent_leases, :lease),
        written_at = excluded.written_at
    WHERE h.evaluation < excluded.evaluation
""")  # noqa: S608 - a constant of ours
# A head that two branches share under one name can be written on account of either, by two workers at once. GitHub
# shows the run that it numbered last; where that is not the one that was evaluated last, it shows an older verdict.
_OVERTAKEN = text("""
    SELECT h.repository_id, h.check_name, h.head_sha, (h.evaluation > k.evaluation) <> (h.check_run_id > k.run)
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]),
                CAST(:evaluations AS bigint[]), CAST(:runs AS bigint[])) AS k (repository, name, sha, evaluation, run)
    JOIN head_checks h ON h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha
    WHERE h.evaluation > k.evaluation OR h.evaluation < k.evaluation AND h.check_run_id > k.run
    ORDER BY h.repository_id, h.check_name, h.head_sha FOR UPDATE OF h
""")


def record_writes(leased: LeasedTransaction, written: Sequence[tuple[CheckUpdate, int | None]]) -> None:
    """Record the updates that GitHub has accepted, with their check runs, for the branches that are held.

    A head that another worker has written on account of a sibling branch is read back at once if the two writes arrived
    in another order than they were evaluated in, or if that worker has mirrored a path into the sibling since the
    evaluation: it may have found then that nothing was to be written.
    """
    held = [(update, run) for update, run in written if update.head.branch_id in leased.held]
    if held:
        entered = _find_new_paths(leased.uow, [update.head for update, _run in held])
        overtaken = _find_overtaken(leased.uow, held)
        leased.uow.session.execute(_RECORD, [_row(leased, update, run) for update, run in held])
        end_write_intents(leased, (head for head, _out_of_order in overtaken))
        out_of_order = {head.key: head for head, is_out_of_order in overtaken if is_out_of_order}
        read_back_heads(leased.uow, list((entered | out_of_order).values()))


def record_readings(leased: LeasedTransaction, updates: Sequence[CheckUpdate]) -> None:
    """Record the checks that were read back, say what they should, and are not what we have recorded."""
    read = [(update, update.head.remote_check) for update in updates if update.matches_remote]
    record_writes(leased, [(update, check.id) for update, check in read if check is not None])


def _find_new_paths(uow: UnitOfWork, heads: Iterable[Head]) -> dict[HeadKey, Head]:
    """Add the paths into sibling branches that were mirrored since the evaluation; return the heads that have some."""
    shared = {head.key: head for head in heads if head.key.of_pattern}
    if not shared:
        return {}
    before = {key: len(head.paths) for key, head in shared.items()}
    add_sibling_paths(uow, shared)
    return {key: head for key, head in shared.items() if len(head.paths) > before[key]}


def _find_overtaken(uow: UnitOfWork, written: Sequence[tuple[CheckUpdate, int | None]]) -> list[tuple[Head, bool]]:
    """Return the heads that another worker has recorded as evaluated or written later.

    With each goes whether its last check run at GitHub is not that of the last evaluation.
    """
    heads = {update.head.key: update.head for update, _run in written}
    values = {
        **key_columns(update.head.key for update, _run in written),
        "evaluations": [update.evaluation for update, _run in written],
        "runs": [run for _update, run in written],
    }
    rows = uow.session.execute(_OVERTAKEN, values)
    return [(heads[HeadKey(*key)], bool(out_of_order)) for *key, out_of_order in rows]


def _row(leased: LeasedTransaction, update: CheckUpdate, run: int | None) -> Mapping[str, object]:
    key = update.head.key
    return {
        "repository": key.repository_id,
        "name": key.check_name,
        "sha": key.sha,
        "organization": update.head.organization_id,
        "branch": update.head.branch_id,
        "conclusion": update.conclusion,
        "evaluation": update.evaluation,
        "run": run,
        "digest": update.summary_hash,
        "tracked": bool(update.head.paths),
        "now": leased.uow.now,
        **lease_columns(leased.lease),
    }
