"""What everybody can read: checks of public repositories have neither reasons nor names of members."""

import pytest

from models.organizations import Organization
from rules.access.permissions import Actor
from services.core.unit_of_work import Caller
from services.organizations.organizations import update
from services.repository_sync.sync import refresh_repository
from tests.harness.github_harness import REASON, Builder, Harness
from tests.jobs.pull_request_exceptions.grants import check, grant
from tools.fake_github.model.records import PullRequest

TEXT = "Merging is paused"
GENERIC = "A change freeze is in force"


@pytest.fixture
def pull(harness: Harness, build: Builder) -> PullRequest:
    build("web")
    harness.run_until_idle()
    harness.freeze()
    harness.run_until_idle()
    return harness.record().pulls[1]


def shown(harness: Harness, pull: PullRequest) -> str:
    harness.run_until_idle()
    found = check(harness, pull)
    return f"{found['title']}\n{found['summary']}"


def publish(harness: Harness) -> None:
    """Let everybody read the repository, as the webhook of that change has it read."""
    repository = harness.record()
    repository.private = False
    refresh_repository(harness.jobs, harness.github, repository.id)


def test_check_of_a_private_repository_has_the_reason(harness: Harness, pull: PullRequest) -> None:
    assert REASON in shown(harness, pull)


def test_check_of_a_repository_that_becomes_public_is_written_again(harness: Harness, pull: PullRequest) -> None:
    publish(harness)
    found = shown(harness, pull)
    assert REASON not in found
    assert GENERIC in found
    [[freeze_id]] = harness.sql("SELECT id FROM freezes")
    assert f"/freezes/{freeze_id})" in found


def test_check_names_nobody_who_granted_an_exception(harness: Harness, pull: PullRequest) -> None:
    [[freeze_id]] = harness.sql("SELECT id FROM freezes")
    grant(harness, freeze_id, 1)
    assert "granted by Linus" in shown(harness, pull)
    publish(harness)
    found = shown(harness, pull)
    assert "#1 may be merged during" in found
    assert "Linus" not in found


def test_public_text_stands_in_place_of_the_reason(harness: Harness, pull: PullRequest) -> None:
    harness.sql("UPDATE freezes SET public_text = :text", text=TEXT)
    publish(harness)
    found = shown(harness, pull)
    assert TEXT in found
    assert GENERIC not in found


def test_checks_that_said_more_are_written_again_by_the_next_resync(harness: Harness, pull: PullRequest) -> None:
    """As after an upgrade: nothing has made the branches due."""
    assert REASON in shown(harness, pull)
    organization = harness.session.query(Organization).one()
    organization.settings = {"checkText": "public"}
    harness.session.commit()
    harness.full_resync()
    assert REASON not in shown(harness, pull)


def test_check_leads_to_the_page_of_its_pull_request(harness: Harness, pull: PullRequest) -> None:
    [[repository_id]] = harness.sql("SELECT id FROM repositories")
    address = f"http://web.test/pulls?repo={repository_id}&ref=1"
    assert f"[#1]({address})" in shown(harness, pull)
    assert check(harness, pull)["details_url"] == address


def test_check_names_who_started_its_freeze_where_members_read_it(harness: Harness, pull: PullRequest) -> None:
    assert "started by Ada, since" in shown(harness, pull)
    publish(harness)
    assert "started by" not in shown(harness, pull)


def test_check_is_written_again_when_the_zone_of_its_organisation_changes(harness: Harness, pull: PullRequest) -> None:
    assert "Europe/Berlin" not in shown(harness, pull)
    [[organization_id]] = harness.sql("SELECT id FROM organizations")
    with harness.jobs.open(Caller(organization_id, Actor("system", None, "test"), "dashboard")) as uow:
        update(uow, None, {"timezone": "Europe/Berlin"})
    found = shown(harness, pull)
    assert "Europe/Berlin" in found
    assert shown(harness, pull) == found
