"""Claiming an installation: the proofs that it takes, and what an uninstallation leaves of it."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from models.attention import AttentionItem
from models.audit import AuditEntry
from models.base import Base
from models.freezes import Freeze
from models.identity import OneTimeToken
from models.installations import Installation, RepositorySync
from models.repositories import Repository
from rules.rulesets.app_permissions import NEEDED
from tests import factories
from tests.handlers.callers import EVERYTHING, Caller, Tenant, at_once, refusal
from tests.handlers.conftest import RecordedWakeups
from tests.handlers.connecting import BACK, CLAIM, URL, Town
from tests.handlers.guards import takes_credentials
from tools.fake_github.model.installations import install, suspend
from tools.fake_github.model.world import Actor

ANYTHING = {"installationId": 1, "state": "x" * 43, "code": "y" * 20}


def pointed(response: httpx.Response, path: str) -> None:
    """Check that a value of the body was refused, and which."""
    assert [row["path"] for row in refusal(response, 422, "invalid_parameter")["details"]] == [path]


class TestClaimInstallation:
    def test_is_for_administrators(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda who: who.post(CLAIM, ANYTHING), scope=None, least_role="admin", writes=True)

    def test_makes_the_installation_ones_own(self, town: Town, session: Session, wakeups: RecordedWakeups) -> None:
        body = town.install()
        answer = town.claim(body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {
            "installationId": body["installationId"],
            "account": "acme",
            "state": "active",
            "repositorySelection": "all",
            "permissions": town.host.world.installations[body["installationId"]].permissions,
            "missingPermissions": [],
        }
        row = session.get_one(Installation, body["installationId"])
        assert row.organization_id == town.tenant.id
        assert session.get_one(RepositorySync, row.id).due_at is not None
        assert {"sync", "reconcile", "verify"} <= wakeups.sent
        assert town.tenant.audit() == ["installation.requested", "installation.claimed"]

    def test_is_audited_with_who_proved_it(self, town: Town, session: Session) -> None:
        body = town.install("grace")
        town.claim(body)
        [row] = session.scalars(select(AuditEntry).where(AuditEntry.action == "installation.claimed"))
        assert row.target == {"type": "installation", "id": str(body["installationId"]), "name": "acme"}
        after = {"state": "active", "repositorySelection": "all"}
        assert (row.actor["name"], row.details) == ("Admin", {"provedBy": "grace", "before": None, "after": after})

    def test_under_a_key_is_one_claim(self, town: Town) -> None:
        body, headers = town.install(), {"Idempotency-Key": "one"}
        first, again = (town.admin.post(CLAIM, body, headers=headers) for _ in range(2))
        assert (first.status_code, again.status_code, again.json()) == (200, 200, first.json())
        assert again.headers["Idempotency-Replayed"] == "true"
        assert town.tenant.audit().count("installation.claimed") == 1

    def test_gives_the_persons_token_back(self, town: Town) -> None:
        assert town.claim(town.install()).status_code == 200
        assert any(each.startswith("ghu_") for each in town.host.oauth.issued)
        assert town.host.oauth.tokens == set()

    def test_keeps_neither_state_nor_code_nor_token(self, town: Town, session: Session) -> None:
        body = town.install()
        town.claim(body)
        kept = "".join(
            str(session.execute(text(f"SELECT t::text FROM {table} t")).all()) for table in Base.metadata.tables
        )
        assert [each for each in (body["state"], *town.host.oauth.issued) if each in kept] == []

    def test_of_a_suspended_one_says_so(self, town: Town) -> None:
        body = town.install()
        with town.host.quietly():
            found = town.host.world.installations[body["installationId"]]
            suspend(town.host.world, Actor(town.host.maintainer), found, suspended=True)
        assert town.claim(body).json()["state"] == "suspended"

    def test_says_what_the_app_was_not_granted(self, town: Town) -> None:
        body = town.install()
        town.host.world.installations[body["installationId"]].permissions = {"checks": "read", "members": "read"}
        missing = town.claim(body).json()["missingPermissions"]
        assert missing == [f"{name}:{level}" for name, level in NEEDED.items()]

    def test_again_by_the_same_organisation_is_no_fault(self, town: Town) -> None:
        first = town.claim(town.install())
        again = town.claim(town.install())
        assert first.json() == again.json()
        assert again.status_code == 200

    def test_of_a_persons_own_account_is_theirs_alone(self, town: Town) -> None:
        with town.host.quietly():
            account = town.host.world.add_account("ada", "User")
            number = install(town.host.world, Actor(account), town.host.app, account).id
        state = town.install()["state"]
        foreign = {"installationId": number, "state": state, "code": town.code("root")}
        refusal(town.claim(foreign), 403, "github_permission_denied")
        own = town.claim({**foreign, "code": town.code("ada")})
        assert (own.status_code, own.json()["account"]) == (200, "ada")


class TestTheStateOfAClaim:
    def test_is_good_once(self, town: Town) -> None:
        body = town.install()
        assert town.claim(body).status_code == 200
        pointed(town.claim({**body, "code": town.code()}), "/state")

    def test_is_good_once_however_many_come_together(self, town: Town) -> None:
        body = town.install()
        bodies = [{**body, "code": town.code()} for _ in range(3)]
        answers = at_once(*(lambda sent=sent: town.claim(sent) for sent in bodies))
        assert sorted(answer.status_code for answer in answers) == [200, 422, 422]

    def test_is_good_for_an_hour(self, town: Town, session: Session, later: Any) -> None:
        person = factories.user(session)
        factories.membership(session, town.tenant.organization, person, "admin")
        token = factories.session_token(session, person, town.tenant.organization, ttl=timedelta(hours=2))
        ada = Caller(town.admin.http, token)
        body = town.install(address=town.address(ada))
        later(minutes=59)
        pointed(town.claim({**body, "code": "wrong"}, ada), "/code")
        later(minutes=1)
        pointed(town.claim({**body, "code": town.code()}, ada), "/state")

    def test_is_for_the_person_who_asked(self, town: Town) -> None:
        pointed(town.claim(town.install(), town.tenant.person("owner")), "/state")

    def test_is_for_the_organisation_that_asked(self, town: Town, globex: Tenant) -> None:
        pointed(town.claim(town.install(), globex.person("admin")), "/state")

    def test_is_for_one_organisation_of_a_person_with_several(
        self, town: Town, globex: Tenant, session: Session
    ) -> None:
        person = factories.user(session)
        callers = []
        for tenant in (town.tenant, globex):
            factories.membership(session, tenant.organization, person, "admin")
            callers.append(Caller(town.admin.http, factories.session_token(session, person, tenant.organization)))
        body = town.install(address=town.address(callers[0]))
        pointed(town.claim(body, callers[1]), "/state")
        assert town.claim({**body, "code": town.code()}, callers[0]).status_code == 200

    @pytest.mark.parametrize("tampered", ["x" * 43, "A", "{}x", "!{}"])
    def test_cannot_be_made_up(self, town: Town, tampered: str) -> None:
        body = town.install()
        pointed(town.claim({**body, "state": tampered.format(body["state"])[:128]}), "/state")

    def test_of_another_purpose_is_none(self, town: Town, session: Session) -> None:
        body = town.install()
        session.execute(update(OneTimeToken).values(purpose="invitation"))
        pointed(town.claim(body), "/state")

    def test_outlives_a_code_that_was_refused(self, town: Town) -> None:
        body = town.install()
        pointed(town.claim({**body, "code": "made-up"}), "/code")
        assert town.claim(body).status_code == 200

    def test_outlives_a_code_host_that_is_away(self, town: Town) -> None:
        body = town.install()
        fault = town.host.faults.add("error", "GET /user/installations", status=502)
        refusal(town.claim(body), 502, "github_unavailable")
        town.host.faults.clear(fault.id)
        assert town.host.oauth.tokens == set()
        pointed(town.claim(body), "/code")
        assert town.claim({**body, "code": town.code()}).status_code == 200


class TestTheProofOfAClaim:
    def test_takes_an_owner_of_the_account(self, town: Town) -> None:
        town.rights("grace", acme="push", acme__web="admin")
        body = {**town.install(), "code": town.code("grace")}
        error = refusal(town.claim(body), 403, "github_permission_denied")
        assert "grace is not an owner of acme" in error["message"]
        assert town.host.oauth.tokens == set()

    def test_takes_somebody_who_reaches_the_installation(self, town: Town) -> None:
        town.rights("heidi")
        refusal(town.claim({**town.install(), "code": town.code("heidi")}), 404, "installation_not_found")

    def test_takes_an_app_that_may_ask_for_members(self, town: Town) -> None:
        body = town.install()
        del town.host.world.installations[body["installationId"]].permissions["members"]
        refusal(town.claim(body), 403, "github_permission_denied")

    def test_takes_a_code_that_github_gave_the_app(self, town: Town) -> None:
        body = town.install()
        other = town.host.oauth.give_code(town.host.oauth.client_id, town.host.maintainer, BACK)
        pointed(town.claim({**body, "code": other}), "/code")

    def test_does_not_tell_an_unknown_installation_from_one_that_is_out_of_reach(
        self, town: Town, globex: Tenant
    ) -> None:
        town.rights("root", acme="admin")
        body = town.install()
        told = []
        for number in (globex.installation.id, 987654321):
            sent = {**body, "installationId": number, "code": town.code()}
            error = refusal(town.claim(sent), 404, "installation_not_found")
            told.append(error["message"].replace(str(number), "…"))
        assert told[0] == told[1]

    def test_of_what_another_organisation_has_is_refused(self, town: Town, globex: Tenant, session: Session) -> None:
        before = session.execute(text("SELECT i::text FROM installations i")).all()
        body = {**town.install(), "installationId": globex.installation.id}
        refusal(town.claim(body), 409, "installation_claimed_by_other_org")
        assert session.execute(text("SELECT i::text FROM installations i")).all() == before

    def test_of_two_organisations_at_once_is_good_for_one(self, town: Town, globex: Tenant, session: Session) -> None:
        session.delete(globex.installation)
        session.flush()
        town.uninstall(globex.installation.id)
        body, rival = town.install(), globex.person("admin")
        other = {**body, **town.install(address=town.address(rival)), "code": town.code()}
        answers = at_once(lambda: town.claim(body), lambda: town.claim(other, rival))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        [row] = session.scalars(select(Installation))
        assert row.organization_id == (town.tenant.id if answers[0].status_code == 200 else globex.id)

    @pytest.mark.parametrize(
        ("status", "headers", "answered", "code"),
        [
            (403, {"x-ratelimit-remaining": "0", "retry-after": "7"}, 429, "github_rate_limited"),
            (429, {"retry-after": "7"}, 429, "github_secondary_rate_limit"),
            (403, {}, 403, "github_permission_denied"),
            (502, {}, 502, "github_unavailable"),
        ],
    )
    @pytest.mark.parametrize("call", ["GET /user", "GET /user/installations", "GET /app/installations"])
    def test_says_why_github_did_not_tell(
        self, town: Town, call: str, status: int, headers: dict[str, str], answered: int, code: str
    ) -> None:
        body = town.install()
        fault = town.host.faults.add("error", call, status=status, headers=headers)
        refusal(town.claim(body), answered, code)
        town.host.faults.clear(fault.id)
        assert town.host.oauth.tokens == set()

    def test_of_what_nobody_has_any_more_is_enough(self, town: Town, session: Session) -> None:
        body = town.install()
        factories.installation(session, None, "acme", id=body["installationId"])
        assert town.claim(body).status_code == 200

    def test_beside_one_that_is_there_is_refused(self, town: Town) -> None:
        assert town.claim(town.install()).status_code == 200
        town.host.organization("acme-labs")
        error = refusal(town.claim(town.install(account="acme-labs")), 409, "invalid_state")
        assert "acme" in error["message"]


class TestAfterAnUninstallation:
    def test_that_nobody_told_us_of_another_can_be_claimed(self, town: Town, session: Session) -> None:
        first = town.claim(town.install()).json()["installationId"]
        branch = factories.watched(session, town.tenant.organization)
        freeze = factories.freeze(session, town.tenant.organization, [branch])
        town.uninstall(first)
        second = town.claim(town.install())
        assert second.status_code == 200, second.text
        states = {row.id: row.state for row in session.scalars(select(Installation))}
        assert states == {first: "removed", second.json()["installationId"]: "active"}
        session.expire_all()
        assert session.get_one(Freeze, freeze.id).end_reason == "installation_removed"
        assert town.tenant.audit()[-3:] == ["installation.removed", "freeze.ended", "installation.claimed"]
        assert session.scalars(select(AttentionItem)).all() == []

    def test_works_again(self, town: Town, session: Session) -> None:
        first = town.claim(town.install()).json()["installationId"]
        branch = factories.branch(session, town.tenant.repository("web"))
        town.uninstall(first)
        session.execute(update(Installation).values(state="removed"))
        refusal(town.admin.post("/v1/freezes", EVERYTHING), 410, "installation_removed")
        refusal(town.admin.post("/v1/repos/sync"), 410, "installation_removed")
        second = town.claim(town.install()).json()["installationId"]
        assert town.admin.post("/v1/freezes", EVERYTHING).status_code == 201
        session.expire_all()
        assert session.get_one(Repository, branch.repository_id).installation_id == second

    def test_the_address_and_the_claim_go_on_working(self, acme: Tenant, session: Session) -> None:
        session.execute(update(Installation).values(state="removed"))
        assert acme.person("admin").get(URL).status_code == 200
        pointed(acme.person("admin").post(CLAIM, ANYTHING), "/state")
