"""What tests need to be there: one plain function for each kind of row, on a session that sees every organisation.

Each one gives sensible values to everything that a test does not care for, adds the row and flushes it.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha1
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.api_keys import ApiKey, ApiKeySecret
from models.audit import AuditEntry
from models.enforcement import BranchEnforcement
from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.organizations import LoginSession, Membership, Organization, SigningKey, User
from models.pull_requests import HeadCheck, PullRequest
from models.repositories import Repository, WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.check_names import check_name
from rules.ids import new_id
from rules.ordering import OPEN
from services.api_key_secrets import PREFIX, new_secret, secret_hash
from services.clock import whole_milliseconds
from services.identity.signing_keys import USE
from services.sealing import seal
from services.sessions import Signer, mint_session_jwt, new_key_pair

SECRET_KEY = "a secret of tests only too"
"""`SECRET_KEY` of the product, unless a test says otherwise."""
ISSUER = "http://127.0.0.1:8080"
AUDIENCE = "http://127.0.0.1:8080"
SCOPES = (
    "freeze:read",
    "freeze:write",
    "repo:read",
    "repo:write",
    "schedule:read",
    "schedule:write",
    "exception:read",
    "exception:write",
    "audit:read",
    "billing:read",
    "billing:write",
)
ROLES = ("viewer", "member", "admin", "owner")
SYSTEM = {"type": "system", "id": None, "name": "Change-Freeze Service"}
FINDINGS = {
    "amber": {"code": "bypass_actors", "severity": "warning", "message": "Somebody can merge past the rule."},
    "red": {"code": "check_not_required", "severity": "critical", "message": "No rule requires the check."},
}
"""Light → what a probe may have found."""

Row = TypeVar("Row")

_numbers = itertools.count(1001)


def now() -> datetime:
    """Return the present in the precision that the service keeps."""
    return whole_milliseconds(datetime.now(UTC))


def sha(seed: object) -> str:
    """Return a commit's id, always the same for the same seed."""
    return sha1(str(seed).encode(), usedforsecurity=False).hexdigest()


def organization(session: Session, name: str = "Acme", *, plan: str = "business") -> Organization:
    """Add an organisation."""
    slug = f"{name.lower()}-{next(_numbers)}"
    return _added(
        session, Organization(id=new_id("org"), name=name, slug=slug, plan=plan, settings={}, created_at=now())
    )


def user(session: Session, name: str = "Ada") -> User:
    """Add a person."""
    email = f"{name.lower()}-{next(_numbers)}@example.com"
    return _added(session, User(id=new_id("usr"), name=name, email=email, created_at=now()))


def membership(session: Session, of: Organization, member: User, role: str = "member") -> Membership:
    """Make a person a member."""
    return _added(session, Membership(organization_id=of.id, user_id=member.id, role=role, created_at=now()))


def login(
    session: Session, by: User, organization: Organization | None, *, support: bool = False, **columns: Any
) -> LoginSession:
    """Sign a person in."""
    row = LoginSession(
        id=new_id("ses"),
        user_id=by.id,
        organization_id=organization.id if organization else None,
        support=support,
        created_at=now(),
        expires_at=columns.pop("expires_at", now() + timedelta(days=1)),
        **columns,
    )
    return _added(session, row)


@cache
def key_pair() -> tuple[str, str]:
    """Return this process's pair of signing keys: private, public."""
    return new_key_pair()


def signer(session: Session) -> Signer:
    """Make sure that the signing key is known, and return what signs with it.

    The key stays the same throughout a run: an application that has read it may live longer than a test.
    """
    private, public = key_pair()
    if session.get(SigningKey, "tests") is None:
        sealed = seal(SECRET_KEY.encode(), USE, "tests", private.encode())
        key = SigningKey(kid="tests", algorithm="ES256", public_key=public, sealed_private_key=sealed, created_at=now())
        _added(session, key)
    return Signer("tests", "ES256", private, ISSUER, AUDIENCE)


