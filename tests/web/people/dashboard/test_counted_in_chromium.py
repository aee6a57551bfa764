"""How many clicks and fields people need for what they come for, with scripts, in a real browser."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from sqlalchemy import select, text, update

from models.organizations import LoginSession
from models.repositories import Repository
from models.schedules import Schedule
from models.slack import SlackSubscription
from rules.freezes.pull_references import page_of_pulls
from tests import factories
from tests.harness.accessibility import axe_violations
from tests.harness.browser import Browser
from tests.harness.concurrency import eventually
from tests.harness.counted import Counted
from tests.web.people.conftest import PASSWORD, Mailed
from tests.web.people.dashboard.conftest import Enter, Scene
from tests.web.people.in_chromium import in_chromium, sign_in
from tools.fake_slack import Handle

pytestmark = in_chromium(30)


MANY_FREEZES = """
    INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ended_at, end_reason, ended_by,
                         exceptions_allowed, impact_acknowledged, created_by, released_at)
    SELECT 'frz_' || lpad(n::text, 26, '0'), :organization,
           CASE WHEN n = 4321 THEN 'Ledger migration of March' ELSE 'Release number ' || n END,
           '{"type": "organization"}', 'manual', timestamptz '2026-03-12 09:00Z' + (n - 4321) * interval '2 hours',
           timestamptz '2026-03-12 10:00Z' + (n - 4321) * interval '2 hours', 'lifted',
           '{"type": "user", "id": "usr_1", "name": "Ada"}', true, true,
           '{"type": "user", "id": "usr_1", "name": "Ada"}', now()
    FROM generate_series(1, 5000) n
