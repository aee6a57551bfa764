"""The overview, and what needs attention: what is told, to whom, and that items go by themselves."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.attention import AttentionItem
from models.audit import AuditEntry
from models.installations import Installation
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from schemas.contract import load_contract
from services import attention_sources, landing_reports
from services.enforcement import orphans
from services.schedules import alerts, overlap_items
from tests import factories
from tests.handlers.callers import EVERYTHING, Caller, Tenant, refusal

OVERVIEW, ATTENTION = "/v1/overview", "/v1/attention"


def told(caller: Caller, path: str = OVERVIEW, **asked: Any) -> Any:
    response = caller.get(path, **asked)
    assert response.status_code == 200, response.text
    return response.json()


def items(caller: Caller, **asked: Any) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = told(caller, ATTENTION, **asked)["data"]
    return found


def only(caller: Caller) -> Mapping[str, Any]:
    (item,) = items(caller)
    return item


def raised(session: Session, of: Tenant, **columns: Any) -> AttentionItem:
    given = {
        "key": f"unenforced_branch {new_id('wbr')}",
        "type": "unenforced_branch",
        "severity": "critical",
        "since": factories.now(),
        "subject": {"type": "branch", "id": "wbr_1", "name": "acme/web:main"},
        "message": "Freezes do not block it.",
        "action": {"label": "Open the rules", "url": "https://github.com"},
    }
    row = AttentionItem(id=new_id("att"), organization_id=of.id, **given | columns)
    session.add(row)
    session.flush()
    return row


@pytest.fixture
def main(acme: Tenant, session: Session) -> WatchedBranch:
    return factories.branch(session, acme.repository("web"))


@pytest.fixture
def viewer(acme: Tenant) -> Caller:
    return acme.person("viewer")


@pytest.fixture
def hotfix(session: Session, acme: Tenant, main: WatchedBranch) -> PullRequest:
    return factories.pull_request(session, session.get_one(type(acme.repository("other")), main.repository_id))


class TestGetOverview:
    def test_anybody_is_asked_for_a_credential(self, acme: Tenant) -> None:
        refusal(acme.anybody.get(OVERVIEW), 401, "missing_credentials")

    @pytest.mark.parametrize("role", ["viewer", "member", "admin", "owner"])
    def test_every_member_may_see_it(self, acme: Tenant, role: str) -> None:
        told(acme.person(role))
        told(acme.support)

    def test_a_key_needs_the_scope(self, acme: Tenant) -> None:
        told(acme.key("freeze:read"))
        refusal(acme.key("audit:read").get(OVERVIEW), 403, "insufficient_scope")

    def test_of_an_organisation_with_nothing_it_tells_nothing(self, viewer: Caller) -> None:
        overview = told(viewer)
        assert overview.pop("at").endswith("Z")
        assert overview == {
            "freezes": {"inForce": 0, "newest": []},
            "branches": {"watched": 0, "frozen": 0},
            "windows": [],
            "exceptions": {"pending": 0, "granted": 0},
            "enforcement": {"light": "amber", "counts": {"green": 0, "amber": 0, "red": 0}},
            "attention": {"critical": 0, "warning": 0, "info": 0},
            "activity": [],
        }

    def test_a_freeze_shows_as_itself_and_in_the_activity(
        self, acme: Tenant, session: Session, main: WatchedBranch, viewer: Caller
    ) -> None:
        factories.branch_enforcement(session, main, "green")
        factories.watched(session, acme.organization, "acme/api", "dev")
        freeze = acme.person("member").post(
            "/v1/freezes", {**EVERYTHING, "scope": {"type": "branch", "branchId": main.id}}
        )
        overview = told(viewer)
        assert overview["freezes"] == {"inForce": 1, "newest": [freeze.json()]}
        assert overview["branches"] == {"watched": 2, "frozen": 1}
        assert overview["enforcement"] == {"light": "amber", "counts": {"green": 1, "amber": 1, "red": 0}}
        (done,) = overview["activity"]
        assert (done["action"], done["target"]["id"]) == ("freeze.started", freeze.json()["id"])
        acme.person("member").post(f"/v1/freezes/{freeze.json()['id']}/lift")
        after = told(viewer)
        assert (after["freezes"]["inForce"], after["branches"]["frozen"]) == (0, 0)
        assert [done["action"] for done in after["activity"]] == ["freeze.lifted", "freeze.started"]

    def test_a_freeze_whose_time_has_passed_counts_no_more(
        self, acme: Tenant, session: Session, main: WatchedBranch, viewer: Caller
    ) -> None:
        over = factories.now() - timedelta(seconds=1)
        factories.freeze(session, acme.organization, [main], ends_at=over)
        overview = told(viewer)
        assert (overview["freezes"]["inForce"], overview["branches"]["frozen"]) == (0, 0)

    def test_of_many_freezes_the_newest_five_are_shown(self, acme: Tenant, session: Session, viewer: Caller) -> None:
        made = [
            factories.freeze(session, acme.organization, started_at=factories.now() - timedelta(hours=age)).id
            for age in range(1, 8)
        ]
        freezes = told(viewer)["freezes"]
        assert freezes["inForce"] == 7
        assert [freeze["id"] for freeze in freezes["newest"]] == made[:5]

    def test_windows_to_come_are_told_the_first_one_first(self, acme: Tenant, session: Session, viewer: Caller) -> None:
        now = factories.now()
        weekends = factories.schedule(session, acme.organization)
        later, sooner = (
            factories.occurrence(session, weekends, starts_at=now + timedelta(days=days)) for days in (3, 2)
        )
        factories.occurrence(session, weekends, starts_at=now + timedelta(days=1), skip_reason="asked")
        factories.occurrence(session, weekends, starts_at=now - timedelta(days=1))
        off = factories.schedule(session, acme.organization, enabled=False)
        factories.occurrence(session, off)
        windows = told(viewer)["windows"]
        assert [window["occurrenceId"] for window in windows] == [sooner.id, later.id]
        assert {(window["scheduleId"], window["scheduleName"]) for window in windows} == {(weekends.id, "Weekends")}

    def test_exceptions_count_while_they_hold(
        self, acme: Tenant, session: Session, main: WatchedBranch, hotfix: PullRequest, viewer: Caller
    ) -> None:
        freezes = [factories.freeze(session, acme.organization, [main]) for _ in range(3)]
        group = new_id("exg")
        for freeze in freezes[:2]:
            factories.exception(session, freeze, hotfix, main, decision=None, request_group_id=group)
        factories.exception(session, freezes[2], hotfix, main)
        assert told(viewer)["exceptions"] == {"pending": 1, "granted": 1}
        hotfix.state = "closed"
        session.flush()
        assert told(viewer)["exceptions"] == {"pending": 0, "granted": 0}
        hotfix.state = "open"
        session.flush()
        assert told(viewer)["exceptions"] == {"pending": 1, "granted": 1}
        for freeze in freezes:
            freeze.ended_at = factories.now()
        session.flush()
        assert told(viewer)["exceptions"] == {"pending": 0, "granted": 0}

    def test_the_activity_is_not_lost_behind_what_many_people_did(
        self, acme: Tenant, session: Session, viewer: Caller
    ) -> None:
        person = {"type": "user", "id": "usr_1", "name": "Bob"}
        thing = {"type": "branch", "id": "wbr_1", "name": "acme/web:main"}
        for number, action in enumerate(["freeze.started", *["branch.watched"] * 600]):
            at = factories.now() - timedelta(hours=1) + timedelta(seconds=number)
            told_by = {"actor": person, "target": thing, "source": "dashboard", "details": {}}
            session.add(
                AuditEntry(id=new_id("aud"), organization_id=acme.id, at=at, action=action, request_id=None, **told_by)
            )
        session.flush()
        assert [done["action"] for done in told(viewer)["activity"]] == ["freeze.started"]

    def test_the_activity_tells_of_freezes_and_not_of_people(
        self, acme: Tenant, session: Session, viewer: Caller
    ) -> None:
        for action in ("member.removed", "api_key.created", "exception.granted", "schedule.created"):
            entry = AuditEntry(
                id=new_id("aud"),
                organization_id=acme.id,
                at=factories.now(),
                action=action,
                actor=factories.SYSTEM,
                source="system",
                target={"type": "x", "id": "x", "name": "x"},
                details={},
            )
            session.add(entry)
        session.flush()
        assert {done["action"] for done in told(viewer)["activity"]} == {"exception.granted", "schedule.created"}

    def test_attention_is_counted_by_severity(self, acme: Tenant, session: Session, viewer: Caller) -> None:
        raised(session, acme)
        raised(session, acme, severity="info")
        raised(session, acme, cleared_at=factories.now())
        factories.api_key(session, acme.organization, expires_at=factories.now() + timedelta(hours=1))
        acme.installation.state = "removed"
        session.flush()
        assert told(viewer)["attention"] == {"critical": 2, "warning": 0, "info": 1}

    def test_nothing_of_another_organisation_is_in_it(
        self, acme: Tenant, globex: Tenant, session: Session, main: WatchedBranch, hotfix: PullRequest
    ) -> None:
        freeze = factories.freeze(session, acme.organization, [main])
        factories.exception(session, freeze, hotfix, main, decision=None)
        factories.occurrence(session, factories.schedule(session, acme.organization))
        raised(session, acme)
        overview = told(globex.person("viewer"))
        assert overview["freezes"]["inForce"] == overview["branches"]["watched"] == 0
        assert overview["windows"] == overview["activity"] == []
        assert overview["exceptions"] == {"pending": 0, "granted": 0}
        assert not any(overview["attention"].values())
        assert not items(globex.person("viewer"))


class TestListAttentionItems:
    def test_anybody_is_asked_for_a_credential(self, acme: Tenant) -> None:
        refusal(acme.anybody.get(ATTENTION), 401, "missing_credentials")

    @pytest.mark.parametrize("role", ["viewer", "member", "admin", "owner"])
    def test_every_member_may_see_it(self, acme: Tenant, role: str) -> None:
        assert items(acme.person(role)) == []

    def test_a_key_needs_the_scope(self, acme: Tenant) -> None:
        assert items(acme.key("freeze:read")) == []
        refusal(acme.key("repo:read").get(ATTENTION), 403, "insufficient_scope")

    def test_an_item_is_shown_while_it_is_open(self, acme: Tenant, session: Session, viewer: Caller) -> None:
        item = raised(session, acme)
        assert only(viewer) == {
            "id": item.id,
            "type": "unenforced_branch",
            "severity": "critical",
            "since": only(viewer)["since"],
            "subject": item.subject,
            "message": item.message,
            "action": item.action,
        }
        item.cleared_at = factories.now()
        session.flush()
        assert items(viewer) == []

    def test_pages_hold_every_item_once_what_began_last_first(
        self, acme: Tenant, session: Session, viewer: Caller
    ) -> None:
        now = factories.now()
        for age in range(7):
            raised(session, acme, since=now - timedelta(days=age))
            factories.api_key(
                session,
                acme.organization,
                created_at=now - timedelta(days=100),
                expires_at=now + timedelta(days=age + 1),
            )
        seen: list[Mapping[str, Any]] = []
        page = told(viewer, ATTENTION, limit=3)
        seen += page["data"]
        while page["nextCursor"]:
            page = told(viewer, ATTENTION, limit=3, cursor=page["nextCursor"])
            seen += page["data"]
        assert len({item["id"] for item in seen}) == len(seen) == 14
        assert [item["since"] for item in seen] == sorted((item["since"] for item in seen), reverse=True)
        refusal(viewer.get(ATTENTION, cursor="nonsense"), 400, "invalid_cursor")

    def test_type_and_severity_narrow_it(self, acme: Tenant, session: Session, viewer: Caller) -> None:
        raised(session, acme)
        raised(session, acme, type="schedules_overlap", severity="info")
        assert [item["severity"] for item in items(viewer, type="schedules_overlap")] == ["info"]
        assert [item["type"] for item in items(viewer, severity="critical")] == ["unenforced_branch"]
        assert items(viewer, type="expiring_key") == []
        refusal(viewer.get(ATTENTION, type="nonsense"), 400, "invalid_parameter")

    def test_every_type_that_is_raised_is_in_the_contract(self) -> None:
        known = set(load_contract().document["components"]["schemas"]["AttentionType"]["enum"])
        raised_types = {kind for kind, _ in landing_reports.ITEMS.values()}
        raised_types |= {alerts.MISSED, alerts.WITHOUT_TARGETS, alerts.NOT_ENFORCED, overlap_items.TYPE, orphans.TYPE}
        raised_types |= {"unenforced_branch", "missing_permissions"} | set(attention_sources.TYPES)
        assert raised_types == known


class TestWhatIsFoundOut:
    def test_failed_targets_are_one_item_of_their_freeze_until_they_are_written(
        self, acme: Tenant, session: Session, main: WatchedBranch, viewer: Caller
    ) -> None:
        other = factories.watched(session, acme.organization, "acme/api")
        freeze = factories.freeze(session, acme.organization, reason="50% of it")
        targets = [
            factories.target(
                session, freeze, branch, state="failed", last_error_code="x", last_error_message="GitHub said no."
            )
            for branch in (main, other)
        ]
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("failed_targets", "critical")
        assert item["subject"] == {"type": "freeze", "id": freeze.id, "name": "50% of it"}
        assert item["message"].startswith("2 branches may not be blocked by the freeze “50% of it”")
        assert "GitHub said no." in item["message"]
        assert f"/v1/freezes/{freeze.id}/retry" in item["message"]
        freeze.ended_at = factories.now()
        session.flush()
        ended = only(viewer)
        assert (ended["severity"], ended["id"]) == ("warning", item["id"])
        for target in targets:
            target.state = "released"
        session.flush()
        assert items(viewer) == []

    @pytest.mark.parametrize("what", ["repository", "installation"])
    def test_failed_targets_ask_for_nothing_where_nobody_can_write_any_more(
        self, acme: Tenant, session: Session, main: WatchedBranch, viewer: Caller, what: str
    ) -> None:
        freeze = factories.freeze(session, acme.organization, ended_at=factories.now())
        factories.target(session, freeze, main, state="failed", last_error_message="GitHub does not know it.")
        assert only(viewer)["type"] == "failed_targets"
        repository = session.get_one(Repository, main.repository_id)
        if what == "repository":
            repository.removed_at = factories.now()
        else:
            session.get_one(Installation, repository.installation_id).state = "removed"
        session.flush()
        assert [item["type"] for item in items(viewer)] == (["installation_gone"] if what == "installation" else [])

    def test_a_request_waits_for_a_decision(
        self, acme: Tenant, session: Session, main: WatchedBranch, hotfix: PullRequest, viewer: Caller
    ) -> None:
        freezes = [factories.freeze(session, acme.organization, [main]) for _ in range(2)]
        group, bob = new_id("exg"), {"type": "user", "id": "usr_1", "name": "Bob"}
        asked = factories.now() - timedelta(minutes=3)
        rows = [
            factories.exception(
                session,
                freeze,
                hotfix,
                main,
                decision=None,
                requested_by=bob,
                requested_at=asked,
                request_group_id=group,
            )
            for freeze in freezes
        ]
        item = only(viewer)
        assert (item["type"], item["subject"]["type"], item["subject"]["name"]) == (
            "pending_request",
            "exception",
            "acme/web#7",
        )
        assert item["message"].startswith(
            f"Bob asks that acme/web#7 may merge during a freeze: “{rows[0].reason}”. Grant or deny it: "
        )
        assert f"/v1/exception-requests/{item['subject']['id']}/decide" in item["message"]
        assert item["action"] == {"label": "Open the pull request", "url": hotfix.url}
        for row in rows:
            row.decision = "denied"
        session.flush()
        assert items(viewer) == []

    def test_a_request_is_over_with_its_freeze_and_with_its_pull_request(
        self, acme: Tenant, session: Session, main: WatchedBranch, hotfix: PullRequest, viewer: Caller, later: Any
    ) -> None:
        freeze = factories.freeze(session, acme.organization, [main], ends_at=factories.now() + timedelta(hours=1))
        factories.exception(session, freeze, hotfix, main, decision=None)
        assert only(viewer)["type"] == "pending_request"
        hotfix.state = "closed"
        session.flush()
        assert items(viewer) == []
        hotfix.state = "open"
        session.flush()
        assert only(viewer)
        later(hours=2)
        assert items(acme.key()) == []

    def test_a_key_is_told_of_before_it_expires(
        self, acme: Tenant, session: Session, viewer: Caller, later: Any
    ) -> None:
        now = factories.now()
        old = now - timedelta(days=365)
        key = factories.api_key(
            session, acme.organization, name="Deploys", created_at=old, expires_at=now + timedelta(days=13)
        ).row
        factories.api_key(session, acme.organization, created_at=old, expires_at=now + timedelta(days=15))
        factories.api_key(session, acme.organization, created_at=old, expires_at=now - timedelta(days=1))
        factories.api_key(session, acme.organization, created_at=now, expires_at=now + timedelta(hours=1))
        item = only(viewer)
        assert (item["type"], item["severity"], item["subject"]["id"]) == ("expiring_key", "warning", key.id)
        assert f"“Deploys” expires on {key.expires_at:%Y-%m-%d %H:%M} UTC" in item["message"]
        key.revoked_at = now
        session.flush()
        assert items(viewer) == []
        later(minutes=50)
        assert only(acme.key())["type"] == "expiring_key"
        later(minutes=20)
        assert items(acme.key()) == []

    @pytest.mark.parametrize(("state", "words"), [("removed", "Install it again"), ("suspended", "Unsuspend it")])
    def test_an_installation_has_gone_until_it_works_again(
        self, acme: Tenant, session: Session, viewer: Caller, state: str, words: str
    ) -> None:
        gone = factories.now() - timedelta(hours=5)
        entry = AuditEntry(
            id=new_id("aud"),
            organization_id=acme.id,
            at=gone,
            action=f"installation.{state}",
            actor=factories.SYSTEM,
            source="code_host",
            target={"type": "installation", "id": str(acme.installation.id), "name": "acme"},
            details={},
        )
        session.add(entry)
        acme.installation.state = state
        session.flush()
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("installation_gone", "critical")
        assert item["since"][:19] == f"{gone:%Y-%m-%dT%H:%M:%S}"
        assert words in item["message"]
        factories.installation(session, acme.organization, "acme")
        assert items(viewer) == []

    def test_limits_of_the_code_host_are_told_until_they_have_passed(
        self, acme: Tenant, session: Session, main: WatchedBranch, viewer: Caller, later: Any
    ) -> None:
        now = factories.now()
        main.wanted_generation, main.written_generation = 5, 4
        acme.installation.paused_since, acme.installation.paused_until = now, now + timedelta(minutes=10)
        session.flush()
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("code_host_limit", "warning")
        assert "1 branches wait" in item["message"]
        later(minutes=11)
        assert items(viewer) == []