def session_token(
    session: Session,
    by: User,
    organization: Organization | None,
    *,
    support: bool = False,
    ttl: timedelta = timedelta(hours=1),
    issued_at: datetime | None = None,
) -> str:
    """Sign a person in and return the session token."""
    row = login(session, by, organization, support=support)
    return mint_session_jwt(
        signer(session),
        user=by.id,
        organization=organization.id if organization else None,
        sid=row.id,
        ttl=ttl,
        now=issued_at or now(),
        support=support,
    )


def member_token(session: Session, of: Organization, role: str = "member", *, support: bool = False) -> str:
    """Return the session token of a new member with that role."""
    person = user(session, role.title())
    membership(session, of, person, role)
    return session_token(session, person, of, support=support)


@dataclass(frozen=True, slots=True)
class MintedKey:
    """An API key and its secret."""

    row: ApiKey
    secret: str


def api_key(session: Session, of: Organization, *scopes: str, **columns: Any) -> MintedKey:
    """Add an API key with these scopes (none given: all of them)."""
    secret = new_secret()
    row = ApiKey(
        id=new_id("key"),
        organization_id=of.id,
        name=columns.pop("name", "pipeline"),
        scopes=list(scopes or SCOPES),
        prefix=secret[: len(PREFIX) + 4],
        created_at=columns.pop("created_at", now()),
        **columns,
    )
    _added(session, row)
    hashed = secret_hash(secret)
    _added(
        session, ApiKeySecret(secret_hash=hashed, organization_id=of.id, api_key_id=row.id, created_at=row.created_at)
    )
    return MintedKey(row, secret)


def installation(session: Session, of: Organization | None, account: str = "acme", **columns: Any) -> Installation:
    """Add an installation; each has an id of its own, so that no client of an earlier test is met again."""
    row = Installation(
        id=columns.pop("id", None) or next(_numbers),
        organization_id=of.id if of else None,
        account=account,
        permissions=columns.pop("permissions", {}),
        created_at=now(),
        **columns,
    )
    return _added(session, row)


def repository(session: Session, of: Organization, full_name: str = "acme/web", **columns: Any) -> Repository:
    """Add a repository, enabled unless told otherwise, of the organisation's installation (added where missing)."""
    owner, name = full_name.split("/")
    installed = session.scalar(select(Installation).where(Installation.organization_id == of.id))
    github_id = columns.pop("github_id", None) or next(_numbers)
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
        created_at=columns.pop("created_at", now()),
        synced_at=columns.pop("synced_at", now()),
        **columns,
    )
    return _added(session, row)


def branch(session: Session, of: Repository, name: str = "main", **columns: Any) -> WatchedBranch:
    """Add a watched branch."""
    row = WatchedBranch(
        id=new_id("wbr"),
        organization_id=of.organization_id,
        repository_id=of.id,
        name=name,
        check_name=columns.pop("check_name", check_name(name, of.auto_watch or [])),
        created_at=columns.pop("created_at", now()),
        **columns,
    )
    return _added(session, row)


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
        created_at=now(),
        seen_at=now(),
        **columns,
    )
    return _added(session, row)


def head_check(session: Session, of: WatchedBranch, head_sha: str, conclusion: str, **columns: Any) -> HeadCheck:
    """Add the record of a check that we wrote."""
    row = HeadCheck(
        repository_id=of.repository_id,
        check_name=of.check_name,
        head_sha=head_sha,
        organization_id=of.organization_id,
        branch_id=of.id,
        conclusion=conclusion,
        evaluation=columns.pop("evaluation", next(_numbers)),
        summary_hash=columns.pop("summary_hash", ""),
        written_at=columns.pop("written_at", now()),
        **columns,
    )
    return _added(session, row)


def branch_enforcement(session: Session, of: WatchedBranch, light: str = "green", **columns: Any) -> BranchEnforcement:
    """Add what a probe found out about a branch: a ruleset of ours requires its check, unless the light is red."""
    blocks = light != "red"
    ruleset = {"id": next(_numbers), "name": f"Change freeze: {of.name}", "enforcement": "active"}
    row = BranchEnforcement(
        branch_id=of.id,
        organization_id=of.organization_id,
        light=light,
        required=columns.pop("required", blocks),
        ruleset=columns.pop("ruleset", ruleset if blocks else None),
        integration_pinned=columns.pop("integration_pinned", True if blocks else None),
        bypass_actors=columns.pop("bypass_actors", [] if blocks else None),
        findings=columns.pop("findings", [] if light == "green" else [dict(FINDINGS[light])]),
        verified_at=columns.pop("verified_at", now()),
        **columns,
    )
    return _added(session, row)


