"""Organisations with a row of every kind."""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.orm import Session

from models.api_keys import ApiKey
from models.audit import AuditRemoval, AuditSeal
from models.base import Base
from models.calendar_feeds import CalendarFeed
from models.checks import ReadBack
from models.enforcement import EnforcementSetup, FrozenBranchPush, FrozenBranchRuleset, OrganizationStop, WrittenRuleset
from models.exception_rules import ExceptionRule
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.identity import DeviceAuthorization, Invitation, Mail, OneTimeToken
from models.installations import Installation, RepositorySync
from models.notifications import MailChoice, NotificationDestination, Reminder
from models.oauth import OAuthClient, OAuthCode, OAuthGrant, OAuthRefreshToken
from models.organizations import Organization, User, Withdrawal
from models.outgoing_webhooks import WebhookEndpoint, WebhookMessage
from models.pull_requests import PullRequest
from models.repositories import BranchTip, RemoteBranchList, Repository, WatchedBranch
from models.requests import IdempotencyKey
from models.schedules import CancelledWindow, Occurrence, Schedule
from models.slack import SlackSubscription
from models.stripe import StripeCustomer, StripeSubscription
from rules.ids import new_id
from schemas.contract import Operation
from tests import factories


@dataclass(frozen=True, slots=True)
class TenantFixture:
    """An organisation with a row of every kind."""

    organization: Organization
    owner: User
    invitation: Invitation
    installation: Installation
    repository: Repository
    branch: WatchedBranch
    freeze: Freeze
    occurrence: Occurrence
    exception: PullRequestException
    exception_rule: ExceptionRule
    pull: PullRequest
    api_key: ApiKey
    connection: OAuthGrant
    calendar_feed: CalendarFeed
    import_id: str
    slack_subscription: SlackSubscription
    webhook: WebhookEndpoint
    delivery: WebhookMessage
    key: str
    token: str

    def credential(self, operation: Operation) -> str:
        """Return what the operation takes: the key of all scopes, or the owner's session."""
        return self.key if operation.accepts("ApiKey") else self.token

    def names(self, name: str) -> list[tuple[str, str]]:
        """Return values for a reference of this name: an id of this organisation, and one like it that is unknown."""
        owner = self.repository.owner
        full_name, nothing = self.repository.full_name, f"{owner}/nothing"
        repository = [(self.repository.id, new_id("rep")), (full_name, nothing)]
        known: dict[str, list[tuple[str, str]]] = {
            "freezeId": [(self.freeze.id, new_id("frz"))],
            "scheduleId": [(str(self.freeze.schedule_id), new_id("sch"))],
            "occurrenceId": [(self.occurrence.id, new_id("occ"))],
            "exceptionId": [(self.exception.id, new_id("exc"))],
            "ruleId": [(self.exception_rule.id, new_id("exr"))],
            "scheduleIds": [(str(self.freeze.schedule_id), new_id("sch"))],
            "requestGroupId": [(self.exception.request_group_id, new_id("exg"))],
            "pullRequestId": [(self.pull.id, new_id("pul"))],
            "targetId": [(self.freeze.id, new_id("frz"))],
            "actorId": [(self.owner.id, new_id("usr"))],
            "branchId": [(self.branch.id, new_id("wbr"))],
            "installationId": [(str(self.installation.id), "999999999")],
            "apiKeyId": [(self.api_key.id, new_id("key"))],
            "connectionId": [(self.connection.id, new_id("ogr"))],
            "calendarFeedId": [(self.calendar_feed.id, new_id("cal"))],
            "importId": [(self.import_id, new_id("aud"))],
            "slackSubscriptionId": [(self.slack_subscription.id, new_id("sls"))],
            "webhookId": [(self.webhook.id, new_id("whk"))],
            "deliveryId": [(self.delivery.id, new_id("msg"))],
            "userId": [(self.owner.id, new_id("usr"))],
            "invitationId": [(self.invitation.id, new_id("inv"))],
            "account": [(owner, "nothing")],
            "repositoryName": [(self.repository.name, "nothing")],
            "branchName": [(self.branch.name, "nothing")],
            "pullRequest": [(f"{full_name}#{self.pull.number}", f"{nothing}#{self.pull.number}")],
            "ref": [
                (f"{full_name}#{self.pull.number}", f"{nothing}#{self.pull.number}"),
                (self.pull.url, f"https://github.com/{nothing}/pull/{self.pull.number}"),
            ],
        }
        known |= dict.fromkeys(("repoId", "repo", "repository", "repositories"), repository)
        return known[name]


