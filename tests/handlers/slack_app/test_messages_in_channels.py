"""From a request to the channel and back: what happens is posted, and what is clicked there happens."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from app.database import WORKER_ROLE
from integrations.slack import Slack, SlackSettings
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from models.slack import SlackConnection
from rules.web_addresses import WebOrigin
from services.audit.hash_chain import seal_entries
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWorkFactory
from services.notifications.dispatch import dispatch_due
from services.slack.delivery import send_due
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.slack_app.conftest import GRACE, Link
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tools import fake_slack
from tools.fake_slack import FakeSlack
from tools.fake_slack.model import Message

RunJobs = Callable[[], None]
HOSTILE = "<!channel> <https://evil.example|sign in> & the quarter-end close"


@pytest.fixture
def run_jobs(database: str, clock: MovableClock, served_fake_slack: fake_slack.Handle) -> RunJobs:
    """Return what seals, dispatches and sends until nothing is due."""
    settings = SlackSettings("id", "secret", ("secret",), url=served_fake_slack.base_url)
    ports = Ports(Slack(settings), SecretKey(factories.SECRET_KEY.encode()), WebOrigin("https://freezes.test"))
    jobs = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, RecordedWakeups(), ports)

    def run() -> None:
        seal_entries(jobs)
        while dispatch_due(jobs):
            pass
        while send_due(jobs):
            clock.offset += timedelta(seconds=1)

    return run


@pytest.fixture
def subscribed(slack: FakeSlack, link: Link, workspace: SlackConnection) -> FakeSlack:
    """Subscribe #releases to everything, as Ada, who is a member."""
    link("member")
    assert slack.type("subscribe").status == 200
    return slack


def posted(slack: FakeSlack) -> list[Message]:
    """Return what everyone sees in #releases."""
    return [message for message in slack.messages if message.only_for is None]


def test_freeze_is_posted_and_lifted_by_its_button(
    subscribed: FakeSlack, acme: Tenant, run_jobs: RunJobs, web: WatchedBranch
) -> None:
    body = {"scope": {"type": "organization"}, "reason": HOSTILE, "impactAcknowledged": True}
    assert acme.person("owner").post("/v1/freezes", body).status_code == 201
    run_jobs()
    [message] = posted(subscribed)
    assert "<!channel>" not in str(message.blocks) + message.text
    subscribed.click(message, "freeze.lift")
    run_jobs()
    message, end = posted(subscribed)
    assert "lifted by Ada" in str(message.blocks)
    assert "actions" not in [block["type"] for block in message.blocks]
    assert end.thread_ts == message.ts


def test_request_is_posted_granted_by_its_button_and_redrawn(
    subscribed: FakeSlack, acme: Tenant, run_jobs: RunJobs, link: Link, freeze: Freeze, pull: PullRequest
) -> None:
    link("admin", GRACE)
    body = {"pullRequest": "acme/web#7", "reason": HOSTILE}
    assert acme.person("viewer").post("/v1/exception-requests", body).status_code == 201
    run_jobs()
    [message] = posted(subscribed)
    assert "<!channel>" not in str(message.blocks) + message.text
    subscribed.click(message, "exception.grant")  # Ada, a member
    assert "requires the role admin" in subscribed.messages[-1].text
    subscribed.click(message, "exception.grant", GRACE)
    run_jobs()
    [message] = posted(subscribed)
    assert "Granted by Grace" in str(message.blocks)
    assert "actions" not in [block["type"] for block in message.blocks]


@pytest.mark.usefixtures("freeze")
def test_decision_on_the_web_takes_the_buttons_away(
    subscribed: FakeSlack, acme: Tenant, run_jobs: RunJobs, pull: PullRequest
) -> None:
    body = {"pullRequest": f"acme/web#{pull.number}", "reason": "Payments fail since 08:40"}
    made = acme.person("viewer").post("/v1/exception-requests", body).json()["data"][0]
    run_jobs()
    deny = {"decision": "deny", "reason": "After the release"}
    assert acme.person("owner").post(f"/v1/exception-requests/{made['id']}/decide", deny).status_code == 200
    run_jobs()
    [message] = posted(subscribed)
    assert "Denied by" in str(message.blocks)
    assert "After the release" in str(message.blocks)
    assert acme.session.get_one(PullRequestException, made["id"]).decision == "denied"
