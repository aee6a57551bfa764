"""Organisations with a row of every kind."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from models.api_keys import ApiKey
from models.audit import AuditRemoval, AuditSeal
from models.calendar_feeds import CalendarFeed
from models.checks import ReadBack
from models.enforcement import EnforcementSetup, FrozenBranchPush, FrozenBranchRuleset, OrganizationStop, WrittenRuleset
from models.exception_rules import ExceptionRule
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.identity import DeviceAuthorization, Invitation, Mail
from models.installations import Installation, RepositorySync
from models.notifications import MailChoice, NotificationDestination, Reminder
from models.oauth import OAuthCode, OAuthGrant, OAuthRefreshToken
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
from tests.factories.adding import added


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
    factories.audit_entry(session, organization)
    factories.attention_item(session, organization)
    grant = factories.connection(session, owner, organization, "freeze:read")
    of_everything(session, organization, owner, installation, branch, schedule, grant)
    key = factories.api_key(session, organization)
    webhook = factories.webhook(session, organization)
    rule = factories.exception_rule(session, organization)
    factories.rule_result(session, rule, pull)
    return TenantFixture(
        organization=organization,
        owner=owner,
        invitation=factories.invitation(session, organization, "eve@example.com")[1],
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
        connection=grant,
        key=key.secret,
        token=factories.session_token(session, owner, organization),
    )


def of_everything(
    session: Session,
    organization: Organization,
    owner: User,
    installation: Installation,
    branch: WatchedBranch,
    schedule: Schedule,
    grant: OAuthGrant,
) -> None:
    """Add a row of each kind that nothing else adds, with no more than what it is of."""
    hashed, destination_id = organization.id.encode(), f"{organization.id} mails"
    for row in (
        CancelledWindow(id=new_id("occ"), schedule_id=schedule.id),
        NotificationDestination(id=destination_id, channel="mail", sequence=0),
        MailChoice(user_id=owner.id),
        Reminder(destination_id=destination_id),
        AuditSeal(entry_id=new_id("aud")),
        AuditRemoval(sequence=0),
        RemoteBranchList(repository_id=branch.repository_id, branches=[]),
        IdempotencyKey(),
        StripeCustomer(id=f"cus_{organization.id}"),
        StripeSubscription(id=f"sub_{organization.id}", state="canceled", interval="month", currency="EUR"),
        RepositorySync(installation_id=installation.id),
        BranchTip(branch_id=branch.id),
        WrittenRuleset(level="repository", ruleset_id=installation.id, installation_id=installation.id),
        FrozenBranchRuleset(repository_id=branch.repository_id),
        OrganizationStop(id=new_id("ost"), installation_id=installation.id),
        EnforcementSetup(id=new_id("set"), scope={"type": "organization"}, state="done", requested_by=factories.SYSTEM),
        FrozenBranchPush(id=new_id("lnd"), branch_id=branch.id, kind="bypassed"),
        OAuthCode(code_hash=hashed, grant_id=grant.id),
        OAuthRefreshToken(token_hash=hashed, grant_id=grant.id),
        Withdrawal(),
        Mail(id=new_id("mai")),
        DeviceAuthorization(device_code_hash=hashed),
    ):
        row.organization_id = organization.id
        added(session, row)


def slack_workspace(session: Session, organization: Organization, owner: User) -> SlackSubscription:
    """Add a workspace with links of the owner, here and at GitHub, and a subscribed channel that got a message."""
    connection = factories.slack_connection(session, organization)
    factories.slack_link(session, connection, owner)
    factories.github_link(session, organization, owner)
    subscription = factories.slack_subscription(session, organization)
    factories.slack_message(session, subscription)
    return subscription
