"""Alerts about watched branches that no freeze blocks: one for each cause, whatever number of branches.

They are stored for each branch, as its probe finds them. What is said of each differs only by the name of the branch.
"""

from rules.web_addresses import ENFORCEMENT_SETUP

UNENFORCED = "unenforced_branch"


def unenforced_branches() -> str:
    """Return the query, with the columns of all sources and the parameters `organization` and `web`."""
    return f"""
    SELECT CASE WHEN count(*) = 1 THEN min(one.id) ELSE
                'att_' || left(encode(sha256(convert_to(concat(one.type, one.cause, o.id), 'UTF8')), 'hex'), 26) END,
           one.type, one.severity, min(one.since),
           CASE WHEN count(*) = 1 THEN (array_agg(one.subject))[1]
                ELSE jsonb_build_object('type', 'organization', 'id', o.id, 'name', o.name) END,
           CASE WHEN count(*) = 1 THEN min(one.message)
                ELSE concat('Freezes do not block ', count(*), ' watched branches, such as ', min(one.name), '. ',
                            ltrim(replace(one.cause, 'Freezes do not block .', ''), ': ')) END,
           CASE WHEN count(*) = 1 THEN (array_agg(one.action))[1]
                ELSE jsonb_build_object('label', 'Set up enforcement',
                                        'url', CAST(:web AS text) || '{ENFORCEMENT_SETUP}') END
    FROM (
        SELECT a.*, a.subject ->> 'name' AS name, replace(a.message, a.subject ->> 'name', '') AS cause
        FROM attention_items a
        WHERE a.organization_id = :organization AND a.cleared_at IS NULL AND a.type = '{UNENFORCED}'
    ) one JOIN organizations o ON o.id = one.organization_id
    GROUP BY one.type, one.severity, one.cause, o.id, o.name
    """  # noqa: S608 - constants of ours
