"""Operations of the tag API keys."""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy.orm import Session

from app.main import Parts, create_app
from models.api_keys import ApiKey, ApiKeySecret
from models.audit import AuditEntry
from models.organizations import Membership
from models.requests import IdempotencyKey
from services.api_key_secrets import looks_like_secret, secret_hash
from tests import factories
from tests.factories import ROLES, SCOPES
from tests.handlers.callers import Caller, Tenant, at_once, refusal
from tests.handlers.conftest import RecordedWakeups
from tests.handlers.guards import takes_credentials
from tests.support.clocks import MovableClock
from tests.support.product import address_of, product_config
from tests.support.second_opinion import checked_client
from tests.support.serving import serving

PATH = "/v1/api-keys"
SECOND = timedelta(seconds=1)
WANTED = {"name": "Release pipeline", "scopes": ["freeze:read"], "expiresAt": None}
USED = "/v1/freezes"
"""What a key is tried with."""


def instant(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def made(acme: Tenant, **changes: Any) -> dict[str, Any]:
    """Have an administrator make a key, and return the answer."""
    answer = acme.person("admin").post(PATH, {**WANTED, **changes})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def rotated(acme: Tenant, key_id: str, **body: Any) -> dict[str, Any]:
    answer = acme.person("admin").post(f"{PATH}/{key_id}/rotate", body)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def works(acme: Tenant, secret: str) -> bool:
    """Tell whether a secret is taken for a key that is good."""
    answer = Caller(acme.http, secret).get(USED)
    assert answer.status_code in {200, 401}, answer.text
    return answer.status_code == 200


def listed(acme: Tenant, **params: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = acme.person("viewer").get(PATH, **params).json()["data"]
    return rows


def audited(acme: Tenant) -> AuditEntry:
    """Return the newest entry of the audit."""
    query = acme.session.query(AuditEntry).where(AuditEntry.organization_id == acme.id)
    return query.order_by(AuditEntry.at.desc(), AuditEntry.id.desc()).limit(1).one()


@pytest.fixture(scope="session")
def other_process(
    shared_database: psycopg.Connection,
    redis_url: str,
    clock_of_session: MovableClock,
    wakeups_of_session: RecordedWakeups,
) -> Iterator[httpx.Client]:
    """Serve the product a second time, on the same database, and return a client of it."""
    config = product_config(
        address_of(shared_database), redis_url, base_url=factories.AUDIENCE, session_issuer=factories.ISSUER
    )
    parts = Parts(clock=clock_of_session, wakeups=wakeups_of_session, access_log=False)
    with serving(create_app(config, parts)) as url, checked_client(url) as client:
        yield client


class TestListApiKeyScopes:
    def test_it_takes_any_member_and_no_key(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda caller: caller.get(f"{PATH}/scopes"), scope=None, least_role="viewer")

    def test_it_tells_every_scope_and_what_it_is_for(self, acme: Tenant) -> None:
        page = acme.person("viewer").get(f"{PATH}/scopes").json()
        assert tuple(row["name"] for row in page["data"]) == SCOPES
        assert all(len(row["description"]) > 10 for row in page["data"])
        assert page["nextCursor"] is None

    def test_pages_lead_through_all_of_them_once(self, acme: Tenant) -> None:
        reader, seen, cursor = acme.person("viewer"), [], None
        while True:
            page = reader.get(f"{PATH}/scopes", limit=4, **({"cursor": cursor} if cursor else {})).json()
            seen += [row["name"] for row in page["data"]]
            cursor = page["nextCursor"]
            if cursor is None:
                break
        assert tuple(seen) == SCOPES

    def test_a_cursor_of_another_list_or_organisation_is_refused(self, acme: Tenant, globex: Tenant) -> None:
        made(acme)
        made(acme)
        of_keys = acme.person("viewer").get(PATH, limit=1).json()["nextCursor"]
        of_globex = globex.person("viewer").get(f"{PATH}/scopes", limit=1).json()["nextCursor"]
        for cursor in (of_keys, of_globex, "nonsense"):
            refusal(acme.person("viewer").get(f"{PATH}/scopes", cursor=cursor), 400, "invalid_cursor")


class TestListApiKeys:
    def test_it_takes_any_member_and_no_key(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda caller: caller.get(PATH), scope=None, least_role="viewer")

    def test_an_organisation_without_keys_has_an_empty_page(self, acme: Tenant) -> None:
        assert acme.person("viewer").get(PATH).json() == {"data": [], "nextCursor": None}

    def test_the_newest_come_first_page_by_page(self, acme: Tenant) -> None:
        names = [made(acme, name=name)["apiKey"]["name"] for name in ("first", "second", "third")]
        first = acme.person("viewer").get(PATH, limit=2).json()
        second = acme.person("viewer").get(PATH, limit=2, cursor=first["nextCursor"]).json()
        assert [row["name"] for row in [*first["data"], *second["data"]]] == names[::-1]
        assert second["nextCursor"] is None

    def test_no_secret_is_in_it(self, acme: Tenant) -> None:
        made_key = made(acme)
        (row,) = listed(acme)
        assert row == made_key["apiKey"]
        assert made_key["secret"] not in acme.person("viewer").get(PATH).text

    def test_only_keys_of_the_organisation_are_listed(self, acme: Tenant, globex: Tenant) -> None:
        made(globex)
        assert listed(acme) == []

    def test_states_tell_them_apart(self, acme: Tenant, session: Session) -> None:
        past = factories.now() - SECOND
        factories.api_key(session, acme.organization, name="active")
        factories.api_key(session, acme.organization, name="for a while", expires_at=past + timedelta(hours=1))
        factories.api_key(session, acme.organization, name="expired", expires_at=past)
        factories.api_key(session, acme.organization, name="revoked", revoked_at=past)
        factories.api_key(session, acme.organization, name="both", revoked_at=past, expires_at=past)
        found = {
            state: {row["name"] for row in listed(acme, state=state)} for state in ("active", "expired", "revoked")
        }
        assert found == {"active": {"active", "for a while"}, "expired": {"expired"}, "revoked": {"revoked", "both"}}
        assert {row["name"]: row["state"] for row in listed(acme)} == {
            name: state for state, names in found.items() for name in names
        }

    def test_a_key_that_nobody_made_is_the_services_own(self, acme: Tenant) -> None:
        acme.key("freeze:read")
        (row,) = listed(acme)
        assert row["createdBy"]["type"] == "system"

    def test_who_made_a_key_is_told_after_they_have_left(self, acme: Tenant, session: Session) -> None:
        made_by = made(acme)["apiKey"]["createdBy"]
        assert (made_by["type"], made_by["name"]) == ("user", "Admin")
        session.query(Membership).where(Membership.user_id == made_by["id"]).delete()
        assert listed(acme)[0]["createdBy"] == made_by


class TestCreateApiKey:
    def test_it_takes_an_administrator_and_no_key(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda caller: caller.post(PATH, WANTED), scope=None, least_role="admin", writes=True)

    def test_a_key_never_mints_a_key(self, acme: Tenant) -> None:
        for key in (acme.key(), Caller(acme.http, made(acme, scopes=list(SCOPES))["secret"])):
            refusal(key.post(PATH, WANTED), 403, "credential_type_not_allowed")

    def test_the_secret_is_shown_once_and_opens_what_the_scopes_say(self, acme: Tenant) -> None:
        answer = acme.person("owner").post(PATH, {**WANTED, "scopes": ["freeze:read", "repo:read"]})
        body = answer.json()
        key = Caller(acme.http, body["secret"])
        assert looks_like_secret(body["secret"])
        assert answer.headers["Location"] == f"{PATH}/{body['apiKey']['id']}"
        assert key.get(USED).status_code == 200
        assert key.get("/v1/repos").status_code == 200
        refusal(key.post("/v1/freezes/lift", {"scope": {"type": "organization"}}), 403, "insufficient_scope")

    def test_the_answer_tells_all_about_it(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        expires_at = clock.at + timedelta(days=365)
        body = made(acme, expiresAt=instant(expires_at))
        shown = body["apiKey"]
        made_by, instants = shown.pop("createdBy"), [shown.pop("createdAt"), shown.pop("expiresAt")]
        assert shown.pop("id").startswith("key_")
        assert (made_by["type"], made_by["id"][:4]) == ("user", "usr_")
        assert [datetime.fromisoformat(text) for text in instants] == [clock.at, expires_at]
        assert shown == {
            "name": "Release pipeline",
            "scopes": ["freeze:read"],
            "agent": False,
            "state": "active",
            "prefix": body["secret"][:13],
            "lastUsedAt": None,
            "rotatedAt": None,
            "graceEndsAt": None,
        }

    @pytest.mark.parametrize("scope", SCOPES)
    def test_each_scope_of_the_vocabulary_can_be_given(self, acme: Tenant, scope: str) -> None:
        assert made(acme, scopes=[scope])["apiKey"]["scopes"] == [scope]

    @pytest.mark.parametrize(
        ("scopes", "path"),
        [
            ([], "/scopes"),
            (["freeze:read", "freeze:read"], "/scopes"),
            (["freeze:read", "freeze:admin"], "/scopes/1"),
            (["api-keys:write"], "/scopes/0"),
            (["Freeze:Read"], "/scopes/0"),
            (["*"], "/scopes/0"),
            ("freeze:read", "/scopes"),
        ],
        ids=str,
    )
    def test_what_is_not_in_the_vocabulary_is_refused(self, acme: Tenant, scopes: object, path: str) -> None:
        error = refusal(acme.person("admin").post(PATH, {**WANTED, "scopes": scopes}), 422, "validation_failed")
        assert [detail["path"] for detail in error["details"]] == [path]
        assert listed(acme) == []

    @pytest.mark.parametrize("name", ["", " ", "a\tb", "trailing ", " leading", "x" * 101])
    def test_a_name_that_cannot_be_read_is_refused(self, acme: Tenant, name: str) -> None:
        refusal(acme.person("admin").post(PATH, {**WANTED, "name": name}), 422, "validation_failed")

    @pytest.mark.parametrize("missing", WANTED)
    def test_name_scopes_and_expiry_have_to_be_given(self, acme: Tenant, missing: str) -> None:
        body = {name: value for name, value in WANTED.items() if name != missing}
        error = refusal(acme.person("admin").post(PATH, body), 400, "missing_parameter")
        assert [detail["path"] for detail in error["details"]] == [f"/{missing}"]

    @pytest.mark.parametrize("field", ["organizationId", "id", "state", "prefix", "secret", "createdBy", "role"])
    def test_nothing_else_can_be_set(self, acme: Tenant, field: str) -> None:
        refusal(acme.person("admin").post(PATH, {**WANTED, field: "x"}), 422, "validation_failed")

    def test_an_expiry_has_to_be_in_the_future(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        for expires_at in (clock.at - SECOND, clock.at):
            answer = acme.person("admin").post(PATH, {**WANTED, "expiresAt": instant(expires_at)})
            error = refusal(answer, 422, "invalid_parameter")
            assert [detail["path"] for detail in error["details"]] == ["/expiresAt"]
        made(acme, expiresAt=instant(clock.at + SECOND))

    def test_the_key_of_an_agent_expires_within_90_days(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        longest = clock.at + timedelta(days=90)
        for expires_at in (None, instant(longest + SECOND)):
            answer = acme.person("admin").post(PATH, {**WANTED, "agent": True, "expiresAt": expires_at})
            error = refusal(answer, 422, "invalid_parameter")
            assert [detail["path"] for detail in error["details"]] == ["/expiresAt"]
        assert made(acme, agent=True, expiresAt=instant(longest))["apiKey"]["agent"]

    def test_it_is_audited_without_its_secret(self, acme: Tenant) -> None:
        body = made(acme)
        entry = audited(acme)
        assert (entry.action, entry.target["id"], entry.target["name"]) == (
            "api_key.created",
            body["apiKey"]["id"],
            "Release pipeline",
        )
        assert entry.actor["type"] == "user"
        assert entry.details["after"]["scopes"] == ["freeze:read"]
        assert body["secret"] not in str(entry.details)

    def test_a_repeat_shows_the_secret_again_for_an_hour_and_makes_no_second_key(
        self, acme: Tenant, session: Session
    ) -> None:
        def create() -> httpx.Response:
            return acme.person("admin").post(PATH, WANTED, headers={"Idempotency-Key": "one-key-only"})

        first, again = create(), create()
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.headers["Location"] == first.headers["Location"]
        assert len(listed(acme)) == 1
        stored = session.query(IdempotencyKey).one()
        assert stored.secret
        assert first.json()["secret"].encode() not in (stored.body or b"")
        assert b"Release pipeline" not in (stored.body or b"")
        stored.created_at -= timedelta(minutes=59)
        session.flush()
        assert create().content == first.content
        stored.created_at -= timedelta(minutes=1)
        session.flush()
        refusal(create(), 409, "idempotency_key_reuse")
        assert len(listed(acme)) == 1

    def test_another_person_with_the_same_key_of_idempotency_makes_another(self, acme: Tenant) -> None:
        headers = {"Idempotency-Key": "one-key-only"}
        first = acme.person("admin").post(PATH, WANTED, headers=headers).json()
        second = acme.person("owner").post(PATH, WANTED, headers=headers).json()
        assert first["secret"] != second["secret"]


class TestRotateApiKey:
    def test_it_takes_an_administrator_and_no_key(self, acme: Tenant) -> None:
        path = f"{PATH}/{made(acme)['apiKey']['id']}/rotate"
        takes_credentials(acme, lambda caller: caller.post(path), scope=None, least_role="admin", writes=True)

    def test_a_key_does_not_rotate_itself(self, acme: Tenant) -> None:
        body = made(acme, scopes=list(SCOPES))
        key = Caller(acme.http, body["secret"])
        refusal(key.post(f"{PATH}/{body['apiKey']['id']}/rotate"), 403, "credential_type_not_allowed")

    def test_both_secrets_work_during_the_grace_and_then_the_new_one_alone(
        self, acme: Tenant, clock: MovableClock
    ) -> None:
        clock.at = factories.now()
        old = made(acme)
        new = rotated(acme, old["apiKey"]["id"], graceSeconds=600)
        ends_at = clock.at + timedelta(seconds=600)
        assert datetime.fromisoformat(new["apiKey"]["graceEndsAt"]) == ends_at
        assert works(acme, old["secret"])
        assert works(acme, new["secret"])
        clock.at = ends_at - SECOND
        assert works(acme, old["secret"])
        assert listed(acme)[0]["graceEndsAt"] is not None
        for late in (timedelta(), SECOND):
            clock.at = ends_at + late
            refusal(Caller(acme.http, old["secret"]).get(USED), 401, "invalid_token")
            assert works(acme, new["secret"])
            assert listed(acme)[0]["graceEndsAt"] is None

    def test_what_the_key_may_do_and_until_when_stays_as_it_is(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        expires_at = instant(clock.at + timedelta(days=30))
        before = made(acme, agent=True, expiresAt=expires_at, scopes=["freeze:read", "repo:read"])
        clock.at += timedelta(minutes=5)
        after = rotated(acme, before["apiKey"]["id"])
        changed = {"prefix", "rotatedAt", "graceEndsAt"}
        assert {name for name, value in after["apiKey"].items() if before["apiKey"][name] != value} == changed
        assert after["apiKey"]["prefix"] == after["secret"][:13]
        assert datetime.fromisoformat(after["apiKey"]["rotatedAt"]) == clock.at
        assert after["secret"] != before["secret"]

    def test_the_grace_is_a_day_unless_told_otherwise(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        key_id = made(acme)["apiKey"]["id"]
        without_body = acme.person("admin").post(f"{PATH}/{key_id}/rotate").json()
        for answer in (without_body, rotated(acme, key_id)):
            assert datetime.fromisoformat(answer["apiKey"]["graceEndsAt"]) == clock.at + timedelta(days=1)

    def test_without_a_grace_the_present_secret_ends_at_once(self, acme: Tenant) -> None:
        old = made(acme)
        assert works(acme, old["secret"])
        new = rotated(acme, old["apiKey"]["id"], graceSeconds=0)
        assert new["apiKey"]["graceEndsAt"] is None
        assert not works(acme, old["secret"])
        assert works(acme, new["secret"])

    def test_rotating_in_the_grace_ends_the_oldest_secret_at_once(self, acme: Tenant) -> None:
        first = made(acme)
        second = rotated(acme, first["apiKey"]["id"])
        third = rotated(acme, first["apiKey"]["id"], graceSeconds=60)
        secrets = [answer["secret"] for answer in (first, second, third)]
        assert [works(acme, secret) for secret in secrets] == [False, True, True]
        last = rotated(acme, first["apiKey"]["id"], graceSeconds=0)
        assert [works(acme, secret) for secret in [*secrets, last["secret"]]] == [False, False, False, True]

    def test_the_grace_never_passes_the_expiry(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        expires_at = clock.at + timedelta(minutes=10)
        old = made(acme, expiresAt=instant(expires_at))
        new = rotated(acme, old["apiKey"]["id"])
        assert new["apiKey"]["graceEndsAt"] == new["apiKey"]["expiresAt"]
        clock.at = expires_at - SECOND
        assert works(acme, old["secret"])
        assert works(acme, new["secret"])
        for late in (timedelta(), SECOND):
            clock.at = expires_at + late
            for body in (old, new):
                refusal(Caller(acme.http, body["secret"]).get(USED), 401, "token_expired")

    @pytest.mark.parametrize("seconds", [-1, 604_801, 1.5, "60", None])
    def test_a_grace_is_at_most_a_week(self, acme: Tenant, seconds: object) -> None:
        path = f"{PATH}/{made(acme)['apiKey']['id']}/rotate"
        refusal(acme.person("admin").post(path, {"graceSeconds": seconds}), 422, "validation_failed")

    @pytest.mark.parametrize("field", ["scopes", "expiresAt", "agent", "name"])
    def test_a_key_is_never_widened(self, acme: Tenant, field: str) -> None:
        body = made(acme)
        answer = acme.person("owner").post(f"{PATH}/{body['apiKey']['id']}/rotate", {field: ["freeze:write"]})
        refusal(answer, 422, "validation_failed")
        assert listed(acme) == [body["apiKey"]]

    def test_one_that_is_revoked_or_expired_cannot_be_rotated(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        revoked, expiring = made(acme), made(acme, expiresAt=instant(clock.at + SECOND))
        acme.person("admin").delete(f"{PATH}/{revoked['apiKey']['id']}")
        clock.at += SECOND
        for body in (revoked, expiring):
            answer = acme.person("admin").post(f"{PATH}/{body['apiKey']['id']}/rotate")
            refusal(answer, 409, "invalid_state")

    def test_an_unknown_one_and_another_organisations_are_not_found(self, acme: Tenant, globex: Tenant) -> None:
        for key_id in ("key_00000000000000000000000000", "nonsense", made(globex)["apiKey"]["id"]):
            refusal(acme.person("admin").post(f"{PATH}/{key_id}/rotate"), 404, "api_key_not_found")

    def test_two_at_once_leave_one_secret_without_an_end(self, acme: Tenant, session: Session) -> None:
        body = made(acme)
        path = f"{PATH}/{body['apiKey']['id']}/rotate"
        admin = acme.person("admin")
        answers = at_once(*[lambda: admin.post(path, {"graceSeconds": 600})] * 4)
        assert [answer.status_code for answer in answers] == [200] * 4
        secrets = session.query(ApiKeySecret).where(ApiKeySecret.api_key_id == body["apiKey"]["id"]).all()
        assert len([row for row in secrets if row.ends_at is None]) == 1
        assert sum(works(acme, answer.json()["secret"]) for answer in answers) == 2
        assert not works(acme, body["secret"])

    def test_it_is_audited(self, acme: Tenant) -> None:
        body = rotated(acme, made(acme)["apiKey"]["id"])
        entry = audited(acme)
        assert (entry.action, entry.target["id"]) == ("api_key.rotated", body["apiKey"]["id"])
        assert body["secret"] not in str(entry.details)
        assert datetime.fromisoformat(entry.details["after"]["graceEndsAt"]) == datetime.fromisoformat(
            body["apiKey"]["graceEndsAt"]
        )

    def test_a_repeat_shows_the_same_secret_and_rotates_once(self, acme: Tenant, session: Session) -> None:
        body = made(acme)
        path, headers = f"{PATH}/{body['apiKey']['id']}/rotate", {"Idempotency-Key": "rotated-once"}
        first = acme.person("admin").post(path, {"graceSeconds": 60}, headers=headers)
        again = acme.person("admin").post(path, {"graceSeconds": 60}, headers=headers)
        assert again.content == first.content
        assert works(acme, body["secret"])
        stored = session.query(IdempotencyKey).one()
        assert stored.secret
        assert first.json()["secret"].encode() not in (stored.body or b"")


class TestRevokeApiKey:
    def test_it_takes_an_administrator_and_no_key(self, acme: Tenant) -> None:
        path = f"{PATH}/{made(acme)['apiKey']['id']}"
        takes_credentials(acme, lambda caller: caller.delete(path), scope=None, least_role="admin", writes=True)

    def test_all_its_secrets_end_at_once(self, acme: Tenant) -> None:
        old = made(acme)
        new = rotated(acme, old["apiKey"]["id"])
        assert works(acme, old["secret"])
        assert works(acme, new["secret"])
        assert acme.person("admin").delete(f"{PATH}/{old['apiKey']['id']}").status_code == 204
        for body in (old, new):
            refusal(Caller(acme.http, body["secret"]).get(USED), 401, "invalid_token")
        (row,) = listed(acme)
        assert (row["state"], row["graceEndsAt"]) == ("revoked", None)

    def test_a_second_time_is_a_conflict(self, acme: Tenant) -> None:
        path = f"{PATH}/{made(acme)['apiKey']['id']}"
        assert acme.person("admin").delete(path).status_code == 204
        refusal(acme.person("admin").delete(path), 409, "invalid_state")
        assert acme.audit().count("api_key.revoked") == 1

    def test_of_two_at_once_one_meets_a_conflict(self, acme: Tenant) -> None:
        path, admin = f"{PATH}/{made(acme)['apiKey']['id']}", acme.person("admin")
        answers = at_once(*[lambda: admin.delete(path)] * 2)
        assert sorted(answer.status_code for answer in answers) == [204, 409]

    def test_one_that_has_expired_is_over_already(self, acme: Tenant, clock: MovableClock) -> None:
        clock.at = factories.now()
        body = made(acme, expiresAt=instant(clock.at + SECOND))
        clock.at += SECOND
        refusal(acme.person("admin").delete(f"{PATH}/{body['apiKey']['id']}"), 409, "invalid_state")

    def test_an_unknown_one_and_another_organisations_are_not_found(self, acme: Tenant, globex: Tenant) -> None:
        theirs = made(globex)
        for key_id in ("key_00000000000000000000000000", "nonsense", theirs["apiKey"]["id"]):
            refusal(acme.person("admin").delete(f"{PATH}/{key_id}"), 404, "api_key_not_found")
        assert works(globex, theirs["secret"])

    def test_it_is_audited(self, acme: Tenant) -> None:
        key_id = made(acme)["apiKey"]["id"]
        acme.person("owner").delete(f"{PATH}/{key_id}")
        entry = audited(acme)
        assert (entry.action, entry.target["id"], entry.actor["name"]) == ("api_key.revoked", key_id, "Owner")


class TestEveryProcess:
    """What one process does to a key acts in another one from the next request on, whatever that remembers."""

    def test_a_revocation_acts_at_once(self, acme: Tenant, other_process: httpx.Client) -> None:
        body = made(acme)
        there = Caller(other_process, body["secret"])
        assert there.get(USED).status_code == 200
        acme.person("admin").delete(f"{PATH}/{body['apiKey']['id']}")
        refusal(there.get(USED), 401, "invalid_token")

    def test_a_rotation_acts_at_once(self, acme: Tenant, other_process: httpx.Client) -> None:
        old = made(acme)
        assert Caller(other_process, old["secret"]).get(USED).status_code == 200
        new = rotated(acme, old["apiKey"]["id"], graceSeconds=0)
        refusal(Caller(other_process, old["secret"]).get(USED), 401, "invalid_token")
        assert Caller(other_process, new["secret"]).get(USED).status_code == 200

    def test_an_expiry_is_met_to_the_second(
        self, acme: Tenant, other_process: httpx.Client, clock: MovableClock
    ) -> None:
        clock.at = factories.now()
        expires_at = clock.at + timedelta(minutes=10)
        secret = made(acme, expiresAt=instant(expires_at))["secret"]
        callers = [Caller(http, secret) for http in (acme.http, other_process)]
        for before in (timedelta(minutes=10), SECOND):
            clock.at = expires_at - before
            assert [caller.get(USED).status_code for caller in callers] == [200, 200]
        for late in (timedelta(), SECOND):
            clock.at = expires_at + late
            for caller in callers:
                refusal(caller.get(USED), 401, "token_expired")
        assert listed(acme)[0]["state"] == "expired"


@pytest.mark.parametrize("role", ROLES)
def test_a_lost_role_ends_the_making_of_keys_at_once(acme: Tenant, session: Session, role: str) -> None:
    admin = acme.person("admin")
    assert admin.post(PATH, WANTED).status_code == 201
    session.query(Membership).where(Membership.organization_id == acme.id).update({"role": role})
    expected = 201 if role in {"admin", "owner"} else 403
    assert admin.post(PATH, WANTED).status_code == expected


def test_secrets_are_neither_kept_nor_logged(
    acme: Tenant, session: Session, shared_database: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    first = acme.person("admin").post(PATH, WANTED, headers={"Idempotency-Key": "kept-sealed"}).json()
    second = rotated(acme, first["apiKey"]["id"])
    for body in (first, second):
        assert works(acme, body["secret"])
    acme.person("admin").delete(f"{PATH}/{first['apiKey']['id']}")
    refusal(Caller(acme.http, second["secret"]).get(USED), 401, "invalid_token")
    tables = [name for (name,) in shared_database.execute("SELECT relname FROM pg_class WHERE relkind = 'r'")]
    dump = "".join(
        str(row)
        for table in tables
        if table in ApiKey.metadata.tables
        for row in shared_database.execute(f"SELECT to_jsonb(t)::text FROM {table} t")
    )
    assert secret_hash(second["secret"]).hex() in dump
    for body in (first, second):
        assert body["secret"][13:] not in dump
        assert body["secret"].encode().hex() not in dump
        assert body["secret"][13:] not in caplog.text