def make_tenant_fixture(session: Session, name: str) -> TenantFixture:
    """Found an organisation."""
    organization = factories.organization(session, name)
    owner = factories.member(session, organization, "owner")
    installation = factories.installation(session, organization, name)
    repository = factories.repository(session, organization, f"{name}/{name}-web")
    branch = factories.branch(session, repository)
    pull = factories.pull_request(session, repository)
    factories.head_check(session, branch, pull.head_sha, "failure")
    factories.queue_entry(session, branch, factories.sha("queued"))
    check = factories.check(session, branch)
    session.add(ReadBack(check_id=check.id, at=factories.now(), organization_id=organization.id))
    factories.branch_enforcement(session, branch)
    schedule = factories.schedule(session, organization)
    freeze = factories.freeze(session, organization, [branch], source="schedule", schedule_id=schedule.id)
    session.add(cancelled(schedule))
    factories.audit_entry(session, organization)
    factories.attention_item(session, organization)
    invitation = invited(organization)
    notified(session, organization, owner)
    session.add_all([invitation, *of_people(organization), *of_requests(organization, repository)])
    session.add_all([*of_enforcement(organization, installation, branch), *of_billing(organization)])
    key = factories.api_key(session, organization)
    webhook = factories.webhook(session, organization)
    rule = factories.exception_rule(session, organization)
    factories.rule_result(session, rule, pull)
    return TenantFixture(
        organization=organization,
        owner=owner,
        invitation=invitation,
        installation=installation,
        repository=repository,
        branch=branch,
        freeze=freeze,
        occurrence=factories.occurrence(session, schedule, freeze_id=freeze.id),
        exception=factories.exception(session, freeze, pull, branch, rule_id=rule.id, rule_name=rule.name),
        exception_rule=rule,
        pull=pull,
        api_key=key.row,
        calendar_feed=factories.calendar_feed(session, owner, organization)[0],
        import_id=factories.calendar_import(session, organization),
        slack_subscription=slack_workspace(session, organization, owner),
        webhook=webhook,
        delivery=factories.webhook_message(session, webhook),
        connection=connected(session, organization, owner),
        key=key.secret,
        token=factories.session_token(session, owner, organization),
    )


def cancelled(schedule: Schedule) -> CancelledWindow:
    """Return a window that was taken from the plan."""
    now = factories.now()
    of = {"organization_id": schedule.organization_id, "schedule_id": schedule.id}
    return CancelledWindow(id=new_id("occ"), starts_at=now, ends_at=now, **of)


def notified(session: Session, organization: Organization, owner: User) -> None:
    """Add a destination of notifications, to which a window was announced, and what the owner chose."""
    now, destination_id = factories.now(), f"{organization.id} mails"
    session.add(NotificationDestination(id=destination_id, organization_id=organization.id, channel="mail", sequence=0))
    session.add(MailChoice(organization_id=organization.id, user_id=owner.id, updated_at=now))
    session.flush()
    session.add(
        Reminder(
            destination_id=destination_id,
            occurrence_id="x",
            minutes=60,
            organization_id=organization.id,
            created_at=now,
        )
    )


def of_requests(organization: Organization, repository: Repository) -> list[Base]:
    """Return rows of what requests leave behind: audited, sealed, replayed, and read from GitHub."""
    now = factories.now()
    return [
        AuditSeal(
            organization_id=organization.id,
            sequence=1,
            entry_id=new_id("aud"),
            hash=b"x",
            previous_hash=b"x",
            sealed_at=now,
            action="freeze.started",
            source="system",
        ),
        AuditRemoval(
            organization_id=organization.id,
            sequence=0,
            hash=b"x",
            sealed_at=now,
            file_sha256=b"x",
            removed_by="x",
            recorded_at=now,
        ),
        RemoteBranchList(repository_id=repository.id, organization_id=organization.id, fetched_at=now, branches=[]),
        IdempotencyKey(
            organization_id=organization.id,
            principal_id="x",
            key_hash=b"x",
            request_hash=b"x",
            status=200,
            headers={},
            created_at=now,
        ),
    ]


