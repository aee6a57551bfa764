"""A person lets a program in, or does not."""

from collections.abc import Callable

import httpx
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.organizations import User
from rules.access.user_codes import new_user_code
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.device_sign_in.requests import APPROVE, MINUTES_15, Device, Later, decide, oauth_error, signed_in
from tests.harness.concurrency import at_once


class TestDeviceApprove:
    def test_device_session_does_not_approve_devices(self, device: Device, ada: User, acme: Tenant) -> None:
        other = signed_in(acme.session, device.http, ada, acme.organization, kind="device")
        refusal(decide(other, device), 403, "credential_type_not_allowed")
        assert oauth_error(device.poll()) == "authorization_pending"

    def test_device_approval_returns_the_client_and_its_address(
        self, device: Device, person: Caller, acme: Tenant
    ) -> None:
        shown = decide(person, device).json()
        assert shown.pop("decidedAt")
        assert shown == {
            "userCode": device.user_code,
            "clientId": "freeze-cli",
            "address": "127.0.0.1",
            "approved": True,
            "organizationId": acme.id,
        }

    def test_device_approval_accepts_codes_in_any_notation(self, begin: Callable[[], Device], person: Caller) -> None:
        for written in (str.lower, lambda code: code.replace("-", ""), lambda code: f" {code.replace('-', ' ')} "):
            device = begin()
            answer = person.post(APPROVE, {"userCode": written(device.user_code), "decision": "approve"})
            assert (answer.status_code, answer.json()["userCode"]) == (200, device.user_code)

    def test_device_is_decided_only_once(self, device: Device, person: Caller) -> None:
        answers = at_once(*[lambda: decide(person, device), lambda: decide(person, device, "deny")] * 2)
        assert sorted(answer.status_code for answer in answers) == [200, 404, 404, 404]
        refusal(decide(person, device, "deny"), 404, "not_found")
        refusal(decide(person, device), 404, "not_found")

    def test_device_stays_pending_when_approved_for_a_foreign_organization(
        self, device: Device, person: Caller, globex: Tenant
    ) -> None:
        for wanted in (globex.id, "org_" + "0" * 26, "nonsense"):
            refusal(decide(person, device, organizationId=wanted), 404, "not_found")
        assert oauth_error(device.poll()) == "authorization_pending"
        assert decide(person, device).status_code == 200

    def test_device_approval_for_a_deleted_organization_is_refused(
        self, device: Device, person: Caller, acme: Tenant
    ) -> None:
        acme.organization.deleted_at = factories.now()
        acme.session.flush()
        refusal(decide(person, device, organizationId=acme.id), 410, "organization_deleted")

    def test_device_approval_uses_the_named_or_active_or_only_organization(
        self, begin: Callable[[], Device], http: httpx.Client, ada: User, acme: Tenant, globex: Tenant
    ) -> None:
        nowhere = signed_in(acme.session, http, ada, None)
        assert decide(nowhere, begin()).json()["organizationId"] == acme.id
        factories.membership(acme.session, globex.organization, ada)
        assert decide(nowhere, begin()).json()["organizationId"] is None
        assert decide(nowhere, begin(), organizationId=globex.id).json()["organizationId"] == globex.id
        active = signed_in(acme.session, http, ada, globex.organization)
        device = begin()
        assert decide(active, device).json()["organizationId"] == globex.id
        assert device.poll().json()["organization_id"] == globex.id

    def test_device_approval_works_for_a_person_without_organization(
        self, session: Session, device: Device, http: httpx.Client
    ) -> None:
        alone = signed_in(session, http, factories.user(session), None)
        assert decide(alone, device).json()["organizationId"] is None
        shown = device.poll().json()
        assert shown["organization_id"] is None
        refusal(Caller(http, shown["access_token"]).get("/v1/freezes"), 403, "organization_not_provisioned")

    def test_wrong_user_codes_are_rate_limited_per_person(
        self, session: Session, begin: Callable[[], Device], person: Caller, ada: User, later: Later
    ) -> None:
        for _ in range(9):
            refusal(guess(person), 404, "not_found")
        assert decide(person, begin()).status_code == 200  # a right one, which does not make up for the others
        refusal(guess(person), 404, "not_found")
        refused = decide(person, begin())
        refusal(refused, 429, "rate_limited")
        assert 0 < int(refused.headers["Retry-After"]) <= MINUTES_15
        later(minutes=15)
        assert decide(person, begin()).status_code == 200

    def test_wrong_user_codes_are_rate_limited_per_address(
        self, device: Device, http: httpx.Client, person: Caller, acme: Tenant
    ) -> None:
        for number in range(30):
            if number % 10 == 0:
                guesser = signed_in(acme.session, http, factories.user(acme.session), None)
            refusal(guess(guesser), 404, "not_found")
        refusal(decide(person, device), 429, "rate_limited")

    def test_device_approval_rejects_invalid_codes_and_decisions(self, device: Device, person: Caller) -> None:
        for code in ("AEIOU-AEIOU", "WDJBM", "\u202e", "B" * 40):
            refusal(person.post(APPROVE, {"userCode": code, "decision": "approve"}), 404, "not_found")
        refusal(person.post(APPROVE, {"userCode": device.user_code}), 400, "missing_parameter")
        refusal(person.post(APPROVE, {"userCode": "", "decision": "approve"}), 422, "validation_failed")
        refusal(decide(person, device, "perhaps"), 422, "validation_failed")
        refusal(decide(person, device, userId="usr_1"), 422, "validation_failed")

    def test_device_decisions_and_the_sign_in_are_audited(
        self, begin: Callable[[], Device], person: Caller, ada: User, acme: Tenant
    ) -> None:
        approved, denied = begin(), begin()
        decide(person, approved)
        decide(person, denied, "deny")
        approved.poll()
        denied.poll()
        assert acme.audit() == ["device.approved", "device.denied", "session.started"]
        entries = acme.session.scalars(select(AuditEntry).order_by(AuditEntry.at, AuditEntry.id)).all()
        assert {entry.actor["id"] for entry in entries} == {ada.id}
        assert entries[0].target == {"type": "device", "id": approved.user_code, "name": "freeze-cli"}
        assert entries[0].details == {"address": "127.0.0.1"}
        assert entries[2].target["name"] == "freeze-cli"


def guess(person: Caller) -> httpx.Response:
    return person.post(APPROVE, {"userCode": new_user_code(), "decision": "approve"})
