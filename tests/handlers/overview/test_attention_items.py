"""Attention items: their content, who sees them, and that they resolve by themselves."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.database_identity import DatabaseIdentity
from models.installations import Installation
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from schemas.contract import load_contract
from services.alerts.past_windows import LATE, MISSED, WITHOUT_TARGETS
from services.bypass_detection import reports
from services.enforcement import orphans
from services.overview.alert_sources import union
from services.schedules import alerts, overlap_alerts
from services.slack import connection_loss
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.callers import Caller, Tenant
from tests.handlers.overview.requests import ATTENTION, items, only, shown
from tests.handlers.people import through_pages

WEB = "http://127.0.0.1:8080"


class TestListAttentionItems:
    def test_attention_item_is_listed_while_open(self, acme: Tenant, viewer: Caller) -> None:
        item = factories.attention_item(acme.session, acme.organization)
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
        acme.session.flush()
        assert items(viewer) == []

    def test_pages_of_attention_items_list_each_once_latest_first(self, acme: Tenant, viewer: Caller) -> None:
        now = factories.now()
        for age in range(7):
            since, ends = now - timedelta(days=age), now + timedelta(days=age + 1)
            factories.attention_item(acme.session, acme.organization, type="orphaned_requirement", since=since)
            factories.api_key(acme.session, acme.organization, created_at=now - timedelta(days=100), expires_at=ends)
        seen = through_pages(viewer, ATTENTION, limit=3)
        assert len({str(item["id"]) for item in seen}) == len(seen) == 14
        instants = [str(item["since"]) for item in seen]
        assert instants == sorted(instants, reverse=True)

    def test_attention_items_are_filtered_by_type_and_severity(self, acme: Tenant, viewer: Caller) -> None:
        factories.attention_item(acme.session, acme.organization)
        factories.attention_item(acme.session, acme.organization, type="schedules_overlap", severity="info")
        assert [item["severity"] for item in items(viewer, type="schedules_overlap")] == ["info"]
        assert [item["type"] for item in items(viewer, severity="critical")] == ["unenforced_branch"]
        assert items(viewer, type="expiring_key") == []

    def test_every_type_of_attention_item_is_in_the_contract(self) -> None:
        known = set(load_contract().document["components"]["schemas"]["AttentionType"]["x-extensible-enum"])
        raised_types = {kind for kind, _ in reports.ALERTS.values()}
        raised_types |= {MISSED, WITHOUT_TARGETS, LATE, alerts.NOT_ENFORCED, overlap_alerts.TYPE, orphans.TYPE}
        raised_types |= {"unenforced_branch", "missing_permissions", "webhook_disabled"} | set(union.TYPES)
        raised_types |= {connection_loss.LOST, connection_loss.SCOPES_MISSING, connection_loss.PAUSED}
        assert raised_types == known


class TestAttentionSources:
    def test_branches_that_no_freeze_blocks_are_one_item_for_each_cause(self, acme: Tenant, viewer: Caller) -> None:
        causes = {"No rule requires the check.": ("api", "docs", "web"), "An administrator can bypass it.": ("old",)}
        for cause, names in causes.items():
            for name in names:
                place = f"acme/{name}:main"
                subject = {"type": "branch", "id": f"wbr_{name}", "name": place}
                factories.attention_item(
                    acme.session, acme.organization, subject=subject, message=f"Freezes do not block {place}. {cause}"
                )
        by_subject = {item["subject"]["type"]: item for item in items(viewer)}
        assert len(items(viewer)) == 2
        assert by_subject["branch"]["message"] == "Freezes do not block acme/old:main. An administrator can bypass it."
        many = by_subject["organization"]
        expected = "Freezes do not block 3 watched branches, such as acme/api:main. No rule requires the check."
        assert many["message"] == expected
        assert many["action"] == {"label": "Set up enforcement", "url": f"{WEB}/enforcement/setup"}
        assert shown(viewer, "/v1/overview")["attention"]["critical"] == 2

    def test_failed_targets_of_a_freeze_are_one_item_until_written(
        self, acme: Tenant, web: WatchedBranch, viewer: Caller
    ) -> None:
        other = factories.watched(acme.session, acme.organization, "acme/api")
        for branch in (web, other):
            factories.branch_enforcement(acme.session, branch)
        freeze = factories.freeze(acme.session, acme.organization, reason="50% of it")
        targets = [
            factories.target(
                acme.session, freeze, branch, state="failed", last_error_code="x", last_error_message="GitHub said no."
            )
            for branch in (web, other)
        ]
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("failed_targets", "critical")
        assert item["subject"] == {"type": "freeze", "id": freeze.id, "name": "50% of it"}
        assert item["message"].startswith("2 branches may not be blocked by the freeze “50% of it”")
        assert "GitHub said no." in item["message"]
        assert item["action"] == {"label": "Open the freeze", "url": f"{WEB}/freezes/{freeze.id}"}
        freeze.ended_at = factories.now()
        acme.session.flush()
        ended = only(viewer)
        assert (ended["severity"], ended["id"]) == ("warning", item["id"])
        targets[0].state = "released"
        acme.session.flush()
        assert only(viewer)["message"].startswith("1 branch may still be blocked by the freeze “50% of it”, which has")
        targets[1].state = "released"
        acme.session.flush()
        assert items(viewer) == []

    @pytest.mark.parametrize("what", ["repository", "installation"])
    def test_failed_targets_raise_no_item_when_the_repository_is_unreachable(
        self, acme: Tenant, web: WatchedBranch, viewer: Caller, what: str
    ) -> None:
        freeze = factories.freeze(acme.session, acme.organization, ended_at=factories.now())
        factories.target(acme.session, freeze, web, state="failed", last_error_message="GitHub does not know it.")
        assert only(viewer)["type"] == "failed_targets"
        repository = acme.session.get_one(Repository, web.repository_id)
        if what == "repository":
            repository.removed_at = factories.now()
        else:
            acme.session.get_one(Installation, repository.installation_id).state = "removed"
        acme.session.flush()
        assert [item["type"] for item in items(viewer)] == (["installation_gone"] if what == "installation" else [])

    def test_pending_request_is_an_attention_item(
        self, acme: Tenant, web: WatchedBranch, pull: PullRequest, viewer: Caller
    ) -> None:
        factories.branch_enforcement(acme.session, web)
        freezes = [factories.freeze(acme.session, acme.organization, [web]) for _ in range(2)]
        group, bob = new_id("exg"), {"type": "user", "id": "usr_1", "name": "Bob"}
        asked = factories.now() - timedelta(minutes=3)
        rows = [
            factories.exception(
                acme.session,
                freeze,
                pull,
                web,
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
        wanted = f"Bob requests to merge acme/web#7 during a freeze: “{rows[0].reason}”. Approve or deny it."
        assert item["message"] == wanted
        assert item["subject"]["id"] in {row.id for row in rows}
        assert item["action"] == {"label": "Open the exceptions", "url": f"{WEB}/exceptions"}
        for row in rows:
            row.decision = "denied"
        acme.session.flush()
        assert items(viewer) == []

    def test_pending_request_item_closes_with_its_freeze_or_pull_request(
        self, acme: Tenant, web: WatchedBranch, pull: PullRequest, viewer: Caller, later: Any
    ) -> None:
        factories.branch_enforcement(acme.session, web)
        freeze = factories.freeze(acme.session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=1))
        factories.exception(acme.session, freeze, pull, web, decision=None)
        assert only(viewer)["type"] == "pending_request"
        pull.state = "closed"
        acme.session.flush()
        assert items(viewer) == []
        pull.state = "open"
        acme.session.flush()
        assert only(viewer)
        later(hours=2)
        assert items(acme.key()) == []

    def test_expiring_key_is_an_attention_item(self, acme: Tenant, viewer: Caller, later: Any) -> None:
        now = factories.now()
        old = now - timedelta(days=365)
        key = factories.api_key(
            acme.session, acme.organization, name="Deploys", created_at=old, expires_at=now + timedelta(days=13)
        ).row
        factories.api_key(acme.session, acme.organization, created_at=old, expires_at=now + timedelta(days=15))
        factories.api_key(acme.session, acme.organization, created_at=old, expires_at=now - timedelta(days=1))
        factories.api_key(acme.session, acme.organization, created_at=now, expires_at=now + timedelta(hours=1))
        item = only(viewer)
        assert (item["type"], item["severity"], item["subject"]["id"]) == ("expiring_key", "warning", key.id)
        assert f"“Deploys” expires on {key.expires_at:%Y-%m-%d %H:%M} UTC" in item["message"]
        key.revoked_at = now
        acme.session.flush()
        assert items(viewer) == []
        later(minutes=50)
        assert only(acme.key())["type"] == "expiring_key"
        later(minutes=20)
        assert items(acme.key()) == []

    @pytest.mark.parametrize(("state", "words"), [("removed", "Install it again"), ("suspended", "Unsuspend it")])
    def test_removed_installation_is_an_attention_item_until_restored(
        self, acme: Tenant, viewer: Caller, state: str, words: str
    ) -> None:
        gone = factories.now() - timedelta(hours=5)
        about = {"type": "installation", "id": str(acme.installation.id), "name": "acme"}
        factories.audit_entry(acme.session, acme.organization, at=gone, action=f"installation.{state}", target=about)
        acme.installation.state = state
        acme.session.flush()
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("installation_gone", "critical")
        assert item["since"][:19] == f"{gone:%Y-%m-%dT%H:%M:%S}"
        assert words in item["message"]
        factories.installation(acme.session, acme.organization, "acme")
        assert items(viewer) == []

    def test_github_limit_is_an_attention_item_until_reset(
        self, acme: Tenant, web: WatchedBranch, viewer: Caller, later: Any
    ) -> None:
        now = factories.now()
        check = factories.check(acme.session, web)
        check.wanted_generation, check.written_generation = 5, 4
        acme.installation.paused_since, acme.installation.paused_until = now, now + timedelta(minutes=10)
        acme.session.flush()
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("code_host_limit", "warning")
        assert "Checks of 1 branch wait" in item["message"]
        later(minutes=11)
        assert items(viewer) == []


def test_restored_database_needs_attention_until_it_is_confirmed(viewer: Caller, acme: Tenant) -> None:
    record = acme.session.get_one(DatabaseIdentity, 1)
    record.noticed_at, record.seen_at = factories.now(), datetime(2026, 11, 1, 8, 30, tzinfo=UTC)
    acme.session.flush()
    item = only(viewer)
    assert (item["type"], item["severity"]) == ("database_restored", "critical")
    assert (item["subject"]["type"], item["subject"]["id"]) == ("organization", acme.id)
    assert "after 2026-11-01 08:30 UTC may be missing" in item["message"]
    record.noticed_at = None
    acme.session.flush()
    assert items(viewer) == []


@pytest.fixture
def request_id(acme: Tenant, web: WatchedBranch, pull: PullRequest) -> str:
    """Return a request that waits, for a pull request into a branch that is blocked."""
    factories.branch_enforcement(acme.session, web)
    freeze = factories.freeze(acme.session, acme.organization, [web])
    return factories.exception(acme.session, freeze, pull, web, decision=None).id


def counted(caller: Caller) -> dict[str, int]:
    counts: dict[str, int] = shown(caller, "/v1/overview")["exceptions"]
    return counts


def test_undecidable_request_item_advises_revocation(acme: Tenant, viewer: Caller, request_id: str) -> None:
    change_plan(acme.session, acme.organization, "free")
    acme.session.flush()
    item = only(viewer)
    assert "withdraw the request" in item["message"]
    assert item["subject"]["id"] == request_id
    assert acme.person("admin").post(f"/v1/exceptions/{request_id}/revoke").status_code == 200
    assert items(viewer) == []


def test_pending_request_item_closes_with_its_repository(
    session: Session, web: WatchedBranch, viewer: Caller, request_id: str
) -> None:
    assert only(viewer)["subject"]["id"] == request_id
    assert counted(viewer) == {"pending": 1, "granted": 0}
    session.get_one(Repository, web.repository_id).removed_at = factories.now()
    session.flush()
    assert [item["type"] for item in items(viewer)] == ["freeze_gap"]
    assert counted(viewer) == {"pending": 0, "granted": 0}


def test_failed_targets_of_an_expired_freeze_are_only_a_warning(acme: Tenant, web: WatchedBranch, later: Any) -> None:
    factories.branch_enforcement(acme.session, web)
    ends_at = factories.now() + timedelta(minutes=30)
    freeze = factories.freeze(acme.session, acme.organization, ends_at=ends_at)
    factories.target(acme.session, freeze, web, state="failed", last_error_message="GitHub said no.")
    assert only(acme.key())["severity"] == "critical"
    later(hours=1)
    item = only(acme.key())
    assert item["severity"] == "warning"
    assert "which has ended" in item["message"]
    assert item["since"].startswith(f"{ends_at:%Y-%m-%dT%H:%M:%S}")
