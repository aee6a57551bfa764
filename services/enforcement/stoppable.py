"""Which branches a freeze could stop at once, and what is missing on the others: read, judged and counted."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Row, text

from rules.freezes.blocking import BlockingFacts
from rules.freezes.stoppable import STOP_GAPS, StopFacts, stop_gaps
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking_facts import FROM, RULES_KEY

_FACTS = f"""
    {RULES_KEY} AS rules, i.state = 'suspended' AS suspended,
    coalesce(i.permissions ->> 'administration' = 'write', false) AS may_write,
    r.rulesets_authorized_at IS NOT NULL AS authorized, named.last_error_code IS NOT NULL AS failing
"""
_FROM = f"{FROM} LEFT JOIN frozen_branch_rulesets named ON named.repository_id = r.id"
_OF_BRANCHES = text(f"SELECT b.id, {_FACTS} FROM {_FROM} WHERE b.id = ANY(:branches)")  # noqa: S608 - constants of ours
_COUNTS = text(f"""
    SELECT {_FACTS}, count(*) AS branches FROM {_FROM}
    WHERE b.organization_id = :organization AND b.unwatched_at IS NULL AND r.enabled AND r.removed_at IS NULL
    GROUP BY 1, 2, 3, 4, 5
""")  # noqa: S608 - constants of ours


def stoppable(uow: UnitOfWork, branch_ids: Collection[str]) -> Mapping[str, dict[str, Any]]:
    """Return, by branch, `can_stop` and `stop_gaps` as in the contract."""
    rows = uow.session.execute(_OF_BRANCHES, {"branches": list(branch_ids), "now": uow.now}) if branch_ids else ()
    return {row.id: _view(stop_gaps(_facts(row))) for row in rows}


def count_stoppable(uow: UnitOfWork) -> dict[str, Any]:
    """Return the contract's `StopCounts`, of all branches of the organisation that freezes can reach."""
    able, unable, gaps = 0, 0, Counter[str]()
    for row in uow.session.execute(_COUNTS, {"organization": uow.organization, "now": uow.now}):
        missing = stop_gaps(_facts(row))
        if missing:
            unable += row.branches
        else:
            able += row.branches
        for code in missing:
            gaps[code] += row.branches
    shown = sorted(gaps.items(), key=lambda each: (-each[1], list(STOP_GAPS).index(each[0])))
    return {
        "can_stop": able,
        "cannot_stop": unable,
        "gaps": [{"code": code, "branch_count": branches, "message": STOP_GAPS[code]} for code, branches in shown],
    }


def _facts(row: Row[*tuple[Any, ...]]) -> StopFacts:
    return StopFacts(
        BlockingFacts.of_key(row.rules),
        suspended=row.suspended,
        may_write=row.may_write,
        authorized=row.authorized,
        failing=row.failing,
    )


def _view(missing: Collection[str]) -> dict[str, Any]:
    shown = [{"code": code, "message": STOP_GAPS[code]} for code in missing]
    return {"can_stop": not missing, "stop_gaps": shown}
