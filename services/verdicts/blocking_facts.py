"""The facts from which it follows whether branches are blocked, as expressions of SQL that every statement shares.

Their aliases are `b` (watched_branches), `r` (repositories), `i` (installations), `seen` (branch_enforcement, which may
be missing), `own` and `shared` (its check, and that of its pattern, in `checks`); their parameters are `:now`, and
`:due`: the ids of branches that due windows cover which no process has begun, from which nothing is excepted. The facts
are one text, `BlockingFacts.key`: a statement counts branches by it, and the pure functions of
`rules/freezes/blocking.py` judge each text once. A condition on what they say is the list of the texts of which they
say it (`keys_where`).
"""

from collections.abc import Callable
from typing import LiteralString

from models.exceptions import ACTIVE
from models.freezes import IN_FORCE
from models.predicates import unseen_array
from rules.freezes.blocking import BlockingFacts

FROM: LiteralString = """
    watched_branches b
    JOIN repositories r ON r.id = b.repository_id
    JOIN installations i ON i.id = r.installation_id
    LEFT JOIN branch_enforcement seen ON seen.branch_id = b.id
    LEFT JOIN checks own ON own.branch_id = b.id
    LEFT JOIN checks shared ON shared.repository_id = b.repository_id AND shared.name = b.pattern_check_name
"""
_IS_DUE: LiteralString = f"b.id = ANY({unseen_array('due')})"
IS_COVERED: LiteralString = f"""
    EXISTS (
        SELECT FROM freeze_targets covered JOIN freezes f ON f.id = covered.freeze_id
        WHERE covered.branch_id = b.id AND covered.operation = 'apply' AND {IN_FORCE})
"""
"""Whether a freeze in force covers a branch."""
IS_FROZEN: LiteralString = f"({_IS_DUE} OR {IS_COVERED})"
"""Whether a freeze in force, or a due window, covers a branch."""
FROM_OF_ALL: LiteralString = f"""
    {FROM} LEFT JOIN (
        SELECT DISTINCT covered.branch_id FROM freezes f JOIN freeze_targets covered ON covered.freeze_id = f.id
        WHERE f.organization_id = :organization AND covered.operation = 'apply' AND {IN_FORCE}
    ) covering ON covering.branch_id = b.id
    CROSS JOIN LATERAL (SELECT {_IS_DUE} OR covering.branch_id IS NOT NULL AS is_frozen OFFSET 0) frozen
"""  # noqa: S608 - constants of ours
"""The same of all branches of `:organization`, with `is_frozen`, read by one join instead of branch by branch."""

# Of a freeze without an exception that lets this commit in. The commit of a merge queue is the head of no pull request:
# once the verdicts of its check are written, it has a `success` only if exceptions let all of its members in.
_NOT_EXCEPTED: LiteralString = f"""
    EXISTS (
        SELECT FROM freeze_targets covered JOIN freezes f ON f.id = covered.freeze_id
        WHERE covered.branch_id = b.id AND covered.operation = 'apply' AND {IN_FORCE} AND NOT EXISTS (
            SELECT FROM exceptions e JOIN pull_requests p ON p.id = e.pull_request_id
            WHERE e.freeze_id = f.id AND e.branch_id = b.id AND {ACTIVE} AND (
                h.head_sha = CASE WHEN e.pin_to_head THEN coalesce(e.head_sha, '') ELSE p.head_sha END
                OR EXISTS (
                    SELECT FROM checks c WHERE c.repository_id = h.repository_id AND c.name = h.check_name
                      AND c.wanted_generation = c.written_generation
                ) AND NOT EXISTS (
                    SELECT FROM pull_requests known
                    WHERE known.repository_id = h.repository_id AND known.head_sha = h.head_sha
                      AND known.state = 'open')))
    )
"""  # noqa: S608 - constants of ours
_STANDS: LiteralString = """
        SELECT FROM head_checks h
        WHERE h.repository_id = b.repository_id AND h.check_name = coalesce(seen.decisive_check, b.check_name)
          AND (h.conclusion = 'success' OR h.unconfirmed)
"""
STANDING: LiteralString = f"EXISTS ({_STANDS} AND ({_IS_DUE} OR {_NOT_EXCEPTED}))"
"""Whether a commit that no exception lets in has our `success`, or may still get it, on a branch that is frozen."""


