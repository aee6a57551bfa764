"""Schedules, findings, keys and people for the pages of the dashboard, made by its own forms."""

from datetime import timedelta

from tests import factories
from tests.web.people.dashboard.conftest import Scene
from tests.web.people.forms import Page, Person

WEEKENDS = {
    "name": "Weekends",
    "reason": "No release team at the weekend",
    "day_FR": "on",
    "days": "3",
    "start_date": f"{factories.now() + timedelta(days=4):%Y-%m-%d}",  # no window is open now, whatever day it is
}
MONTH_ENDS = {
    "name": "Month end",
    "reason": "The books are closed",
    "frequency": "monthly",
    "month_days": "-1",
    "start_time": "12:00",
    "end_time": "12:00",
    "days": "1",
    "timezone": "Europe/London",
}
HOLIDAYS = {
    "name": "Holidays",
    "reason": "Nobody is in the office",
    "frequency": "dates",
    "dates": "2027-12-24, 2027-12-31",
    "start_time": "00:00",
    "end_time": "00:00",
    "days": "1",
}


def create_schedule(person: Person, **fields: str) -> Page:
    """Create a schedule that may overlap others, by the form, and return its page."""
    page = person.open("/schedules/new")
    return person.press(page, "Create schedule", **{"allow_overlap": "on", "acknowledged": "on", **fields})


def schedule_id_of(page: Page) -> str:
    """Return the id in the address of a schedule's page."""
    return page.answer.url.path.split("/")[2]


def fill_organization(person: Person, acme: Scene) -> dict[str, str]:
    """Give the organisation something of everything, and return the ids of things with pages of their own."""
    first = create_schedule(person, **WEEKENDS)
    for fields in (MONTH_ENDS, HOLIDAYS):
        create_schedule(person, **fields)
    schedule_id = schedule_id_of(first)
    person.press(first, "Skip")
    factories.freeze(acme.session, acme.organization, [acme.web], reason="Database migration")
    factories.repository(acme.session, acme.organization, "acme/library", enabled=False)
    release = factories.branch(acme.session, acme.repositories[1], "release/1.2")
    factories.branch_enforcement(acme.session, release, "red")
    factories.repository(acme.session, acme.organization, "acme/old", archived=True)
    person.press(person.open("/settings/members"), "Invite", email="grace@example.test")
    person.press(person.open("/settings/calendars"), "Create feed", name="Team calendar")
    keys = person.open("/settings/keys")
    person.press(keys, "Create key", name="deploy pipeline", scope="freeze:read")
    acme.session.flush()
    ids = {"schedule": schedule_id, "repository": acme.repositories[1].id, "branch": acme.web.id}
    return {**ids, "webhook": add_webhook(acme)}


def add_webhook(acme: Scene) -> str:
    """Add a webhook whose address answers no more, and return its id."""
    now = factories.now()
    webhook = factories.webhook(acme.session, acme.organization, name="Chat", failing_since=now - timedelta(hours=2))
    factories.webhook_message(acme.session, webhook, attempt_count=1, last_status=200, delivered_at=now, due_at=None)
    refused = {"attempt_count": 3, "last_status": 503, "last_attempt_at": now, "last_answer": "<h1>Down</h1>"}
    factories.webhook_message(acme.session, webhook, due_at=now + timedelta(minutes=4), **refused)
    return webhook.id
