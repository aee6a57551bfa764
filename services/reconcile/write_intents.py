"""Write intents: heads on which GitHub may show a `success` that is not recorded.

The intent to write a `success` is committed before the call, and cleared when the result is recorded. Whatever happens
in between (a lost response, a lost lease, a killed worker) leaves the head unconfirmed. An unconfirmed head is written
again, or demoted if nothing can merge it any more. Reading back what is recorded confirms it as well.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork
from services.reconcile.heads import Head, HeadKey

_MARK = text("""
    INSERT INTO head_checks (repository_id, check_name, head_sha, organization_id, branch_id, conclusion, evaluation,
                             summary_hash, tracked, unconfirmed, written_at)
    SELECT n.repository, n.name, n.sha, n.organization, n.branch, 'failure', 0, '', n.tracked, true, :now
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]),
                CAST(:organizations AS text[]), CAST(:branches AS text[]), CAST(:tracked AS boolean[]))
         AS n (repository, name, sha, organization, branch, tracked)
    ORDER BY n.repository, n.name, n.sha
    ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE SET unconfirmed = true
""")
_CLEAR = text("""
    UPDATE head_checks h SET unconfirmed = false
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha AND h.unconfirmed
""")


def key_columns(keys: Iterable[HeadKey]) -> Mapping[str, list[str]]:
    """Return keys as the arrays that a statement takes."""
    listed = list(keys)
    return {
        "repositories": [key.repository_id for key in listed],
        "names": [key.check_name for key in listed],
        "shas": [key.sha for key in listed],
    }


def mark_write_intents(uow: UnitOfWork, heads: Iterable[Head]) -> None:
    """Mark heads that may show a `success` from now on as unconfirmed, until the write is recorded."""
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
            },
        )


def clear_write_intents(uow: UnitOfWork, heads: Iterable[Head]) -> None:
    """Confirm heads that were read back and show the right verdict."""
    listed = list(heads)
    if listed:
        uow.session.execute(_CLEAR, key_columns(head.key for head in listed))
