"""Filling GitHub and the database alike, at rest: every open head carries the `success` that we remember.

Both sides are filled in bulk, so that 10,000 heads take seconds; nothing is due when the service starts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests
from sqlalchemy import bindparam, insert, update
from sqlalchemy.orm import Session

from models.checks import Check
from models.enforcement import BranchEnforcement
from models.organizations import Organization
from models.pull_requests import HeadCheck, PullRequest
from models.repositories import Repository, WatchedBranch
from models.requests import PeriodicTask
from rules.freezes.check_text import summary, title
from rules.freezes.merge_rank import NOTHING_OPEN, QUEUED, merge_rank
from rules.freezes.verdict import MergeCandidate, judge
from rules.ids import new_id
from services.reconcile.evaluation import summary_hash
from tests import factories
from tools.bench.servers import Storage

Json = dict[str, Any]
CHECK = "change-freeze/main"
SUCCESS = {CHECK: "success"}
PERIODIC_TASKS = ("full_resync", "purge_expired")
_VERDICT = judge([MergeCandidate("main", None, ())])
UNFROZEN = summary_hash(title(_VERDICT), summary(_VERDICT))


@dataclass(frozen=True, slots=True)
class Account:
    """An organisation to be measured: its repositories as the control plane's seed takes them, all with `main`."""

    login: str
    installation_id: int
    repositories: Sequence[Json]
    permissions: Mapping[str, str] | None = None
    """Of the App at GitHub; None: all that it may ask for."""


def plain(name: str, count: int, pull_requests: int) -> Json:
    """Return so many repositories, each with open pull requests into its watched `main`."""
    return {
        "name": name,
        "count": count,
        "requiredChecks": {"main": CHECK},
        "pullRequests": [{"base": "main", "count": pull_requests, "checks": SUCCESS}],
    }


def seed(stores: Storage, fake_github: str, accounts: Iterable[Account]) -> dict[str, str]:
    """Fill both, and return the secret of a key with every scope, by login."""
    with stores.rows() as session:
        keys = {account.login: _account(session, fake_github, account) for account in accounts}
        tasks = [{"name": name, "done_at": factories.now()} for name in PERIODIC_TASKS]
        session.execute(insert(PeriodicTask), tasks)
    stores.analyze()
    return keys


def _account(session: Session, fake_github: str, account: Account) -> str:
    document: Json = {
        "login": account.login,
        "installation": {
            "id": account.installation_id,
            **({} if account.permissions is None else {"permissions": dict(account.permissions)}),
        },
        "repositories": list(account.repositories),
    }
    made = requests.post(f"{fake_github}/_control/seed", json={"organizations": [document]}, timeout=120)
    made.raise_for_status()
    ours = factories.organization(session, account.login.title())
    factories.installation(session, ours, account.login, id=account.installation_id)
    listed = requests.get(f"{fake_github}/_control/checks?details=true", timeout=120).json()["heads"]
    heads: dict[int, list[Json]] = defaultdict(list)
    for head in listed:
        heads[head["repositoryId"]].append(head)
    _remember(session, ours, account, made.json()["organizations"][0]["repositories"], heads)
    return factories.api_key(session, ours).secret


def _remember(
    session: Session, ours: Organization, account: Account, made: Sequence[Json], heads: dict[int, list[Json]]
) -> None:
    """Store what the service would have stored after a first full resync."""
    rows: dict[type, list[Json]] = defaultdict(list)
    for given in made:
        repository = _repository(ours, account, given)
        branch = _branch(repository)
        rows[Repository].append(repository)
        rows[WatchedBranch].append(branch)
        rows[BranchEnforcement].append(_enforcement(branch))
        for head in heads[given["id"]]:
            if not head.get("queued"):
                rows[PullRequest].append(_pull_request(repository, head))
            rows[HeadCheck].append(_head_check(branch, head))
    for model, values in rows.items():
        session.execute(insert(model), values)
    ranks = update(Check).where(Check.branch_id == bindparam("of_branch")).values(merge_rank=bindparam("rank"))
    session.connection().execute(
        ranks,
        [
            {"of_branch": branch["id"], "rank": min(map(rank_of, heads[given["id"]]), default=NOTHING_OPEN)}
            for branch, given in zip(rows[WatchedBranch], made, strict=True)
        ],
    )


def _repository(ours: Organization, account: Account, given: Json) -> Json:
    owner, _, name = given["name"].partition("/")
    return {
        "id": new_id("rep"),
        "organization_id": ours.id,
        "installation_id": account.installation_id,
        "github_id": given["id"],
        "node_id": given["nodeId"],
        "owner": owner,
        "name": name,
        "default_branch": "main",
        "private": True,
        "enabled": True,
        "created_at": factories.now(),
        "synced_at": factories.now(),
    }


def _branch(repository: Json) -> Json:
    return {
        "id": new_id("wbr"),
        "organization_id": repository["organization_id"],
        "repository_id": repository["id"],
        "name": "main",
        "check_name": CHECK,
        "created_at": factories.now(),
    }


def _enforcement(branch: Json) -> Json:
    return {
        "branch_id": branch["id"],
        "organization_id": branch["organization_id"],
        "light": "green",
        "required": True,
        "integration_pinned": True,
        "verified_at": factories.now(),
    }


def _pull_request(repository: Json, head: Json) -> Json:
    return {
        "id": new_id("pul"),
        "organization_id": repository["organization_id"],
        "repository_id": repository["id"],
        "number": head["number"],
        "title": head["title"],
        "author": head["author"],
        "url": f"https://github.com/{head['repository']}/pull/{head['number']}",
        "base_branch": "main",
        "head_sha": head["headSha"],
        "state": "open",
        "merge_rank": rank_of(head),
        "created_at": factories.now(),
        "seen_at": factories.now(),
    }


def _head_check(branch: Json, head: Json) -> Json:
    return {
        "repository_id": branch["repository_id"],
        "check_name": CHECK,
        "head_sha": head["headSha"],
        "organization_id": branch["organization_id"],
        "branch_id": branch["id"],
        "conclusion": "success",
        "evaluation": 0,
        "check_run_id": head["checks"][CHECK]["id"],
        "summary_hash": UNFROZEN,
        "written_at": factories.now(),
    }


def rank_of(head: Json) -> int:
    """Return how soon a head of `/_control/checks?details=true` could merge; a queued group could first of all."""
    if head.get("queued"):
        return QUEUED
    decision = head["reviewDecision"]
    return merge_rank(
        draft=head["draft"],
        auto_merge=head["autoMerge"],
        review_decision=decision.lower() if decision else None,
        in_queue=head["inQueue"],
    )