def freeze(session: Session, of: Organization | str, branches: Iterable[WatchedBranch] = (), **columns: Any) -> Freeze:
    """Add a freeze in force (of the given columns) that covers the branches."""
    organization_id = of if isinstance(of, str) else of.id
    row = Freeze(
        id=new_id("frz"),
        organization_id=organization_id,
        reason=columns.pop("reason", "Release under way"),
        scope=columns.pop("scope", {"type": "organization"}),
        source=columns.pop("source", "manual"),
        started_at=columns.pop("started_at", now() - timedelta(minutes=1)),
        exceptions_allowed=columns.pop("exceptions_allowed", True),
        impact_acknowledged=columns.pop("impact_acknowledged", True),
        created_by=columns.pop("created_by", SYSTEM),
        **columns,
    )
    _added(session, row)
    for covered in branches:
        target(session, row, covered)
    return row


def target(session: Session, of: Freeze, covered: WatchedBranch, **columns: Any) -> FreezeTarget:
    """Cover a branch with a freeze."""
    row = FreezeTarget(
        id=new_id("tgt"),
        organization_id=of.organization_id,
        freeze_id=of.id,
        branch_id=covered.id,
        generation=columns.pop("generation", 1),
        **columns,
    )
    return _added(session, row)


def schedule(session: Session, of: Organization, **columns: Any) -> Schedule:
    """Add an enabled schedule (of the given columns): the whole organisation, every Friday evening in London."""
    given = {
        "name": "Weekends",
        "scope": {"type": "organization"},
        "timezone": "Europe/London",
        "recurrence": {"frequency": "weekly", "start_date": "2026-01-02", "by_day": ["FR"]},
        "wall_clock_window": {"start_time": "17:00", "end_time": "08:00", "days": 3},
        "reason": "Nobody is here at the weekend",
        "exceptions_allowed": True,
        "enabled": True,
        "allow_overlap": False,
        "source": "manual",
        "created_by": SYSTEM,
        "created_at": now(),
        "updated_at": now(),
    }
    return _added(session, Schedule(id=new_id("sch"), organization_id=of.id, **given | columns))


def occurrence(session: Session, of: Schedule, **columns: Any) -> Occurrence:
    """Add an occurrence (of the given columns): planned, for an hour from tomorrow on."""
    starts_at = columns.pop("starts_at", now() + timedelta(days=1))
    row = Occurrence(
        id=new_id("occ"),
        organization_id=of.organization_id,
        schedule_id=of.id,
        starts_at=starts_at,
        ends_at=columns.pop("ends_at", starts_at + timedelta(hours=1)),
        **columns,
    )
    return _added(session, row)


def exception(
    session: Session, of: Freeze, pull: PullRequest, on: WatchedBranch, **columns: Any
) -> PullRequestException:
    """Add an exception (of the given columns): granted a minute ago, without an end of its own."""
    given = {
        "request_group_id": new_id("exg"),
        "reason": "The hotfix that has to go in",
        "pin_to_head": False,
        "head_sha": pull.head_sha,
        "created_at": now() - timedelta(minutes=1),
        "decision": "granted",
        "decided_by": SYSTEM,
        "decided_at": now() - timedelta(minutes=1),
    }
    row = PullRequestException(
        id=new_id("exc"),
        organization_id=of.organization_id,
        freeze_id=of.id,
        pull_request_id=pull.id,
        branch_id=on.id,
        **given | columns,
    )
    return _added(session, row)


def audit_actions(session: Session, of: Organization) -> list[str]:
    """Return the actions that the organisation's audit trail holds, the oldest first."""
    query = select(AuditEntry.action).where(AuditEntry.organization_id == of.id)
    return list(session.scalars(query.order_by(AuditEntry.at, AuditEntry.id)))


def _added(session: Session, row: Row) -> Row:
    session.add(row)
    session.flush()
    return row