"""

HOLD = """
window.held = [];
window.holding = true;
window.answering = window.fetch;
window.fetch = async (...asked) => {
  const answer = await window.answering(...asked);
  if (window.holding && String(asked[0]).includes("/impact")) await new Promise(go => window.held.push(go));
  return answer;
};
true
"""


@pytest.fixture
def person(browser: Browser, site: str, acme: Scene, member: Enter) -> Iterator[Counted]:
    """Return an administrator at the overview, with scripts."""
    member("admin")
    sign_in(browser, site, "admin@example.test", PASSWORD)
    browser.run_scripts(enabled=True)
    browser.resize(1280)
    browser.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
    browser.open(f"{site}/")
    yield Counted(browser)
    browser.call("Emulation.setTimezoneOverride", timezoneId="")
    browser.run_scripts(enabled=False)


def schedule_of(acme: Scene) -> Schedule:
    acme.session.expire_all()
    return acme.session.scalars(select(Schedule)).one()


def test_invited_person_is_in_after_two_clicks_and_two_fields(
    browser: Browser, site: str, member: Enter, mailed: Mailed
) -> None:
    admin = member("admin")
    admin.press(admin.open("/settings/members"), "Invite", email="grace@example.test")
    browser.run_scripts(enabled=True)
    invited = Counted(browser)
    browser.open(site + mailed("grace@example.test"))
    invited.clicks += 1  # the link of the mail
    invited.fill("Your name", "Grace Hopper")
    invited.fill("Password", PASSWORD)
    invited.click("Join Acme")
    assert "You joined the organisation." in browser.text
    assert invited.took_at_most(3, 2)
    browser.run_scripts(enabled=False)


@pytest.mark.parametrize(("number", "button"), [(282, "Enable all 282"), (1205, "Enable all")])
def test_all_repositories_are_enabled_with_two_clicks(person: Counted, acme: Scene, number: int, button: str) -> None:
    for each in range(number):
        factories.repository(acme.session, acme.organization, f"acme/service-{each:04}", enabled=False)
    person.click("Repositories")
    person.click(button)
    eventually(lambda: acme.session.query(Repository).filter_by(enabled=False).count() == 0)
    while "The repositories are enabled" not in person.browser.text:  # between the batches it opens pages by itself
        person.browser.go_on()
    acme.session.expire_all()
    assert acme.session.query(Repository).filter_by(enabled=False).count() == 0
    assert person.clicks <= 3


def test_freeze_of_every_weekend_takes_three_clicks_and_three_fields(person: Counted, acme: Scene) -> None:
    person.click("Start a freeze")
    person.fill("From", "2099-01-02T18:00")
    person.fill("To", "2099-01-05T08:00")
    person.click("Every week", go=False)
    person.fill("Why", "No release team at the weekend")
    person.sees("Every Friday, from 18:00 to 08:00 3 days later (Europe/Berlin)")
    person.click("Plan the freeze")
    assert "The schedule has been created." in person.browser.text
    assert schedule_of(acme).recurrence["frequency"] == "weekly"
    assert person.took_at_most(3, 3)


def test_quick_end_fills_the_field_in_and_keeps_the_rest(person: Counted, acme: Scene) -> None:
    person.click("Start a freeze")
    person.fill("From", "2099-01-02T18:00")
    person.fill("Why", "No release team at the weekend")
    person.click("End: Monday 8:00", go=False)
    person.sees("On 2 January 2099, from 18:00 to 08:00 3 days later (Europe/Berlin)")
    assert person.browser.value("document.getElementById('ends_at').value") == "2099-01-05T08:00"
    assert person.browser.value("document.activeElement.id") == "end-monday"
    person.click("Plan the freeze")
    assert schedule_of(acme).recurrence["frequency"] == "once"
    assert person.took_at_most(3, 2)


def hold_impacts(person: Counted) -> None:
    """Have answers of the impact that are asked for from now on wait until they are let go."""
    person.browser.value(HOLD)


def let_go(person: Counted) -> None:
    """Let the answers go that wait, and have no other one wait."""
    person.browser.value("window.holding = false; window.held.forEach(go => go()); true")


def test_impact_follows_the_form_while_answers_are_late(person: Counted) -> None:
    person.click("Start a freeze")
    hold_impacts(person)
    person.fill("From", "2099-01-02T18:00")
    eventually(lambda: person.browser.value("window.held.length") == 1)
    person.fill("To", "2099-01-05T08:00")
    person.browser.value("new Promise(go => setTimeout(go, 400))")  # longer than the form waits for the next key
    person.click("Every week", go=False)
    person.browser.value("new Promise(go => setTimeout(go, 400))")
    let_go(person)
    person.sees("Every Friday, from 18:00 to 08:00 3 days later (Europe/Berlin)")


def test_impact_follows_a_quick_end_that_is_faster_than_the_answer_before(person: Counted) -> None:
    person.click("Start a freeze")
    hold_impacts(person)
    person.fill("From", "2099-01-02T18:00")
    eventually(lambda: person.browser.value("window.held.length") == 1)
    person.click("End: Monday 8:00", go=False)
    eventually(lambda: person.browser.value("document.getElementById('ends_at').value") == "2099-01-05T08:00")
    let_go(person)
    person.browser.value("new Promise(go => setTimeout(go, 100))")  # the late answer is there
    person.sees("On 2 January 2099, from 18:00 to 08:00 3 days later (Europe/Berlin)")


def test_client_of_mcp_takes_two_clicks_and_one_paste(person: Counted) -> None:
    person.click("Connect a client")
    person.click("Copy claude mcp add", go=False)
    person.sees("Copied")
    assert re.search(r"claude mcp add --transport http change-freeze http://[^ ]+/mcp", person.browser.text)
    assert axe_violations(person.browser) == []
    assert (person.clicks, person.fields) == (2, 0)


def test_channel_of_slack_is_found_by_name_and_chosen(
    person: Counted, site: str, acme: Scene, slack_of_pages: Handle
) -> None:
    slack_of_pages.slack.reset()
    person.browser.open(f"{site}/slack")
    person.click("Install the app in Slack")
    at_slack = person.browser.value("document.querySelector('a[href*=\"/oauth/v2/authorize\"]').href")
    person.browser.open(f"{site}/slack?{urlencode(slack_of_pages.slack.install(at_slack))}")
    person.click("Connect")
    person.clicks = 0
    person.fill("Channel", "rel")
    person.click("Find channels")
    assert "Channels with “rel” in their name" in person.browser.text
    assert axe_violations(person.browser) == []
    person.click("Add the channel")
    assert "The channel gets messages from now on." in person.browser.text
    assert acme.session.scalars(select(SlackSubscription.channel_name)).all() == ["releases"]
    assert person.took_at_most(2, 1)


def test_session_that_ends_in_a_form_costs_one_sign_in(person: Counted, acme: Scene) -> None:
    person.click("Start a freeze")
    acme.session.execute(update(LoginSession).values(revoked_at=factories.now()))
    acme.session.flush()
    person.fill("Why", "No release team at the weekend")
    person.sees("Your session has ended.")
    person.click("Start the freeze")
    person.sees("what you entered is kept")
    assert axe_violations(person.browser) == []
    person.fill("Email address", "admin@example.test")
    person.fill("Password", PASSWORD)
    person.click("Sign in", go=False)
    person.sees("Check what you had entered, and send it.")
    assert person.browser.value("document.getElementById('reason').value") == "No release team at the weekend"
    assert person.browser.path.startswith("/freezes/new")


def test_christmas_of_every_year_takes_four_clicks_and_four_fields(person: Counted, acme: Scene) -> None:
    person.click("Start a freeze")
    person.click("The whole organisation", go=False)
    person.fill("From", "2098-12-23T18:00")
    person.fill("To", "2099-01-02T08:00")
    person.click("Every year", go=False)
    person.fill("Why", "Nobody is in the office")
    person.sees("On the 23rd of December every year, from 18:00 to 08:00 10 days later (Europe/Berlin)")
    person.sees("Type 2 to confirm")
    person.fill("Type 2 to confirm", "2")
    person.click("Plan the freeze")
    assert schedule_of(acme).scope == {"type": "organization"}
    assert person.took_at_most(4, 4)


def test_freeze_of_last_march_among_5000_takes_three_clicks(person: Counted, acme: Scene) -> None:
    acme.session.execute(text(MANY_FREEZES), {"organization": acme.organization.id})
    person.click("Freezes")
    person.fill("In force from", "2026-03-01")
    person.fill("In force to", "2026-03-31")
    person.fill("Words", "ledger")
    person.click("Find")
    person.click("Ledger migration of March")
    assert "Ledger migration of March" in person.browser.text
    assert person.browser.path.startswith("/freezes/frz_")
    assert person.took_at_most(3, 3)


def test_check_of_a_pull_request_says_why_with_one_click(person: Counted, site: str, acme: Scene) -> None:
    factories.pull_request(acme.session, acme.repositories[0], 7)
    factories.freeze(acme.session, acme.organization, [acme.web], reason="Quarter-end close")
    person.clicks += 1  # the link of the check at GitHub
    person.browser.open(page_of_pulls(site, acme.repositories[0].id, [7]))
    person.sees("acme/web#7 is blocked")
    assert "Quarter-end close" in person.browser.text
    assert "Ask for an exception" in person.browser.text
    assert person.clicks == 1
