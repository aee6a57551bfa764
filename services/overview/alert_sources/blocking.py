"""Alerts about frozen branches that GitHub does not wholly block: one for each cause, whatever number of branches.

Checks that are being written have none, and those that could not be written, or that no worker writes, have alerts of
their own (`failed_targets`, `enforcement_late`).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from models.freezes import IN_FORCE
from rules.freezes.blocking import CAUSES, GAPS, WAYS, BlockingFacts, State, cause_of, state_of
from rules.web_addresses import BRANCHES, ENFORCEMENT_SETUP, INSTALLED, STATUS
from services.alerts.alerts import Severity
from services.verdicts.blocking_facts import BEGUN_FROZEN_KEY, FROM, WAITS_FOR, keys_where

_WAITS = "what it waits for"
_WITH_OTHER_ALERTS = ("writing", "github", "no_worker")
_ACTIONS = {"restore": ("Open the status page", STATUS)}
_ACTIONS |= dict.fromkeys(("removed", "suspended"), ("See the installation", INSTALLED))
_ACTIONS |= dict.fromkeys(("no_rule", *WAYS), ("Set up enforcement", ENFORCEMENT_SETUP))
"""What to do about a gap: a label and a page; about the others nothing can be done there."""
_SAID: dict[State, tuple[Severity, str, str]] = {
    "not_blocked": ("critical", "is not blocked", "are not blocked"),
    "unknown": ("warning", "is not known to be blocked", "are not known to be blocked"),
    "partly": ("warning", "is only partly blocked", "are only partly blocked"),
}
"""By state: the severity, and the words for one branch and for several."""


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _facts_in(condition: Callable[[BlockingFacts], bool]) -> str:
    return f"branch.facts = ANY(ARRAY[{', '.join(map(_quoted, keys_where(condition)))}])"


def _choice(of: str, values: dict[str, str]) -> str:
    whens = " ".join(f"WHEN {_quoted(value)} THEN {_quoted(text)}" for value, text in values.items())
    return f"CASE {of} {whens} END"


def _gaps() -> str:
    """Return the expression of the gaps of a branch, as an array of codes."""
    causes = {facts: cause_of(facts, _WAITS) for facts in BlockingFacts.every()}
    constant = [
        f"WHEN {_facts_in(lambda facts, cause=cause: causes[facts] == cause)} THEN ARRAY[{_quoted(cause)}]"  # type: ignore[misc]
        for cause in CAUSES
        if cause in causes.values()
    ]
    waiting = f"WHEN {_facts_in(lambda facts: causes[facts] == _WAITS)} THEN ARRAY[branch.waits_for]"
    partly = f"WHEN {_facts_in(lambda facts: state_of(facts) == 'partly')} THEN branch.ways"
    return f"CASE {' '.join([*constant, waiting, partly])} ELSE '{{}}' END"


def _state_of_gap() -> dict[str, State]:
    unknown = {cause_of(facts, _WAITS) for facts in BlockingFacts.every() if state_of(facts) == "unknown"}
    return {gap: "partly" if gap in WAYS else "unknown" if gap in unknown else "not_blocked" for gap in GAPS}


def severities_of_gaps(gaps: Iterable[str]) -> Counter[Severity]:
    """Return how many alerts of each severity `gaps_of_freezes` has for these gaps of frozen branches."""
    states = _state_of_gap()
    return Counter(_SAID[states[gap]][0] for gap in set(gaps) if gap not in _WITH_OTHER_ALERTS)


def gaps_of_freezes() -> str:
    """Return the query, with the columns of all sources and the parameters `organization`, `now` and `web`.

    Due windows that no process has begun are left out: that none begins them is an alert of its own.
    """
    states = _state_of_gap()
    severity, one, several = (
        _choice("gaps.gap", {gap: _SAID[state][part] for gap, state in states.items()}) for part in range(3)
    )
    acts = {gap: _ACTIONS.get(gap, ("See the watched branches", BRANCHES)) for gap in GAPS}
    labels, pages = ({gap: act[part] for gap, act in acts.items()} for part in range(2))
    skipped = ", ".join(map(_quoted, _WITH_OTHER_ALERTS))
    return f"""
    SELECT 'att_' || left(encode(sha256(convert_to('freeze_gap ' || gaps.gap || ' ' || o.id, 'UTF8')), 'hex'), 26),
           'freeze_gap', {severity}, min(branch.since),
           jsonb_build_object('type', 'organization', 'id', o.id, 'name', o.name),
           concat(count(*), CASE WHEN count(*) = 1 THEN ' frozen branch ' ELSE ' frozen branches ' END,
                  CASE WHEN count(*) = 1 THEN {one} ELSE {several} END, ', such as ', min(branch.name), '. ',
                  {_choice("gaps.gap", dict(GAPS))}),
           jsonb_build_object('label', {_choice("gaps.gap", labels)},
                              'url', CAST(:web AS text) || {_choice("gaps.gap", pages)})
    FROM (
        SELECT r.owner || '/' || r.name || ':' || b.name AS name, covering.since,
               {BEGUN_FROZEN_KEY} AS facts,
               {WAITS_FOR} AS waits_for, coalesce(seen.open_ways, '{{}}') AS ways
        FROM (
            SELECT t.branch_id, min(f.started_at) AS since FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id
            WHERE f.organization_id = :organization AND t.operation = 'apply' AND {IN_FORCE} GROUP BY t.branch_id
        ) covering JOIN {FROM} ON b.id = covering.branch_id
        OFFSET 0 -- else the facts are computed for each condition on them
    ) branch
    CROSS JOIN LATERAL unnest({_gaps()}) AS gaps (gap)
    JOIN organizations o ON o.id = :organization
    WHERE gaps.gap NOT IN ({skipped})
    GROUP BY gaps.gap, o.id, o.name
    """  # noqa: S608 - constants of ours