def _key(standing: LiteralString, is_open: LiteralString) -> LiteralString:
    """Return the expression of `BlockingFacts.key`."""
    return f"""
    CASE WHEN seen.rules_read_at IS NULL THEN 'none'
         WHEN seen.rules_read_at < CAST(:now AS timestamptz) - interval '30 minutes' THEN 'old'
         WHEN seen.rules_read_at < seen.rules_reported_at
              AND seen.rules_reported_at < CAST(:now AS timestamptz) - interval '5 seconds' THEN 'old'
         ELSE 'current' END
    || CASE WHEN i.state = 'removed' OR r.removed_at IS NOT NULL THEN '1' ELSE '0' END
    || CASE WHEN r.archived THEN '1' ELSE '0' END
    || CASE WHEN seen.decisive_check IS NOT NULL THEN '1' ELSE '0' END
    || CASE WHEN {standing} THEN '1' ELSE '0' END
    || CASE WHEN {is_open} THEN '1' ELSE '0' END
    || CASE WHEN seen.stop IS NOT NULL THEN '1' ELSE '0' END
"""


FROZEN_KEY: LiteralString = _key(STANDING, "seen.open_ways <> '{}'")
"""The facts of a branch that is frozen."""
BEGUN_FROZEN_KEY: LiteralString = FROZEN_KEY.replace(_IS_DUE, "false")
"""The same of a branch that a freeze in force covers."""
FROZEN_KEY_WITHOUT_EXCEPTIONS: LiteralString = _key(f"EXISTS ({_STANDS})", "seen.open_ways <> '{}'")
"""The same where exceptions cannot be read: they let nothing in."""
RULES_KEY: LiteralString = _key("false", "false")
"""What is known of the rules of any branch, without what checks say and whether a way is open."""
_READ: LiteralString = "seen.rules_read_at"
FACTS_UNTIL: LiteralString = f"""
    CASE WHEN EXISTS ({_STANDS}) THEN CAST(:now AS timestamptz)
         WHEN {_READ} >= CAST(:now AS timestamptz) - interval '30 minutes' THEN least(
             {_READ} + interval '30 minutes',
             CASE WHEN seen.rules_reported_at >= CAST(:now AS timestamptz) - interval '5 seconds'
                  THEN seen.rules_reported_at + interval '5 seconds' END) END
"""
"""Until when the facts of a frozen branch stay as they are, unless the version of freezes changes (`FreezeVersion`).

Null: without an end. What is read ages, and a report may outdate it. While a `success` stands they may change at any
time: exceptions decide then, and verdicts are written, which is nothing that raises the version.
"""
KEY: LiteralString = _key(
    f"CASE WHEN {IS_FROZEN} THEN {STANDING} ELSE i.state = 'suspended' END",
    f"CASE WHEN seen.open_ways = '{{}}' THEN false WHEN seen.open_ways <@ ARRAY['deletion', 'creation'] "
    f"THEN {IS_FROZEN} ELSE true END",
)
"""The facts of any branch: of one that is not frozen, those that say whether a freeze would block. While the App is
suspended it would not, since a `success` could not be replaced. Whether a branch could be deleted is a finding."""
KEY_OF_ALL: LiteralString = KEY.replace(IS_FROZEN, "is_frozen")
"""The same from `FROM_OF_ALL`."""
_ERROR: LiteralString = "coalesce(own.last_error_code, shared.last_error_code)"
_LATE: LiteralString = (
    "least(own.outdated_since, shared.outdated_since) <= CAST(:now AS timestamptz) - interval '60 seconds'"
)
WAITS_FOR: LiteralString = f"""
    CASE WHEN i.state = 'suspended' OR {_ERROR} = 'installation_suspended' THEN 'suspended'
         WHEN i.paused_until > CAST(:now AS timestamptz)
              OR {_ERROR} IN ('github_rate_limited', 'github_secondary_rate_limit') THEN 'rate_limit'
         WHEN {_ERROR} = 'maintenance' THEN 'restore'
         WHEN {_ERROR} IS NOT NULL THEN 'github'
         WHEN {_LATE} AND own.lease_until IS NULL AND shared.lease_until IS NULL THEN 'no_worker'
         ELSE 'writing' END
"""
"""What the checks of a branch wait for that have to be written (`CAUSES`)."""
IS_LATE: LiteralString = f"coalesce({_LATE}, false)"
"""Whether verdicts of a branch wait for longer than `MAX_WRITE_DELAY` to be written."""
BYPASS_ACTORS: LiteralString = (
    "CASE jsonb_typeof(seen.bypass_actors) WHEN 'array' THEN jsonb_array_length(seen.bypass_actors) END"
)
"""How many actors may bypass the rule; null where GitHub does not show it."""


def keys_where(condition: Callable[[BlockingFacts], bool]) -> list[str]:
    """Return the texts of all facts that meet a condition."""
    return [facts.key for facts in BlockingFacts.every() if condition(facts)]
