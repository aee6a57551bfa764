"""`ETag` and `If-Match` of settings: a change that was made in between is not lost.

The forms that the header takes are in `schedules/test_entity_tags.py`.
"""

from typing import Any, NamedTuple

import httpx
import pytest

from models.notifications import NotificationDestination
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.harness.concurrency import at_once


class Resource(NamedTuple):
    """What can be changed: its path and two bodies that change it."""

    path: str
    one: dict[str, Any]
    other: dict[str, Any]


RESOURCES = {
    "organization": Resource("/v1/orgs/current", {"name": "One"}, {"settings": {"approval": "member"}}),
    "repository": Resource(
        "/v1/repos/{repository}", {"settings": {"autoWatch": ["one/*"]}}, {"settings": {"autoWatch": ["other/*"]}}
    ),
    "webhook": Resource("/v1/webhooks/{webhook}", {"name": "One"}, {"enabled": False}),
    "notifications": Resource("/v1/me/notifications", {"kinds": []}, {"remindBefore": [30]}),
    "schedule": Resource("/v1/schedules/{schedule}", {"name": "One"}, {"reason": "Another reason"}),
}


@pytest.fixture(params=RESOURCES)
def resource(request: pytest.FixtureRequest, acme: Tenant) -> Resource:
    found = RESOURCES[request.param]
    acme.session.add(NotificationDestination(id=acme.id, organization_id=acme.id, channel="mail", sequence=0))
    acme.session.flush()
    ids = {
        "repository": factories.repository(acme.session, acme.organization, "acme/settings").id,
        "webhook": factories.webhook(acme.session, acme.organization).id,
        "schedule": factories.schedule(acme.session, acme.organization).id,
    }
    return found._replace(path=found.path.format(**ids))


def patch(caller: Caller, path: str, body: dict[str, Any], tag: str, **headers: str) -> httpx.Response:
    return caller.patch(path, body, headers={"If-Match": tag, **headers})


def test_tag_is_that_of_the_present_state(admin: Caller, resource: Resource) -> None:
    before = admin.get(resource.path).headers["ETag"]
    changed = patch(admin, resource.path, resource.one, before)
    assert changed.is_success
    assert changed.headers["ETag"] == admin.get(resource.path).headers["ETag"] != before


def test_change_is_refused_when_the_state_is_another_one(admin: Caller, resource: Resource) -> None:
    tag = admin.get(resource.path).headers["ETag"]
    assert admin.patch(resource.path, resource.one).is_success
    present = admin.get(resource.path)
    refusal(patch(admin, resource.path, resource.other, tag), 412, "precondition_failed")
    refusal(patch(admin, resource.path, {}, tag), 412, "precondition_failed")
    assert admin.get(resource.path).json() == present.json()
    assert patch(admin, resource.path, resource.other, f"{tag}, {present.headers['ETag']}").is_success


def test_one_of_concurrent_changes_with_the_same_tag_takes_effect(admin: Caller, resource: Resource) -> None:
    tag = admin.get(resource.path).headers["ETag"]
    bodies = (resource.one, resource.other) * 2
    answers = at_once(*[lambda body=body: patch(admin, resource.path, body, tag) for body in bodies])
    assert sorted(each.status_code for each in answers) == [200, 412, 412, 412]


def test_repeated_request_is_answered_whatever_its_tag(admin: Caller, resource: Resource) -> None:
    tag = admin.get(resource.path).headers["ETag"]
    first, again = (patch(admin, resource.path, resource.one, tag, **{"Idempotency-Key": "save"}) for _ in range(2))
    assert (first.status_code, again.status_code, again.headers["Idempotency-Replayed"]) == (200, 200, "true")
    assert first.headers["ETag"] == again.headers["ETag"]
