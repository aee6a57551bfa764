"""The overview: its content, and who sees what."""

from datetime import timedelta

from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import EVERYTHING, Caller, Tenant
from tests.handlers.overview.requests import shown

NOTHING_FROZEN = dict.fromkeys(("total", "blocked", "partly", "unprotected", "unknown", "late", "stopped"), 0)


class TestGetOverview:
    def test_overview_of_an_empty_organization_is_empty(self, viewer: Caller) -> None:
        overview = shown(viewer)
        assert overview.pop("at").endswith("Z")
        assert overview == {
            "freezes": {"inForce": 0, "newest": []},
            "branches": {"watched": 0, "frozen": 0},
            "blocking": {**NOTHING_FROZEN, "gaps": []},
            "windows": [],
            "exceptions": {"pending": 0, "granted": 0},
            "enforcement": {"light": "amber", "counts": {"green": 0, "amber": 0, "red": 0, "unknown": 0}},
            "attention": {"critical": 0, "warning": 0, "info": 0},
            "activity": [],
        }

    def test_overview_shows_a_freeze_and_its_activity(self, acme: Tenant, web: WatchedBranch, viewer: Caller) -> None:
        factories.branch_enforcement(acme.session, web, "green")
        factories.watched(acme.session, acme.organization, "acme/api", "dev")
        freeze = acme.person("member").post(
            "/v1/freezes", {**EVERYTHING, "scope": {"type": "branch", "branchId": web.id}}
        )
        overview = shown(viewer)
        started = {name: value for name, value in freeze.json().items() if not name.startswith("alreadyFrozen")}
        assert overview["freezes"] == {"inForce": 1, "newest": [started]}
        assert overview["branches"] == {"watched": 2, "frozen": 1}
        assert overview["enforcement"] == {"light": "amber", "counts": {"green": 1, "amber": 1, "red": 0, "unknown": 1}}
        (done,) = overview["activity"]
        assert (done["action"], done["target"]["id"]) == ("freeze.started", freeze.json()["id"])
        counts = {"freezes": {"inForce": 1, "newest": []}, "windows": [], "activity": [], "at": ...}
        assert {**shown(viewer, countsOnly="true"), "at": ...} == overview | counts
        acme.person("member").post(f"/v1/freezes/{freeze.json()['id']}/lift")
        after = shown(viewer)
        assert (after["freezes"]["inForce"], after["branches"]["frozen"]) == (0, 0)
        assert [done["action"] for done in after["activity"]] == ["freeze.lifted", "freeze.started"]

    def test_overview_counts_each_frozen_branch_once_by_whether_it_is_blocked(
        self, acme: Tenant, web: WatchedBranch, viewer: Caller
    ) -> None:
        api, docs, unread, left = (
            factories.watched(acme.session, acme.organization, f"acme/{name}")
            for name in ("api", "docs", "unread", "left")
        )
        factories.branch_enforcement(acme.session, web)
        factories.branch_enforcement(acme.session, api, "red")
        factories.branch_enforcement(acme.session, docs, open_ways=["deletion"])
        factories.branch_enforcement(
            acme.session, factories.watched(acme.session, acme.organization, "acme/open"), "red"
        )
        acme.session.get_one(Repository, left.repository_id).removed_at = factories.now()
        for _ in range(2):
            factories.freeze(acme.session, acme.organization, [web, api, docs, unread, left])
        overview = shown(viewer)
        assert overview["branches"] == {"watched": 5, "frozen": 4}
        assert overview["enforcement"]["counts"] == {"green": 1, "amber": 2, "red": 2, "unknown": 1}
        gaps = [(gap["code"], gap["state"], gap["branchCount"]) for gap in overview["blocking"].pop("gaps")]
        assert gaps == [
            ("no_rule", "not_blocked", 1),
            ("removed", "not_blocked", 1),
            ("not_read", "unknown", 1),
            ("deletion", "partly", 1),
        ]
        states = {"total": 5, "blocked": 1, "partly": 1, "unprotected": 2, "unknown": 1, "late": 0, "stopped": 0}
        assert overview["blocking"] == states

    def test_overview_shows_the_five_newest_freezes(self, acme: Tenant, viewer: Caller) -> None:
        made = [
            factories.freeze(acme.session, acme.organization, started_at=factories.now() - timedelta(hours=age)).id
            for age in range(1, 8)
        ]
        freezes = shown(viewer)["freezes"]
        assert freezes["inForce"] == 7
        assert [freeze["id"] for freeze in freezes["newest"]] == made[:5]

    def test_overview_shows_the_next_windows_soonest_first(self, acme: Tenant, viewer: Caller) -> None:
        now = factories.now()
        weekends = factories.schedule(acme.session, acme.organization)
        later, sooner = (
            factories.occurrence(acme.session, weekends, starts_at=now + timedelta(days=days)) for days in (3, 2)
        )
        factories.occurrence(acme.session, weekends, starts_at=now + timedelta(days=1), skip_reason="asked")
        factories.occurrence(acme.session, weekends, starts_at=now - timedelta(days=1))
        off = factories.schedule(acme.session, acme.organization, enabled=False)
        factories.occurrence(acme.session, off)
        windows = shown(viewer)["windows"]
        assert [window["occurrenceId"] for window in windows] == [sooner.id, later.id]
        assert {(window["scheduleId"], window["scheduleName"]) for window in windows} == {(weekends.id, "Weekends")}

    def test_overview_counts_effective_exceptions_only(
        self, acme: Tenant, web: WatchedBranch, pull: PullRequest, viewer: Caller
    ) -> None:
        freezes = [factories.freeze(acme.session, acme.organization, [web]) for _ in range(3)]
        group = new_id("exg")
        for freeze in freezes[:2]:
            factories.exception(acme.session, freeze, pull, web, decision=None, request_group_id=group)
        factories.exception(acme.session, freezes[2], pull, web)
        assert shown(viewer)["exceptions"] == {"pending": 1, "granted": 1}
        pull.state = "closed"
        acme.session.flush()
        assert shown(viewer)["exceptions"] == {"pending": 0, "granted": 0}
        pull.state = "open"
        acme.session.flush()
        assert shown(viewer)["exceptions"] == {"pending": 1, "granted": 1}
        for freeze in freezes:
            freeze.ended_at = factories.now()
        acme.session.flush()
        assert shown(viewer)["exceptions"] == {"pending": 0, "granted": 0}

    def test_overview_activity_is_found_behind_many_unrelated_entries(self, acme: Tenant, viewer: Caller) -> None:
        for number, action in enumerate(["freeze.started", *["branch.watched"] * 600]):
            at = factories.now() - timedelta(hours=1) + timedelta(seconds=number)
            factories.audit_entry(acme.session, acme.organization, at=at, action=action)
        assert [done["action"] for done in shown(viewer)["activity"]] == ["freeze.started"]

    def test_overview_activity_shows_freezes_but_not_members(self, acme: Tenant, viewer: Caller) -> None:
        for action in ("member.removed", "api_key.created", "exception.granted", "schedule.created"):
            factories.audit_entry(acme.session, acme.organization, action=action)
        assert {done["action"] for done in shown(viewer)["activity"]} == {"exception.granted", "schedule.created"}

    def test_overview_counts_attention_items_by_severity(self, acme: Tenant, viewer: Caller) -> None:
        factories.attention_item(acme.session, acme.organization)
        factories.attention_item(acme.session, acme.organization, severity="info")
        factories.attention_item(acme.session, acme.organization, cleared_at=factories.now())
        factories.api_key(acme.session, acme.organization, expires_at=factories.now() + timedelta(hours=1))
        acme.installation.state = "removed"
        acme.session.flush()
        assert shown(viewer)["attention"] == {"critical": 2, "warning": 0, "info": 1}