def of_billing(organization: Organization) -> list[Base]:
    """Return rows of what is read from Stripe."""
    now = factories.now()
    return [
        StripeCustomer(id=f"cus_{organization.id}", organization_id=organization.id, created_at=now),
        StripeSubscription(
            id=f"sub_{organization.id}",
            organization_id=organization.id,
            state="canceled",
            interval="month",
            currency="EUR",
            period_start=now,
            period_end=now,
            created_at=now,
        ),
    ]


def of_enforcement(organization: Organization, installation: Installation, branch: WatchedBranch) -> list[Base]:
    """Return rows of what jobs store: rules, pushes to frozen branches, and alerts."""
    now = factories.now()
    return [
        RepositorySync(installation_id=installation.id, organization_id=organization.id, requested_at=factories.now()),
        BranchTip(branch_id=branch.id, organization_id=organization.id, sha="x", seen_at=factories.now()),
        WrittenRuleset(
            level="repository",
            ruleset_id=installation.id,
            organization_id=organization.id,
            installation_id=installation.id,
            check_name=branch.check_name,
            written_at=now,
        ),
        FrozenBranchRuleset(repository_id=branch.repository_id, organization_id=organization.id),
        OrganizationStop(id=new_id("ost"), organization_id=organization.id, installation_id=installation.id),
        EnforcementSetup(
            id=new_id("set"),
            organization_id=organization.id,
            scope={"type": "organization"},
            state="done",
            requested_by=factories.SYSTEM,
            created_at=now,
        ),
        FrozenBranchPush(
            id=new_id("lnd"),
            organization_id=organization.id,
            branch_id=branch.id,
            sha=factories.sha(branch.id),
            kind="bypassed",
            landed_at=now,
            found_at=now,
            details={},
        ),
    ]


def connected(session: Session, organization: Organization, owner: User) -> OAuthGrant:
    """Add a client that the owner has connected, with its code and refresh token."""
    now, client_id, hashed = factories.now(), f"https://{organization.id}.example/client", organization.id.encode()
    grant = OAuthGrant(
        id=new_id("ogr"),
        user_id=owner.id,
        organization_id=organization.id,
        client_id=client_id,
        client_name="Example Client",
        resource=f"{factories.AUDIENCE}/mcp",
        scopes=["freeze:read"],
        created_at=now,
        expires_at=now + timedelta(days=90),
    )
    of_grant = {"organization_id": organization.id, "grant_id": grant.id, "expires_at": now + timedelta(minutes=1)}
    session.add_all([OAuthClient(client_id=client_id), grant])
    session.flush()
    session.add_all(
        [
            OAuthCode(code_hash=hashed, redirect_uri="http://localhost/", challenge="x", **of_grant),
            OAuthRefreshToken(token_hash=hashed, issued_at=now, **of_grant),
        ]
    )
    return grant


def slack_workspace(session: Session, organization: Organization, owner: User) -> SlackSubscription:
    """Add a workspace with links of the owner, here and at GitHub, and a subscribed channel that got a message."""
    connection = factories.slack_connection(session, organization)
    factories.slack_link(session, connection, owner)
    factories.github_link(session, organization, owner)
    subscription = factories.slack_subscription(session, organization)
    factories.slack_message(session, subscription)
    return subscription


def invited(organization: Organization, email: str = "eve@example.com") -> Invitation:
    """Return an invitation that is not answered."""
    now = factories.now()
    return Invitation(
        id=new_id("inv"),
        organization_id=organization.id,
        email=email,
        role="member",
        invited_by=factories.SYSTEM,
        created_at=now,
        expires_at=now + timedelta(days=7),
    )


def of_people(organization: Organization) -> list[Base]:
    """Return rows of what concerns people."""
    now, words, hashed = factories.now(), "x", organization.id.encode()
    return [
        OneTimeToken(
            token_hash=hashed,
            purpose="invitation",
            subject=words,
            organization_id=organization.id,
            created_at=now,
            expires_at=now,
        ),
        Withdrawal(organization_id=organization.id),
        Mail(
            id=new_id("mai"),
            organization_id=organization.id,
            recipient="eve@example.com",
            template=words,
            created_at=now,
        ),
        DeviceAuthorization(
            device_code_hash=hashed,
            user_code=words,
            client_id=words,
            address=words,
            created_at=now,
            expires_at=now,
            interval_seconds=5,
            organization_id=organization.id,
        ),
    ]
