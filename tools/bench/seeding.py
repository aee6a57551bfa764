"""Filling GitHub and the database alike, at rest: every open head carries the `success` that we remember.

Both sides are filled in bulk, so that 10,000 heads take seconds; nothing is due when the service starts.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import requests
from sqlalchemy import text
from sqlalchemy.orm import Session

from rules.freezes.check_text import summary, title
from rules.freezes.merge_rank import APPROVED
from rules.freezes.verdict import MergeCandidate, judge
from services.reconcile.evaluation import summary_hash
from tests import factories
from tools.bench.servers import Storage

CHECK = "change-freeze/main"
_VERDICT = judge([MergeCandidate("main", None, ())])
UNFROZEN = summary_hash(title(_VERDICT), summary(_VERDICT))
# What the service would have stored after a first full resync.
_REMEMBERED = """
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, enabled, created_at, synced_at)
    SELECT 'rep_' || lpad(id::text, 26, '0'), :organization, :installation, id, "nodeId", split_part(name, '/', 1),
           split_part(name, '/', 2), 'main', true, true, now(), now()
    FROM jsonb_to_recordset(CAST(:repositories AS jsonb)) AS given (id bigint, "nodeId" text, name text);
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || lpad(github_id::text, 26, '0'), organization_id, id, 'main', :check, now()
    FROM repositories WHERE organization_id = :organization;
    INSERT INTO branch_enforcement (branch_id, organization_id, light, required, integration_pinned, verified_at)
    SELECT id, organization_id, 'green', true, true, now() FROM watched_branches WHERE organization_id = :organization;
    UPDATE checks SET merge_rank = :rank WHERE organization_id = :organization;
    CREATE TEMPORARY TABLE heads ON COMMIT DROP AS
    SELECT b.organization_id, b.repository_id, b.id AS branch_id, head.*
    FROM jsonb_to_recordset(CAST(:heads AS jsonb)) AS head ("repositoryId" bigint, repository text, number int,
                                                            title text, author text, "headSha" text, checks jsonb)
    JOIN repositories r ON r.github_id = head."repositoryId" AND r.organization_id = :organization
    JOIN watched_branches b ON b.repository_id = r.id;
    INSERT INTO pull_requests (id, organization_id, repository_id, number, title, author, url, base_branch, head_sha,
                               state, merge_rank, created_at, seen_at)
    SELECT 'pul_' || substr(md5(repository_id || number), 1, 26), organization_id, repository_id, number, title, author,
           'https://github.com/' || repository || '/pull/' || number, 'main', "headSha", 'open', :rank, now(), now()
    FROM heads;
    INSERT INTO head_checks (repository_id, check_name, head_sha, organization_id, branch_id, conclusion, evaluation,
                             check_run_id, summary_hash, written_at)
    SELECT repository_id, :check, "headSha", organization_id, branch_id, 'success', 0,
           CAST(checks #>> ARRAY[:check, 'id'] AS bigint), :unfrozen, now()
    FROM heads;
    DROP TABLE heads
"""


@dataclass(frozen=True, slots=True)
class Account:
    """An organisation to be measured: so many repositories, each with so many open heads into its watched `main`."""

    login: str
    installation_id: int
    repositories: int
    heads: int
    name: str = "service-{}"
    """Of each repository."""
    permissions: Mapping[str, str] | None = None
    """Of the App at GitHub; None: all that it may ask for."""


def seed(stores: Storage, fake_github: str, accounts: Iterable[Account]) -> dict[str, str]:
    """Fill both, and return the secret of a key with every scope, by login."""
    with stores.rows() as session:
        keys = {account.login: _account(session, fake_github, account) for account in accounts}
        done = "INSERT INTO periodic_tasks (name, done_at) VALUES ('full_resync', now()), ('purge_expired', now())"
        session.execute(text(done))
    stores.analyze()
    return keys


def _account(session: Session, fake_github: str, account: Account) -> str:
    permissions = {} if account.permissions is None else {"permissions": dict(account.permissions)}
    repositories = {
        "name": account.name,
        "count": account.repositories,
        "requiredChecks": {"main": CHECK},
        "pullRequests": [{"base": "main", "count": account.heads, "checks": {CHECK: "success"}}],
    }
    installation = {"id": account.installation_id, **permissions}
    wanted = {"login": account.login, "installation": installation, "repositories": [repositories]}
    made = requests.post(f"{fake_github}/_control/seed", json={"organizations": [wanted]}, timeout=120)
    made.raise_for_status()
    ours = factories.organization(session, account.login.title())
    factories.installation(session, ours, account.login, id=account.installation_id)
    heads = requests.get(f"{fake_github}/_control/checks?details=true", timeout=120).json()["heads"]
    values = {
        "organization": ours.id,
        "installation": account.installation_id,
        "repositories": json.dumps(made.json()["organizations"][0]["repositories"]),
        "heads": json.dumps(heads),
        "check": CHECK,
        "rank": APPROVED,
        "unfrozen": UNFROZEN,
    }
    for statement in _REMEMBERED.split(";"):
        session.execute(text(statement), values)
    return factories.api_key(session, ours).secret
