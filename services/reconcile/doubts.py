"""Doubts: heads that may show a `success` which nobody has recorded.

The intent to write a `success` is committed before it is sent, and taken back when it is recorded. Whatever happens in
between (a lost answer, a lost lease, a killed worker) leaves a doubt, and a doubtful head is written anew, or demoted
if nobody can merge it any more. A read-back that finds the right verdict ends the doubt as well.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork
from services.reconcile.heads import Head, HeadKey

_DOUBT = text("""
    INSERT INTO head_checks (repository_id, check_name, head_sha, organization_id, branch_id, conclusion, evaluation,
                             summary_hash, followed, doubtful, written_at)
    SELECT n.repository, n.name, n.sha, n.organization, n.branch, 'failure', 0, '', n.followed, true, :now
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]),
                CAST(:organizations AS text[]), CAST(:branches AS text[]), CAST(:followed AS boolean[]))
         AS n (repository, name, sha, organization, branch, followed)
    ORDER BY n.repository, n.name, n.sha
    ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE SET doubtful = true
""")
_BELIEVE = text("""
    UPDATE head_checks h SET doubtful = false
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha AND h.doubtful
""")


def columns(keys: Iterable[HeadKey]) -> Mapping[str, list[str]]:
    """Return keys as the arrays that a statement takes."""
    listed = list(keys)
    return {
        "repositories": [key.repository_id for key in listed],
        "names": [key.check_name for key in listed],
        "shas": [key.sha for key in listed],
    }


def doubt(uow: UnitOfWork, heads: Iterable[Head]) -> None:
    """Say that these heads may show a `success` from now on, until it is recorded."""
    listed = list(heads)
    if listed:
        uow.session.execute(
            _DOUBT,
            {
                **columns(head.key for head in listed),
                "organizations": [head.organization_id for head in listed],
                "branches": [head.branch_id for head in listed],
                "followed": [bool(head.ways) for head in listed],
                "now": uow.now,
            },
        )


def believe(uow: UnitOfWork, heads: Iterable[Head]) -> None:
    """End the doubt about heads that were read back and found to be right."""
    listed = list(heads)
    if listed:
        uow.session.execute(_BELIEVE, columns(head.key for head in listed))
