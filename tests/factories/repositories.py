"""Installations, repositories, branches and pull requests, and what is known of them at GitHub."""

from datetime import timedelta
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models.checks import Check
from models.enforcement import BranchEnforcement
from models.installations import Installation
from models.organizations import Organization
from models.pull_requests import HeadCheck, PullRequest, QueuedCommit
from models.repositories import Repository, WatchedBranch
from rules.freezes.check_names import check_name, pattern_check_name
from rules.freezes.merge_rank import OPEN
from rules.ids import new_id
from tests.factories.adding import added, now, numbers, sha

OF_BRANCHES = {"id", "organization_id", "repository_id", "name"}
"""The columns that branches and checks both have."""
FINDINGS = {
    "amber": {"code": "bypass_actors", "severity": "warning", "message": "People can merge past the rule."},
    "red": {"code": "check_not_required", "severity": "critical", "message": "No rule requires the check."},
}
"""Light → what a probe may have found."""


def installation(session: Session, of: Organization | None, account: str = "acme", **columns: Any) -> Installation:
    """Add an installation; each has an id of its own, so that no client of an earlier test is met again.

    Its resync is not due for years.
    """
    row = Installation(
        resync_due_at=columns.pop("resync_due_at", now() + timedelta(days=10_000)),
        id=columns.pop("id", None) or next(numbers),
        organization_id=of.id if of else None,
        account=account,
        permissions=columns.pop("permissions", {}),
        **columns,
    )
    return added(session, row)


def repository(session: Session, of: Organization, full_name: str = "acme/web", **columns: Any) -> Repository:
    """Add a repository, enabled by default, of the organisation's installation (added where missing)."""
    owner, name = full_name.split("/")
    installed = session.scalar(select(Installation).where(Installation.organization_id == of.id))
    github_id = columns.pop("github_id", None) or next(numbers)
    row = Repository(
        id=new_id("rep"),
        organization_id=of.id,
        installation_id=(installed or installation(session, of, owner)).id,
        github_id=github_id,
        node_id=columns.pop("node_id", f"R_{github_id}"),
        owner=owner,
        name=name,
        default_branch=columns.pop("default_branch", "main"),
        private=columns.pop("private", True),
        enabled=columns.pop("enabled", True),
        auto_watch=columns.pop("auto_watch", []),  # the default, which `branch` would read back
        synced_at=columns.pop("synced_at", now()),
        **columns,
    )
    return added(session, row)


def branch(session: Session, of: Repository, name: str = "main", **columns: Any) -> WatchedBranch:
    """Add a watched branch; the columns of checks are those of its checks."""
    work = {column: columns.pop(column) for column in columns.keys() & set(Check.__table__.c.keys()) - OF_BRANCHES}
    row = WatchedBranch(
        id=new_id("wbr"),
        organization_id=of.organization_id,
        repository_id=of.id,
        name=name,
        check_name=check_name(name),
        pattern_check_name=columns.pop("pattern_check_name", pattern_check_name(name, of.auto_watch or [])),
        **columns,
    )
    added(session, row)
    if work:
        names = Check.name.in_(row.check_names)
        session.execute(update(Check).values(**work).where(Check.repository_id == of.id, names))
    return row


def check(session: Session, of: WatchedBranch) -> Check:
    """Return the check of a branch, as it is now."""
    query = select(Check).where(Check.branch_id == of.id)
    return session.scalars(query.execution_options(populate_existing=True)).one()


def watched(session: Session, of: Organization, full_name: str = "acme/web", name: str = "main") -> WatchedBranch:
    """Add an enabled repository and its watched branch."""
    return branch(session, repository(session, of, full_name), name)


def pull_request(session: Session, of: Repository, number: int = 7, **columns: Any) -> PullRequest:
    """Add an open pull request into `main`."""
    row = PullRequest(
        id=new_id("pul"),
        organization_id=of.organization_id,
        repository_id=of.id,
        number=number,
        title=columns.pop("title", f"Change {number}"),
        author=columns.pop("author", "ada"),
        url=columns.pop("url", f"https://github.com/{of.full_name}/pull/{number}"),
        base_branch=columns.pop("base_branch", "main"),
        head_sha=columns.pop("head_sha", sha(f"{of.id} {number}")),
        state=columns.pop("state", "open"),
        merge_rank=columns.pop("merge_rank", OPEN),
        **columns,
    )
    return added(session, row)


def queue_entry(session: Session, of: WatchedBranch, head_sha: str, **columns: Any) -> QueuedCommit:
    """Add a commit of the merge queue of a branch."""
    row = QueuedCommit(branch_id=of.id, head_sha=head_sha, organization_id=of.organization_id, **columns)
    return added(session, row)


def head_check(session: Session, of: WatchedBranch, head_sha: str, conclusion: str, **columns: Any) -> HeadCheck:
    """Add the record of a check that we wrote."""
    row = HeadCheck(
        repository_id=of.repository_id,
        check_name=of.check_name,
        head_sha=head_sha,
        organization_id=of.organization_id,
        branch_id=of.id,
        conclusion=conclusion,
        evaluation=columns.pop("evaluation", next(numbers)),
        summary_hash=columns.pop("summary_hash", ""),
        written_at=columns.pop("written_at", now()),
        **columns,
    )
    return added(session, row)


def branch_enforcement(session: Session, of: WatchedBranch, light: str = "green", **columns: Any) -> BranchEnforcement:
    """Add what a probe found out about a branch: a ruleset of ours requires its check, unless the light is red."""
    blocks = light != "red"
    columns.setdefault("verified_at", now())
    ruleset = {"id": next(numbers), "name": f"Change freeze: {of.name}", "enforcement": "active"}
    row = BranchEnforcement(
        branch_id=of.id,
        organization_id=of.organization_id,
        light=light,
        required=columns.pop("required", blocks),
        own_rule=columns.pop("own_rule", blocks),
        ruleset=columns.pop("ruleset", ruleset if blocks else None),
        integration_pinned=columns.pop("integration_pinned", True if blocks else None),
        bypass_actors=columns.pop("bypass_actors", [] if blocks else None),
        findings=columns.pop("findings", [] if light == "green" else [dict(FINDINGS[light])]),
        decisive_check=columns.pop("decisive_check", of.check_name if blocks else None),
        open_ways=columns.pop("open_ways", []),
        rules_read_at=columns.pop("rules_read_at", columns["verified_at"]),
        **columns,
    )
    return added(session, row)
