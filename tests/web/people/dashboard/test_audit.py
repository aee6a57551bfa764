"""The audit log: filters, changes before and after, and the export as it is read."""

import pytest

from models.audit import AuditEntry
from rules.audit.actions import ACTIONS
from rules.ids import new_id
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words
from tests.web.people.dashboard.filled import ADA
from tests.web.people.dashboard.scenes import WEEKENDS, create_schedule, schedule_id_of
from web.dashboard.audit import changes_of, query_of


class TestAudit:
    def test_audit_shows_what_changed_before_and_after(self, member: Enter) -> None:
        admin = member("admin")
        page = create_schedule(admin, **WEEKENDS)
        admin.press(admin.open(f"/schedules/{schedule_id_of(page)}/edit"), "Save", name="Long weekends")
        page = admin.open("/audit", action="schedule.updated")
        assert (
            "A schedule was changed, and its future windows were replanned: Long weekends. Admin, Dashboard"
            in words(page)
        )
        assert "<del>Weekends</del>" in page.answer.text
        assert "<ins>Long weekends</ins>" in page.answer.text
        assert "A schedule was created: " not in words(page).partition("Show all")[2]

    def test_audit_filters_by_day_and_target(self, member: Enter) -> None:
        admin = member("admin")
        target = schedule_id_of(create_schedule(admin, **WEEKENDS))
        today = f"{factories.now():%Y-%m-%d}"
        assert "A schedule was created: Weekends." in words(
            admin.open("/audit", targetId=target, **{"from": today, "to": today})
        )
        assert "No entry matches" in admin.open("/audit", targetId=target, to="2020-01-01").text

    def test_audit_is_searched_by_names_of_people_and_things(self, member: Enter, acme: Scene) -> None:
        admin, owner = member("admin"), member("owner")
        create_schedule(admin, **WEEKENDS)
        create_schedule(owner, **{**WEEKENDS, "name": "Month ends"})
        for given, shown in (
            ({"q": "weekends"}, (True, False)),
            ({"q": "OWNER"}, (False, True)),
            ({"q": "nobody"}, (False, False)),
        ):
            page = words(admin.open("/audit", **given))
            assert ("created: Weekends." in page, "created: Month ends." in page) == shown, given
        people = admin.open("/audit").form("Find").fields
        assert set(people) >= {"q", "actorId", "action", "source", "from", "to"}

    def test_session_is_named_after_its_browser(self, member: Enter, acme: Scene) -> None:
        client = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0 Safari/537.36"
        entry = AuditEntry(
            id=new_id("aud"),
            organization_id=acme.organization.id,
            at=factories.now(),
            action="session.started",
            actor=ADA,
            source="dashboard",
            target={"type": "session", "id": "ses_1", "name": client},
            details={},
        )
        acme.session.add(entry)
        acme.session.flush()
        assert "A person signed in: Chrome on Linux." in words(member("viewer").open("/audit"))

    def test_preset_says_who_lifted(self, member: Enter, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [acme.web], reason="Database migration")
        owner = member("owner")
        owner.press(owner.open(f"/freezes/{freeze.id}/lift"), "Lift the freeze")
        viewer = member("viewer")
        page = viewer.open(viewer.open("/audit").links["Who lifted"])
        assert "Owner lifted a freeze: Database migration. Owner, Dashboard" in words(page)
        assert "No entry matches" in viewer.open(page.links["Bypasses"]).text

    @pytest.mark.parametrize(
        ("preset", "actions"),
        [
            ("Who lifted", {"freeze.lifted", "freeze.overridden"}),
            (
                "Bypasses",
                {
                    "freeze.bypassed",
                    "freeze.unprotected_change",
                    "freeze.landed_before_block",
                    "freeze.enforcement_gap",
                },
            ),
            (
                "Exceptions",
                {f"exception.{done}" for done in ("requested", "granted", "denied", "revoked", "used", "expired")},
            ),
        ],
    )
    def test_preset_shows_every_action_that_belongs_to_it(
        self, member: Enter, acme: Scene, preset: str, actions: set[str]
    ) -> None:
        for action in ACTIONS:
            acme.session.add(
                AuditEntry(
                    id=new_id("aud"),
                    organization_id=acme.organization.id,
                    at=factories.now(),
                    action=action,
                    actor=ADA,
                    source="api",
                    target={"type": "freeze", "id": "frz_1", "name": "x"},
                    details={},
                )
            )
        acme.session.flush()
        viewer = member("viewer")
        page = viewer.open(viewer.open("/audit").links[preset])
        assert {address.partition("?action=")[2] for address in page.addresses if "?action=" in address} >= actions
        shown = {text for text in page.links if text in ACTIONS}
        assert shown == actions
        assert sorted(page.form("Find").fields["action"].split(",")) == sorted(actions)

    def test_export_is_sent_as_the_operation_sends_it(self, member: Enter) -> None:
        admin = member("admin")
        create_schedule(admin, **WEEKENDS)
        page = admin.open("/audit", action="schedule.created", q="weekends")
        answer = admin.client.get(page.links["Export as CSV"])
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/csv")
        assert "attachment" in answer.headers["content-disposition"]
        header, row, end = answer.text.split("\r\n")
        assert (header.split(",")[:2], end) == (["id", "at"], "")
        assert "schedule.created" in row
        assert admin.client.head("/audit/export").status_code == 200

    def test_export_that_the_plan_lacks_is_a_page(self, member: Enter, acme: Scene) -> None:
        factories.change_plan(acme.session, acme.organization, "free")
        admin = member("admin")
        assert "Audit log exports need the" in words(admin.open("/audit"))
        page = admin.open("/audit/export")
        assert (page.status, page.title) == (403, "Not allowed")

    def test_export_needs_a_sign_in(self, member: Enter) -> None:
        viewer = member("viewer")
        viewer.client.cookies.clear()
        assert viewer.open("/audit/export").title == "Sign in"

    def test_changes_list_properties_then_other_details(self) -> None:
        details = {"before": {"name": "A"}, "after": {"name": "B", "enabled": True}, "reason": None}
        assert changes_of(details) == [("name", "A", "B"), ("enabled", "", "true"), ("reason", "", "")]

    def test_days_become_instants_and_instants_stay(self) -> None:
        given = {"from": "2026-11-01", "to": "2026-11-02", "source": "api"}
        assert query_of(given) == {"from": "2026-11-01T00:00:00Z", "to": "2026-11-02T23:59:59.999Z", "source": "api"}
        assert query_of({"from": "2026-11-01T09:00:00Z"}) == {"from": "2026-11-01T09:00:00Z"}
